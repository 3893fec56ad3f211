"""The entries of the evidence, one a line; each contains the hash of the entry before it (T42: missing evidence).

    {"number":2,"moment":"2026-11-22T10:00:00.000Z","what":"excluded","facts":{"ibi":"J8LNKB5R7W/3FUQHC5"},
     "previous":"<64 digits>","hash":"<64 digits>"}                                        (in one line, in ASCII)

`hash` is the SHA-256 of the line up to the comma before "hash"; `previous` is the `hash` of the line before,
64 zeros in the first line. To change, remove, add or exchange a line, all later ones must be rewritten, and
the last hash changes. The last number and hash are an anchor: stored elsewhere, it protects all before it.

All functions are pure and work on lines; `files` reads and writes the files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from zlib import crc32

from ibi.errors import IbiError, ParseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


LONGEST_LINE: Final = 64 * 1024
"""Bytes of a line that are read; no entry that we write is nearly so long."""

_ANCHOR = re.compile(r"(0(?=:0{64})|[1-9][0-9]{0,18}):([0-9a-f]{64})")


class Anchor(NamedTuple):
    """An entry's number, counted from 1, and its hash, 64 hexadecimal digits; written "12:ab…"."""

    number: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Anchor:
        """Read an anchor. Raises ParseError."""
        match = _ANCHOR.fullmatch(text)
        if not match:
            problem = "an anchor is a number, a colon and 64 hexadecimal digits in small letters"
            raise ParseError("anchor", text, problem)
        return cls(int(match[1]), match[2])

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


CHAIN_START: Final = Anchor(0, "0" * 64)
"""The anchor before the first entry."""


class NewEntry(NamedTuple):
    """An entry before it is chained: an RFC 3339 moment in UTC, what happened, and its facts by name."""

    moment: str
    what: str
    facts: Mapping[str, str | int]


class Entry(NamedTuple):
    """One entry that was read from the log, with a hash that fits its text."""

    number: int
    moment: str
    what: str
    facts: Mapping[str, str | int]
    previous: str
    hash: str

    @property
    def anchor(self) -> Anchor:
        """Its number and hash."""
        return Anchor(self.number, self.hash)


def write_line(last: Anchor, new: NewEntry) -> tuple[bytes, Anchor]:
    """Chain an entry to the one before it; return its line, with its line end, and its anchor."""
    number = last.number + 1
    entry = {"number": number, **new._asdict(), "facts": dict(new.facts), "previous": last.hash}
    body = json.dumps(entry, separators=(",", ":"))[:-1].encode("ascii")
    digest = sha256(body).hexdigest()
    return body + line_end(digest), Anchor(number, digest)


def line_end(digest: str) -> bytes:
    """Return the end of the line of an entry with this hash."""
    return b',"hash":"%b"}\n' % digest.encode("ascii")


def read_line(line: bytes) -> Entry | None:
    """Read the entry in a line, line end included; None where the line does not follow the rules above."""
    body, _, _ = line.rpartition(b',"hash":"')
    digest = sha256(body).hexdigest()
    if not line.endswith(b"\n") or line[len(body) :] != line_end(digest):
        return None
    try:
        content: Any = json.loads(body + b"}")
        entry = Entry(**content, hash=digest)
    except (ValueError, TypeError, RecursionError):
        return None
    return entry if _is_well_typed(entry) else None


def _is_well_typed(entry: Entry) -> bool:
    # Checked although the hash fits: anyone can compute a hash for any text.
    return (
        type(entry.number) is int
        and all(type(text) is str for text in (entry.moment, entry.what, entry.previous))
        and type(entry.facts) is dict
        and all(type(value) in {str, int} for value in entry.facts.values())
    )


