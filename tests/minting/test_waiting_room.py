"""One label at a time, never the same twice, whatever crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from ibi.errors import ClockError, LostState, MintingError, NotOurs, SetupError
from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS
from ibi.identifier.generator import Subsystem
from ibi.minting import WaitingRoom, mint
from ibi.minting.waiting_room import OURS, TOLERANCE

SCRIPT = Path(__file__).with_name("draw_labels.py")
MILLISECOND = TICKS // 1000
START = 1288585092 * TICKS + 345678901  # 2010-11-01T04:18:12.345678901Z


class FalseClock:
    """A clock that moves only while someone sleeps, and may sleep short or be set."""

    def __init__(self, at: int = START, wakes_early: float = 1.0) -> None:
        self.at = at
        self.slept = 0.0
        self._share = wakes_early

    def now(self) -> int:
        return self.at

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept += seconds
        self.at += max(1, int(seconds * self._share * TICKS))


def room_at(directory: Path, clock: FalseClock) -> WaitingRoom:
    return WaitingRoom(directory, now=clock.now, sleep=clock.sleep)


def drawing(directory: Path, granularity: int, count: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(SCRIPT), str(directory), str(granularity), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def rows(output: str) -> list[tuple[int, int, int]]:
    """Date, creation date and clock of every whole line."""
    lines = [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]
    return [(int(date), int(creation), int(clock)) for date, creation, clock in lines]


# --- the first date ------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-06", "GEN-42")
@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_the_first_label_is_later_than_the_start_and_costs_at_most_one_granularity(
    tmp_path: Path, granularity: int
) -> None:
    clock = FalseClock()
    with room_at(tmp_path / "data", clock) as room:
        slot = room.draw(granularity)

    assert START < slot.date <= slot.creation <= clock.at
    assert slot.creation - START <= granularity


@pytest.mark.proves("GEN-06")
def test_a_new_owner_meets_no_label_of_the_old_one(tmp_path: Path) -> None:
    clock = FalseClock()
    dates: list[int] = []
    for owner in range(40):  # each starts from nothing, right after the one before, on whatever grid
        with room_at(tmp_path / str(owner), clock) as room:
            dates += [room.draw(GRANULARITIES[owner % 4]).date for _ in range(3)]

    assert dates == sorted(set(dates))


def test_a_first_run_that_crashed_before_it_remembered_anything_is_a_first_run_still(tmp_path: Path) -> None:
    clock = FalseClock()
    (tmp_path / "minting").mkdir()
    (tmp_path / "minting/lock").touch()
    with room_at(tmp_path, clock) as room:
        assert room.draw(TICKS).date > START


# --- the order of dates --------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-38", "GEN-43", "AMB-19")
def test_dates_increase_over_runs_and_changes_of_granularity(tmp_path: Path) -> None:
    clock = FalseClock(wakes_early=0.6)
    dates: list[int] = []
    for run in range(60):
        with room_at(tmp_path, clock) as room:
            slot = room.draw(GRANULARITIES[run * 7 % len(GRANULARITIES)])
        assert clock.at >= slot.creation
        dates.append(slot.date)
        clock.at += run * TICKS

    assert dates == sorted(set(dates))


@pytest.mark.proves("GEN-36")
def test_the_coarsest_date_is_used_across_runs(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
    clock.at += 3 * MINUTE
    with room_at(tmp_path, clock) as room:
        assert room.draw(TICKS).date % MINUTE == 0


@pytest.mark.proves("GEN-40")
def test_a_label_is_given_only_when_the_clock_has_reached_it_however_short_the_sleep(tmp_path: Path) -> None:
    clock = FalseClock(wakes_early=0.001)
    with room_at(tmp_path, clock) as room:
        for _ in range(5):
            assert room.draw(TICKS // 10).creation <= clock.at


@pytest.mark.proves("GEN-44")
def test_what_is_remembered_is_on_disk_before_anyone_waits(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
        before = (tmp_path / "minting/state").read_bytes()
        seen: list[bytes] = []

        def sleep(seconds: float) -> None:
            seen.append((tmp_path / "minting/state").read_bytes())
            clock.sleep(seconds)

        slot = WaitingRoom(tmp_path, now=clock.now, sleep=sleep).draw(TICKS)

    assert seen
    assert seen[0] != before
    assert str(slot.date).encode() in seen[0].split()


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-41", "GEN-44")
def test_many_processes_never_repeat_a_label_nor_go_backwards(tmp_path: Path) -> None:
    processes = [drawing(tmp_path, MILLISECOND, 400) for _ in range(4)]
    drawn = [rows(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4

    for rows_of_one in drawn:
        assert len(rows_of_one) == 400
        assert all(one[0] < next_one[0] for one, next_one in pairwise(rows_of_one))
        assert all(creation <= clock for _, creation, clock in rows_of_one)
    dates = sorted(row[0] for rows_of_one in drawn for row in rows_of_one)
    assert len(set(dates)) == 1600
    # The order of drawing is the order of dates: nobody's date was older than one given before (GEN-41).
    by_creation = sorted((row[1], row[0]) for rows_of_one in drawn for row in rows_of_one)
    assert [date for _, date in by_creation] == dates


@pytest.mark.proves("GEN-41")
def test_threads_of_one_process_wait_for_each_other_too(tmp_path: Path) -> None:
    dates: list[int] = []
    with WaitingRoom(tmp_path, now=time.time_ns, sleep=time.sleep) as room:

        def draw() -> None:
            dates.extend(room.draw(MILLISECOND).date for _ in range(50))

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
        given += [date for date, _, _ in rows(process.stdout.read())]
        process.stdout.close()
        assert process.wait() == -signal.SIGKILL

    assert len(given) > 500
    assert all(one < next_one for one, next_one in pairwise(given))


# --- state that cannot be trusted ----------------------------------------------------------------------------------


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_missing_state_beside_its_witness_is_lost(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
        (tmp_path / "minting/state").unlink()
        with pytest.raises(LostState, match="missing"):
            room.draw(TICKS)
    with pytest.raises(LostState, match="missing"), room_at(tmp_path, clock):
        pass


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("name", OURS)
def test_a_missing_state_beside_other_files_of_ours_is_lost(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(LostState, match="missing"), room_at(tmp_path, FalseClock()):
        pass


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_state_that_lost_or_changed_any_character_is_damaged(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
        path = tmp_path / "minting/state"
        whole = path.read_bytes()
        damaged = [whole[:length] for length in range(len(whole))]
        damaged += [whole[:at] + b"7" + whole[at + 1 :] for at in range(len(whole)) if whole[at] != ord("7")]
        damaged += [whole + b"\n", whole + whole, b"\0" * len(whole), b"1 " * 64]
        for content in damaged:
            path.write_bytes(content)
            with pytest.raises(LostState, match="damaged"):
                room.draw(TICKS)
        path.write_bytes(whole)
        room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
def test_an_older_state_put_back_is_noticed(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
        older = (tmp_path / "minting/state").read_bytes()
        room.draw(TICKS)
        (tmp_path / "minting/state").write_bytes(older)
        with pytest.raises(LostState, match="older"):
            room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("content", [b"", b"1 2 3 4 5\n", b"\0" * 128])
def test_a_state_without_its_witness_is_not_believed(tmp_path: Path, content: bytes) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        room.draw(TICKS)
        (tmp_path / "minting/lock").write_bytes(content)
        with pytest.raises(LostState, match="damaged"):
            room.draw(TICKS)


def test_a_witness_that_lags_behind_is_harmless(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        first = room.draw(TICKS)
        older = (tmp_path / "minting/lock").read_bytes()
        second = room.draw(TICKS)
        (tmp_path / "minting/lock").write_bytes(older)
        assert room.draw(TICKS).date > second.date > first.date


# --- the clock -----------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_clock_far_behind_is_an_error_and_one_a_little_behind_a_wait(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        shown = clock.at
        slot = room.draw(TICKS)
        clock.at = shown - TOLERANCE - 3600 * TICKS
        with pytest.raises(ClockError, match="3602 seconds behind"):
            room.draw(TICKS)
        clock.at = shown - TICKS
        assert room.draw(TICKS).date > slot.date


@pytest.mark.proves("GEN-44")
def test_a_clock_set_back_after_a_long_wait_is_noticed(tmp_path: Path) -> None:
    clock = FalseClock()
    with room_at(tmp_path, clock) as room:
        slot = room.draw(MINUTE)
        assert slot.wait > TOLERANCE
        clock.at = START
        with pytest.raises(ClockError):
            room.draw(MINUTE)


@pytest.mark.proves("GEN-44")
def test_a_clock_set_back_during_the_wait_is_noticed(tmp_path: Path) -> None:
    clock = FalseClock()

    def sleep_and_set_back(seconds: float) -> None:
        clock.sleep(seconds)
        clock.at -= 3600 * TICKS

    with WaitingRoom(tmp_path, now=clock.now, sleep=sleep_and_set_back) as room, pytest.raises(ClockError):
        room.draw(MINUTE)


@pytest.mark.proves("GEN-44")
def test_a_crash_during_a_long_wait_is_no_fault_of_the_clock(tmp_path: Path) -> None:
    clock = FalseClock()

    def crash(seconds: float) -> None:
        raise KeyboardInterrupt(seconds)

    with WaitingRoom(tmp_path, now=clock.now, sleep=crash) as room, pytest.raises(KeyboardInterrupt):
        room.draw(MINUTE)
    clock.at += TICKS
    with room_at(tmp_path, clock) as room:
        slot = room.draw(MINUTE)

    assert slot.date == START - START % MINUTE + 2 * MINUTE  # the first one is burned


# --- names ---------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-08")
def test_both_forms_of_a_label_tell_the_same_moment(tmp_path: Path) -> None:
    clock = FalseClock()
    subsystem = Subsystem("mtc-m18.sid.inpe.br", ip="150.163.34.243")
    with room_at(tmp_path, clock) as room:
        forms = [mint(room, subsystem, MILLISECOND) for _ in range(200)]

    assert len({str(form.rep) for form in forms}) == len({str(form.ibip) for form in forms}) == 200
    for form in forms:
        assert form.rep is not None
        assert form.ibip is not None
        assert form.rep.date.ticks == form.ibip.date.ticks
        assert str(form).startswith("rep sid.inpe.br/mtc-m18/2010/11.01.04.18.12.")


@pytest.mark.proves("AMB-10")
def test_a_name_that_belongs_to_nobody_is_refused_before_any_date_is_spent() -> None:
    with pytest.raises(NotOurs):
        Subsystem("archive.localhost")


def test_a_directory_that_cannot_be_used_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        pytest.raises(SetupError, match=r"labels cannot be made in .*: Not a directory"),
        room_at(tmp_path / "file", FalseClock()),
    ):
        pass


def test_every_refusal_is_an_error_of_minting_or_of_setup() -> None:
    assert issubclass(LostState, MintingError)
    assert issubclass(ClockError, MintingError)


def test_only_the_owner_can_read_the_state(tmp_path: Path) -> None:
    with room_at(tmp_path, FalseClock()) as room:
        room.draw(TICKS)
    assert {
        path.stat().st_mode & 0o077 for path in (tmp_path / "minting", *(tmp_path / "minting").iterdir())
    } == {0}
    assert sorted(path.name for path in (tmp_path / "minting").iterdir()) == ["lock", "state"]
