"""A proof that cannot fail is worth nothing: each judge is shown what it must not let pass."""

from __future__ import annotations

import sys
import textwrap
import time
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Batch, Slot, distribute
from ibi.identifier.generator import LabelGenerator
from ibi.minting.clock import ClockLimits
from ibi.minting.waiting_room import WaitingRoom
from proofs.common.report import Report, Scale
from proofs.common.tracing import why_not
from proofs.minting import calls as syscalls
from proofs.minting import clocks, codec, faketime, harm, lost_state, nodes, service, small_world
from proofs.minting.judge import Judge
from proofs.minting.reading import moment_of_ibip, moment_of_rep
from proofs.minting.service_faults import why_no_conversation
from proofs.minting.service_trials import FaultPlace, stage
from proofs.minting.state_file import last_of
from support.oracles.labels import literal_ibip_suffix

GOOD = b"example.org/mint/2009/02.16.17.46.00.25 8JMKD3MGP8W/34PGRBSWT\n"
LATER = b"example.org/mint/2009/02.16.17.46.00.26 8JMKD3MGP8W/34PGRBSWU\n"


def judged(*texts: bytes, clock: int = 10**20) -> Report:
    report = Report("trial", "")
    judge = Judge(report, clock=lambda: clock)
    for text in texts:
        judge.hear("somebody", text)
    return report


def test_the_judge_lets_good_labels_pass() -> None:
    report = judged(GOOD + LATER)
    assert report.held
    assert report.counts["labels"] == 2


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ((GOOD, GOOD), "given twice"),
        ((LATER, GOOD), "does not come after"),
        ((GOOD.split(b" ")[0] + b" " + LATER.split(b" ")[1],), "two moments"),
        ((GOOD, LATER.split(b" ")[0] + b" " + GOOD.split(b" ")[1]), "given twice"),
    ],
)
def test_the_judge_hears_what_is_wrong(texts: tuple[bytes, ...], complaint: str) -> None:
    assert complaint in " ".join(judged(*texts).broken)


def test_the_judge_hears_a_label_that_is_out_before_its_moment() -> None:
    assert "before its moment" in judged(GOOD, clock=1234806360 * TICKS).broken[0]


def test_labels_are_read_as_the_standard_says() -> None:
    assert moment_of_rep("sid.inpe.br/mtc-m18/2009/02.16.17.46") == 1234806360 * TICKS
    assert moment_of_ibip("8JMKD3MGP8W/34PGRBS") == 1234806360 * TICKS
    assert moment_of_ibip("8JMKD3MGP8W/34PGRBSW28") == 1234806360 * TICKS + TICKS * 6 // 100
    with pytest.raises(ValueError, match="no fraction"):
        moment_of_rep("a.b/c/2009/02.16.17.46.00.250")


def test_the_small_world_notices_a_distributor_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def stuck(last: int | None, granularity: int, now: int) -> Slot:
        slot = distribute(last, granularity, now)
        return slot if granularity != TICKS // 100 else slot._replace(date=slot.previous)

    monkeypatch.setattr(small_world, "distribute", stuck)
    report = small_world.prove(Scale.SHORT, 1)
    assert "goes back" in " ".join(report.broken)
    assert report.counts["duplicates"] > 0


def test_the_small_world_notices_windows_that_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(last: int, granularity: int, now: int, count: int, until: int) -> Batch:
        first = max(last, min(now, until)) // granularity * granularity + granularity
        return Batch((), range(first, first + count * granularity, granularity))

    monkeypatch.setattr(small_world, "distribute_many", plain)
    assert "and not" in small_world.prove(Scale.SHORT, 1).broken[0]


@pytest.mark.long
def test_the_codec_notices_two_dates_with_one_label(monkeypatch: pytest.MonkeyPatch) -> None:
    spell = LabelGenerator.spell

    def literal(self: LabelGenerator, dates: Iterable[int]) -> Iterator[tuple[str, str | None]]:
        for date in dates:
            [(name, ibip)] = spell(self, (date,))
            yield name, f"{str(ibip).split('/')[0]}/{literal_ibip_suffix(Fraction(date, TICKS))}"

    monkeypatch.setattr(LabelGenerator, "spell", literal)
    report = codec.prove(Scale.SHORT, 1)
    assert report.counts["duplicates"] > 0
    assert not report.held


def test_false_clocks_find_out_a_waiting_room_that_believes_every_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gullible = partial(WaitingRoom, limits=ClockLimits(back=10**18, forward=10**18))
    monkeypatch.setattr(clocks, "WaitingRoom", gullible)
    monkeypatch.setattr(clocks, "SCHEDULES", {"ten years": clocks.SCHEDULES["ten years ahead and back"]})
    monkeypatch.setattr(faketime, "prove", lambda *_: None)
    assert "a bad clock was believed" in " ".join(clocks.prove(Scale.SHORT, 1).broken)


def test_false_clocks_find_out_a_waiting_room_that_believes_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "WaitingRoom", partial(WaitingRoom, limits=ClockLimits(forward=0)))
    monkeypatch.setattr(clocks, "SCHEDULES", {"small": clocks.SCHEDULES["small steps"]})
    monkeypatch.setattr(faketime, "prove", lambda *_: None)
    assert "a good clock was refused" in " ".join(clocks.prove(Scale.SHORT, 1).broken)


