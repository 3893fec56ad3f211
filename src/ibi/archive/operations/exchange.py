"""Operations between Archives: copies, hand-overs of originals, and the retirement of an Archive."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import Fields, NoFields, field
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, TEXT, TRUTH, list_of, record, ref
from ibi.archive.membership.joining import Resolvers
from ibi.archive.model.handover import GiverStage
from ibi.archive.operations.item_facts import item_facts, item_headers
from ibi.archive.operations.peers import root_of
from ibi.archive.preservation.status import of_transfers, outgoing_facts
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.refreshing import refresh
from ibi.archive.replication.retiring import finish_transfer, move_all, originals_of
from ibi.archive.store.tables import transfers
from ibi.errors import HoldingError, IbiError, ParseError
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_name
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Relation
from ibi.runtime.settings import Peer, settings_lock

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.transfers import OutgoingTransfer
    from ibi.identifier.forms import Name

MOST_COPIES: Final = 4
"""Copies that one process takes over HTTP at the same time: each may last for hours."""

MOST_LATE: Final = 100
"""Originals that were deposited while an Archive retired, and are reported."""

# Limited, because a copy occupies a thread of the JSON interface until its last file has come.
_AT_ONCE: Final = threading.Semaphore(MOST_COPIES)


class CopyFields(Fields, frozen=True):
    """An item, and where its original is."""

    ibi: Annotated[str, field("the item", "ibi IBI")]
    archive: Annotated[str, field("the root URL of the Archive to copy from", "--from URL")] = ""
    private: Annotated[bool, field("it may be at an address of a private network", "--allow-private")] = False


class RefreshFields(Fields, frozen=True):
    """One copy."""

    ibi: Annotated[str, field("the copy", "ibi IBI", longest=512)]


class OfferFields(Fields, frozen=True):
    """An original and its receiver."""

    ibi: Annotated[str, field("the item", "ibi IBI", longest=512)]
    to: Annotated[str, field("the name or the root URL of a peer", "--to PEER")]
    remove: Annotated[bool, field("keep no files of it, only a pointer to the other Archive", "--remove")] = (
        False
    )


class TransferFields(Fields, frozen=True):
    """One hand-over."""

    transfer: Annotated[str, field("the hand-over", longest=64)]


class RetireFields(Fields, frozen=True):
    """The receiver of all originals."""

    to: Annotated[str, field("the other Archive: its name as a peer, or its root URL", "--to PEER")]
    token: Annotated[
        str,
        field(
            "the token that it gave us, if it is not a peer yet", "--token TOKEN", longest=512, secret=True
        ),
    ] = ""
    leave_them: Annotated[
        bool, field("although some originals must stay: they stay behind", "--leave-them")
    ] = False


def copy(context: ArchiveContext, fields: CopyFields) -> dict[str, Any]:
    """Copy an item, or make the copy that is here equal to its original.

    Raises ParseError, HoldingError, PeerError, SetupError; Refusal (403) if only an administrator may.
    """
    if fields.private and not context.is_administrator:
        raise Refusal(403, IbiError("only an administrator may give {name}", name="private"))
    name = _named(fields.ibi)
    with _slot(), context.item_store() as item_store:
        copier = copier_of(context, item_store)
        held = asyncio.run(copier.copy(name, context.who, fields.archive, private=fields.private))
        return item_facts(item_store.catalogue, held, with_history=context.may_read)


def _named(text: str) -> Name:
    """Return the item that a text names. Raises ParseError; HoldingError if a URL leads to another item."""
    found = unwrap(text)
    try:
        wanted = PersistentURL.from_text(f"/{found.ibi}{found.after}").relation
    except ParseError:
        return found.ibi
    if wanted != Relation():  # the last edition, a translation, or the metadata of the named item
        problem = "{text} leads to another item than {name}: follow it, and give the name of the item that it leads to"
        raise HoldingError(problem, text=f"{found.ibi}{found.after}", name=found.ibi)
    return found.ibi


def refresh_copy(context: ArchiveContext, fields: RefreshFields) -> dict[str, Any]:
    """Make a copy equal to its original, or record why it may lag behind.

    Raises NotHeld, HoldingError, Conflict, SetupError.
    """
    name = parse_name(fields.ibi)
    with _slot(), context.item_store() as item_store:
        source = asyncio.run(refresh(copier_of(context, item_store), name, context.who))
    return {"ibi": str(name), **source.facts()}


def copier_of(context: ArchiveContext, item_store: ItemStore) -> Copier:
    """Return the copier of an Archive. Raises SetupError."""
    settings = context.directory.settings()
    return Copier(item_store, settings.resolver, settings.largest_upload, progress=context.progress)


@contextmanager
def _giving(context: ArchiveContext) -> Iterator[Giver]:
    """Yield the giver of an Archive. Raises SetupError."""
    with context.item_store() as item_store:
        yield Giver(item_store, context.data, context.directory.settings().root)


def hand_overs(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Return the hand-overs that are under way, and the peers. Raises SetupError."""
    peers = [
        {"name": name, "address": each.address}
        for name, each in Peer.read_tables(context.data).items()
        if each.token
    ]
    with context.catalogue() as catalogue, catalogue.reading() as run:
        return {"transfers": of_transfers(run, context.say), "peers": peers}


