"""The ledger of fixity: when each stored file was last read, when it was last good, and what is wrong with it (T35).

A line speaks of one file with one digest: of a file that has been replaced since, it says nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive import rows
from ibi.archive.holding import StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.catalogue import Run
    from ibi.identifier.forms import IBIForms

_NEXT: Final = (
    "SELECT file.item, item.rep, item.ibip, file.name, file.size, file.sha256, file.media_type, file.staged"
    " FROM file JOIN item ON item.number = file.item"
    " WHERE (file.item, file.name) > (:item, :name) ORDER BY file.item, file.name LIMIT :most"
)
_TOTAL: Final = "SELECT count(*), coalesce(sum(size), 0) FROM file"
_FOUND: Final = (
    "INSERT INTO fixity (item, name, sha256, read, good, fault)"
    " VALUES (:item, :name, :sha256, :read, :good, :fault) ON CONFLICT (item, name) DO UPDATE SET"
    " good = coalesce(excluded.good, CASE WHEN sha256 = excluded.sha256 THEN good END),"
    " sha256 = excluded.sha256, read = excluded.read, fault = excluded.fault"
)
_FAULT: Final = (
    "SELECT fault FROM fixity WHERE item = :item AND name = :name AND sha256 = :sha256 AND fault IS NOT NULL"
)
_FAULTS: Final = (
    "SELECT file.item, item.rep, item.ibip, file.name, file.size, file.sha256, file.media_type, file.staged,"
    " fixity.fault, fixity.read, fixity.good"
    " FROM fixity JOIN file USING (item, name, sha256) JOIN item ON item.number = file.item"
    " WHERE fixity.fault IS NOT NULL ORDER BY file.item, file.name LIMIT :most"
)
_GOOD: Final = "SELECT read, good, fault FROM fixity WHERE item = :item AND name = :name AND sha256 = :sha256"
_FORGET: Final = (
    "DELETE FROM fixity WHERE NOT EXISTS"
    " (SELECT 1 FROM file WHERE file.item = fixity.item AND file.name = fixity.name)"
)
_PLACE: Final = "SELECT begun, item, name, done, ended FROM audit WHERE walk = :walk"
_KEEP_PLACE: Final = (
    "INSERT INTO audit (walk, begun, item, name, done, ended) VALUES (:walk, :begun, :item, :name, :done, :ended)"
    " ON CONFLICT (walk) DO UPDATE SET begun = excluded.begun, item = excluded.item, name = excluded.name,"
    " done = excluded.done, ended = excluded.ended"
)


class Fault(StrEnum):
    """What can be wrong with a stored file."""

    MISSING = "missing"
    SIZE = "size"
    DIGEST = "digest"
    UNREADABLE = "unreadable"


class Listed(NamedTuple):
    """A file as the catalogue lists it, with the item it belongs to."""

    item: int
    forms: IBIForms
    file: StoredFile


class Found(NamedTuple):
    """What an audit found: `fault` is None where the file is good. `moment`: when it was read."""

    listed: Listed
    fault: Fault | None
    moment: str


class Known(NamedTuple):
    """A fault that is known: when it was found, and when the file was last good, "" if never."""

    listed: Listed
    fault: Fault
    read: str
    good: str


class Place(NamedTuple):
    """How far an audit has come.

    `begun` in POSIX seconds; `item` and `name` of the last file that was read; `done`: bytes read so far.
    """

    begun: float
    item: int = 0
    name: str = ""
    done: int = 0
    ended: bool = False


def next_files(run: Run, place: Place, most: int) -> list[Listed]:
    """The files that come after a place, in the order of audits; [] at the end."""
    return [_listed(row) for row in run(_NEXT, place.item, place.name, most).fetchall()]


def total(run: Run) -> tuple[int, int]:
    """How many files are listed, and their bytes."""
    files, size = run(_TOTAL).fetchone()
    return int(files), int(size)


def write(run: Run, found: Iterable[Found]) -> None:
    """Write down what an audit found."""
    for (item, _, file), fault, moment in found:
        good = None if fault else moment
        run(_FOUND, item, file.name, file.sha256, moment, good, fault and fault.value)


def fault_of(run: Run, item: int, file: StoredFile) -> Fault | None:
    """What is known to be wrong with a listed file, as long as it has not been replaced or mended."""
    row = run(_FAULT, item, file.name, file.sha256).fetchone()
    return Fault(row[0]) if row else None


def last_good(run: Run, item: int, file: StoredFile) -> str:
    """When a listed file was last found good by an audit, "" if never."""
    row = run(_GOOD, item, file.name, file.sha256).fetchone()
    return (row[1] or "") if row else ""


def faults(run: Run, most: int = 1000) -> list[Known]:
    """The faults that are known now."""
    rows_found = run(_FAULTS, most).fetchall()
    return [Known(_listed(row[:8]), Fault(row[8]), row[9], row[10] or "") for row in rows_found]


def forget_unlisted(run: Run) -> None:
    """Forget the files that are listed no longer."""
    run(_FORGET)


def place_of(run: Run, walk: str) -> Place | None:
    """How far the audit of this name has come, None if there was none."""
    row = run(_PLACE, walk).fetchone()
    return Place(row[0], row[1], row[2], row[3], bool(row[4])) if row else None


def keep_place(run: Run, walk: str, place: Place) -> None:
    """Remember how far the audit of this name has come."""
    run(_KEEP_PLACE, walk, *place)


def _listed(row: Any) -> Listed:
    item, rep, ibip, *file = row
    name, size, sha256, media_type, staged = file
    return Listed(item, rows.forms_of(rep, ibip), StoredFile(name, size, sha256, media_type, staged or ""))
