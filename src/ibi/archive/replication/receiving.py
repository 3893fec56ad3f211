"""The receiver of a hand-over: takes over another Archive's original, with a journal.

`model.handover` says which messages, stages and actions there are. Here a message is read, its action is done in one
transaction with its row of the journal (`store.tables.transfers`), and the reply is sent.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.membership.announcing import Announcer
from ibi.archive.model.handover import (
    GiverStage,
    ReceiverAction,
    ReceiverReply,
    ReceiverStage,
    fingerprint,
    proof_digest,
    receiver_action,
)
from ibi.archive.replication.copying import check_copy, discard_unused, missing_files, save_copy
from ibi.archive.replication.fetching import (
    ANSWER_SECONDS,
    LONGEST_DESCRIPTION,
    check_acceptable,
    discard_on_failure,
    fetch_files,
    staging_session,
)
from ibi.archive.replication.messages import FetchedItem, TransferMessage, read_fetched, read_message
from ibi.archive.store.tables import copies, history, transfers
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.history import ItemEvent
from ibi.archive.store.tables.transfers import IncomingTransfer
from ibi.errors import ForbiddenAddress, HoldingError, IbiError, PeerError, PeerGarbled, SetupError
from ibi.http.client import AddressPolicy
from ibi.http.client.download import CheckedURL, Downloads
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from ibi.runtime.tasks import cancel_tasks, run_to_completion

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import Name

PASSAGE_HEADER: Final = "ibi-passage"
"""The header with which the receiver of a hand-over fetches its item."""

WAIT_SECONDS: Final = 5.0
"""Seconds that an answer waits for a running fetch."""

MOST_FETCHES: Final = 8
"""Items that are fetched at the same time."""

_OK: Final = 200


@dataclass(eq=False, slots=True)
class Receiver:
    """Takes originals over from other Archives.

    `data` is the data directory; `largest`: bytes of the largest file that is accepted; `host_lookup` replaces that
    of this machine.
    """

    item_store: ItemStore
    data: Path
    largest: int
    host_lookup: HostLookup | None = None
    _fetches: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _announcer: Announcer = field(init=False)

    def __post_init__(self) -> None:
        """Make the sender of notices."""
        self._announcer = Announcer(self.data, self.item_store.catalogue, self.host_lookup)

    async def answer(self, value: Any, who: str) -> dict[str, Any]:
        """Act on a message of the giver and answer it; `who` is the name of its token.

        Raises ParseError or BadItem for a malformed message, HoldingError for another giver's hand-over.
        """
        message = read_message(value)
        action, reply, fingerprint_here = await asyncio.to_thread(self._act, message, who)
        problem = ""
        if action is ReceiverAction.FETCH:
            reply, problem = await self._await_fetch(message, who)
            if reply is ReceiverReply.STAGED:
                _, reply, fingerprint_here = await asyncio.to_thread(
                    self._act, message, who, fetch_again=False
                )
        if reply is ReceiverReply.OWNED:
            # Before the reply, also a repeated one, because the giver says then that the original has moved.
            await self._announcer.announce(await asyncio.to_thread(self._names_of, message.transfer))
        service = str(self.item_store.service.main)
        return {"transfer": message.transfer, "reply": reply.value, "fingerprint": fingerprint_here,
                "problem": problem, "service": service}  # fmt: skip

    def _names_of(self, transfer_id: str) -> Sequence[Name]:
        """Return the names of the item of a transfer."""
        catalogue = self.item_store.catalogue
        with catalogue.reading() as run:
            transfer = transfers.incoming(run, transfer_id)
            name = transfers.main_name(run, transfer.item) if transfer and transfer.item is not None else ""
        holding = catalogue.holding(parse_name(name)) if name else None
        return holding.names if holding is not None else ()

    async def close(self) -> None:
        """Cancel the running fetches; the givers will propose these hand-overs again."""
        await cancel_tasks(self._fetches.values())

    # Work in a transaction

    def _act(
        self, message: TransferMessage, who: str, *, fetch_again: bool = True
    ) -> tuple[ReceiverAction, ReceiverReply, str]:
        """Do what a message requires, but for fetching, in one transaction.

        Returns the action, the reply, and the fingerprint of the Copy that is here.
        """
        with self.item_store.unit_of_work(who) as work:
            transfer = transfers.incoming(work.writer.run, message.transfer)
            if transfer is not None and transfer.giver != who:
                raise HoldingError("this hand-over was begun with another token")
            stage = transfer.stage if transfer else ReceiverStage.NONE
            held = _copy_of(work, transfer)
            fingerprint_here = fingerprint(held) if held else ""
            same = proven = False
            if transfer is not None:
                same = held is not None and fingerprint_here == message.fingerprint == transfer.fingerprint
                # In constant time, since the proof is a secret: it makes this Archive the owner.
                proven = compare_digest(proof_digest(message.proof), transfer.seal)
            action, reply = receiver_action(stage, message.kind, same=same, proven=proven)
            if action is ReceiverAction.TAKE_OVER and transfer is not None and held is not None:
                self._take_over(work, transfer, held)
            elif action is ReceiverAction.DECLINE:
                _save(work, transfer or _new_transfer(message, who), ReceiverStage.DECLINED)
            elif action is ReceiverAction.FETCH and not fetch_again:
                return ReceiverAction.NOTHING, ReceiverReply.UNKNOWN, fingerprint_here
            return action, reply, fingerprint_here

    def _take_over(self, work: UnitOfWork, transfer: IncomingTransfer, held: Holding) -> None:
        """Make the Copy the Original, and add the history that the giver has sent."""
        run, our_service = work.writer.run, str(self.item_store.service.main)
        events = history.events_of(run, held.number)
        for facts in transfer.history:
            event = ItemEvent(**facts)
            # The item comes back to this Archive: our history has the events of its first stay already.
            if event.detail["archive"] == our_service:
                del event.detail["archive"]
            if event not in events:
                history.add_event(run, held.number, event)
        work.change(held, replace(held, state=ItemState.ORIGINAL), (), "received", giver=transfer.address)
        copies.forget_source(run, held.number)
        # If the item left this Archive by a hand-over whose last answer was lost, that hand-over is still
        # open. Continuing it would turn this Original into a Copy.
        for outgoing in transfers.outgoing_of_item(run, held.number):
            if outgoing.stage.open:
                transfers.save_outgoing(run, replace(outgoing, stage=GiverStage.DONE, moment=work.moment))
        _save(work, transfer, ReceiverStage.OWNED)

    def _store_copy(
        self, message: TransferMessage, who: str, root: str, fetched: FetchedItem, staged: list[Any]
    ) -> None:
        """Store the fetched item as a Copy. Raises HoldingError if the hand-over has ended meanwhile."""
        with (
            self.item_store.unit_of_work(who) as work,
            discard_on_failure(self.item_store.file_store, staged),
        ):
            transfer = transfers.incoming(work.writer.run, message.transfer)
            if transfer is not None and transfer.stage in {ReceiverStage.OWNED, ReceiverStage.DECLINED}:
                raise HoldingError("this hand-over has ended already, so nothing was changed")
            copy = replace(fetched.item, state=ItemState.COPY)
            held = save_copy(work, copy.forms.main, copy, staged, root)
            source = CopySource(archive=root, service=fetched.service, original=copy.timestamp, checked=work.moment,
                            private=True)  # fmt: skip
            copies.save_source(work.writer.run, held.number, source)
            staged_transfer = replace(
                transfer or _new_transfer(message, who),
                item=held.number,
                address=root,
                seal=message.seal,
                fingerprint=fingerprint(held),
                history=fetched.history,
            )
            _save(work, staged_transfer, ReceiverStage.STAGED)
        discard_unused(self.item_store.file_store, held, staged)

    # Work that takes long

    async def _await_fetch(self, message: TransferMessage, who: str) -> tuple[ReceiverReply, str]:
        """Start a fetch unless one is running, wait up to `WAIT_SECONDS`; return reply and problem."""
        self._drop_finished(message.transfer)
        task = self._fetches.get(message.transfer)
        if task is None:
            # The giver repeats its proposal later, when a slot may be free.
            if len(self._fetches) >= MOST_FETCHES:
                return ReceiverReply.FETCHING, ""
            task = asyncio.create_task(self._fetch(message, who))
            self._fetches[message.transfer] = task
        # Small items are complete within this one answer; for large items the giver asks again.
        await asyncio.wait([task], timeout=WAIT_SECONDS)
        if not task.done():
            return ReceiverReply.FETCHING, ""
        self._fetches.pop(message.transfer, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return ReceiverReply.FAILING if task.cancelled() else ReceiverReply.STAGED, ""
        if not isinstance(error, IbiError):
            raise error
        # The giver tries again after a failure that may pass, and gives up after a refusal.
        passing = isinstance(error, PeerError | SetupError) and not isinstance(error, ForbiddenAddress)
        return ReceiverReply.FAILING if passing else ReceiverReply.REFUSED, str(error)

    def _drop_finished(self, transfer_id: str) -> None:
        """Drop the finished fetches of all other transfers: their givers have not asked for the outcome."""
        for each, task in list(self._fetches.items()):
            if each != transfer_id and task.done():
                if not task.cancelled():
                    task.exception()
                del self._fetches[each]

    async def _fetch(self, message: TransferMessage, who: str) -> None:
        peer = (await asyncio.to_thread(Peer.read_tables, self.data)).get(who)
        # An address that our administrator gave for this token may be private. An address that only the
        # message gives must be public, or a giver could make us fetch from our own network.
        root = peer.address if peer else CheckedURL.parse(message.address).root
        headers = {PASSAGE_HEADER: message.passage}
        base = f"{root}/-/api/transfers/{message.transfer}"
        item_store = self.item_store
        async with (
            staging_session(item_store),
            Downloads(AddressPolicy(allow_private=peer is not None), self.host_lookup) as downloads,
        ):
            async with downloads.get(
                base, most_bytes=LONGEST_DESCRIPTION, seconds=ANSWER_SECONDS, headers=headers
            ) as reply:
                if reply.status != _OK:
                    raise PeerGarbled(
                        "the other Archive does not describe it; it answered {status}", status=reply.status
                    )
                fetched = read_fetched(await reply.read(), message)
            check_acceptable(fetched.item, self.largest)
            here = await asyncio.to_thread(item_store.catalogue.holding, fetched.item.forms.main)
            check_copy(here)
            missing = missing_files(fetched.item.files, here.files if here else ())
            staged = await fetch_files(
                downloads, item_store.file_store, missing, lambda file: f"{base}/files/{file.name}", headers
            )
            await run_to_completion(self._store_copy, message, who, root, fetched, staged)


def _copy_of(work: UnitOfWork, transfer: IncomingTransfer | None) -> Holding | None:
    """Return the Copy of a hand-over; None if there is none yet, or none any more."""
    if transfer is None or transfer.item is None:
        return None
    held = work.find(parse_name(transfers.main_name(work.writer.run, transfer.item)))
    return held if held is not None and held.state is ItemState.COPY else None


def _new_transfer(message: TransferMessage, who: str) -> IncomingTransfer:
    return IncomingTransfer(
        id=message.transfer, item=None, giver=who, address=message.address, seal=message.seal, fingerprint="",
        history=(), stage=ReceiverStage.NONE, moment="",
    )  # fmt: skip


def _save(work: UnitOfWork, transfer: IncomingTransfer, stage: ReceiverStage) -> None:
    transfers.save_incoming(work.writer.run, replace(transfer, stage=stage, moment=work.moment))
