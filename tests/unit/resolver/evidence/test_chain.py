"""A log of evidence is checked line by line: each change, loss and exchange has its fault, in its line."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from ibi.errors import ParseError
from ibi.resolver.evidence.chain import (
    CHAIN_START,
    HEAD_WIDTH,
    Anchor,
    LogHead,
    NewEntry,
    read_line,
    verify_lines,
    write_line,
)


def log(*whats: str) -> tuple[list[bytes], list[Anchor]]:
    """The lines of these entries, and the anchors from the start on."""
    lines, anchors = list[bytes](), [CHAIN_START]
    for what in whats:
        line, anchor = write_line(
            anchors[-1], NewEntry("2026-01-02T03:04:05.006Z", what, {"ibi": "x", "n": 1})
        )
        lines.append(line)
        anchors.append(anchor)
    return lines, anchors


LINES, ANCHORS = log("included", "damage", "excluded")
SIZE = len(b"".join(LINES))
HEAD = LogHead(ANCHORS[3], SIZE)


def test_a_line_is_written_as_the_format_says_and_read_back() -> None:
    body = (
        '{"number":1,"moment":"2026-01-02T03:04:05.006Z","what":"included","facts":{"ibi":"x","n":1},'
        f'"previous":"{"0" * 64}"'
    )
    digest = sha256(body.encode()).hexdigest()
    assert LINES[0] == f'{body},"hash":"{digest}"}}\n'.encode()
    assert ANCHORS[1] == Anchor(1, digest)
    entry = read_line(LINES[0])
    assert entry is not None
    assert (entry.number, entry.moment, entry.what) == (1, "2026-01-02T03:04:05.006Z", "included")
    assert (entry.facts, entry.anchor) == ({"ibi": "x", "n": 1}, ANCHORS[1])


def chained(**changed: object) -> bytes:
    """A line with a hash that fits, whatever its text."""
    content = {"number": 1, "moment": "m", "what": "w", "facts": {}, "previous": "0" * 64} | changed
    body = json.dumps(content)[:-1].encode()
    return body + b',"hash":"' + sha256(body).hexdigest().encode() + b'"}\n'


@pytest.mark.parametrize(
    "changed",
    [
        {"number": "1"}, {"number": True}, {"number": 1.0}, {"moment": 1}, {"what": None}, {"previous": 0},
        {"facts": []}, {"facts": {"a": None}}, {"facts": {"a": True}}, {"facts": {"a": 1.5}}, {"further": 1},
    ],
)  # fmt: skip
def test_a_line_whose_hash_fits_is_no_entry_if_a_value_is_of_another_type(changed: dict[str, object]) -> None:
    assert read_line(chained()) is not None
    assert read_line(chained(**changed)) is None


@pytest.mark.parametrize(
    "line", [LINES[0][:-1], LINES[0] + b"\n", LINES[0].replace(b"x", b"y"), b"", b"\n", b"{}\n"]
)
def test_a_line_that_was_changed_is_no_entry(line: bytes) -> None:
    assert read_line(line) is None


FOREIGN = Anchor(2, "a" * 64)


@pytest.mark.parametrize(
    ("lines", "head", "anchor", "entries", "damage", "fault"),
    [
        (LINES, HEAD, None, 3, 1, None),
        (LINES, HEAD, ANCHORS[1], 3, 1, None),
        (LINES, HEAD, ANCHORS[3], 3, 1, None),
        ([], LogHead(CHAIN_START, 0), None, 0, 0, None),
        ([LINES[0], b"x\n"], HEAD, None, 1, 0, "line 2 is not as it was written"),
        ([b"x\n"], HEAD, None, 0, 0, "line 1 is not as it was written"),
        (
            [LINES[0], LINES[2]], HEAD, None, 1, 0,
            "line 2: entry 3 comes after entry 1: some are missing, or in another order",
        ),
        (
            [LINES[0], write_line(Anchor(1, "b" * 64), NewEntry("m", "w", {}))[0]], HEAD, None, 1, 0,
            "line 2: entry 2 was written after another entry than the one before it",
        ),
        (LINES, HEAD._replace(size=SIZE + 1), None, 3, 1, "entry 3 is not the one that evidence.head tells of"),
        (
            LINES, LogHead(ANCHORS[2], len(LINES[0])), None, 2, 1,
            "entry 2 is not the one that evidence.head tells of",
        ),
        (LINES, HEAD, FOREIGN, 2, 1, "entry 2 is not the one that the anchor names"),
        (
            LINES, None, None, 3, 1,
            "evidence.head is missing or damaged: it is not certain that the last entries are there",
        ),
        (
            LINES[:2], HEAD, None, 2, 1,
            "the last entry is number 2, but number 3 was written: the last ones are missing",
        ),
        (
            LINES, HEAD, Anchor(4, "c" * 64), 3, 1,
            "the last entry is number 3, but number 4 was written: the last ones are missing",
        ),
    ],
)  # fmt: skip
def test_each_fault_of_a_log_is_found_where_it_is(
    lines: list[bytes],
    head: LogHead | None,
    anchor: Anchor | None,
    entries: int,
    damage: int,
    fault: str | None,
) -> None:
    found = verify_lines(lines, head, anchor)
    assert (found.entries, found.damage) == (entries, damage)
    assert found.last == ANCHORS[entries]
    assert (None if found.fault is None else str(found.fault)) == fault


def test_a_head_is_one_line_of_its_width_with_a_checksum() -> None:
    line = HEAD.line()
    assert (len(line), line[-1:], line.count(b"\n")) == (HEAD_WIDTH, b"\n", 1)
    assert line.startswith(
        b'{"number":3,"hash":"' + ANCHORS[3].hash.encode() + b'","size":%d,"check":' % SIZE
    )
    assert LogHead.read(line) == HEAD
    longest = LogHead(Anchor(10**18, "f" * 64), 10**15)
    assert LogHead.read(longest.line()) == longest
    for changed in (
        line[:-1],
        line.replace(b":3,", b":4,"),
        line.replace(b'"check":', b'"check": '),
        b"{}\n",
        b"\n",
    ):
        assert LogHead.read(changed) is None
    for anchor in (Anchor(0, "a" * 64), Anchor(1, "A" * 64), Anchor(1, "a")):
        assert LogHead.read(LogHead(anchor, 1).line()) is None


def test_an_anchor_is_a_number_and_a_hash() -> None:
    text = f"12:{'ab' * 32}"
    assert Anchor.parse(text) == Anchor(12, "ab" * 32)
    assert str(Anchor.parse(text)) == text
    assert Anchor.parse(str(CHAIN_START)) == CHAIN_START
    for wrong in (
        "",
        "12",
        f"012:{'a' * 64}",
        f"0:{'a' * 64}",
        f"1:{'A' * 64}",
        f"1:{'a' * 63}",
        f" 1:{'a' * 64}",
    ):
        with pytest.raises(ParseError, match="an anchor is a number, a colon and 64 hexadecimal digits"):
            Anchor.parse(wrong)
