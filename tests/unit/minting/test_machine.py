"""What a state has recorded of its machine is compared with what the machine says today, and for years."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import struct
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest

from ibi.minting.machine import UNKNOWN, file_identity, this_machine

MACHINE_IDS = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))


def test_the_identity_of_a_machine_is_spelled_as_every_state_has_recorded_it() -> None:
    """Spelled in any other way, every state would be one of another machine, and its Archive could mint nothing."""
    known = [path.read_text(encoding="ascii").strip() for path in MACHINE_IDS if path.exists()]
    if not any(known):
        assert this_machine().identity == UNKNOWN
        return
    machine_id = next(filter(None, known))
    assert this_machine().identity == sha256(f"ibi {machine_id}".encode()).hexdigest()[:16]


def test_a_machine_without_an_id_has_an_identity_of_one_word_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, *_: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    machine = this_machine()
    assert (machine.identity, machine.boot) == (UNKNOWN, UNKNOWN)
    assert UNKNOWN == "-"


def test_a_run_of_the_machine_is_one_word() -> None:
    boot = this_machine().boot
    assert boot == UNKNOWN or re.fullmatch("[0-9a-f-]{36}", boot)


def test_the_clock_counts_nanoseconds_and_does_not_stand_still() -> None:
    machine = this_machine()
    first, running = machine.now(), machine.running()
    machine.sleep(0.002)
    assert 2_000_000 <= machine.running() - running < 60 * 10**9
    assert abs(machine.now() - first) < 60 * 10**9
    with pytest.raises(ValueError, match="negative"):
        machine.sleep(-1)


@pytest.mark.parametrize(
    ("answer", "synchronised"), [(0, True), (4, True), (5, False), (6, True), (-1, None)]
)
def test_the_answer_of_the_kernel_says_whether_the_clock_is_synchronised(
    monkeypatch: pytest.MonkeyPatch, answer: int, synchronised: bool | None
) -> None:
    library = SimpleNamespace(adjtimex=lambda _: answer)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: library)
    assert this_machine().synchronised() is synchronised


def test_a_kernel_that_cannot_be_requests_says_nothing_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace())
    assert this_machine().synchronised() is None


@pytest.mark.parametrize("refused", [False, True])
def test_a_file_is_known_by_its_inode_and_the_generation_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: bool
) -> None:
    requests = list[int]()

    def ioctl(_handle: int, request: int, answer: bytes) -> bytes:
        requests.append(request)
        if refused:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        return struct.pack("L", 77).ljust(len(answer), b"\0")

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    with (tmp_path / "file").open("wb") as file:
        assert file_identity(file.fileno()) == f"{os.fstat(file.fileno()).st_ino}-{0 if refused else 77}"
    # What <linux/fs.h> says where a long has eight bytes.
    assert requests == [0x80087601 if struct.calcsize("l") == 8 else 0x80047601]


@pytest.mark.parametrize(
    ("first", "second", "word"),
    [
        (None, None, UNKNOWN),
        (None, b"second\n", "second"),
        (b"first\n", b"second\n", "first"),
        (b" \n", b"second", "second"),
        (b"\xff", None, UNKNOWN),
        (b"of two words", None, "of"),
    ],
)
def test_the_first_word_that_can_be_read_is_the_identity(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bytes | None, second: bytes | None, word: str
) -> None:
    paths = tmp_path / "first", tmp_path / "second"
    for path, content in zip(paths, (first, second), strict=True):
        if content is not None:
            path.write_bytes(content)
    monkeypatch.setattr("ibi.minting.machine._MACHINE_ID", paths)
    monkeypatch.setattr("ibi.minting.machine._BOOT_ID", tmp_path / "none")
    hashed = UNKNOWN if word == UNKNOWN else sha256(f"ibi {word}".encode()).hexdigest()[:16]
    assert (this_machine().identity, this_machine().boot) == (hashed, UNKNOWN)
