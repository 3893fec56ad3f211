"""One label at a time, never the same twice, whatever crashes."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from ibi.errors import ClockError, LostState, MintingError, MintingNotAllowed, SetupError
from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS
from ibi.identifier.generator import LabelGenerator
from ibi.minting import WaitingRoom
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import this_machine
from ibi.minting.state import FOLDER
from ibi.minting.waiting_room import AHEAD
from support.machine import START, FalseMachine, waiting_room_at

SCRIPT = Path(__file__).parents[2] / "support" / "minting" / "draw_labels.py"
MILLISECOND = TICKS // 1000
TOLERANCE = ClockLimits().back


def drawing(directory: Path, granularity: int, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(SCRIPT), str(directory), str(granularity), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def rows(output: str) -> list[tuple[int, int]]:
    """Date and clock of every whole line."""
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return [(int(date), int(clock)) for date, clock in lines]


# --- the first date ------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-06", "GEN-42")
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_first_label_is_later_than_all_that_may_have_been_reserved_at_the_start(
    tmp_path: Path, granularity: int
) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path / "data", clock) as waiting_room:
        date = waiting_room.draw(granularity)

    assert START < date <= clock.at
    assert AHEAD < date - START <= AHEAD + granularity


@pytest.mark.proves("GEN-06")
def test_a_new_owner_meets_no_label_of_the_old_one(tmp_path: Path) -> None:
    clock = FalseMachine()
    dates: list[int] = []
    for owner in range(40):  # each starts from nothing, right after the one before, on whatever grid
        with waiting_room_at(tmp_path / str(owner), clock) as waiting_room:
            dates += [waiting_room.draw(GRANULARITIES[owner % 4]) for _ in range(3)]

    assert dates == sorted(set(dates))


def test_a_first_run_that_crashed_before_it_remembered_anything_is_a_first_run_still(tmp_path: Path) -> None:
    clock = FalseMachine()
    (tmp_path / "minting").mkdir()
    (tmp_path / "minting/lock").touch()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS) > START


# --- the order of dates --------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-38", "GEN-43", "AMB-19")
def test_dates_increase_over_runs_and_changes_of_granularity(tmp_path: Path) -> None:
    clock = FalseMachine(wakes_early=0.6)
    dates: list[int] = []
    for run in range(60):
        with waiting_room_at(tmp_path, clock) as waiting_room:
            dates.append(waiting_room.draw(GRANULARITIES[run * 7 % len(GRANULARITIES)]))
        assert clock.at >= dates[-1]
        clock.pass_by(run * TICKS)

    assert dates == sorted(set(dates))


@pytest.mark.proves("GEN-36")
def test_the_coarsest_date_is_used_across_runs(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
    clock.pass_by(3 * MINUTE)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS) % MINUTE == 0


@pytest.mark.proves("GEN-40")
def test_a_label_is_given_only_when_the_clock_has_reached_it_however_short_the_sleep(tmp_path: Path) -> None:
    clock = FalseMachine(wakes_early=0.001)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        for _ in range(5):
            assert waiting_room.draw(TICKS // 10) <= clock.at


@pytest.mark.proves("GEN-44")
def test_what_is_remembered_is_on_disk_before_a_label_is_due(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        date = waiting_room.reserve(TICKS, 1).last

    assert clock.at < date <= clock.at + AHEAD
    assert str(date).encode() in (tmp_path / "minting/state").read_bytes().split()


# --- batches -------------------------------------------------------------------------------------------------------


def test_a_batch_costs_one_write_and_runs_at_most_a_fifth_of_a_second_ahead(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        batch = waiting_room.reserve(MILLISECOND, 10_000)
        assert len(batch) == 200
        assert clock.at < batch.last <= clock.at + AHEAD
        following = waiting_room.reserve(MILLISECOND, 10)

    assert following.tail.start == batch.last + MILLISECOND


@pytest.mark.proves("GEN-40", "GEN-41")
def test_who_comes_when_all_of_it_is_taken_waits_until_there_is_place(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        batch = waiting_room.reserve(MILLISECOND, 10_000)
        taken = clock.at
        later = waiting_room.reserve(MILLISECOND, 1)
        assert later.last == batch.last + MILLISECOND
        assert clock.at - taken <= 2 * MILLISECOND
        assert later.last <= clock.at + AHEAD


@pytest.mark.proves("GEN-44")
def test_a_crash_burns_the_batch_and_never_repeats_it(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        burned = set(waiting_room.reserve(MILLISECOND, 100))
    with waiting_room_at(tmp_path, clock) as waiting_room:
        dates = [waiting_room.draw(step) for step in (MILLISECOND, TICKS, MINUTE, MILLISECOND)]

    assert min(dates) > max(burned)
    assert dates == sorted(set(dates))


# --- processes -----------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-41", "GEN-44")
def test_many_processes_never_repeat_a_label_nor_go_backwards(tmp_path: Path) -> None:
    processes = [drawing(tmp_path, MILLISECOND, 400) for _ in range(4)]
    drawn = [rows(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4

    for rows_of_one in drawn:
        assert len(rows_of_one) == 400
        assert all(one[0] < next_one[0] for one, next_one in pairwise(rows_of_one))
        assert all(date <= clock for date, clock in rows_of_one)
    assert len({date for rows_of_one in drawn for date, _ in rows_of_one}) == 1600


@pytest.mark.proves("GEN-41")
def test_a_draw_waits_while_another_process_has_the_lock(tmp_path: Path) -> None:
    with WaitingRoom(tmp_path, this_machine()) as waiting_room:
        waiting_room.draw(MILLISECOND)
        drawn = threading.Event()

        def draw() -> None:
            waiting_room.draw(MILLISECOND)
            drawn.set()

        # Another file of the same name is what another process would have opened.
        with (tmp_path / FOLDER / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            other = threading.Thread(target=draw)
            other.start()
            assert not drawn.wait(0.3)
        assert drawn.wait(10)
        other.join()


@pytest.mark.proves("GEN-41")
def test_threads_of_one_process_wait_for_each_other_too(tmp_path: Path) -> None:
    dates: list[int] = []
    with WaitingRoom(tmp_path, this_machine()) as waiting_room:

        def draw() -> None:
            dates.extend(waiting_room.draw(MILLISECOND) for _ in range(50))

        threads = [threading.Thread(target=draw) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(set(dates)) == 200


@pytest.mark.long
@pytest.mark.proves("GEN-44")
def test_killing_the_process_at_any_moment_never_makes_a_second_label(tmp_path: Path) -> None:
    given: list[int] = []
    for attempt in range(20):
        process = drawing(tmp_path, MILLISECOND, 100_000)
        assert process.stdout is not None
        first = [process.stdout.readline() for _ in range(1 + attempt * 3)]  # each time a little later
        given += [int(line.split()[0]) for line in first]
        os.kill(process.pid, signal.SIGKILL)
        given += [date for date, _ in rows(process.stdout.read())]
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL

    assert len(given) > 500
    assert all(one < next_one for one, next_one in pairwise(given))


# --- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-08")
def test_both_forms_of_a_label_tell_the_same_moment(tmp_path: Path) -> None:
    clock = FalseMachine()
    generator = LabelGenerator("mtc-m18.sid.inpe.br", ip="150.163.34.243")
    with waiting_room_at(tmp_path, clock) as waiting_room:
        forms = [generator.label(waiting_room.draw(MILLISECOND)) for _ in range(200)]

    assert len({str(form.rep) for form in forms}) == len({str(form.ibip) for form in forms}) == 200
    for form in forms:
        assert form.rep is not None
        assert form.ibip is not None
        assert form.rep.date.ticks == form.ibip.date.ticks
        assert str(form).startswith("rep sid.inpe.br/mtc-m18/2010/11.01.04.18.12.")


@pytest.mark.proves("AMB-10")
def test_a_name_without_an_owner_is_refused_before_any_date_is_spent() -> None:
    with pytest.raises(MintingNotAllowed):
        LabelGenerator("archive.localhost")


def test_a_directory_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(SetupError, match=r"labels cannot be made in .*: Not a directory"),
        waiting_room_at(tmp_path / "file", FalseMachine()),
    ):
        pass


def test_every_refusal_is_an_error_of_minting_or_of_setup() -> None:
    assert issubclass(LostState, MintingError)
    assert issubclass(ClockError, MintingError)


def test_only_the_owner_can_read_the_state(tmp_path: Path) -> None:
    with waiting_room_at(tmp_path, FalseMachine()) as waiting_room:
        waiting_room.draw(TICKS)
    assert {
        path.stat().st_mode & 0o077 for path in (tmp_path / "minting", *(tmp_path / "minting").iterdir())
    } == {0}
    assert sorted(path.name for path in (tmp_path / "minting").iterdir()) == ["lock", "state"]
