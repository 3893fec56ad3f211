"""The two files of the evidence: what each kind of damage is called, and what a failing write leaves."""

from __future__ import annotations

import errno
import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from ibi.resolver.evidence import files
from ibi.resolver.evidence.chain import CHAIN_START, Anchor, LogHead, NewEntry, read_line, write_line
from ibi.resolver.evidence.files import EvidenceFiles
from support.checks.flushed_files import flushes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOMENT = "2026-01-01T00:00:00.000Z"
LAST = NewEntry("2026-01-02T00:00:00.000Z", "excluded", {"ibi": "last"})


def entry(number: int) -> NewEntry:
    return NewEntry(MOMENT, "excluded", {"ibi": f"a.example/{number}"})


def chained(count: int, after: Anchor = CHAIN_START) -> tuple[list[bytes], Anchor]:
    """So many lines, the first after an anchor, and the anchor of the last."""
    lines = []
    for number in range(count):
        line, after = write_line(after, entry(number))
        lines.append(line)
    return lines, after


@pytest.fixture
def log(tmp_path: Path) -> EvidenceFiles:
    """A log of three entries."""
    made = EvidenceFiles(tmp_path / "evidence.jsonl")
    made.append([entry(number) for number in range(3)])
    return made


def appended(log: EvidenceFiles) -> tuple[list[dict[str, str | int]], int]:
    """The damage that is recorded with one more entry, and the number of this entry."""
    log.append([LAST])
    read = [read_line(line) for line in log.path.read_bytes().splitlines(keepends=True)]
    *_, last = (each for each in read if each is not None)
    head = log.head()
    assert (last.what, head) == ("excluded", LogHead(last.anchor, log.path.stat().st_size))
    damage = [dict(each.facts) for each in read if each is not None and each.what == "damage"]
    assert all(each.moment == LAST.moment for each in read if each is not None and each.what == "damage")
    return damage, last.number


def lines_of(log: EvidenceFiles) -> list[bytes]:
    return log.path.read_bytes().splitlines(keepends=True)


