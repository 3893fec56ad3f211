"""Fixity: when each stored file was last read, when it was last good, and what is wrong with it (T35: faults of disks).

A row is about one file with one digest; it does not apply to another file that has replaced it since.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.store.tables.rows import LISTED_FILE, ListedFile, listed_file, upsert

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.item import StoredFile
    from ibi.archive.store.tables.catalogue import SqlRunner

_NEXT: Final = (
    f"SELECT {LISTED_FILE} FROM file JOIN item ON item.number = file.item"  # noqa: S608 - made of our own column names
    " WHERE (file.item, file.name) > (:item, :name) ORDER BY file.item, file.name LIMIT :most"
)
_TOTAL: Final = "SELECT count(*), coalesce(sum(size), 0) FROM file"
# `good` is kept when a fault is found in the same file, and cleared when the digest is that of another file.
_FOUND: Final = (
    "INSERT INTO fixity (item, name, sha256, read, good, fault)"
    " VALUES (:item, :name, :sha256, :read, :good, :fault) ON CONFLICT (item, name) DO UPDATE SET"
    " good = coalesce(excluded.good, CASE WHEN fixity.sha256 = excluded.sha256 THEN fixity.good END),"
    " sha256 = excluded.sha256, read = excluded.read, fault = excluded.fault"
)
_FAULTS: Final = (
    f"SELECT {LISTED_FILE}, fixity.fault, fixity.read, fixity.good"  # noqa: S608 - made of our own column names
    " FROM fixity JOIN file USING (item, name, sha256) JOIN item ON item.number = file.item"
    " WHERE fixity.fault IS NOT NULL ORDER BY file.item, file.name LIMIT :most"
)
_GOOD: Final = "SELECT good, fault FROM fixity WHERE item = :item AND name = :name AND sha256 = :sha256"
_FORGET: Final = (
    "DELETE FROM fixity WHERE NOT EXISTS"
    " (SELECT 1 FROM file WHERE file.item = fixity.item AND file.name = fixity.name)"
)
_PLACE: Final = "SELECT begun, item, name, done, ended FROM audit WHERE walk = :walk"
_KEEP_PLACE: Final = upsert("audit", "walk", "walk, begun, item, name, done, ended")


class FileFault(StrEnum):
    """The faults of a stored file."""

    MISSING = "missing"
    SIZE = "size"
    DIGEST = "digest"
    UNREADABLE = "unreadable"


class AuditResult(NamedTuple):
    """The result of an audit for one file: `fault` is None for a good file; `moment`: when it was read."""

    listed: ListedFile
    fault: FileFault | None
    moment: str


class KnownFault(NamedTuple):
    """A known fault: `read` is when it was last found, `good` when the file was last good ("" if never)."""

    listed: ListedFile
    fault: FileFault
    read: str
    good: str


class AuditPosition(NamedTuple):
    """How far an audit has come.

    `begun`: POSIX seconds; `item`, `name`: those of the last file that was read; `done`: bytes read so far.
    """

    begun: float
    item: int = 0
    name: str = ""
    done: int = 0
    ended: bool = False


def next_files(run: SqlRunner, place: AuditPosition, most: int) -> list[ListedFile]:
    """Return at most `most` files after a position, in the order of audits; [] at the end."""
    return [listed_file(row) for row in run(_NEXT, item=place.item, name=place.name, most=most).fetchall()]


def total(run: SqlRunner) -> tuple[int, int]:
    """Return the number of listed files, and of their bytes."""
    files, size = run(_TOTAL).fetchone()
    return int(files), int(size)


def record_results(run: SqlRunner, found: Iterable[AuditResult]) -> None:
    """Save results of an audit."""
    for (item, _, file), fault, moment in found:
        good = None if fault else moment
        run(_FOUND, item=item, name=file.name, sha256=file.sha256, read=moment, good=good, fault=fault)


def fault_of(run: SqlRunner, item: int, file: StoredFile) -> FileFault | None:
    """Return the known fault of a listed file; None if there is none, or the file has been replaced since."""
    row = run(_GOOD, item=item, name=file.name, sha256=file.sha256).fetchone()
    return FileFault(row[1]) if row and row[1] else None


def last_good(run: SqlRunner, item: int, file: StoredFile) -> str:
    """Return when an audit last found a listed file good; "" if never."""
    row = run(_GOOD, item=item, name=file.name, sha256=file.sha256).fetchone()
    return (row[0] or "") if row else ""


def faults(run: SqlRunner, most: int = 1000) -> list[KnownFault]:
    """Return at most `most` known faults of listed files."""
    return [
        KnownFault(listed_file(listed), FileFault(fault), read, good or "")
        for *listed, fault, read, good in run(_FAULTS, most=most).fetchall()
    ]


def forget_unlisted(run: SqlRunner) -> None:
    """Delete the rows of files that are no longer listed."""
    run(_FORGET)


def position_of(run: SqlRunner, audit: str) -> AuditPosition | None:
    """Return the position of the audit of this name; None if there was none."""
    row = run(_PLACE, walk=audit).fetchone()
    return AuditPosition(row[0], row[1], row[2], row[3], bool(row[4])) if row else None


def save_position(run: SqlRunner, audit: str, place: AuditPosition) -> None:
    """Save the position of the audit of this name."""
    run(_KEEP_PLACE, walk=audit, **place._asdict())
