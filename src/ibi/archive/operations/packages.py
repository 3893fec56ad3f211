"""Export and import items in forms that outlive the Archive: signed receipts, BagIt bags (RFC 8493)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, field
from ibi.api.operations import Document, Operation
from ibi.api.routes import TEXT, record, ref
from ibi.archive.model.item import leaving
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.operations.item_facts import item_facts, item_headers
from ibi.archive.preservation.attestation import receipt, sign_receipt
from ibi.archive.preservation.bag_ingest import take_bag
from ibi.archive.preservation.bagging import bag_at, bag_name, write_bag
from ibi.archive.store.tables import history
from ibi.identifier.forms import parse_name
from ibi.runtime.durable_files import open_regular
from ibi.runtime.settings.institution import Institution
from ibi.runtime.signing import signer

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent


class ItemFields(Fields, frozen=True):
    """One item."""

    ibi: Annotated[str, field("one of its names", "ibi IBI", longest=512)]


class BagFields(Fields, frozen=True):
    """A bag to import."""

    upload: Annotated[str, field("the bag: a zip or tar file", "file FILE", upload=True)]
    title: Annotated[str, field("the title of the item, if the bag has none", longest=4000)] = ""


def attest(context: ArchiveContext, fields: ItemFields) -> Document:
    """Make a signed receipt about an item, to be checked offline. Raises NotHeld, SetupError."""
    settings = context.directory.settings()
    with context.catalogue() as catalogue:
        holding = catalogue.settled(parse_name(fields.ibi))
        events = _history(catalogue, holding)
    moment = timestamp_text(context.directory.now())
    content = receipt(holding, events, settings.service, settings.address, moment)
    text = sign_receipt(content, signer(context.data))
    return Document(f"{bag_name(holding)}.receipt.json", "application/json", text)


def export(context: ArchiveContext, fields: ItemFields) -> Document:
    """Write an item as a BagIt bag in a zip file. Raises NotHeld, SetupError."""
    # Written into staging, where a file that a kill leaves behind is cleaned up.
    with context.item_store() as item_store:
        holding = item_store.catalogue.settled(parse_name(fields.ibi))
        path = context.data / "staging" / f"{secrets.token_hex(16)}.zip"
        write_bag_at(context, item_store.catalogue, holding, path, bag_name(holding))
        file = open_regular(path)
        path.unlink()
    return Document(f"{bag_name(holding)}.zip", "application/zip", file=file)


def write_bag_at(
    context: ArchiveContext, catalogue: Catalogue, holding: Holding, target: Path, base: str = ""
) -> None:
    """Write an item as a bag into `target`, with `base` as in `bag_at`. Raises SetupError."""
    settings, events = context.directory.settings(), _history(catalogue, holding)
    source = f"{settings.address} ({settings.service.main})"
    with bag_at(target, base) as put:
        moment = timestamp_text(context.directory.now())
        item = leaving(holding, Institution.of(context.data).names)
        write_bag(put, context.directory.file_store(), item, events, source, moment)


def take(context: ArchiveContext, fields: BagFields) -> dict[str, Any]:
    """Import a BagIt bag as an item. Raises AlreadyHeld, BadItem, SetupError."""
    with context.used(fields.upload) as path, context.item_store() as item_store:
        # The file name of an upload is random, so it cannot be the title.
        title = fields.title or ("BagIt" if context.upload else path.name)
        held = take_bag(item_store, path, context.who, title=title)
        return item_facts(item_store.catalogue, held, with_history=context.may_read)


def _history(catalogue: Catalogue, holding: Holding) -> list[ItemEvent]:
    with catalogue.reading() as run:
        return history.events_of(run, holding.number)


ATTEST: Final = Operation(
    "attest", "write a signed receipt about an item, to be checked offline", Scope.READ, ItemFields, attest,
    "GET /items/<ibi>/receipt", place="ibi", gives=record(receipt={"type": "object"}, signature=TEXT),
    refusals=(404, 422),
)  # fmt: skip
EXPORT: Final = Operation(
    "export", "write an item as a BagIt bag", Scope.ADMIN, ItemFields, export, "GET /items/<ibi>/bag", place="ibi",
    refusals=(404, 422, 507),
)  # fmt: skip
IMPORT_BAG: Final = Operation(
    "import-bag", "import a BagIt bag as an item: a zip or a tar file", Scope.ADMIN, BagFields, take, "POST /bags",
    gives=ref("item"), status=201, refusals=(410, 413), headers=item_headers,
)  # fmt: skip

OPERATIONS: Final = (ATTEST, EXPORT, IMPORT_BAG)