def offer(context: ArchiveContext, fields: OfferFields) -> dict[str, Any]:
    """Start a hand-over, or find the one that is under way.

    Raises ParseError, HoldingError, Conflict, SetupError.
    """
    with _giving(context) as giver:
        transfer = giver.offer(
            parse_name(fields.ibi), fields.to, context.who, remove=fields.remove,
            check=lambda under_way: context.check_match(_ids_of(under_way)),
        )  # fmt: skip
        return _facts(context, giver, transfer)


def hand_over(context: ArchiveContext, fields: TransferFields) -> dict[str, Any]:
    """Return how far a hand-over is. Raises NotHeld, SetupError."""
    with _giving(context) as giver:
        return _facts(context, giver, giver.find(fields.transfer)[0])


def cancel(context: ArchiveContext, fields: TransferFields) -> dict[str, Any]:
    """Take the item back. Raises NotHeld, HoldingError if it is too late, PeerError if there is no answer."""
    with _giving(context) as giver:
        transfer, holding = giver.find(fields.transfer)
        if transfer.stage.open:
            transfer = asyncio.run(giver.withdraw(transfer))
        if transfer.stage is GiverStage.DONE:
            why = "{name} is held by {archive} now"
            raise HoldingError(why, name=holding.forms.main, archive=transfer.address)
        return _facts(context, giver, transfer)


def under_way(context: ArchiveContext, ibi: str = "") -> list[str]:
    """Return the ids of open hand-overs: all, or those of one item. Raises ParseError, SetupError."""
    name = parse_name(ibi) if ibi else None
    with _giving(context) as giver:
        return [each.id for each in giver.open() if name is None or name in giver.find(each.id)[1].names]


def finish(context: ArchiveContext, fields: TransferFields) -> dict[str, Any]:
    """Continue a hand-over until it ends, or the other Archive fails too long. Raises NotHeld, SetupError."""
    with _giving(context) as giver:
        return _facts(context, giver, finish_transfer(giver, giver.find(fields.transfer)[0]))


def retire(context: ArchiveContext, fields: RetireFields) -> dict[str, Any]:
    """Hand over all transferable originals, and retire. Raises HoldingError, PeerError, SetupError."""
    moved = move_everything(context, fields)
    if moved["problems"]:
        return {**moved, "retired": False}
    leave_for_good(context)
    with context.catalogue() as catalogue:
        late = list(islice(originals_of(catalogue, transferable=True), MOST_LATE))
    why = context.say(IbiError("it came in meanwhile; retire once more, to hand it over, too"))
    problems = [{"ibi": name, "problem": why} for name in late]
    return {**moved, "left": moved["left"] + len(late), "problems": problems, "retired": True}


def move_everything(context: ArchiveContext, fields: RetireFields) -> dict[str, Any]:
    """Hand over all transferable originals. Raises HoldingError if some must stay, PeerError, SetupError."""
    own = context.directory.settings().service.canonicals  # the service item always stays (ARC-11)
    to = _new_peer(context, fields) if fields.token else fields.to
    with _giving(context) as giver:
        staying = [
            name for name in originals_of(giver.item_store.catalogue, transferable=False) if name not in own
        ]
        if staying and not fields.leave_them:
            problem = "{count} originals must stay, such as {name}; to leave them behind, choose {field}"
            field_ = context.called("leave_them")
            raise HoldingError(problem, count=len(staying), name=staying[0], field=field_)
        moved = move_all(giver, to, context.who, context.progress)
    problems = [{"ibi": name, "problem": context.say(why)} for name, why in moved.problems]
    return {"moved": moved.moved, "left": len(problems) + len(staying), "problems": problems}


def leave_for_good(context: ArchiveContext) -> Resolvers:
    """Switch the Archive off and retire it; return its resolvers. Raises SetupError."""
    # The settings stop ingest: only after this change is it certain that no more items come in.
    with settings_lock(context.data):
        resolvers = Resolvers.read(context.data)
        replace(resolvers.settings, switched_on=False, retired=True).write(context.data)
    return resolvers


