"""Inclusion and exclusion on the wire: R15 chapter 7, with real sockets and a real registry."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from ibi.http.client import AddressPolicy
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ArchiveTitles
from ibi.protocol.replies import Refusal
from ibi.resolver.members.confirmation import CONFIRMATION_SECONDS
from ibi.resolver.members.inclusion import (
    KEY_FAILURES_PER_IBI,
    KEY_FAILURES_PER_SOURCE,
)
from support.clock import run_with_false_clock
from support.engines.shared_store import run_in_registry
from support.resolver.running_resolver import KEY, Running, resolver, until
from support.scripted_archive import Behaviour, ScriptedArchive

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

ARCHIVE = "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"
BASE = "/J8LNKB5R7W/3FUQHC5"
# Examples 7.2 and 7.3 as printed, but for the mail address and a longer key.
INCLUDE = (
    f"{BASE}?servicesubject=inclusionRequest&archiveaddress=mtc-m21.sid.inpe.br&archiveserviceibi={ARCHIVE}"
    "&archiveip=150.163.34.239&archiveprotocol=HTTP&archiveplatformversion=2014:11.09.02.16.15"
    f"&archiveadmemailaddress=admin@archive.example&registrationkey={KEY}"
)
EXCLUDE = INCLUDE.replace("inclusionRequest", "exclusionRequest")


def m21(manner: Behaviour | None = None) -> ScriptedArchive:
    return ScriptedArchive("m21", "mtc-m21.sid.inpe.br", ARCHIVE, manner=manner or Behaviour())


class Mute(ScriptedArchive):
    """An Archive that answers the confirmation request as its manner says."""

    def behaviour_for(self, _received: object) -> Behaviour:
        return self.manner


def mute(manner: Behaviour) -> Mute:
    return Mute("m21", "mtc-m21.sid.inpe.br", ARCHIVE, manner=manner)


def play(
    data: Path, archive: ScriptedArchive, scene: Callable[[Running], Awaitable[None]], **settings: Any
) -> None:
    async def main() -> None:
        async with resolver(data, [archive], included=False, **settings) as running:
            await scene(running)

    asyncio.run(main())


@pytest.mark.proves("MSG-20", "MSG-22", "MSG-24", "REG-03", "REG-04", "REG-06", "CON-04")
def test_examples_7_2_to_7_4_on_the_wire(tmp_path: Path) -> None:
    archive = m21()

    async def scene(running: Running) -> None:
        answer = await running.ask(INCLUDE, host="www.urlib.net")
        assert (answer.status, answer.body) == (
            200,
            b"status.archive included status.confirmation successful",
        )
        assert answer.headers["content-type"] == "text/plain"
        received = archive.received[
            0
        ]  # afterwards it is asked what has changed, as every included Archive is
        assert received.target == f"/{ARCHIVE}?servicesubject=inclusionConfirmationRequest"
        assert received.headers["host"] == "mtc-m21.sid.inpe.br"
        (included,) = running.registry.archives()
        assert (included.address, included.confirmed) == ("mtc-m21.sid.inpe.br", True)
        answer = await running.ask(EXCLUDE, host="www.urlib.net")
        assert (answer.status, answer.body) == (200, b"status.archive excluded")
        assert running.registry.archives() == ()
        assert running.registry.check_key(parse_ibi(ARCHIVE), KEY)

    play(tmp_path, archive, scene)


def test_an_archive_says_what_readers_call_it_and_keeps_that_name_until_it_says_another(
    tmp_path: Path,
) -> None:
    async def scene(running: Running) -> None:
        named = []
        for header in ("Vale%20Novo", "", "%1B%5B2J", "Vale%20Velho", "Valley"):
            headers = [f"ibi-archive-title: {header}"] if header else []
            headers += ["ibi-archive-title-pt: Vale"] if header == "Valley" else []
            answer = await running.ask(INCLUDE, *headers)
            assert answer.body == b"status.archive included status.confirmation successful"
            (included,) = running.registry.archives()
            named.append(included.titles)
        new, old = ArchiveTitles("Vale Novo"), ArchiveTitles("Vale Velho")
        assert named == [new, new, new, old, ArchiveTitles("Valley", "Vale")]
        status = json.loads((await running.ask("/-/status", "Accept: application/json")).body)
        assert status["members"][0]["title"] == "Valley"
        assert status["members"][0]["title_pt"] == "Vale"

    play(tmp_path, m21(), scene)


@pytest.mark.proves("REG-04", "AMB-34")
def test_the_call_back_comes_while_the_inclusion_request_is_still_open(tmp_path: Path) -> None:
    archive = ScriptedArchive("m21", "mtc-m21.sid.inpe.br", ARCHIVE)
    archive.hold()

    async def scene(running: Running) -> None:
        asking = asyncio.create_task(running.ask(INCLUDE))
        await until(lambda: archive.received)
        assert not asking.done()
        assert running.registry.archives() == ()
        archive.release()
        assert (await asking).body == b"status.archive included status.confirmation successful"

    play(tmp_path, archive, scene)


@pytest.mark.parametrize(
    "manner",
    [
        Behaviour(b"confirmation no"),
        Behaviour(b""),
        Behaviour(b"confirmation yes extra pair"),
        Behaviour(b"confirmation {yes yes}"),
        Behaviour(b"<html>confirmation yes</html>"),
        Behaviour(b"confirmation yes", lie="status-404"),
        Behaviour(b"confirmation yes", lie="not-http"),
        Behaviour(b"confirmation yes", lie="endless-body"),
        Behaviour(b"confirmation yes", lie="redirect"),
        Behaviour(lie="reset"),
    ],
    ids=lambda manner: manner.lie or manner.body.decode() or "empty",
)
@pytest.mark.proves("REG-05", "REG-06", "REG-09", "AMB-34")
def test_without_the_exact_confirmation_it_is_included_unconfirmed(tmp_path: Path, manner: Behaviour) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask(INCLUDE)
        assert (answer.status, answer.body) == (
            200,
            b"status.archive included status.confirmation unsuccessful",
        )
        assert not running.registry.archives()[0].confirmed

    play(tmp_path, mute(manner), scene)


@pytest.mark.parametrize("body", [b"confirmation yes", b"confirmation  yes\r\n", b" confirmation yes "])
@pytest.mark.proves("MSG-23", "REG-09")
def test_the_confirmation_is_read_as_a_pair_list(tmp_path: Path, body: bytes) -> None:
    async def scene(running: Running) -> None:
        assert (await running.ask(INCLUDE)).body.endswith(b"status.confirmation successful")

    play(tmp_path, mute(Behaviour(body)), scene)


@pytest.mark.proves("REG-05", "REG-09")
def test_an_archive_that_is_not_there_is_included_unconfirmed(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        assert (await running.ask(INCLUDE)).body.endswith(b"status.confirmation unsuccessful")

    play(tmp_path, m21(), scene, absent=frozenset({"m21"}))


@pytest.mark.proves("REG-05", "REG-06", "AMB-33", "CON-04")
def test_a_wrong_key_and_an_unknown_archive_get_the_same_refusal(tmp_path: Path) -> None:
    archive = m21()

    async def scene(running: Running) -> None:
        wrong = await running.ask(INCLUDE.replace(KEY, KEY[::-1]))
        unknown = await running.ask(INCLUDE.replace(ARCHIVE, "sid.inpe.br/nobody/2012/06.05.15.34"))
        for answer in (wrong, unknown, await running.ask(EXCLUDE.replace(KEY, KEY[::-1]))):
            assert (answer.status, answer.body) == (403, b"status.archive refused")
        dates = {"date": ""}
        assert {**wrong.headers, **dates} == {**unknown.headers, **dates}
        assert archive.received == []
        assert running.registry.archives() == ()

    play(tmp_path, archive, scene)


@pytest.mark.proves("REG-08", "AMB-35")
def test_including_and_excluding_twice_is_as_good_as_once(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        for _ in range(2):
            assert (await running.ask(INCLUDE)).body.startswith(b"status.archive included")
            assert len(running.registry.archives()) == 1
        for _ in range(2):
            assert (await running.ask(EXCLUDE)).body == b"status.archive excluded"
            assert running.registry.archives() == ()

    play(tmp_path, m21(), scene)


@pytest.mark.proves("AMB-35")
def test_a_slow_inclusion_does_not_undo_a_later_exclusion(tmp_path: Path) -> None:
    archive = mute(Behaviour(lie="silence"))

    async def scene(running: Running) -> None:
        slow = asyncio.create_task(running.ask(INCLUDE))
        await until(lambda: archive.received)
        assert (await running.ask(EXCLUDE)).body == b"status.archive excluded"
        archive.hang_up_all()
        assert (await slow).status == 403
        assert running.registry.archives() == ()

    play(tmp_path, archive, scene)


def test_what_was_asked_for_with_an_old_key_ends_with_that_key(tmp_path: Path) -> None:
    archive = mute(Behaviour(lie="silence"))

    async def scene(running: Running) -> None:
        slow = asyncio.create_task(running.ask(INCLUDE))
        await until(lambda: archive.received)
        running.registry.rotate(parse_ibi(ARCHIVE))
        archive.hang_up_all()
        assert (await slow).status == 403
        assert running.registry.archives() == ()

    play(tmp_path, archive, scene)


@pytest.mark.proves("REG-04", "AMB-34", "ARC-15")
def test_many_archives_are_included_at_once(tmp_path: Path) -> None:
    names = [f"archive.example/a{number}/2026/01.02.03.04" for number in range(30)]
    archives = [ScriptedArchive(name, f"a{n}.archive.example", name) for n, name in enumerate(names)]

    async def main() -> None:
        async with resolver(tmp_path, archives, included=False) as running:
            targets = [
                INCLUDE.replace(ARCHIVE, archive.service).replace("mtc-m21.sid.inpe.br", archive.address)
                for archive in archives
            ]
            answers = await asyncio.gather(*map(running.ask, targets))
            assert {answer.body for answer in answers} == {
                b"status.archive included status.confirmation successful"
            }
            assert len(running.registry.archives()) == 30

    asyncio.run(main())


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:9",
        "10.0.0.1",
        "169.254.169.254",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "192.168.1.1:8080",
        "0.0.0.0",
    ],
)
@pytest.mark.proves("REG-06", "AMB-33")
def test_an_address_that_is_not_public_is_refused_even_with_the_right_key(
    tmp_path: Path, address: str
) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask(INCLUDE.replace("mtc-m21.sid.inpe.br", address))
        assert (answer.status, answer.body) == (403, Refusal(address=True).body())
        assert running.registry.archives() == ()

    play(tmp_path, m21(), scene, addresses=AddressPolicy())


def test_a_name_that_leads_to_a_private_address_is_refused(tmp_path: Path) -> None:
    archive = m21()

    async def scene(running: Running) -> None:
        assert (await running.ask(INCLUDE)).body == Refusal(address=True).body()
        assert archive.received == []
        assert archive.connections == 0

    play(tmp_path, archive, scene, addresses=AddressPolicy())


@pytest.mark.parametrize("address", ["urlib.net", "URLIB.NET:80", "www.urlib.net", "urlib.net."])
def test_the_resolver_never_becomes_its_own_archive(tmp_path: Path, address: str) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask(INCLUDE.replace("mtc-m21.sid.inpe.br", address))
        assert (answer.status, answer.body) == (403, Refusal(address=True).body())

    play(tmp_path, m21(), scene)


def test_the_resolver_knows_itself_behind_another_name(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        answer = await running.ask(INCLUDE.replace("mtc-m21.sid.inpe.br", f"127.0.0.1:{running.port}"))
        assert (answer.status, answer.body) == (403, Refusal(address=True).body())
        assert running.registry.archives() == ()

    play(tmp_path, m21(), scene)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("archiveaddress", "a b"),
        ("archiveaddress", "user@host.example"),
        ("archiveaddress", "host.example/path"),
        ("archiveaddress", "host.example:99999"),
        ("archiveaddress", "host.example\r\nX: y"),
        ("archiveaddress", ""),
        ("archiveserviceibi", "nothing"),
        ("archiveserviceibi", "a" * 5000),
        ("archiveip", "1.2.3"),
        ("archiveip", "01.2.3.4"),
        ("archiveprotocol", "USP"),
        ("archiveplatformversion", "1\r\n2"),
        ("archiveplatformversion", "\x00"),
        ("archiveadmemailaddress", "nobody"),
        ("archiveadmemailaddress", "a@b\r\nBcc: c@d"),
        ("registrationkey", "123456789"),
        ("registrationkey", "９" * 10),
        ("servicesubject", "unknownRequest"),
    ],
)
@pytest.mark.proves("MSG-20", "AMB-32")
def test_parameters_outside_their_domain_are_400_in_one_line(tmp_path: Path, name: str, value: str) -> None:
    async def scene(running: Running) -> None:
        pairs = {
            "servicesubject": "inclusionRequest",
            "archiveaddress": "mtc-m21.sid.inpe.br",
            "archiveserviceibi": ARCHIVE,
            "archiveip": "150.163.34.239",
            "archiveprotocol": "HTTP",
            "archiveplatformversion": "1",
            "archiveadmemailaddress": "admin@archive.example",
            "registrationkey": KEY,
        }
        answer = await running.ask(f"{BASE}?{urlencode(pairs | {name: value})}")
        assert answer.status == 400
        assert answer.body.startswith(b"error {")
        assert b"\n" not in answer.body
        missing = {key: kept for key, kept in pairs.items() if key != name}
        if name != "servicesubject":
            assert (await running.ask(f"{BASE}?{urlencode(missing)}")).status == 400
        assert running.registry.archives() == ()

    play(tmp_path, m21(), scene)


@pytest.mark.proves("MSG-20", "AMB-32")
def test_a_repeated_parameter_is_refused(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        assert (await running.ask(f"{INCLUDE}&archiveaddress=evil.example")).status == 400
        assert running.registry.archives() == ()

    play(tmp_path, m21(), scene)


@pytest.mark.proves("REG-08")
def test_looking_changes_nothing(tmp_path: Path) -> None:
    archive = m21()

    async def scene(running: Running) -> None:
        assert (await running.ask(INCLUDE, method="HEAD")).body == b""
        assert (await running.ask(INCLUDE, "Sec-Purpose: prefetch;prerender")).status == 403
        assert (await running.ask(INCLUDE, "Purpose: prefetch")).status == 403
        assert (await running.ask(INCLUDE, method="POST")).status == 405
        assert running.registry.archives() == ()
        assert archive.received == []

    play(tmp_path, archive, scene)


@pytest.mark.proves("REG-08", "AMB-35")
def test_answers_about_membership_are_never_cached_and_repeat_no_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(0)

    async def scene(running: Running) -> None:
        unknown, faulty = INCLUDE.replace(ARCHIVE, "x.y/z/2012/01.01.01.01"), INCLUDE.replace("admin@", "@")
        for target in (INCLUDE, EXCLUDE, unknown, faulty):
            for accept in ("text/html", "application/json", "*/*"):
                answer = await running.ask(target, f"Accept: {accept}")
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["referrer-policy"] == "no-referrer"
                assert KEY.encode() not in answer.body
                assert KEY not in answer.head

    play(tmp_path, m21(), scene)
    assert KEY not in caplog.text


@pytest.mark.proves("MSG-02", "AMB-30")
def test_only_our_own_service_takes_requests_in_any_form_and_case(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        for base in (
            "/j8lnkb5r7w/3fuqhc5",
            "/urlib.net/www/2014/03.22.01.53",
            "/URLIB.net/WWW/2014/03.22.01.53",
        ):
            assert (await running.ask(INCLUDE.replace(BASE, base))).status == 200
        for base in (f"{BASE}!", f"{BASE}/x", "/8JMKD3MGP8W/35MMLL8", f"/{ARCHIVE}", "/nothing"):
            answer = await running.ask(INCLUDE.replace(BASE, base))
            assert (answer.status, answer.body[:6]) == (400, b"error ")

    play(tmp_path, m21(), scene)


@pytest.mark.proves("AMB-32")
@pytest.mark.parametrize("subject", ["urlRequest", "acknowledgment", "inclusionConfirmationRequest", ""])
def test_a_resolver_is_no_archive(tmp_path: Path, subject: str) -> None:
    async def scene(running: Running) -> None:
        query = f"servicesubject={subject}&clientinformation.ipaddress=192.0.2.1&parsedibiurl.ibi=8JMKD3MGP8W/35MMLL8"
        for path in (BASE, "/8JMKD3MGP8W/35MMLL8"):
            assert (await running.ask(f"{path}?{query}")).status == 400

    play(tmp_path, m21(), scene)


def test_wrong_keys_run_out_for_one_archive(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        wrong = INCLUDE.replace(KEY, KEY[::-1])
        for _ in range(KEY_FAILURES_PER_IBI):
            assert (await running.ask(wrong)).status == 403
        answer = await running.ask(wrong)
        assert (answer.status, answer.body) == (429, b"status.archive refused")
        assert 0 < int(answer.headers["retry-after"]) <= 61
        assert (await running.ask(INCLUDE)).status == 429

    play(tmp_path, m21(), scene)


def test_wrong_keys_run_out_for_one_source(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        statuses = []
        for number in range(KEY_FAILURES_PER_SOURCE + 1):
            name = f"archive.example/a{number}/2026/01.02.03.04"
            statuses.append((await running.ask(INCLUDE.replace(ARCHIVE, name))).status)
        assert statuses == [403] * KEY_FAILURES_PER_SOURCE + [429]

    play(tmp_path, m21(), scene)


def test_right_keys_never_run_out(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        for _ in range(KEY_FAILURES_PER_SOURCE + 2):
            assert (await running.ask(EXCLUDE)).status == 200

    play(tmp_path, m21(), scene)


def test_an_archive_that_was_unregistered_is_believed_by_no_earlier_answer(tmp_path: Path) -> None:
    """It may have been unregistered because its answers were not its own."""

    async def scene(running: Running) -> None:
        service, cache = parse_ibi(ARCHIVE), running.knows.cache
        assert (await running.ask(INCLUDE)).status == 200
        for _heartbeat in range(2):
            cache.put(service.canonical, "a question", b"url http://a.example/", 60, cache.snapshot())
            cache.flush()
            assert (await running.ask(INCLUDE)).status == 200
            assert cache.answer(service.canonical, "a question") is not None
        running.registry.unregister(service)
        running.registry.register(service, KEY)
        assert (await running.ask(INCLUDE)).status == 200
        assert cache.answer(service.canonical, "a question") is None

    play(tmp_path, m21(), scene)


def test_when_the_registry_cannot_be_written_no_archive_is_told_that_it_is_included(tmp_path: Path) -> None:
    async def scene(running: Running) -> None:
        run_in_registry(tmp_path, "DROP TABLE archives")
        answer = await running.ask(INCLUDE)
        assert answer.status == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.body == b"error {the registry of this resolver cannot be used now; ask again later}"

    play(tmp_path, m21(), scene)


@pytest.mark.proves("REG-09", "AMB-34")
def test_an_archive_that_never_answers_has_five_seconds_to_confirm(tmp_path: Path) -> None:
    archive = mute(Behaviour(lie="silence"))

    async def main() -> None:
        async with resolver(tmp_path, [archive], included=False) as running:
            asking = asyncio.create_task(running.ask(INCLUDE))
            await until(lambda: archive.received)
            begun = asyncio.get_running_loop().time()
            assert (await asking).body == b"status.archive included status.confirmation unsuccessful"
            assert asyncio.get_running_loop().time() - begun == pytest.approx(CONFIRMATION_SECONDS, abs=0.5)

    run_with_false_clock(main())


def test_the_evidence_has_what_an_inclusion_changes_and_nothing_that_it_repeats(tmp_path: Path) -> None:
    archive = mute(Behaviour(b"no"))

    async def scene(running: Running) -> None:
        async def recorded(confirmation: bytes) -> list[object]:
            archive.manner = Behaviour(confirmation)
            assert (await running.ask(INCLUDE, host="www.urlib.net")).status == 200
            await asyncio.to_thread(running.knows.evidence.flush)
            entries = list(running.knows.evidence.entries())
            return [each.facts["confirmed"] for each in entries if each.what == "included"]

        assert await recorded(b"no") == [0]
        assert await recorded(b"no") == [0]
        assert await recorded(b"confirmation yes") == [0, 1]
        assert await recorded(b"confirmation yes") == [0, 1]

    play(tmp_path, archive, scene)
