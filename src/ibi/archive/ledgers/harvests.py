"""The ledger of harvests: how far the records of each other repository have been taken in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.archive.catalogue import Run

_COLUMNS = "repository, part, format, token, begun, newest, since"
_KEEP = (
    f"INSERT INTO harvested ({_COLUMNS}) VALUES (:repository, :part, :format, :token, :begun, :newest, :since)"  # noqa: S608 - made of our own column names
    " ON CONFLICT (repository, part, format) DO UPDATE SET token = excluded.token, begun = excluded.begun,"
    " newest = excluded.newest, since = excluded.since"
)
_KNOWN = (
    f"SELECT {_COLUMNS} FROM harvested WHERE repository = :repository AND part = :part AND format = :format"  # noqa: S608 - made of our own column names
)


@dataclass(frozen=True, slots=True)
class Harvest:
    """How far one list of records has been taken in. Moments are as the repository writes them."""

    repository: str
    """The base URL."""
    part: str = ""
    """The set, "" for all records."""
    format: str = "oai_dc"
    token: str = ""
    """Where a list that was interrupted goes on, "" where none was."""
    begun: str = ""
    """When that list began, by the repository's clock."""
    newest: str = ""
    """The newest datestamp in it so far."""
    since: str = ""
    """From which datestamp on the next list is asked for, "" for all."""


def keep(run: Run, harvest: Harvest) -> None:
    """Write down how far it is, in place of what was known before."""
    run(
        _KEEP,
        harvest.repository,
        harvest.part,
        harvest.format,
        harvest.token,
        harvest.begun,
        harvest.newest,
        harvest.since,
    )


def known(run: Run, repository: str, part: str, metadata_format: str) -> Harvest:
    """How far it is; for one never seen, its beginning."""
    row = run(_KNOWN, repository, part, metadata_format).fetchone()
    return Harvest(*row) if row else Harvest(repository, part, metadata_format)
