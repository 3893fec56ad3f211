"""Whether the catalogue is sound: what the database itself finds, and what our own rules between the tables say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.catalogue import Run

_INTEGRITY: Final = "PRAGMA integrity_check(20)"
_DANGLING: Final = "PRAGMA foreign_key_check"
_WRONG_COUNTS: Final = (
    "SELECT item.number FROM item WHERE file_count <>"
    " (SELECT count(*) FROM file WHERE file.item = item.number) LIMIT :most"
)
_NAMELESS: Final = (
    "SELECT item.number FROM item WHERE 1 <>"
    " (SELECT count(*) FROM name WHERE name.item = item.number AND name.main) LIMIT :most"
)
_UNLAWFUL: Final = (
    "SELECT item.number FROM item WHERE state = 'Deleted' AND (url IS NOT NULL OR file_count > 0) LIMIT :most"
)
_MOST: Final = 20


def integrity(run: Run) -> list[str]:
    """What is wrong with the database itself, in its own words; [] if nothing."""
    found = [str(row[0]) for row in run(_INTEGRITY).fetchall()]
    return [] if found == ["ok"] else found


def dangling(run: Run) -> list[tuple[str, str]]:
    """Entries that belong to items that are not there: the tables that they are in, and the tables they lack."""
    return sorted({(str(row[0]), str(row[2])) for row in run(_DANGLING).fetchall()})


def miscounted(run: Run) -> Iterator[tuple[str, int]]:
    """Items that break a rule between tables: which rule ("files", "names", "removed"), and the item's number."""
    for rule, statement in (("files", _WRONG_COUNTS), ("names", _NAMELESS), ("removed", _UNLAWFUL)):
        for row in run(statement, _MOST).fetchall():
            yield rule, int(row[0])
