"""The giver of a hand-over: gives an original to another Archive, step by step, with a journal.

`model.handover` says which messages, stages and steps there are. Here each step is done in one transaction with its
row of the journal (`store.tables.transfers`), so that after any interruption the giver goes on where it stood.

An original that was restored from a backup is *unsettled*: it may have moved or been removed since the backup, so the
Archive answers nothing about it until that is known (decision 0039). This may happen while it is being handed over.
"""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.membership.announcing import Announcer
from ibi.archive.model.handover import (
    GiverMessage,
    GiverStage,
    GiverStep,
    ReceiverReply,
    apply_step,
    fingerprint,
    first_message,
    next_step,
    proof_digest,
)
from ibi.archive.model.item import leaving
from ibi.archive.replication.messages import TransferAnswer, read_answer
from ibi.archive.store.tables import copies, transfers
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, IbiError, NotHeld, PeerError, PeerGarbled, SetupError
from ibi.http.client import AddressPolicy
from ibi.http.client.download import CheckedURL, Downloads
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import Name

PATH: Final = "/-/api/transfers"
ANSWER_SECONDS: Final = 30.0
"""Seconds that the receiver may take to answer; it may go on fetching after its answer."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
"""Seconds after which a running Archive tries again: exponential backoff."""

_MOST_STEPS: Final = 12  # steps of a transfer in one call of `advance`; the next call continues
_OK: Final = 200


@dataclass(eq=False, slots=True)
class Giver:
    """Hands originals of one Archive over to the peers that its settings name.

    `data` is its data directory, `address` its own root URL; `host_lookup` replaces that of this machine.
    """

    item_store: ItemStore
    data: Path
    address: str
    host_lookup: HostLookup | None = None
    _pauses: dict[str, tuple[float, float]] = field(default_factory=dict)
    _announcer: Announcer = field(init=False)

    def __post_init__(self) -> None:
        """Make the sender of notices."""
        self._announcer = Announcer(self.data, self.item_store.catalogue, self.host_lookup)

    def offer(
        self,
        name: Name,
        to: str,
        who: str,
        *,
        remove: bool = False,
        check: Callable[[Sequence[OutgoingTransfer]], None] | None = None,
    ) -> OutgoingTransfer:
        """Start the hand-over of an item, or find the one that is under way, in one transaction.

        `to`: the name or the root URL of a peer; `check` is called with the open hand-overs before anything is
        changed. Raises SetupError, NotHeld, HoldingError if it must stay, and the errors of `check`.
        """
        peer_name, peer = self._peer(to)
        with self.item_store.unit_of_work(who) as work:
            held, run = work.get(name), work.writer.run
            if check is not None:
                check(transfers.open_outgoing(run))
            for earlier in transfers.outgoing_of_item(run, held.number):
                if earlier.stage.open and earlier.address == peer.address:
                    return self._save(work, replace(earlier, peer=peer_name, remove=remove))
                # The first receiver may be the owner by now; a second hand-over could make another owner.
                if earlier.stage is GiverStage.HANDED:
                    problem = "{name} is being handed over to {archive}; that must be finished first"
                    raise HoldingError(problem, name=held.forms.main, archive=earlier.address)
                if earlier.stage.open:
                    self._save(work, replace(earlier, stage=GiverStage.ENDED))
            _check_givable(held, self.item_store.service.main)
            transfer = OutgoingTransfer(
                id=secrets.token_hex(16),
                item=held.number,
                peer=peer_name,
                address=peer.address,
                passage=secrets.token_urlsafe(32),
                proof=secrets.token_urlsafe(32),
                remove=remove,
                who=who,
                stage=GiverStage.OFFERED,
                moment=work.moment,
            )
            return self._save(work, transfer)

    def open(self) -> list[OutgoingTransfer]:
        """Return the hand-overs that have not ended, the one whose last change is oldest first."""
        with self.item_store.catalogue.reading() as run:
            return transfers.open_outgoing(run)

    def find(self, transfer_id: str) -> tuple[OutgoingTransfer, Holding]:
        """Return the hand-over with this id, and its item. Raises NotHeld."""
        catalogue = self.item_store.catalogue
        with catalogue.reading() as run:
            transfer = transfers.outgoing(run, transfer_id)
            name = transfers.main_name(run, transfer.item) if transfer else ""
        holding = catalogue.holding(parse_name(name)) if name else None
        if transfer is None or holding is None:
            raise NotHeld("there is no such hand-over")
        return transfer, holding

    async def advance(self, transfer: OutgoingTransfer) -> tuple[OutgoingTransfer, ReceiverReply | None]:
        """Advance an open hand-over as far as possible now; return it, and the receiver's last reply.

        After a failure the hand-over records the problem, and the reply is None. A hand-over that has ended
        is not changed, because the item may have come back since. Raises SetupError.
        """
        if not transfer.stage.open:
            return transfer, None
        kind, reply = first_message(transfer.stage), None
        try:
            # Peers were chosen by our administrator, so they may be at private addresses.
            async with Downloads(AddressPolicy(allow_private=True), self.host_lookup) as downloads:
                for _ in range(_MOST_STEPS):
                    answer = await self._send(downloads, transfer, kind)
                    reply = answer.reply
                    step = next_step(transfer.stage, reply)
                    transfer = await self._take_step(transfer, step, answer)
                    if step is GiverStep.WAIT or not transfer.stage.open:
                        break
                    propose = step is GiverStep.PROPOSE
                    kind = GiverMessage.PROPOSE if propose else first_message(transfer.stage)
        except IbiError as error:
            reply = None
            transfer = await asyncio.to_thread(self._save_problem, transfer, error)
        return transfer, reply

    async def withdraw(self, transfer: OutgoingTransfer) -> OutgoingTransfer:
        """Ask the receiver to decline for ever, and take the item back if it does.

        Raises PeerError if the receiver does not answer, and may have the proof already.
        """
        try:
            async with Downloads(AddressPolicy(allow_private=True), self.host_lookup) as downloads:
                answer = await self._send(downloads, transfer, GiverMessage.WITHDRAW)
        except PeerError:
            if transfer.stage is not GiverStage.OFFERED:
                raise
            # The receiver was never sent the proof, so it cannot have become the owner.
            answer = TransferAnswer(ReceiverReply.DECLINED)
        return await self._take_step(transfer, next_step(transfer.stage, answer.reply), answer)

    async def advance_all(self) -> None:
        """Advance every open hand-over; retry those that make no progress less and less often."""
        clock = asyncio.get_running_loop().time
        for transfer in await asyncio.to_thread(self.open):
            due, pause = self._pauses.pop(transfer.id, (0.0, FIRST_PAUSE))
            if clock() < due:
                self._pauses[transfer.id] = (due, pause)
                continue
            after, reply = await self.advance(transfer)
            if after.stage is transfer.stage and reply is not ReceiverReply.FETCHING:
                self._pauses[transfer.id] = (clock() + pause, min(2 * pause, LONGEST_PAUSE))

    async def _send(
        self, downloads: Downloads, transfer: OutgoingTransfer, kind: GiverMessage
    ) -> TransferAnswer:
        holding = None
        if kind is GiverMessage.PROPOSE:
            _, holding = await asyncio.to_thread(self.find, transfer.id)
        message = write_message(transfer, kind, self.address, holding)
        _, peer = self._peer(transfer.peer)
        reply = await downloads.send(
            "POST", f"{peer.address}{PATH}", json=message, token=peer.token, seconds=ANSWER_SECONDS
        )
        if reply.status != _OK:
            raise PeerGarbled("{archive} does not take part in hand-overs with us: it answered {status}",
                              archive=peer.address, status=reply.status)  # fmt: skip
        answer = read_answer(reply.json(), peer.address)
        # The Archive that made the Copy may be the owner by now; no other Archive may become the owner, too.
        if transfer.service and answer.service != transfer.service:
            problem = "the Archive at {archive} is not the one that received the copy"
            raise PeerGarbled(problem, archive=peer.address)
        return answer

    async def _take_step(
        self, transfer: OutgoingTransfer, step: GiverStep, answer: TransferAnswer
    ) -> OutgoingTransfer:
        """Do a step after an answer. Before the journal says that it is the last one, our resolvers are told."""
        if step is not GiverStep.FINISH:
            return await asyncio.to_thread(self._do_step, transfer, step, answer)
        _, holding = await asyncio.to_thread(self.find, transfer.id)
        await self._announcer.announce(holding.names)
        done = await asyncio.to_thread(self._do_step, transfer, step, answer)
        # In these two cases the step changes what we answer about the item.
        if transfer.remove or transfer.stage is GiverStage.OFFERED:
            await self._announcer.announce(holding.names)
        return done

    def _do_step(
        self, transfer: OutgoingTransfer, step: GiverStep, answer: TransferAnswer
    ) -> OutgoingTransfer:
        """Do a step after an answer, in one transaction, unless another process has done it meanwhile."""
        with self.item_store.unit_of_work(transfer.who) as work:
            saved = transfers.outgoing(work.writer.run, transfer.id)
            # The command and the running Archive may both advance this hand-over: the first one wins.
            if saved is None or saved.stage is not transfer.stage:
                return saved or transfer
            held = work.get(parse_name(transfers.main_name(work.writer.run, transfer.item)))
            saved = replace(saved, problem=answer.problem)
            return self._save(work, self._apply_step(work, saved, held, step, answer))

    def _apply_step(
        self,
        work: UnitOfWork,
        transfer: OutgoingTransfer,
        held: Holding,
        step: GiverStep,
        answer: TransferAnswer,
    ) -> OutgoingTransfer:
        """Apply a step to the item; return the transfer as it is afterwards."""
        same = fingerprint(held) == answer.fingerprint
        stage, state = apply_step(transfer.stage, step, held.state, transferable=held.transferable, same=same)
        if state is ItemState.COPY and held.state is not ItemState.COPY:
            receiver = {"to": transfer.address, "service": answer.service}
            # It may be unsettled (see above). FINISH settles it, because the receiver owns the original. After
            # any other step it stays so, also as a copy: if it is taken back, it is not claimed at once.
            unsettled = "" if step is GiverStep.FINISH else held.unsettled
            # Both Archives then call it by the name that the institution had when it left.
            named = leaving(held, self.item_store.institution)
            work.change(held, replace(named, state=state, unsettled=unsettled), (), "given", **receiver)
            source = CopySource(
                archive=transfer.address,
                service=answer.service,
                original=held.timestamp,
                checked=work.moment,
                private=True,
            )
            copies.save_source(work.writer.run, held.number, source)
        elif state is ItemState.ORIGINAL and held.state is not ItemState.ORIGINAL:
            work.change(held, replace(held, state=state), (), "returned", by=transfer.address)
            copies.forget_source(work.writer.run, held.number)
        if stage is GiverStage.HANDED and transfer.stage is not stage:
            transfer = replace(transfer, fingerprint=fingerprint(held), service=answer.service)
        # The Copy stays in the catalogue, so that links to our address still lead to the item.
        if stage is GiverStage.DONE and transfer.remove and held.files:
            here, pointer = work.get(held.forms.main), f"{transfer.address}/{held.forms.main}"
            without_files = replace(here, files=(), target="", url=pointer)
            work.change(here, without_files, (), "dropped", to=transfer.address)
        if stage is GiverStage.ENDED and step is GiverStep.BECOME_COPY:
            problem = "{name} is no longer an original that can be handed over"
            transfer = replace(transfer, problem=HoldingError(problem, name=held.forms.main))
        return replace(transfer, stage=stage)

    def _save_problem(self, transfer: OutgoingTransfer, problem: IbiError) -> OutgoingTransfer:
        with self.item_store.unit_of_work(transfer.who) as work:
            saved = transfers.outgoing(work.writer.run, transfer.id)
            if saved is None:
                return transfer
            # The journal has the sentence of an error, but not its kind, which the caller may need.
            failed = replace(saved, problem=problem)
            return failed if str(saved.problem) == str(problem) else self._save(work, failed)

    @staticmethod
    def _save(work: UnitOfWork, transfer: OutgoingTransfer) -> OutgoingTransfer:
        changed = replace(transfer, moment=work.moment)
        transfers.save_outgoing(work.writer.run, changed)
        return changed

    def _peer(self, to: str) -> tuple[str, Peer]:
        """Find a peer that has a token, by its name or its root URL. Raises SetupError."""
        root = CheckedURL.parse(to).root if "://" in to else to
        for name, peer in Peer.read_tables(self.data).items():
            if peer.token and root in {name, peer.address}:
                return name, peer
        raise SetupError(
            "there is no peer {name} with a token; name it first, with the token that it gave", name=to
        )


def write_message(
    transfer: OutgoingTransfer, kind: GiverMessage, address: str, holding: Holding | None
) -> dict[str, Any]:
    """Return a message as JSON; `address` is our own root URL, `holding` the item that is proposed."""
    message: dict[str, Any] = {"transfer": transfer.id, "word": kind.value}
    if holding is not None:
        message |= {
            "address": address,
            "ibi": str(holding.forms.main),
            "passage": transfer.passage,
            "seal": proof_digest(transfer.proof),
            "fingerprint": transfer.fingerprint or fingerprint(holding),
        }
    elif kind is GiverMessage.COMPLETE:
        message |= {"proof": transfer.proof, "fingerprint": transfer.fingerprint}
    return message


def _check_givable(held: Holding, service: object) -> None:
    name = held.forms.main
    if name == service:
        raise HoldingError("{name} is the Archive service and cannot be handed over", name=name)
    if held.deleted:
        raise HoldingError("{name} was removed on {date}", name=name, date=held.timestamp)
    if held.state is ItemState.COPY:
        raise HoldingError("{name} is a copy: only the Archive of the original can hand it over", name=name)
    if not held.transferable:
        raise HoldingError("{name} is an original that must stay in this Archive", name=name)
    held.check_settled()
