"""Who has the key still does not get the Archive: moves, exclusions and heartbeats, with Archives on real sockets."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from typing import TYPE_CHECKING

import pytest

from ibi.archive.membership.membership import AWAY_SECONDS
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import InclusionRequest
from ibi.protocol.vocabulary import NEVER
from ibi.resolver.members.inclusion import ADDRESS_REFUSED, HELD, OVERTAKEN
from ibi.resolver.members.mail import MailSender
from ibi.resolver.members.takeover import SILENT_SECONDS
from ibi.resolver.model.archive import moment_text
from ibi.resolver.registry.registry import REPORT_SECONDS
from support.clock import run_with_false_clock
from support.engines.shared_store import run_in_registry
from support.resolver.membership_fixture import (
    ARCHIVE,
    KEY,
    SERVICE,
    STRANGER,
    Member,
    Switchable,
    archive,
    member,
)
from support.resolver.running_resolver import until
from support.scripted_archive import Behaviour, ReceivedRequest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path
    from typing import Any

    from ibi.identifier.forms import IBI
    from ibi.resolver.model.archive import Move, RegisteredArchive

OLD, NEW = "127.0.0.2", "127.0.0.3"
SERVICE_IBI = parse_ibi(ARCHIVE)


class RecordedMail(MailSender):
    """The addresses of the held moves that the administrator of an Archive was told of."""

    def __init__(self) -> None:
        super().__init__("", "", "")
        self.held_moves: list[str] = []

    def held(self, _known: RegisteredArchive, move: Move, *, answers: bool) -> None:  # noqa: ARG002 - as in MailSender
        self.held_moves.append(move.address)


def play(data: Path, scene: Callable[[Member, Switchable], Awaitable[None]], **more: object) -> None:
    old = Switchable("old", "old.example", ARCHIVE, ip=OLD)

    async def main() -> None:
        async with member(data, [old, archive("new", NEW), archive("third", "127.0.0.4")], **more) as at:  # type: ignore[arg-type]  # passed on
            assert (await at.include("old.example", OLD)).status == 200
            await scene(at, old)

    asyncio.run(main())


def test_a_move_is_held_while_the_old_address_confirms_and_reported_once(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        for _ in range(4):
            assert await at.include("new.example") is HELD
            at.clock.now += 60.0
        assert at.addresses == ["old.example"]
        assert (HELD.status, HELD.retry_after) == (403, 30)
        (held,) = at.evidence.of("moved-address")
        assert held == {
            "ibi": ARCHIVE,
            "outcome": "held",
            "before": "old.example",
            "address": "new.example",
            "source": STRANGER,
            "old_answers": 1,
        }
        known = at.registry.entry(SERVICE_IBI)
        assert known is not None
        assert known.move is not None
        assert (known.move.address, known.move.silent_since) == ("new.example", None)

    play(tmp_path, scene)


def test_earlier_answers_are_forgotten_of_one_that_begins_moves_or_leaves_but_not_of_one_that_repeats_itself(
    tmp_path: Path,
) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        replies = [await at.include("old.example", OLD), await at.include("old.example", NEW)]
        assert await at.include("new.example") is HELD
        at.registry.allow_move(SERVICE_IBI)
        old.silent = True
        replies += [await at.include("new.example", NEW), await at.exclude("new.example", NEW)]
        replies += [await at.include("new.example", NEW), await at.include("new.example", NEW)]
        assert [(each.status, each.forgets) for each in replies] == [
            (200, forgets) for forgets in (False, False, True, True, True, False)
        ]
        assert not HELD.forgets

    play(tmp_path, scene)


def test_a_held_move_is_reported_each_hour_and_each_new_address_recorded(tmp_path: Path) -> None:
    mail = RecordedMail()

    async def scene(at: Member, _old: Switchable) -> None:
        names = [f"{name}.example" for name in ("new", "third") * 9]
        for name in names:
            assert await at.include(name) is HELD
            at.clock.now += REPORT_SECONDS / 5
        assert mail.held_moves == names[::5]
        assert [entry["address"] for entry in at.evidence.of("moved-address")] == names

    play(tmp_path, scene, mail=mail)


def test_a_move_to_one_address_is_reported_again_each_hour_while_it_goes_on(tmp_path: Path) -> None:
    mail = RecordedMail()

    async def scene(at: Member, _old: Switchable) -> None:
        for heartbeat in (False, True):
            mail.held_moves.clear()
            at.evidence.recorded.clear()
            for _ in range(int(3 * REPORT_SECONDS / 600)):
                assert await at.include("new.example") is HELD
                at.clock.now += 300.0
                if heartbeat:
                    assert (await at.include("old.example", OLD)).status == 200
                at.clock.now += 300.0
            assert mail.held_moves == ["new.example"] * 3
            assert len(at.evidence.of("moved-address")) == 3

    play(tmp_path, scene, mail=mail)


@pytest.mark.proves("ARC-10")
def test_away_from_a_silent_address_it_moves_after_three_checks_over_a_minute(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        old.silent = True
        for wait in (1.0, 2.0, 4.0, SILENT_SECONDS - 7.5):
            assert await at.include("new.example") is HELD
            at.clock.now += wait
        assert await at.include("new.example") is HELD
        at.clock.now += 0.6
        assert (await at.include("new.example")).status == 200
        assert at.addresses == ["new.example"]
        assert [entry["outcome"] for entry in at.evidence.of("moved-address")] == ["held", "done"]
        known = at.registry.entry(SERVICE_IBI)
        assert known is not None
        assert (known.move, known.confirmed_address) == (None, "new.example")

    play(tmp_path, scene)


def test_an_old_address_that_answers_again_has_missed_no_check(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        seen = []
        for silent in (True, True, False, True):
            old.silent = silent
            assert await at.include("new.example") is HELD
            known = at.registry.entry(SERVICE_IBI)
            assert known is not None
            assert known.move is not None
            seen.append((known.move.checks, known.move.silent_since is not None))
            at.clock.now += 1.0
        assert seen == [(1, True), (2, True), (0, False), (1, True)]

    play(tmp_path, scene)


def test_what_the_evidence_cannot_take_is_not_done_and_is_written_down_when_it_can(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        at.evidence.full = True
        assert (await at.include("new.example")).status == 503  # held, and not told
        at.evidence.full = False
        assert await at.include("new.example") is HELD
        assert [entry["outcome"] for entry in at.evidence.of("moved-address")] == ["held"]
        old.silent = True
        at.registry.allow_move(SERVICE_IBI)
        at.evidence.full = True
        assert (await at.include("new.example")).status == 503
        assert at.addresses == ["old.example"]
        at.evidence.full = False
        assert (await at.include("new.example")).status == 200
        assert at.addresses == ["new.example"]
        assert [entry["outcome"] for entry in at.evidence.of("moved-address")] == ["held", "done"]
        assert len(at.evidence.of("included")) == 2

    play(tmp_path, scene)


def test_two_checks_are_not_enough_however_long_the_time_between_them(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        old.silent = True
        assert await at.include("new.example") is HELD
        at.clock.now += 1_000.0
        assert await at.include("new.example") is HELD
        assert (await at.include("new.example")).status == 200

    play(tmp_path, scene)


def test_one_word_of_the_old_address_begins_the_waiting_anew(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        for silent in (True, True, True, False, True, True):
            old.silent = silent
            assert await at.include("new.example") is HELD
            at.clock.now += 25.0

    play(tmp_path, scene)


@pytest.mark.parametrize("restarts", [False, True], ids=["heartbeat", "restart"])
def test_two_outages_far_apart_are_not_silence_in_a_row(tmp_path: Path, restarts: bool) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        for _ in range(4):
            old.silent = True
            if restarts:
                back = moment_text(at.clock.now + AWAY_SECONDS)
                assert (await at.exclude("old.example", OLD, back)).status == 200
            for _ in range(2):
                assert await at.include("new.example") is HELD
                at.clock.now += SILENT_SECONDS / 3
            old.silent = False
            assert (await at.include("old.example", OLD)).status == 200
            at.clock.now += 7 * 86_400.0
        assert at.addresses == ["old.example"]

    play(tmp_path, scene)


def test_an_archive_that_confirms_after_all_was_not_silent_in_a_row(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        old.silent = True
        assert (await at.include("old.example", OLD)).body.endswith(b"unsuccessful")
        for _ in range(2):
            assert await at.include("new.example") is HELD
            at.clock.now += SILENT_SECONDS
        old.silent = False
        await at.membership.probation.ask_again()
        old.silent = True
        assert await at.include("new.example") is HELD

    play(tmp_path, scene)


def test_a_move_that_is_no_longer_asked_for_is_forgotten(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        assert await at.include("new.example") is HELD
        for heartbeats in (range(59), range(2)):
            for _ in heartbeats:
                at.clock.now += 60.0
                assert (await at.include("old.example", OLD)).status == 200
            known = at.registry.entry(SERVICE_IBI)
            assert known is not None
            assert (known.move is None) is (len(heartbeats) == 2)

    play(tmp_path, scene)


def test_a_move_to_a_third_address_begins_the_waiting_anew(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        old.silent = True
        for name in ("new", "new", "third", "third", "new"):
            assert await at.include(f"{name}.example") is HELD
            at.clock.now += 40.0

    play(tmp_path, scene)


def test_who_sends_from_the_old_address_moves_at_once(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        assert (await at.include("new.example", OLD)).status == 200
        assert at.addresses == ["new.example"]

    play(tmp_path, scene)


def test_another_name_or_port_of_the_same_machine_is_no_move(tmp_path: Path) -> None:
    async def main() -> None:
        archives = [archive("old", OLD), archive("alias", OLD)]
        async with member(tmp_path, archives) as at:
            assert (await at.include("old.example")).status == 200
            assert (await at.include("alias.example")).status == 200
            assert at.addresses == ["alias.example"]

    asyncio.run(main())


def test_the_administrator_allows_a_move_once(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        at.registry.allow_move(SERVICE_IBI)
        assert (await at.include("new.example")).status == 200
        assert at.evidence.of("moved-address")[0]["allowed"] == 1
        assert await at.include("old.example") is HELD

    play(tmp_path, scene)


@pytest.mark.parametrize("end", ["", NEVER])
def test_after_a_goodbye_from_there_it_moves_at_once(tmp_path: Path, end: str) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        assert (await at.exclude("old.example", OLD, end)).status == 200
        old.silent = True
        assert (await at.include("new.example")).status == 200

    play(tmp_path, scene)


def test_who_restarts_has_not_said_goodbye(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        back = moment_text(at.clock.now + AWAY_SECONDS)
        assert (await at.exclude("old.example", OLD, back)).status == 200
        old.silent = True
        for _ in range(int(SILENT_SECONDS) - 1):  # a thief of the key asks every second
            assert await at.include("new.example") is HELD
            at.clock.now += 1.0
        old.silent = False
        assert (await at.include("old.example", OLD)).status == 200
        assert at.addresses == ["old.example"]

    play(tmp_path, scene)


def test_who_is_not_back_when_it_said_it_would_be_has_not_said_goodbye_either(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        back = moment_text(at.clock.now + AWAY_SECONDS)
        assert (await at.exclude("old.example", OLD, back)).status == 200
        old.silent = True
        at.clock.now += 10 * AWAY_SECONDS
        assert await at.include("new.example") is HELD
        assert (await at.exclude("old.example", OLD)).status == 200  # the last request counts
        assert (await at.include("new.example")).status == 200

    play(tmp_path, scene)


def test_an_exclusion_from_elsewhere_does_not_permit_a_move(tmp_path: Path) -> None:
    async def scene(at: Member, old: Switchable) -> None:
        assert (await at.exclude("old.example", STRANGER)).status == 200
        assert await at.include("new.example") is HELD
        old.silent = True
        assert await at.include("new.example") is HELD

    play(tmp_path, scene)


@pytest.mark.proves("REG-05", "REG-08")
def test_by_the_letter_of_the_standard_the_key_alone_moves_it(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        assert (await at.include("new.example")).status == 200
        assert at.addresses == ["new.example"]

    play(tmp_path, scene, guarded=False)


@pytest.mark.proves("REG-07")
def test_who_is_excluded_and_still_answers_is_excluded_and_noted(tmp_path: Path) -> None:
    async def main() -> None:
        for name, absent in (("there", frozenset[str]()), ("gone", frozenset({"old"}))):
            (tmp_path / name).mkdir()
            async with member(tmp_path / name, [archive("old", OLD)], absent=absent) as at:
                assert (await at.include("old.example")).status == 200
                assert (await at.exclude("old.example")).status == 200
                await asyncio.sleep(30)  # of a clock that leaps
                found = [entry for entry in at.evidence.of("excluded") if "still_answers" in entry]
                expected = {"ibi": ARCHIVE, "address": "old.example", "still_answers": 1}
                assert found == ([] if absent else [expected])
                assert at.addresses == []

    run_with_false_clock(main())


def test_on_a_full_disk_the_log_tells_that_who_still_answers_was_not_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with member(tmp_path, [archive("old", OLD)]) as at:
            assert (await at.include("old.example")).status == 200
            assert (await at.exclude("old.example")).status == 200
            at.evidence.full = True
            await asyncio.sleep(30)  # of a clock that leaps

    run_with_false_clock(main())
    gc.collect()  # an exception that is never retrieved is logged when its task is deleted
    assert [record.getMessage() for record in caplog.records if record.levelname != "INFO"] == [
        f"{ARCHIVE} was excluded, but still answers at old.example",
        f"that {ARCHIVE} still answers was not recorded: evidence cannot be written: full",
    ]


@pytest.mark.proves("REG-05")
def test_who_has_not_confirmed_is_asked_again_until_it_does(tmp_path: Path) -> None:
    async def main() -> None:
        old = Switchable("old", "old.example", ARCHIVE, ip=OLD)
        async with member(tmp_path, [old]) as at:
            old.silent = True
            assert (await at.include("old.example")).body.endswith(b"unsuccessful")
            await at.membership.probation.ask_again()
            assert [each.confirmed for each in at.registry.archives()] == [False]
            old.silent = False
            await at.membership.probation.ask_again()
            assert [each.confirmed for each in at.registry.archives()] == [True]
            known = at.registry.entry(SERVICE_IBI)
            assert known is not None
            assert known.confirmed_address == "old.example"

    run_with_false_clock(main())


@pytest.mark.proves("REG-08")
def test_a_heartbeat_writes_nothing_but_once_a_minute_when_it_was_heard(tmp_path: Path) -> None:
    async def main() -> None:
        async with member(tmp_path, [archive("old", OLD)]) as at:
            await at.include("old.example")
            is_file = (tmp_path / "registry.sqlite").exists()
            other = sqlite3.connect(tmp_path / "registry.sqlite") if is_file else None

            def version() -> object:
                if other is None:  # which transactions have written the rows
                    return run_in_registry(tmp_path, "SELECT xmin::text FROM archives")
                return int(other.execute("PRAGMA data_version").fetchone()[0])

            first, known = version(), at.registry.archives()
            for _ in range(5):
                assert (await at.include("old.example")).body.endswith(b"status.confirmation successful")
                at.clock.now += 10.0
            assert version() == first
            at.clock.now += 20.0
            await at.include("old.example")
            assert version() != first
            entry = at.registry.entry(SERVICE_IBI)
            assert entry is not None
            assert entry.heard_at == "2014-05-13T16:54:30Z"
            assert at.registry.archives() is known
            assert known[0].included_at == 1_400_000_000.0
            assert len(at.evidence.of("included")) == 1
            if other is not None:
                other.close()

    asyncio.run(main())


@pytest.mark.parametrize("late", [Behaviour(lie="silence"), Behaviour(b"confirmation yes", after=2.0)])
@pytest.mark.proves("AMB-35")
def test_a_heartbeat_that_was_overtaken_by_an_exclusion_does_not_say_included(
    tmp_path: Path, late: Behaviour
) -> None:
    class Waiting(Switchable):
        def behaviour_for(self, received: ReceivedRequest) -> Behaviour:
            return late if self.silent else super().behaviour_for(received)

    async def main() -> None:
        old = Waiting("old", "old.example", ARCHIVE, ip=OLD)
        async with member(tmp_path, [old]) as at:
            await at.include("old.example")
            old.silent = True
            slow = asyncio.create_task(at.include("old.example"))
            await until(lambda: len(old.received) > 1)
            await at.exclude("old.example")
            assert await slow is OVERTAKEN
            assert at.addresses == []

    run_with_false_clock(main())


def test_an_exclusion_that_was_overtaken_is_to_be_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        exclude = at.registry.exclude

        def overtaken(service: IBI, change: int, *rest: Any) -> bool:
            at.registry.open_change(service)
            return exclude(service, change, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(at.registry, "exclude", overtaken)
            reply = await at.exclude("old.example", OLD)
        assert (reply.status, reply.body, reply.retry_after) == (403, b"status.archive refused", 1)
        assert at.addresses == ["old.example"]
        assert (await at.exclude("old.example", OLD)).status == 200
        assert (await at.include("old.example", key=KEY[::-1])).retry_after is None

    play(tmp_path, scene)


def test_strangers_who_guess_do_not_lock_an_archive_out(tmp_path: Path) -> None:
    async def scene(at: Member, _old: Switchable) -> None:
        statuses = [(await at.include("old.example", STRANGER, KEY[::-1])).status for _ in range(6)]
        assert statuses == [403] * 5 + [429]
        assert (await at.include("old.example", OLD)).status == 200

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "address", ["urlib.net", "URLIB.NET.:80", "127.0.0.9:8080", "[::1]:9090", "[::ffff:127.0.0.9]:8080"]
)
def test_none_of_our_own_addresses_becomes_an_archive(tmp_path: Path, address: str) -> None:
    async def main() -> None:
        own = ("urlib.net", "127.0.0.9:8080", "[::1]:9090")
        async with member(tmp_path, [], own=own) as at:
            assert await at.include(address) is ADDRESS_REFUSED

    asyncio.run(main())


def test_where_we_listen_everywhere_loopback_is_our_own(tmp_path: Path) -> None:
    async def main() -> None:
        async with member(tmp_path, [], own=("0.0.0.0:8080",)) as at:
            assert await at.include("127.0.0.5:8080") is ADDRESS_REFUSED
            assert (await at.include("127.0.0.5:8081")).status == 200

    asyncio.run(main())


def test_our_own_service_becomes_no_archive_in_either_form(tmp_path: Path) -> None:
    async def main() -> None:
        async with member(tmp_path, [archive("old", OLD)]) as at:
            for form in (SERVICE.rep, SERVICE.ibip):
                assert form is not None
                at.registry.register(form, KEY)
                request = InclusionRequest("old.example", form, "192.0.2.1", "1", "admin@a.example", KEY)
                assert await at.membership.answer(request, STRANGER) is ADDRESS_REFUSED

    asyncio.run(main())
