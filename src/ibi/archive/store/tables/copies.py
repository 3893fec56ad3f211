"""The sources of copies and of harvested records.

Table `copied`: where the original of each copy is, and since when the copy is not known to equal it (ARC-13: copies
follow originals). Column `due`: whether the copy has to be compared soon, because its Archive has told that the
original changed:

    (empty)                   no
    43.e2a4490c61bb07d5       yes: it was named by the reply up to this position
    ~43.e2a4490c61bb07d5      yes: anything may have changed up to this position
    ~                         yes: this source is new, and a change may have been told before it was recorded

Table `followed`: the position up to which the changes of such an Archive are known here. It is written in one
transaction with the marks, and a mark is removed only if it is still the one from before the comparison. So a process
may end at any moment: what was told is compared all the same.

Table `harvested`: how far the list of records of each repository has been read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.store.tables.rows import record_values, upsert, write_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.store.tables.catalogue import SqlRunner
    from ibi.errors import IbiError


_COLUMNS = "archive, service, url, original, tag, compared, checked, since, problem, private"
# Of another Archive, the changes before this row were not recorded for this copy.
_KEEP = upsert("copied", "item", f"item, {_COLUMNS}") + (
    ", due = CASE WHEN copied.archive = excluded.archive AND copied.service = excluded.service"
    " THEN copied.due ELSE '~' END"
)
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


_ARCHIVES: Final = (
    "SELECT archive, service, max(CASE WHEN private THEN 1 ELSE 0 END) FROM copied"
    " WHERE archive != '' AND service != '' GROUP BY archive, service"
)
_POSITION: Final = "SELECT position FROM followed WHERE archive = :archive AND service = :service"
_MOVE: Final = (
    "INSERT INTO followed (archive, service, position) VALUES (:archive, :service, :position)"
    " ON CONFLICT (archive, service) DO UPDATE SET position = excluded.position"
)
_DUE_BY_NAME: Final = (
    "UPDATE copied SET due = :due WHERE item = (SELECT item FROM name WHERE name = :name)"
    " AND archive = :archive AND service = :service"
)
_ALL_DUE: Final = "UPDATE copied SET due = :due WHERE archive = :archive AND service = :service"
_NAMED_FIRST: Final = (
    "SELECT name.name, copied.item, copied.due FROM copied JOIN item ON item.number = copied.item"
    " JOIN name ON name.item = copied.item AND name.main"
    " WHERE copied.archive = :archive AND copied.service = :service AND copied.due != '' AND item.state = 'Copy'"
    " ORDER BY substr(copied.due, 1, 1) = '~', copied.checked LIMIT :most"
)
_UNMARK: Final = "UPDATE copied SET due = '' WHERE item = :item AND due = :due"


class CopiedArchive(NamedTuple):
    """An Archive from which copies come. `private`: whether it may be at an address of a private network."""

    archive: str
    """Its root URL."""
    service: str
    """The IBI of its service."""
    private: bool


class DueCopy(NamedTuple):
    """A copy that has to be compared with its original."""

    name: str
    item: int
    due: str

    @property
    def named(self) -> bool:
        """Whether its Archive has told that this very item changed."""
        return not self.due.startswith("~")


def copied_archives(run: SqlRunner) -> list[CopiedArchive]:
    """Return the Archives from which copies come, as far as the IBIs of their services are known."""
    return [CopiedArchive(row[0], row[1], bool(row[2])) for row in run(_ARCHIVES).fetchall()]


def position_of(run: SqlRunner, archive: str, service: str) -> str:
    """Return the position up to which the changes of an Archive are known here; "" at first."""
    row = run(_POSITION, archive=archive, service=service).fetchone()
    return row[0] if row else ""


def note_changes(run: SqlRunner, archive: str, service: str, names: Sequence[str] | None, to: str) -> None:
    """Mark the copies that an Archive has named (None: all copies from it), and note the position that it told."""
    place = {"archive": archive, "service": service}
    if names is None:
        run(_ALL_DUE, due=f"~{to}", **place)
    else:
        run.many(_DUE_BY_NAME, [(to, name, archive, service) for name in names])
    run(_MOVE, position=to, **place)


def copies_to_compare(run: SqlRunner, archive: str, service: str, most: int) -> list[DueCopy]:
    """Return copies to be compared: those that were named first, and of these the one compared longest ago."""
    rows = run(_NAMED_FIRST, archive=archive, service=service, most=most).fetchall()
    return [DueCopy(*row) for row in rows]


def unmark(run: SqlRunner, copy: DueCopy) -> None:
    """Note that a copy was compared, unless its Archive has told of a change since."""
    run(_UNMARK, item=copy.item, due=copy.due)


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