class LogHead(NamedTuple):
    """The content of the second file: the last anchor, and the size of the log up to the end of that line."""

    anchor: Anchor
    size: int

    def line(self) -> bytes:
        """Return its line on disk, always HEAD_WIDTH bytes, with a checksum."""
        # It is shorter than a sector and overwritten in place. A crash leaves the old line, the new one, or,
        # if the disk writes even a sector in part, a checksum that does not fit.
        content = {"number": self.anchor.number, "hash": self.anchor.hash, "size": self.size}
        content["check"] = crc32(json.dumps(content).encode("ascii"))
        return json.dumps(content, separators=(",", ":")).encode("ascii").ljust(HEAD_WIDTH - 1) + b"\n"

    @classmethod
    def read(cls, line: bytes) -> LogHead | None:
        """Read the head in a line; None if it was not written by `line`."""
        try:
            content: Any = json.loads(line)
            head = cls(Anchor(content["number"], content["hash"]), content["size"])
            return head if head.line() == line and Anchor.parse(str(head.anchor)) == head.anchor else None
        except (ValueError, TypeError, KeyError, RecursionError):  # a ParseError is a ValueError
            return None


HEAD_WIDTH: Final = 160
"""Bytes of a head."""


@dataclass(frozen=True, slots=True)
class LogVerification:
    """The result of checking all entries, up to the first fault if there is one.

    `entries`: how many were read. `last`: the anchor of the last one. `damage`: how many of them record
    damage that a writer found. `fault`: the first fault, None if there is none.
    """

    entries: int
    last: Anchor
    damage: int
    fault: IbiError | None


def verify_lines(
    lines: Iterable[bytes], head: LogHead | None, anchor: Anchor | None = None
) -> LogVerification:
    """Check all lines of a log, one at a time.

    Each line must be as it was written, and in its place; the last one must be that of the head; and the
    entry of `anchor` must be among them.
    """
    entries, last, size, damage = 0, CHAIN_START, 0, 0
    for line in lines:
        entry = read_line(line)
        fault = _fault_of(entry, last, entries + 1)
        if entry is None or fault is not None:
            return LogVerification(entries, last, damage, fault)
        entries, last, size = entries + 1, entry.anchor, size + len(line)
        damage += entry.what == "damage"
        fault = _fault_at(LogHead(last, size), head, anchor)
        if fault is not None:
            return LogVerification(entries, last, damage, fault)
    return LogVerification(entries, last, damage, _fault_at_end(last, head, anchor))


def _fault_of(entry: Entry | None, last: Anchor, line: int) -> IbiError | None:
    """Return what is wrong with the entry in this line, which comes after `last`."""
    if entry is None:
        return IbiError("line {line} is not as it was written", line=line)
    if entry.number != last.number + 1:
        problem = (
            "line {line}: entry {number} comes after entry {last}: some are missing, or in another order"
        )
        return IbiError(problem, line=line, number=entry.number, last=last.number)
    if entry.previous != last.hash:
        problem = "line {line}: entry {number} was written after another entry than the one before it"
        return IbiError(problem, line=line, number=entry.number)
    return None


def _fault_at(here: LogHead, head: LogHead | None, anchor: Anchor | None) -> IbiError | None:
    """Return a fault where the head or `anchor` has this number, and another hash or size."""
    if head is not None and head.anchor.number == here.anchor.number and head != here:
        return IbiError(
            "entry {number} is not the one that evidence.head tells of", number=here.anchor.number
        )
    if anchor is not None and anchor.number == here.anchor.number and anchor != here.anchor:
        return IbiError("entry {number} is not the one that the anchor names", number=anchor.number)
    return None


def _fault_at_end(last: Anchor, head: LogHead | None, anchor: Anchor | None) -> IbiError | None:
    """Return a fault where entries are missing at the end."""
    if head is None:
        return IbiError(
            "evidence.head is missing or damaged: it is not certain that the last entries are there"
        )
    known = max(head.anchor.number, anchor.number if anchor is not None else 0)
    if known > last.number:
        problem = "the last entry is number {last}, but number {known} was written: the last ones are missing"
        return IbiError(problem, last=last.number, known=known)
    return None