def test_a_label_written_out_before_the_sync_is_found_in_the_order_of_calls() -> None:
    words = '1</out>, "example.org/mint/2009/02.16.17.46 8J/34PGRBS\\n", 42'
    record = syscalls.Call("pwrite64", "minting/state", f'3</s>, "1 {1234806360 * TICKS} 5", 256, 0', 256)
    synced, failed = (syscalls.Call("fdatasync", "minting/state", "3</s>", result) for result in (0, -1))
    for send in syscalls.SENDS:
        label = syscalls.Call(send, "out", words, 42)
        assert list(syscalls.released_early([record, synced, label])) == []
        for calls in ([label], [record, label], [record, failed, label], [record, label, synced]):
            assert list(syscalls.released_early(calls)) == [1234806360 * TICKS]


def test_a_call_that_was_interrupted_is_read_whole_and_one_that_sends_stands_where_it_began(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    log.write_text(
        "7 fdatasync(4</d/state> <unfinished ...>\n"
        '5 write(9<socket:[1]>, "a", 1 <unfinished ...>\n'
        "7 <... fdatasync resumed>) = 0\n"
        "5 <... write resumed>) = -1 EIO (INJECTED)\n"
        "5 fsync(4</d/state> <unfinished ...>) = ?\n"
    )
    read = [(call.thread, call.name, call.place, call.result) for call in syscalls.read_log(log)]
    sent, synced = (5, "write", "socket:[1]", -1), (7, "fdatasync", "/d/state", 0)
    assert read == [sent, synced, (5, "fsync", "/d/state", None)]


BROKEN_SERVICES = {
    "it does not notice that a sync fails": """
        sync = os.fdatasync
        def deaf(handle):
            with contextlib.suppress(OSError):
                sync(handle)
        os.fdatasync = deaf
        """,
    "it hands out what it has not yet written": """
        commit = LockedState.commit
        LockedState.commit = lambda *what: threading.Timer(1, commit, what).start()
        """,
    "it gives the last labels of each answer once more": """
        reserve = WaitingRoom.reserve
        def again(self, *what):
            self.kept = getattr(self, "kept", None) or reserve(self, *what)
            return self.kept
        WaitingRoom.reserve = again
        """,
}


traced = pytest.mark.skipif(
    bool(why_not() or why_no_conversation()), reason="processes may not be traced here"
)


@traced
@pytest.mark.long
@pytest.mark.parametrize(
    ("fault", "harm_done", "complaint"),
    [
        ("fdatasync:error=EIO:when=1", "it does not notice that a sync fails", "before it was durable"),
        (None, "it hands out what it has not yet written", "the disk knows"),
        (None, "it gives the last labels of each answer once more", "given twice"),
    ],
)
def test_a_broken_service_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str | None, harm_done: str, complaint: str
) -> None:
    program = tmp_path / "broken.py"
    program.write_text(
        "import contextlib, os, sys, threading\n"
        "from ibi.cli import main\n"
        "from ibi.minting.state import LockedState\n"
        "from ibi.minting.waiting_room import WaitingRoom\n"
        + textwrap.dedent(BROKEN_SERVICES[harm_done])
        + "sys.exit(main())\n"
    )
    monkeypatch.setattr(service, "PROGRAM", (sys.executable, str(program)))
    report = Report("trial", "")
    with stage(report, Judge(report)) as trials:
        trials.run(FaultPlace(0, fault))
    assert complaint in " ".join(report.broken)


@traced
@pytest.mark.long
def test_labels_that_could_not_be_sent_are_reported_so_that_no_other_client_may_have_them() -> None:
    report = Report("trial", "")
    with stage(report, Judge(report)) as trials:
        trials.run(FaultPlace(1, "write:error=EIO:when=2"))
    assert report.held, report.broken
    assert report.counts["labels burned"] == 30


def test_a_harm_that_does_nothing_is_found_not_to_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harm, "damages", lambda *_: [("nothing", lambda data, _: data)])
    for others in ("put_back", "copies", "harmless", "total_losses", "pulled_away"):
        monkeypatch.setattr(harm, others, list)
    assert "nothing (0): not refused" in lost_state.prove(Scale.SHORT, 1).broken


def test_a_state_that_is_not_whole_is_not_read() -> None:
    with pytest.raises(ValueError, match="not whole"):
        last_of(b"1 5 5 5 5 boot machine 1-2 99".ljust(255) + b"\n")


def test_the_clock_of_the_judge_is_that_of_the_machine() -> None:
    report = Report("trial", "")
    ahead = time.time_ns() // TICKS * TICKS + 3600 * TICKS
    rep, ibip = next(iter(LabelGenerator("mint.example.org", ip="150.163.34.243").spell([ahead])))
    Judge(report).hear("somebody", f"{rep} {ibip}\n".encode())
    assert not report.held


@pytest.mark.long
def test_nodes_that_do_not_lock_the_row_are_caught(tmp_path: Path) -> None:
    worker = tmp_path / "unlocked.py"
    worker.write_text(
        textwrap.dedent(
            """
            import sys
            from sqlalchemy import text
            from ibi.minting import state_row
            from proofs.minting import node_worker
            state_row._LOCK, state_row._LOCK_ROW = "", text("SELECT 1")
            last = "record = %(known)s AND xmin = written::xid"  # whether this node drew last
            assert last in state_row._REPLACE
            state_row._REPLACE = state_row._REPLACE.replace(last, "(record = %(known)s OR true)")
            node_worker.main(*sys.argv[1:])
            """
        )
    )
    duplicates = 0
    for seed in range(1, 6):  # on a busy machine, few draws may meet
        report = nodes.prove(Scale.SHORT, seed, str(worker))
        if report.unshown:
            pytest.skip("; ".join(report.unshown))
        duplicates += report.counts["duplicates"]
        if duplicates:
            break
    assert duplicates > 0
