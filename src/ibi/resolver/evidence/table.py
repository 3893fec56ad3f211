"""The evidence in a shared store: a table of the same lines as in the file, and one row that is the head.

The nodes write one at a time, each while it holds the row of the head; so their entries are one chain. What is found
wrong at the end of the log is recorded as in `files`: `end`, `strange` or `head`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.resolver.evidence.chain import (
    CHAIN_START,
    Anchor,
    LogHead,
    LogVerification,
    NewEntry,
    read_line,
    verify_lines,
    write_line,
)
from ibi.runtime.database import transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from sqlalchemy import Connection

    from ibi.runtime.shared.store import SharedStore

_AT_ONCE: Final = 2_000  # lines that are read from the store at once
_MAKE_HEAD: Final = (
    "INSERT INTO evidence_head (one, number, hash, size) VALUES (1, 0, %(hash)s, 0)"
    " ON CONFLICT (one) DO NOTHING"
)
_LOCK_HEAD: Final = "SELECT number, hash, size FROM evidence_head WHERE one = 1 FOR UPDATE"
_HEAD: Final = "SELECT number, hash, size FROM evidence_head WHERE one = 1"
_SET_HEAD: Final = (
    "UPDATE evidence_head SET number = %(number)s, hash = %(hash)s, size = %(size)s WHERE one = 1"
)
_LAST: Final = "SELECT number, line FROM evidence ORDER BY number DESC LIMIT 1"
_ADD: Final = "INSERT INTO evidence (number, line) VALUES (%(number)s, %(line)s)"
_FORWARDS: Final = "SELECT number, line FROM evidence WHERE number > %(after)s ORDER BY number LIMIT %(most)s"
_BACKWARDS: Final = (
    "SELECT number, line FROM evidence WHERE number < %(before)s ORDER BY number DESC LIMIT %(most)s"
)
_SIZE: Final = "SELECT coalesce(sum(length(line)), 0) FROM evidence"
_CLEAR: Final = ("DELETE FROM evidence", "DELETE FROM evidence_head")
_BEYOND: Final = 1 << 62


class EvidenceTable:
    """The log in a store; `path` is the name by which messages call it. Its methods raise SetupError."""

    def __init__(self, path: Path, store: SharedStore) -> None:
        self.path = path
        self.head_path = path.with_suffix(".head")
        self._store = store

    def append(self, new: Sequence[NewEntry], check: Callable[[], None] | None = None) -> None:
        """Append entries, one or more, all or none; they are durable when this returns.

        `check` is called while no other process can write; what it raises leaves the log as it was.
        """
        self._store.check_reached()
        with transaction(self._store.engine) as run:
            run.exec_driver_sql(_MAKE_HEAD, {"hash": CHAIN_START.hash})
            head = _head(run, _LOCK_HEAD)
            if check is not None:
                check()
            head, damage = _recovered(run, head, new[0].moment)
            rows, last, size = [], head.anchor, head.size
            for each in (*damage, *new):
                line, last = write_line(last, each)
                rows.append({"number": last.number, "line": line.decode("ascii")})
                size += len(line)
            run.exec_driver_sql(_ADD, rows)
            run.exec_driver_sql(_SET_HEAD, {"number": last.number, "hash": last.hash, "size": size})

    def fill(self, lines: Iterable[bytes]) -> None:
        """Replace all by the lines of another log, as they are: all or none."""
        last, size = CHAIN_START, 0
        with transaction(self._store.engine) as run:
            for statement in _CLEAR:
                run.exec_driver_sql(statement)
            rows: list[dict[str, object]] = []
            for line in lines:
                entry = read_line(line)
                last = Anchor(last.number + 1, last.hash) if entry is None else entry.anchor
                rows.append({"number": last.number, "line": line.decode("utf-8", "replace")})
                size += len(line)
                if len(rows) == _AT_ONCE:
                    run.exec_driver_sql(_ADD, rows)
                    rows = []
            if rows:
                run.exec_driver_sql(_ADD, rows)
            run.exec_driver_sql(_MAKE_HEAD, {"hash": last.hash})
            run.exec_driver_sql(_SET_HEAD, {"number": last.number, "hash": last.hash, "size": size})

    def head(self) -> LogHead | None:
        """Read the head; None if it is missing and there are entries."""
        self._store.check_reached()
        with transaction(self._store.engine) as run:
            row = run.exec_driver_sql(_HEAD).first()
            if row is not None:
                return LogHead(Anchor(row[0], row[1]), row[2])
            return None if run.exec_driver_sql(_LAST).first() else LogHead(CHAIN_START, 0)

    def lines(self) -> Iterator[bytes]:
        """Read the lines of all entries."""
        after = 0
        while rows := self.after(after):
            yield from (line for _, line in rows)
            after = rows[-1][0]

    def after(self, number: int) -> list[tuple[int, bytes]]:
        """Read some of the entries with numbers above this one, in their order: number and line; [] for none."""
        return self._rows(_FORWARDS, after=number, most=_AT_ONCE)

    def verify(self, anchor: Anchor | None = None) -> LogVerification:
        """Check all entries, a line at a time, and that the entry of `anchor` is among them."""
        head = self.head()  # first: entries that are written meanwhile come after it
        return verify_lines(self.lines(), head, anchor)

    def backwards(self, before: int, at: int, most_bytes: int) -> Iterator[tuple[int, bytes]]:
        """Read the last lines, the latest first, each with its position, in `most_bytes` at most.

        A position is the number of the lines before it. Only lines before the position `at`, or of entries with
        numbers below `before`; 0: all.
        """
        below, left = at + 1 if at else before or _BEYOND, most_bytes
        while rows := self._rows(_BACKWARDS, before=below, most=_AT_ONCE):
            for number, line in rows:
                left -= len(line)
                if left < 0:
                    return
                yield number - 1, line
            below = rows[-1][0]

    def tail(self, most_bytes: int) -> Iterator[bytes]:
        """Read the lines in so many bytes at the end, the earliest first."""
        return reversed([line for _, line in self.backwards(0, 0, most_bytes)])

    def version(self) -> object:
        """Return what differs once the log has grown."""
        return self.head()

    def _rows(self, statement: str, **values: int) -> list[tuple[int, bytes]]:
        self._store.check_reached()
        with transaction(self._store.engine) as run:
            found = run.exec_driver_sql(statement, values).fetchall()
        return [(number, line.encode("utf-8")) for number, line in found]


def _head(run: Connection, statement: str) -> LogHead:
    number, digest, size = run.exec_driver_sql(statement).one()
    return LogHead(Anchor(number, digest), size)


def _recovered(run: Connection, head: LogHead, moment: str) -> tuple[LogHead, list[NewEntry]]:
    """Return the head after which to append, and the damage to record, if the last line is not the head's."""
    last = run.exec_driver_sql(_LAST).first()
    number, entry = (0, None) if last is None else (last[0], read_line(last[1].encode("utf-8")))
    if number == head.anchor.number and (not number or (entry is not None and entry.anchor == head.anchor)):
        return head, []
    # The numbers go on from the head all the same where entries are missing, so that the gap shows for ever.
    facts: dict[str, str | int] = {"kind": "end", "number": head.anchor.number}
    if not head.anchor.number:
        facts = {"kind": "head"}
    elif number > head.anchor.number:
        facts = {"kind": "strange"}
    if number > head.anchor.number:
        anchor = Anchor(number, entry.hash if entry is not None else head.anchor.hash)
        head = LogHead(anchor, run.exec_driver_sql(_SIZE).scalar_one())
    return head, [NewEntry(moment, "damage", facts)]
