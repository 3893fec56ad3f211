"""The two files of a minting state: each byte of a record, whose they are, and who writes what into them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import pytest

from ibi.errors import LostState
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.state import FOLDER, WIDTH, StateFiles, StateRecord, checked, unchecked
from ibi.minting.waiting_room import AHEAD
from support.machine import FalseMachine, waiting_room_at

RECORD = StateRecord(11, 22, 33, 44, "boot", "machine", "names", "file")
WORDS = b"1 11 22 33 44 boot machine names file"
MILLISECOND = TICKS // 1000


def test_a_record_is_one_line_of_words_and_their_checksum() -> None:
    assert RECORD.line() == (b"%b %d" % (WORDS, crc32(WORDS))).ljust(255) + b"\n"
    assert StateRecord.read(RECORD.line()) == RECORD
    assert StateRecord(1, 2, 3, 4, "b", "m") == StateRecord(1, 2, 3, 4, "b", "m", "-", "")


@pytest.mark.parametrize(
    "line",
    [
        checked(WORDS, WIDTH - 1),
        checked(WORDS, WIDTH + 1),
        checked(b"2" + WORDS[1:]),
        checked(b"11" + WORDS[1:]),
        checked(WORDS + b" more"),
        checked(WORDS.rpartition(b" ")[0]),
        checked(WORDS.replace(b"11", b"x")),
        checked(WORDS.replace(b"44", b"4.4")),
        checked(WORDS.replace(b"names", b"\xff")),
        checked(b""),
        checked(b"1"),
        b"",
        b"\n",
    ],
)
def test_any_other_line_is_no_record(line: bytes) -> None:
    assert StateRecord.read(line) is None


@pytest.mark.parametrize("width", [64, 100, WIDTH])
def test_the_words_of_a_line_are_read_only_with_their_checksum(width: int) -> None:
    line = checked(b"a few words", width)
    assert (len(line), line[-1:]) == (width, b"\n")
    assert unchecked(line) == b"a few words"
    for spoilt in (line[:-1], line + b"\n", line[1:], line.replace(b"few", b"two")):
        assert unchecked(spoilt) is None


def test_a_state_from_which_nothing_was_drawn_is_opened_by_others(tmp_path: Path) -> None:
    clock = FalseMachine()
    with waiting_room_at(tmp_path, clock), waiting_room_at(tmp_path, clock) as other:
        assert other.draw(MILLISECOND)


def test_the_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with waiting_room_at(tmp_path, FalseMachine()):
            modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / FOLDER).iterdir()}
    finally:
        os.umask(before)
    assert modes == {"state": 0o600, "lock": 0o600}


@pytest.mark.parametrize("user", [0, 1000])
def test_files_that_root_makes_belong_to_the_owner_of_their_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    given = list[tuple[str, int, int]]()

    def fchown(handle: int, owner: int, group: int) -> None:
        given.append((Path(f"/proc/self/fd/{handle}").readlink().name, owner, group))

    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(os, "fchown", fchown)
    with waiting_room_at(tmp_path, FalseMachine()):
        owner = (tmp_path / FOLDER).stat()
    names = [] if user else ["state.new", "lock"]
    assert given == [(name, owner.st_uid, owner.st_gid) for name in names]


def test_a_process_that_did_not_draw_the_only_label_notes_no_change_of_its_own(tmp_path: Path) -> None:
    clock, lock = FalseMachine(), tmp_path / FOLDER / "lock"
    crashing = waiting_room_at(tmp_path, clock).__enter__()
    replica = lock.read_bytes()
    crashing.reserve(MILLISECOND, 1)
    lock.write_bytes(replica)  # as if a kill had come before it was written
    with waiting_room_at(tmp_path, clock):
        pass
    assert lock.read_bytes() == replica


@pytest.mark.proves("GEN-02", "GEN-44")
@pytest.mark.parametrize("name", ["state", "lock", "minting"])
def test_a_draw_that_took_a_millisecond_gives_nothing_from_files_that_were_taken_away(
    tmp_path: Path, name: str
) -> None:
    clock = FalseMachine()

    def take_away(seconds: float) -> None:
        clock.sleep(seconds)
        path = tmp_path / name if name == FOLDER else tmp_path / FOLDER / name
        if clock.slept == 0.001:
            path.rename(tmp_path / "elsewhere")

    with WaitingRoom(tmp_path, replace(clock.machine, sleep=take_away)) as waiting_room:
        # The first date is one tick further ahead than may be: it is waited for as short as possible.
        with pytest.raises(LostState, match="is missing"):
            waiting_room.reserve(1, 1)
        assert clock.slept == 0.001
        last = StateRecord.read((tmp_path / FOLDER / "state").read_bytes()) if name == "lock" else None
        assert last is None or last.last == clock.at - MILLISECOND + AHEAD + 1


def test_a_child_that_is_forked_during_a_draw_does_not_keep_the_lock(tmp_path: Path) -> None:
    clock, children = FalseMachine(), list[int]()
    read, write = os.pipe()

    def fork(seconds: float) -> None:
        clock.sleep(seconds)
        if children:
            return
        child = os.fork()
        if not child:
            try:
                os.close(write)
                os.read(read, 1)  # until the parent closes its end
            finally:
                os._exit(0)
        children.append(child)

    try:
        with WaitingRoom(tmp_path, replace(clock.machine, sleep=fork)) as waiting_room:
            waiting_room.draw(TICKS)
            with StateFiles(tmp_path, clock.identity, clock.machine.running).locked(wait=False) as state:
                assert state.fault is None
    finally:
        os.close(write)
        for child in children:
            os.waitpid(child, 0)
        os.close(read)
    assert len(children) == 1