FURTHER, _ = chained(2, chained(3)[1])
DAMAGES: dict[str, tuple[Callable[[list[bytes]], bytes], list[dict[str, str | int]], int]] = {
    "none": (b"".join, [], 4),
    "further entries": (lambda lines: b"".join([*lines, *FURTHER]), [], 6),
    "half a line": (lambda lines: b"".join([*lines, b'{"num']), [{"kind": "torn", "bytes": 5}], 5),
    "a further entry and half a line": (
        lambda lines: b"".join([*lines, FURTHER[0], b"{"]),
        [{"kind": "torn", "bytes": 1}],
        6,
    ),
    "a further entry without its end": (
        lambda lines: b"".join([*lines, FURTHER[0][:-1]]),
        [{"kind": "torn", "bytes": len(FURTHER[0]) - 1}],
        5,
    ),
    "a strange line": (lambda lines: b"".join([*lines, b"strange\n"]), [{"kind": "strange"}], 5),
    "an entry that follows another": (
        lambda lines: b"".join([*lines, FURTHER[1]]),
        [{"kind": "strange"}],
        7,
    ),
    "an entry of the right number": (
        lambda lines: b"".join([*lines, chained(4)[0][3][:-1] + b" \n"]),
        [{"kind": "strange"}],
        5,
    ),
    "a strange line, then an entry": (
        lambda lines: b"".join([*lines, b"strange\n", FURTHER[0]]),
        [{"kind": "strange"}],
        6,
    ),
    "the last is missing": (lambda lines: b"".join(lines[:-1]), [{"kind": "end", "number": 3}], 5),
    "the last is another one": (
        lambda lines: b"".join([*lines[:-1], lines[-1][:-4] + b'x"}\n']),
        [{"kind": "end", "number": 3}],
        5,
    ),
    "all is missing": (lambda _: b"", [{"kind": "end", "number": 3}], 5),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_each_kind_of_damage_at_the_end_is_recorded(log: EvidenceFiles, how: str) -> None:
    damage, kinds, number = DAMAGES[how]
    log.path.write_bytes(damage(lines_of(log)))
    assert appended(log) == (kinds, number)
    assert all(line.endswith(b"\n") for line in lines_of(log))


@pytest.mark.parametrize("head", [None, b"", b"x", b"long"])
def test_a_log_without_its_head_is_damaged_and_one_without_both_is_new(
    log: EvidenceFiles, head: bytes | None
) -> None:
    whole, lines = log.head_path.read_bytes(), lines_of(log)
    given = {None: None, b"": b"", b"x": b"x" + whole[1:], b"long": whole + b"\n"}[head]
    for left, damage in ((lines, True), ([], bool(given))):
        log.path.write_bytes(b"".join(left))
        if given is None:
            log.head_path.unlink()
        else:
            log.head_path.write_bytes(given)
        assert (log.head() is None) == damage
        assert list(log.lines()) == left
        number = len(left) + 1 + damage
        assert appended(log) == ([{"kind": "head"}] if damage else [], number)
        log.head_path.write_bytes(whole)


def test_half_a_line_is_not_read_and_half_a_line_that_the_head_knows_by_all(log: EvidenceFiles) -> None:
    lines = lines_of(log)
    log.path.write_bytes(b"".join(lines) + b"half")
    assert list(log.lines()) == lines
    assert log.verify().fault is None
    log.path.write_bytes(b"".join(lines)[:-1])
    assert list(log.lines()) == [*lines[:-1], lines[-1][:-1]]
    assert str(log.verify().fault) == "line 3 is not as it was written"
    log.head_path.unlink()
    log.path.write_bytes(b"h")
    assert (list(log.lines()), log.verify().entries, log.head()) == ([], 0, None)
    log.path.unlink()
    assert (list(log.lines()), log.verify().fault, log.head()) == ([], None, LogHead(CHAIN_START, 0))
    assert log.version() is None


def test_a_check_is_called_while_no_other_writes_and_what_it_raises_leaves_the_log(
    log: EvidenceFiles,
) -> None:
    before, seen = lines_of(log), []

    def check() -> None:
        handle = os.open(log.head_path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            seen.append(lines_of(log))
        finally:
            os.close(handle)
        if len(seen) == 1:
            raise LookupError

    with pytest.raises(LookupError):
        log.append([LAST], check)
    assert lines_of(log) == before
    log.append([LAST], check)
    assert seen == [before, before]
    assert len(lines_of(log)) == 4


def test_a_write_that_fails_in_the_middle_leaves_the_log_as_it_was(
    log: EvidenceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write, left = log.path.read_bytes(), os.pwrite, 50

    def writes_half(handle: int, data: memoryview, at: int) -> int:
        nonlocal left
        written = write(handle, data[:left], at)
        left -= written
        if not written:
            raise OSError(errno.ENOSPC, "no space")
        return written

    monkeypatch.setattr(os, "pwrite", writes_half)
    with pytest.raises(OSError, match="no space"):
        log.append([LAST])
    assert log.path.read_bytes() == before
    left = 10_000
    assert appended(log) == ([], 4)


def test_a_write_in_pieces_is_whole(log: EvidenceFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: write(handle, data[:160], at))
    log.append([entry(number) for number in range(3)])
    monkeypatch.undo()
    assert (log.verify().entries, log.verify().fault) == (6, None)


def test_a_head_that_cannot_be_written_is_brought_up_to_date_by_the_next_writer(
    log: EvidenceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = log.head()

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(files, "overwrite", fails)
        log.append([LAST])
    assert (log.head(), len(lines_of(log))) == (head, 4)
    assert appended(log) == ([], 5)


def test_the_head_of_a_log_whose_first_entry_failed_is_there_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, flush = EvidenceFiles(tmp_path / "evidence.jsonl"), os.fsync

    def fails(handle: int) -> None:
        if os.fstat(handle).st_ino == log.path.stat().st_ino:
            raise OSError(errno.EIO, "no")
        flush(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="no"):
            log.append([LAST])
    assert log.head_path.read_bytes() == LogHead(CHAIN_START, 0).line()
    assert (log.path.read_bytes(), appended(log)) == (b"", ([], 1))


def test_a_head_that_is_replaced_again_and_again_is_busy(
    log: EvidenceFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lines_of(log)
    with monkeypatch.context() as patch:
        patch.setattr(os.path, "samestat", lambda *_: False)
        with pytest.raises(BlockingIOError) as busy:
            log.append([LAST])
    assert (busy.value.errno, busy.value.filename) == (errno.EAGAIN, str(log.head_path))
    assert lines_of(log) == before


def test_a_log_is_filled_with_the_lines_of_another_as_they_are_and_is_on_the_disk(tmp_path: Path) -> None:
    lines, last = chained(3)
    given = [lines[0], b"strange\n", *lines[1:], b"strange too\n"]
    (tmp_path / "new").mkdir()
    log = EvidenceFiles(tmp_path / "new/evidence.jsonl")
    with flushes() as flushed:
        log.fill(given)
    assert flushed.lacking(tmp_path / "new") == []
    assert lines_of(log) == given
    assert log.head_path.read_bytes() == LogHead(last, sum(map(len, given))).line()
    empty = EvidenceFiles(tmp_path / "empty.jsonl")
    empty.fill([])
    assert (empty.head(), empty.path.read_bytes()) == (LogHead(CHAIN_START, 0), b"")


def test_the_end_of_a_log_is_read_from_both_sides(log: EvidenceFiles) -> None:
    lines = lines_of(log)
    size = sum(map(len, lines))
    begins = [0, len(lines[0]), len(lines[0]) + len(lines[1])]
    assert list(log.tail(size)) == list(log.tail(size + 1)) == lines
    assert list(log.tail(size - 1)) == [lines[0][1:], *lines[1:]]
    assert list(log.tail(len(lines[2]))) == lines[2:]
    every = list(zip(begins, lines, strict=True))[::-1]
    assert list(log.backwards(0, 0, size)) == every
    assert list(log.backwards(0, begins[2], size)) == every[1:]
    assert list(log.backwards(2, 0, size)) == every[2:]
    assert list(log.backwards(0, size + 5, size)) == every
    with log.path.open("ab") as file:
        file.write(b"half")
    assert list(log.backwards(0, 0, size)) == every[:2]
    assert list(log.backwards(0, size + 2, size)) == [(size, b"ha"), *every[:2]]
    first = log.version()
    log.append([LAST])
    assert log.version() != first