def _new_peer(context: ArchiveContext, fields: RetireFields) -> str:
    """Save the token of a new peer; return its name."""
    root = root_of(fields.to)
    name = root.removeprefix("http://").removeprefix("https://")
    with settings_lock(context.data):
        peers = {**Peer.read_tables(context.data), name: Peer(address=root, token=fields.token)}
        Peer.write_tables(context.data, peers)
    return name


def _facts(context: ArchiveContext, giver: Giver, transfer: OutgoingTransfer) -> dict[str, Any]:
    holding = giver.find(transfer.id)[1]
    with giver.item_store.catalogue.reading() as run:
        return {**outgoing_facts(run, transfer, context.say), "state": holding.state.value}


@contextmanager
def _slot() -> Iterator[None]:
    """Hold one of the few slots for operations that may take hours. Raises HoldingError if none is free."""
    if not _AT_ONCE.acquire(blocking=False):
        raise HoldingError("other copies are being taken just now; try again in a while")
    try:
        yield
    finally:
        _AT_ONCE.release()


def _ids(context: ArchiveContext, _fields: NoFields) -> list[str]:
    with context.catalogue() as catalogue, catalogue.reading() as run:
        return _ids_of(transfers.open_outgoing(run))


def _ids_of(open_transfers: Sequence[OutgoingTransfer]) -> list[str]:
    return [transfer.id for transfer in open_transfers]


def _stage(context: ArchiveContext, fields: TransferFields) -> list[str]:
    with _giving(context) as giver:
        return [fields.transfer, giver.find(fields.transfer)[0].stage.value]


_GIVING: Final = record(
    "state", transfer=TEXT, item=TEXT, to=TEXT, stage={"enum": [stage.value for stage in GiverStage]}, since=TEXT,
    problem=TEXT, state=TEXT,
)  # fmt: skip
_PEER: Final = {"type": "object", "properties": {"name": TEXT, "address": TEXT}}
_COPY: Final = record(
    "archive", "service", "url", "timestamp", "checked", "since", "problem",
    **dict.fromkeys(("ibi", "archive", "service", "url", "timestamp", "checked", "since", "problem"), TEXT),
    equal=TRUTH, compared=TRUTH,
)  # fmt: skip
_LEFT: Final = list_of(record(ibi=TEXT, problem=TEXT))

COPY: Final = Operation(
    "copy", "take a copy of an item from the Archive of its original", Scope.TRANSFER, CopyFields, copy, "POST /copies",
    gives=ref("item"), page="copy", refusals=(410, 502), is_remote=True, headers=item_headers,
)  # fmt: skip
REFRESH: Final = Operation(
    "refresh", "make a copy equal to its original", Scope.TRANSFER, RefreshFields, refresh_copy,
    "POST /items/<ibi>/refresh", place="ibi", gives=_COPY, refusals=(502,), is_remote=True,
)  # fmt: skip
HAND_OVER: Final = Operation(
    "hand-over", "hand an original over to another Archive", Scope.TRANSFER, OfferFields, offer, "POST /hand-overs",
    gives=_GIVING, page="transfer", command="transfer", status=202,
)  # fmt: skip
RETIRE: Final = Operation(
    "retire", "move everything elsewhere, and leave for good", Scope.ADMIN, RetireFields, retire, "POST /retirement",
    gives=record(moved=COUNT, left=COUNT, problems=_LEFT, retired=TRUTH), is_long=True,
    warning="this cannot be undone: the Archive takes part nowhere any more",
)  # fmt: skip

OPERATIONS: Final = (
    COPY,
    REFRESH,
    Operation(
        "hand-overs", "hand-overs that are under way, and the peers", Scope.TRANSFER, NoFields, hand_overs,
        "GET /hand-overs", gives=record(transfers=list_of(_GIVING), peers=list_of(_PEER)), page="transfer",
        version=_ids,
        command="transfer",
    ),
    HAND_OVER,
    Operation(
        "hand-over-state", "how far a hand-over is", Scope.TRANSFER, TransferFields, hand_over,
        "GET /hand-overs/<word>", place="transfer", gives=_GIVING, page="transfer", command="transfer", version=_stage,
    ),
    Operation(
        "take-back", "take an original back", Scope.TRANSFER, TransferFields, cancel, "DELETE /hand-overs/<word>",
        place="transfer", gives=_GIVING, page="transfer", command="transfer", refusals=(502,), is_remote=True,
    ),
    RETIRE,
)  # fmt: skip
