"""What speaks against the state of minting, and that no label is given then."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import pytest

from ibi.errors import LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.recovery import recover
from ibi.minting.state import OURS, checked
from ibi.minting.waiting_room import AHEAD
from support.concurrency.open_files import open_files
from support.machine import START, FalseMachine, waiting_room_at

if TYPE_CHECKING:
    from typing_extensions import Buffer


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_missing_state_beside_its_replica_is_lost(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        (tmp_path / "minting/state").unlink()
        with pytest.raises(LostState, match="missing"):
            waiting_room.draw(TICKS)
    with pytest.raises(LostState, match="missing"), waiting_room_at(tmp_path, clock):
        pass


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("name", OURS)
def test_a_missing_state_beside_other_files_of_ours_is_lost(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(LostState, match="missing"), waiting_room_at(tmp_path, FalseMachine()):
        pass


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_state_that_lost_or_changed_any_character_is_damaged(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        path = tmp_path / "minting/state"
        whole = path.read_bytes()
        damaged = [whole[:length] for length in range(len(whole))]
        damaged += [whole[:at] + b"7" + whole[at + 1 :] for at in range(len(whole)) if whole[at] != ord("7")]
        damaged += [whole + b"\n", whole + whole, b"\0" * len(whole), b"1 " * 64]
        damaged += [
            checked(words)
            for words in (b"1 x", b"1 2 3 4 x a b c d", b"1 2 3 4 5 \xff b c d", b"1 2 3 4 5 a")
        ]
        for content in damaged:
            path.write_bytes(content)
            with pytest.raises(LostState, match="damaged"):
                waiting_room.draw(TICKS)
        path.write_bytes(whole)
        with pytest.raises(LostState, match=r"touched|older"):
            waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_replica_or_its_note_that_lost_or_changed_any_character_is_damaged(tmp_path: Path) -> None:
    clock, path = FalseMachine(), tmp_path / "minting/lock"
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
    whole = path.read_bytes()
    damaged = [whole[:length] for length in range(len(whole))]
    damaged += [whole[:at] + b"7" + whole[at + 1 :] for at in range(len(whole)) if whole[at] != ord("7")]
    damaged += [whole + b"\n", whole + whole, b"\0" * len(whole)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(LostState, match="damaged"), waiting_room_at(tmp_path, clock):
            pytest.fail(f"a replica with {content!r} was trusted")
    path.write_bytes(whole)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44")
@pytest.mark.parametrize("draws", [1, 2, 5])
def test_a_kill_between_the_new_ctime_of_the_state_and_its_new_bytes_loses_nothing(
    tmp_path: Path, draws: int
) -> None:
    """The kernel sets the ctime of a write before it copies the bytes, and a kill may come between the two."""
    clock = FalseMachine()
    dates: list[int] = []
    with waiting_room_at(tmp_path, clock) as waiting_room:
        dates = [waiting_room.draw(TICKS) for _ in range(draws)]
    child = os.fork()
    if not child:
        try:
            die_while_writing(tmp_path / "minting/state")
            with waiting_room_at(tmp_path, clock) as waiting_room:
                waiting_room.draw(TICKS)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS) > dates[-1]


def die_while_writing(path: Path) -> None:
    """Let this process be killed as soon as it writes into a file, which then has a new ctime and its old bytes."""
    write = os.pwrite

    def pwrite(handle: int, content: Buffer, at: int, /) -> int:
        if os.path.samestat(os.fstat(handle), path.stat()):
            os.utime(handle)
            os.kill(os.getpid(), signal.SIGKILL)
        return write(handle, content, at)

    os.pwrite = pwrite


@pytest.mark.proves("GEN-44", "AMB-18")
def test_an_older_state_put_back_is_noticed(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        older = (tmp_path / "minting/state").read_bytes()
        waiting_room.draw(TICKS)
        (tmp_path / "minting/state").write_bytes(older)
        with pytest.raises(LostState, match="older"):
            waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("content", [b"", b"1 2 3 4 5\n", b"\0" * 128, b"\0" * 288])
def test_a_state_without_its_replica_is_not_believed(tmp_path: Path, content: bytes) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        (tmp_path / "minting/lock").write_bytes(content)
        with pytest.raises(LostState, match="damaged"):
            waiting_room.draw(TICKS)


def test_a_replica_that_lags_behind_is_harmless(tmp_path: Path) -> None:
    """A kill or a power cut came between the state and its replica; the next process takes the clock for sure."""
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        replica = (tmp_path / "minting/lock").read_bytes()
        last = waiting_room.draw(TICKS)
    with (tmp_path / "minting/lock").open("r+b") as file:
        file.write(replica)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS // 1000) > max(last, clock.at - AHEAD)


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_copied_directory_mints_nothing(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path / "one", clock) as waiting_room:
        waiting_room.draw(TICKS)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    with pytest.raises(LostState, match="is a copy"), waiting_room_at(tmp_path / "two", clock):
        pass
    with waiting_room_at(tmp_path / "one", clock) as waiting_room:
        assert waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_directory_put_back_from_a_backup_mints_nothing(tmp_path: Path) -> None:
    clock = FalseMachine()
    data, backup = tmp_path / "data", tmp_path / "backup"
    with waiting_room_at(data, clock) as waiting_room:
        waiting_room.draw(TICKS)
        shutil.copytree(data, backup)
        waiting_room.draw(TICKS)
    shutil.rmtree(data)
    shutil.copytree(backup, data)
    with pytest.raises(LostState), waiting_room_at(data, clock):
        pass


@pytest.mark.proves("GEN-44", "AMB-18")
def test_both_files_put_back_in_place_mint_nothing(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        older = {name: (tmp_path / "minting" / name).read_bytes() for name in ("state", "lock")}
        waiting_room.draw(TICKS)
        for name, content in older.items():
            with (tmp_path / "minting" / name).open("r+b") as file:
                file.write(content)
        with pytest.raises(LostState, match=r"touched|older"):
            waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
def test_another_machine_mints_nothing_from_this_state(tmp_path: Path) -> None:
    clock, other = FalseMachine(), FalseMachine()
    other.identity = "another-machine"
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
    with pytest.raises(LostState, match="another machine"), waiting_room_at(tmp_path, other):
        pass


def test_a_directory_may_be_renamed(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path / "old", clock) as waiting_room:
        first = waiting_room.draw(TICKS)
    (tmp_path / "old").rename(tmp_path / "new")
    with waiting_room_at(tmp_path / "new", clock) as waiting_room:
        assert waiting_room.draw(TICKS) > first


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_live_process_notices_a_replica_from_before(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        replica = (tmp_path / "minting/lock").read_bytes()
        waiting_room.draw(TICKS)
        with (tmp_path / "minting/lock").open("r+b") as file:
            file.write(replica)
        with pytest.raises(LostState, match="older"):
            waiting_room.draw(TICKS)


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize(
    ("before", "meanwhile"), [((), ("state", "lock")), ((), ("lock",)), (("lock",), ("state",))], ids=str
)
def test_a_process_that_has_only_read_a_state_notices_older_files(
    tmp_path: Path, before: tuple[str, ...], meanwhile: tuple[str, ...]
) -> None:
    """In a burst the last change is not noted, so the files themselves would look whole.

    `before`: what is older already when it is read, as after a kill.
    """
    clock = FalseMachine()
    drawing = waiting_room_at(tmp_path, clock).__enter__()
    drawing.reserve(TICKS // 1000, 1)
    older = {name: (tmp_path / "minting" / name).read_bytes() for name in ("state", "lock")}
    drawing.reserve(TICKS // 1000, 1)

    def put_back(names: tuple[str, ...]) -> None:
        for name in names:
            with (tmp_path / "minting" / name).open("r+b") as file:
                file.write(older[name])

    put_back(before)
    with waiting_room_at(tmp_path, clock) as reading:
        put_back(meanwhile)
        with pytest.raises(LostState, match="older"):
            reading.reserve(1, 1)  # which waits for nothing


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_live_process_gives_no_label_from_a_state_that_was_replaced(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as first:
        first.draw(TICKS)
    shutil.copytree(tmp_path / "minting", tmp_path / "backup")
    with waiting_room_at(tmp_path, clock) as there:
        with waiting_room_at(tmp_path, clock) as another:
            another.draw(TICKS)
        for name in ("state", "lock"):
            (tmp_path / "minting" / name).unlink()
            shutil.copy2(tmp_path / "backup" / name, tmp_path / "minting" / name)
        with pytest.raises(LostState, match="copy"):
            there.reserve(1, 1)  # which waits for nothing, so that nothing else would notice


@pytest.mark.proves("GEN-44", "AMB-18")
def test_where_it_was_not_noted_when_the_state_was_written_the_clock_is_taken(tmp_path: Path) -> None:
    """In a burst it is not noted; files copied in a burst and put back later look whole."""
    clock = FalseMachine()
    waiting_room = waiting_room_at(tmp_path, clock).__enter__()
    given = [waiting_room.draw(TICKS // 1000) for _ in range(3)]
    older = {name: (tmp_path / "minting" / name).read_bytes() for name in ("state", "lock")}
    clock.pass_by(TICKS // 2)
    given += [waiting_room.draw(TICKS // 1000) for _ in range(3)]
    for name, content in older.items():
        with (tmp_path / "minting" / name).open("r+b") as file:
            file.write(content)
    with waiting_room_at(tmp_path, clock) as another:
        given += [another.draw(step) for step in (TICKS // 1000, TICKS)]
    assert given == sorted(set(given))


def test_a_repair_while_a_process_is_there_lets_it_go_on(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        first = waiting_room.draw(TICKS)
        (tmp_path / "minting/state").write_bytes(b"")
        with pytest.raises(LostState):
            waiting_room.draw(TICKS)
        recover(tmp_path, clock.machine)
        assert waiting_room.draw(TICKS) > first


@pytest.mark.proves("GEN-02", "GEN-44")
def test_files_that_are_taken_away_while_a_process_waits_give_it_no_label(tmp_path: Path) -> None:
    clock = FalseMachine()

    def take_away(seconds: float) -> None:
        clock.sleep(seconds)
        if (tmp_path / "minting").exists() and clock.slept > 0.1:
            shutil.rmtree(tmp_path / "minting")

    with (
        WaitingRoom(tmp_path, replace(clock.machine, sleep=take_away)) as waiting_room,
        pytest.raises(LostState, match=f"the minting state in {tmp_path}/minting is missing"),
    ):
        waiting_room.draw(TICKS)


@pytest.mark.parametrize("failing", range(1, 4))
def test_a_disk_that_fails_at_the_first_record_leaves_no_half_state_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The syncs of the new file, of its folder and of the lock: each of them may fail."""
    clock, syncs, sync = FalseMachine(), 0, os.fsync

    def fail(handle: int) -> None:
        nonlocal syncs
        syncs += 1
        if syncs == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    (tmp_path / "minting").mkdir()
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SetupError, match=f"labels cannot be made in {tmp_path}: No space left on device"):
        waiting_room_at(tmp_path, clock).__enter__()
    assert open_files(tmp_path) == []
    assert (tmp_path / "minting/state").exists() == (failing > 1)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS) > START + AHEAD
    assert open_files(tmp_path) == []


