"""Entries and heads of the log are read as they were written; with one byte changed they are none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ibi.resolver.evidence.chain import Anchor, LogHead, NewEntry, read_line, write_line

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
hashes = st.from_regex(r"[0-9a-f]{64}", fullmatch=True)
anchors = st.builds(Anchor, st.integers(0, 2**53), hashes)
entries = st.builds(
    NewEntry, texts, texts, st.dictionaries(texts, texts | st.integers(-(2**53), 2**53), max_size=4)
)


def with_another_byte(line: bytes, at: int, byte: int) -> bytes:
    at %= len(line)
    return line[:at] + bytes([byte]) + line[at + 1 :]


@given(last=anchors, entry=entries, at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_an_entry_is_read_as_it_was_written(last: Anchor, entry: NewEntry, at: int, byte: int) -> None:
    line, anchor = write_line(last, entry)
    assert line.count(b"\n") == 1
    read = read_line(line)
    assert read is not None
    assert (read.moment, read.what, read.facts, read.previous) == (*entry, last.hash)
    assert (read.anchor, read.number) == (anchor, last.number + 1)
    changed = with_another_byte(line, at, byte)
    assert changed == line or read_line(changed) is None


@given(
    head=st.builds(LogHead, anchors.filter(lambda anchor: anchor.number > 0), st.integers(0, 2**40)),
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
)
def test_a_head_is_read_as_it_was_written(head: LogHead, at: int, byte: int) -> None:
    line = head.line()
    assert LogHead.read(line) == head
    assert Anchor.parse(str(head.anchor)) == head.anchor
    changed = with_another_byte(line, at, byte)
    assert changed == line or LogHead.read(changed) is None
