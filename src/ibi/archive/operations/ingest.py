"""Files of records that are imported, and the harvest of records of other repositories."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, field
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, TEXT, list_of, record
from ibi.archive.ingest.harvesting import Harvester
from ibi.http.client.address_policy import AddressPolicy
from ibi.http.client.download import Downloads

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.ingest.batch import ImportReport, RefusedRecord
    from ibi.archive.operations.context import ArchiveContext

MOST_SHOWN: Final = 200
"""Refused records that a result lists with their reason."""


class ImportFields(Fields, frozen=True):
    """How the records of a file are imported. An import is no `Operation`: its body is a file of records."""

    format: Annotated[
        Literal["", "bibtex", "csv", "jsonl", "ris"],
        field(
            "the format of the file; without it, by the extension of its name, else JSON lines", "--format"
        ),
    ] = ""
    update: Annotated[
        bool,
        field(
            "update items that are already here, found by a name or key, from the file",
            "--update",
        ),
    ] = False
    dry: Annotated[bool, field("only show the result; nothing is imported or changed", "--dry-run")] = False
    upload: Annotated[str, field("over HTTP: the file, as a complete upload", None)] = ""


class HarvestFields(Fields, frozen=True):
    """The repository to harvest, and which of its records."""

    url: Annotated[str, field("the base URL of the OAI-PMH repository", "url URL")]
    set: Annotated[str, field("only the records of this set", "--set S", longest=512)] = ""
    since: Annotated[
        str,
        field(
            "only what is new or changed since: 2026-01-31, or a datestamp; without it, since the last harvest",
            "--from DATE",
            longest=32,
        ),
    ] = ""
    prefix: Annotated[
        str,
        field(
            "the metadata format, which must have Dublin Core in it (default: oai_dc)",
            "--prefix P",
            longest=64,
        ),
    ] = "oai_dc"
    allow_private: Annotated[
        bool, field("the repository may be on this machine or in a private network", "--allow-private")
    ] = False


def harvest(context: ArchiveContext, fields: HarvestFields) -> dict[str, Any]:
    """Harvest another repository's records. Raises PeerError, BadItem, SetupError."""
    refusals: list[dict[str, Any]] = []

    def refused(each: RefusedRecord) -> None:
        if len(refusals) < MOST_SHOWN:
            refusals.append({"record": each.name, "problem": context.say(each.why)})

    return {**asdict(harvested(context, fields, refused)), "refusals": refusals}


def harvested(
    context: ArchiveContext, fields: HarvestFields, refused: Callable[[RefusedRecord], None]
) -> ImportReport:
    """Harvest another repository's records; call `refused` with each refused one. Raises like `harvest`."""

    async def run() -> ImportReport:
        async with Downloads(AddressPolicy(allow_private=fields.allow_private)) as downloads:
            harvester = Harvester(
                item_store,
                downloads,
                context.who,
                refused,
                asyncio.sleep,
                lambda done: context.progress(done, None),
            )
            return await harvester.run(fields.url, fields.set, fields.since, fields.prefix)

    with context.item_store() as item_store:
        return asyncio.run(run())


_REFUSALS: Final = list_of(record(record=TEXT, problem=TEXT), maxItems=MOST_SHOWN)

HARVEST: Final = Operation(
    "harvest", "harvest another repository's records by OAI-PMH", Scope.ADMIN, HarvestFields, harvest,
    "POST /harvests", is_long=True,
    gives=record(added=COUNT, changed=COUNT, removed=COUNT, unchanged=COUNT, refused=COUNT, refusals=_REFUSALS),
)  # fmt: skip

OPERATIONS: Final = (HARVEST,)
