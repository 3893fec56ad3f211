"""The ledger of copies: where the original of each copy is, and how far the copy is known to equal it (ARC-13)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ibi.archive.ledgers.problems import read_problem, write_problem

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run
    from ibi.errors import IbiError

_COLUMNS = "archive, service, url, original, tag, compared, checked, since, problem, private"
_KEEP = (
    f"INSERT INTO copied (item, {_COLUMNS}) VALUES (:item, :archive, :service, :url, :original, :tag, :compared,"  # noqa: S608 - made of our own column names
    " :checked, :since, :problem, :private)"
    " ON CONFLICT (item) DO UPDATE SET archive = excluded.archive, service = excluded.service, url = excluded.url,"
    " original = excluded.original, tag = excluded.tag, compared = excluded.compared, checked = excluded.checked,"
    " since = excluded.since, problem = excluded.problem, private = excluded.private"
)
_SOURCE = f"SELECT {_COLUMNS} FROM copied WHERE item = :item"  # noqa: S608 - made of our own column names
_FORGET = "DELETE FROM copied WHERE item = :item"
_DUE = (
    "SELECT name.name FROM copied JOIN item ON item.number = copied.item"
    " JOIN name ON name.item = copied.item AND name.main"
    " WHERE item.state = 'Copy' AND copied.checked < :before ORDER BY copied.checked LIMIT :most"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a copy came from, and what is known of its original. Moments are as in "2026-11-21T10:00:00Z"."""

    archive: str
    """The root URL of the Archive of the original; "" where only a file of it is known."""
    service: str = ""
    """The IBI of its Archive service, "" where it was not told."""
    url: str = ""
    """The URL of the file that was taken from a place that describes no items; "" for an Archive that does."""
    original: str = ""
    """The timestamp of the original as it was last seen, "" where it was not told."""
    tag: str = ""
    """The ETag under which it was last seen."""
    compared: bool = True
    """Whether the bytes could be compared with digests that the Archive of the original gave."""
    checked: str = ""
    """When it was last tried to compare the copy with its original."""
    since: str = ""
    """Since when the copy is not known to equal its original; "" while it is."""
    problem: IbiError | None = None
    """Why not."""
    private: bool = False
    """Whether an administrator has allowed it to be at an address of a private network."""

    @property
    def place(self) -> str:
        """What to name when somebody asks for the original."""
        return self.archive or self.url

    def facts(self) -> dict[str, Any]:
        """What programs are told of it: source, service, original, checked, equal, since, problem."""
        told = {
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
        return {name: value for name, value in told.items() if value != ""}


def keep(run: Run, item: int, source: Source) -> None:
    """Write down where the copy of this number came from, in place of what was known before."""
    run(
        _KEEP,
        item,
        source.archive,
        source.service,
        source.url,
        source.original,
        source.tag,
        source.compared,
        source.checked,
        source.since,
        write_problem(source.problem),
        source.private,
    )


def source_of(run: Run, item: int) -> Source | None:
    """Where the copy of this number came from; None if that was never written down."""
    row = run(_SOURCE, item).fetchone()
    if row is None:
        return None
    archive, service, url, original, tag, compared, checked, since, problem, private = row
    return Source(
        archive=archive,
        service=service,
        url=url,
        original=original,
        tag=tag,
        compared=bool(compared),
        checked=checked,
        since=since,
        problem=read_problem(problem),
        private=bool(private),
    )


def original_of(run: Run, item: int) -> str:
    """The URL of the Archive that holds the original of a copy; "" if it was never written down."""
    source = source_of(run, item)
    return source.place if source else ""


def forget(run: Run, item: int) -> None:
    """The item of this number is no copy any more."""
    run(_FORGET, item)


def due(run: Run, before: str, most: int) -> list[str]:
    """The canonical names of copies that were last looked at before this moment, the longest ago first."""
    return [row[0] for row in run(_DUE, before, most).fetchall()]