def test_the_files_have_the_form_that_older_and_newer_versions_read(tmp_path: Path) -> None:
    with waiting_room_at(tmp_path, FalseMachine()) as waiting_room:
        waiting_room.draw(TICKS)
    line, lock = ((tmp_path / "minting" / name).read_bytes() for name in ("state", "lock"))
    changed = str((tmp_path / "minting/state").stat().st_ctime_ns).encode()
    assert (len(line), lock) == (256, line + (b"%b %d" % (changed, crc32(changed))).ljust(63) + b"\n")
    *words, checksum = line.split()
    assert (len(words), words[0], int(checksum)) == (9, b"1", crc32(b" ".join(words)))


def test_where_files_cannot_be_locked_that_is_said_and_none_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: int, __: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(SetupError, match=f"labels cannot be made in {tmp_path}: No locks available"):
        waiting_room_at(tmp_path, FalseMachine()).__enter__()
    assert open_files(tmp_path) == []


def test_who_leaves_notes_the_last_change_so_that_the_next_goes_on_at_once(tmp_path: Path) -> None:
    """In a burst it is not noted at each draw; without the note, dates would begin later than AHEAD of the clock."""
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS // 1000)
        last = [waiting_room.draw(TICKS // 1000) for _ in range(3)][-1]
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert last < waiting_room.reserve(TICKS // 1000, 1).last < clock.at + AHEAD


@pytest.mark.parametrize(("passed", "noted"), [(TICKS // 20, True), (TICKS // 20 - 1, False)])
def test_in_a_burst_a_change_is_noted_once_in_a_twentieth_of_a_second(
    tmp_path: Path, passed: int, noted: bool
) -> None:
    clock = FalseMachine()
    crashing = waiting_room_at(tmp_path, clock).__enter__()
    crashing.reserve(TICKS // 1000, 1)
    clock.pass_by(passed)
    crashing.reserve(TICKS // 1000, 1)
    clock.pass_by(TICKS)
    shown = clock.at
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert (waiting_room.reserve(TICKS // 1000, 1).last < shown + AHEAD) == noted


def test_who_drew_nothing_notes_nothing(tmp_path: Path) -> None:
    clock = FalseMachine()
    crashing = waiting_room_at(tmp_path, clock).__enter__()
    for _ in range(3):
        crashing.reserve(TICKS // 1000, 1)
    unnoted = (tmp_path / "minting/lock").read_bytes()
    with waiting_room_at(tmp_path, clock):
        pass
    assert (tmp_path / "minting/lock").read_bytes() == unnoted


def test_who_leaves_a_state_that_cannot_be_trusted_notes_nothing(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
        path = tmp_path / "minting/state"
        path.write_bytes(path.read_bytes())
        noted = (tmp_path / "minting/lock").read_bytes()
        with pytest.raises(LostState, match="touched"):
            waiting_room.draw(TICKS)
    assert (tmp_path / "minting/lock").read_bytes() == noted
    with pytest.raises(LostState, match="touched"):
        waiting_room_at(tmp_path, clock).__enter__()


def test_records_are_on_disk_before_the_names_lead_to_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, os.replace

    def noted_sync(handle: int) -> None:
        done.append(Path(f"/proc/self/fd/{handle}").readlink().name)
        sync(handle)

    def noted_rename(old: Path, new: Path) -> None:
        done.append(f"{old.name} -> {Path(new).name}")
        rename(old, new)

    (tmp_path / "minting").mkdir()
    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_rename)
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        waiting_room.draw(TICKS)
    assert done == ["state.new", "state.new -> state", "minting", "lock"]
    done.clear()
    recover(tmp_path, clock.machine)
    # The replica of a repair first: a process with the old file must draw no more.
    assert done == ["state.new", "lock", "state.new -> state", "minting", "lock"]


def test_a_repair_that_is_interrupted_leaves_nothing_to_draw_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FalseMachine()

    def interrupt(_: Path, __: Path) -> None:
        raise KeyboardInterrupt

    with waiting_room_at(tmp_path, clock) as waiting_room:
        first = waiting_room.draw(TICKS)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", interrupt)
            with pytest.raises(KeyboardInterrupt):
                recover(tmp_path, clock.machine)
        with pytest.raises(LostState):
            waiting_room.reserve(1, 1)
        recover(tmp_path, clock.machine)
        assert waiting_room.draw(TICKS) > first


def test_a_repair_cuts_off_what_follows_the_replica(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock) as waiting_room:
        first = waiting_room.draw(TICKS)
    with (tmp_path / "minting/lock").open("ab") as lock:
        lock.write(b"more")
    with pytest.raises(LostState, match="damaged"):
        waiting_room_at(tmp_path, clock).__enter__()
    recover(tmp_path, clock.machine)
    with waiting_room_at(tmp_path, clock) as waiting_room:
        assert waiting_room.draw(TICKS) > first
