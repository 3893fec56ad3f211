"""The sources of copies and of harvested records.

Table `copied`: where the original of each copy is, and since when the copy is not known to equal it (ARC-13).
Table `harvested`: how far the list of records of each repository has been read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibi.archive.store.tables.rows import record_values, upsert, write_record

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.errors import IbiError


_COLUMNS = "archive, service, url, original, tag, compared, checked, since, problem, private"
_KEEP = upsert("copied", "item", f"item, {_COLUMNS}")
_SOURCE = f"SELECT {_COLUMNS} FROM copied WHERE item = :item"  # noqa: S608 - made of our own column names
_FORGET = "DELETE FROM copied WHERE item = :item"
_DUE = (
    "SELECT name.name FROM copied JOIN item ON item.number = copied.item"
    " JOIN name ON name.item = copied.item AND name.main"
    " WHERE item.state = 'Copy' AND copied.checked < :before ORDER BY copied.checked LIMIT :most"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySource:
    """The source of a copy, and what is known of its original. Moments: "2026-11-21T10:00:00Z"."""

    archive: str
    """The root URL of the Archive of the original; "" if only the URL of its file is known."""
    service: str = ""
    """The IBI of that Archive's service, "" if the Archive did not state it."""
    url: str = ""
    """The URL of the copied file, if its server describes no items; "" for an Archive, which does."""
    original: str = ""
    """The timestamp of the original when it was last fetched, "" if it was not stated."""
    tag: str = ""
    """The ETag of the original when it was last fetched."""
    compared: bool = True
    """Whether the bytes could be compared with digests that the Archive of the original gave."""
    checked: str = ""
    """When a comparison of the copy with its original was last tried."""
    since: str = ""
    """Since when the copy is not known to equal its original; "" while it equals it."""
    problem: IbiError | None = None
    """Why the copy is not known to equal its original."""
    private: bool = False
    """Whether an administrator allows the original to be at an address of a private network."""

    @property
    def place(self) -> str:
        """The URL of the Archive of the original, else of its file."""
        return self.archive or self.url

    def facts(self) -> dict[str, Any]:
        """Return it as JSON for programs: archive, service, url, timestamp, checked, equal, since, problem."""
        value = {
            "archive": self.archive,
            "service": self.service,
            "url": self.url,
            "timestamp": self.original,
            "checked": self.checked,
            "equal": not self.since,
            "since": self.since,
            "compared": self.compared,
            "problem": str(self.problem) if self.problem else "",
        }
        return {name: each for name, each in value.items() if each != ""}


def save_source(run: SqlRunner, item: int, source: CopySource) -> None:
    """Save the source of the copy of this number, in place of the one saved before."""
    run(_KEEP, item=item, **write_record(source))


def source_of(run: SqlRunner, item: int) -> CopySource | None:
    """Return the source of the copy of this number; None if it was never recorded."""
    row = run(_SOURCE, item=item).fetchone()
    if row is None:
        return None
    values = record_values(_COLUMNS, row)
    return CopySource(**values | {"compared": bool(values["compared"]), "private": bool(values["private"])})


def original_of(run: SqlRunner, item: int) -> str:
    """Return the URL of the Archive (or file) of the original of a copy; "" if it was never recorded."""
    source = source_of(run, item)
    return source.place if source else ""


def forget_source(run: SqlRunner, item: int) -> None:
    """Delete the source of an item that is no copy any more."""
    run(_FORGET, item=item)


def due_copies(run: SqlRunner, before: str, most: int) -> list[str]:
    """Return the canonical names of copies whose last comparison was before this moment, the oldest first."""
    return [row[0] for row in run(_DUE, before=before, most=most).fetchall()]


_HARVEST_COLUMNS = "repository, part, format, token, begun, newest, since"
_KEEP_HARVEST = upsert("harvested", "repository, part, format", _HARVEST_COLUMNS)
_KNOWN = (
    f"SELECT {_HARVEST_COLUMNS} FROM harvested"  # noqa: S608 - made of our own column names
    " WHERE repository = :repository AND part = :part AND format = :format"
)


@dataclass(frozen=True, slots=True)
class HarvestProgress:
    """How far one list of records has been read. Moments are spelled as in the repository."""

    repository: str
    """The base URL."""
    part: str = ""
    """The set, "" for all records."""
    format: str = "oai_dc"
    token: str = ""
    """The resumption token of an interrupted list, "" if no list was interrupted."""
    begun: str = ""
    """When the interrupted list began, by the repository's clock."""
    newest: str = ""
    """The newest datestamp in the interrupted list so far."""
    since: str = ""
    """The datestamp from which the next list is requested, "" for all records."""


def save_harvest(run: SqlRunner, harvest: HarvestProgress) -> None:
    """Save the progress of a harvest, in place of the one saved before."""
    run(_KEEP_HARVEST, **write_record(harvest))


def harvest_progress(run: SqlRunner, repository: str, part: str, metadata_format: str) -> HarvestProgress:
    """Return the progress of a harvest; a new one starts at the beginning."""
    row = run(_KNOWN, repository=repository, part=part, format=metadata_format).fetchone()
    return HarvestProgress(*row) if row else HarvestProgress(repository, part, metadata_format)
