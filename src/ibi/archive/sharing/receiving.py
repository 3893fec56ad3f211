"""Originals that come from other Archives: the receiver's side of a hand-over, with its journal (`handover`)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.ledgers import copies, history, transfers
from ibi.archive.ledgers.copies import Source
from ibi.archive.ledgers.history import Event
from ibi.archive.ledgers.transfers import Taking
from ibi.archive.sharing.copying import discard_unused, hold, without
from ibi.archive.sharing.fetching import (
    ANSWER_SECONDS,
    LONGEST_DESCRIPTION,
    check_takable,
    discarding,
    fetch,
    working,
)
from ibi.archive.sharing.handover import Deed, Reply, Taken, fingerprint, judge, seal_of
from ibi.archive.sharing.handover_words import Fetched, Message, read_fetched, read_message
from ibi.errors import (
    ForbiddenAddress,
    HoldingError,
    IbiError,
    PeerError,
    PeerGarbled,
    SetupError,
)
from ibi.identifier.forms import parse_name
from ibi.interface.threads import to_its_end
from ibi.protocol.vocabulary import State
from ibi.settings import Peer
from ibi.transport import AddressPolicy
from ibi.transport.download import Downloads, Place

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Hand, Keeper
    from ibi.transport.client import Names

PASSAGE: Final = "ibi-passage"
"""The header with which the receiver of a hand-over fetches its item."""

WAIT_SECONDS: Final = 5.0
"""How long an answer waits for a fetch that is under way."""

MOST_FETCHES: Final = 8
"""Items that are fetched at once."""

_OK: Final = 200


class Receiver:
    """Takes originals over from other Archives.

    `data` is the data directory; `largest`: bytes of the largest file that is taken; `names` stands in for this
    machine's own look-up of host names.
    """

    def __init__(self, keeper: Keeper, data: Path, largest: int, names: Names | None = None) -> None:
        self._keeper = keeper
        self._data = data
        self._largest = largest
        self._names = names
        self._fetches: dict[str, asyncio.Task[None]] = {}

    async def hear(self, value: Any, who: str) -> dict[str, Any]:
        """Act on a message of the giver and answer it; `who` is the name of its token.

        Raises ParseError or BadItem for what is no message, HoldingError for a message about another's hand-over.
        """
        message = read_message(value)
        deed, reply, stamp = await asyncio.to_thread(self._judge, message, who)
        problem = ""
        if deed is Deed.FETCH:
            reply, problem = await self._await_fetch(message, who)
            if reply is Reply.STAGED:
                _, reply, stamp = await asyncio.to_thread(self._judge, message, who, fetch_again=False)
        service = str(self._keeper.service.main)
        return {"transfer": message.transfer, "reply": reply.value, "fingerprint": stamp, "problem": problem,
                "service": service}  # fmt: skip

    async def close(self) -> None:
        """End what is under way; the giver will propose it again."""
        tasks = list(self._fetches.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What is done in a transaction

    def _judge(self, message: Message, who: str, *, fetch_again: bool = True) -> tuple[Deed, Reply, str]:
        """Judge a message and do what takes no fetching, with the journal, all in one transaction."""
        with self._keeper.changing(who) as hand:
            taking = transfers.taking_of(hand.writer.run, message.transfer)
            if taking is not None and taking.giver != who:
                raise HoldingError("this hand-over was begun with another token")
            stage = taking.stage if taking else Taken.NONE
            held = _copy_of(hand, taking)
            stamp = fingerprint(held) if held else ""
            same = bool(taking) and held is not None and stamp == message.fingerprint == taking.fingerprint  # type: ignore[union-attr]  # bool(taking) says so
            proven = taking is not None and compare_digest(seal_of(message.proof), taking.seal)
            deed, reply = judge(stage, message.word, same=same, proven=proven)
            if deed is Deed.TAKE_OVER and taking is not None and held is not None:
                self._take_over(hand, taking, held)
            elif deed is Deed.DECLINE:
                _keep(hand, taking or _unheard(message, who), Taken.DECLINED)
            elif deed is Deed.FETCH and not fetch_again:
                return Deed.NOTHING, Reply.UNKNOWN, stamp
            return deed, reply, stamp

    def _take_over(self, hand: Hand, taking: Taking, held: Holding) -> None:
        """Become the owner: the Copy is the Original from now on, with all that had happened to it."""
        run, ours = hand.writer.run, str(self._keeper.service.main)
        known = history.events_of(run, held.number)
        for told in taking.history:
            event = Event(**told)
            if event.detail["archive"] == ours:  # it was here before, and comes home
                del event.detail["archive"]
            if event not in known:
                history.add(run, held.number, event)
        hand.change(held, replace(held, state=State.ORIGINAL), (), "received", giver=taking.address)
        copies.forget(run, held.number)
        _keep(hand, taking, Taken.OWNED)

    def _stage(self, message: Message, who: str, root: str, fetched: Fetched, staged: list[Any]) -> None:
        """Hold what was fetched as a Copy, unless the hand-over has come to its end meanwhile."""
        with self._keeper.changing(who) as hand, discarding(self._keeper.storage, staged):
            taking = transfers.taking_of(hand.writer.run, message.transfer)
            if taking is not None and taking.stage in {Taken.OWNED, Taken.DECLINED}:
                raise HoldingError("this hand-over is at its end")
            copy = replace(fetched.item, state=State.COPY)
            held = hold(hand, copy.forms.main, copy, staged, root)
            source = Source(archive=root, service=fetched.service, original=copy.timestamp, checked=hand.moment,
                            private=True)  # fmt: skip
            copies.keep(hand.writer.run, held.number, source)
            known = replace(
                taking or _unheard(message, who),
                item=held.number,
                address=root,
                seal=message.seal,
                fingerprint=fingerprint(held),
                history=fetched.history,
            )
            _keep(hand, known, Taken.STAGED)
        discard_unused(self._keeper.storage, held, staged)

    # What takes its time

    async def _await_fetch(self, message: Message, who: str) -> tuple[Reply, str]:
        """Fetch, or go on with it, for a moment; how far that is, and what is wrong."""
        self._tidy(message.transfer)
        task = self._fetches.get(message.transfer)
        if task is None:
            if len(self._fetches) >= MOST_FETCHES:
                return Reply.FETCHING, ""
            task = asyncio.create_task(self._fetch(message, who))
            self._fetches[message.transfer] = task
        await asyncio.wait([task], timeout=WAIT_SECONDS)
        if not task.done():
            return Reply.FETCHING, ""
        self._fetches.pop(message.transfer, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return Reply.FAILING if task.cancelled() else Reply.STAGED, ""
        if not isinstance(error, IbiError):
            raise error
        passing = isinstance(error, PeerError | SetupError) and not isinstance(error, ForbiddenAddress)
        return Reply.FAILING if passing else Reply.REFUSED, str(error)

    def _tidy(self, asked: str) -> None:
        """Forget fetches that are done, and whose giver did not come back to hear of it."""
        for transfer, task in list(self._fetches.items()):
            if transfer != asked and task.done():
                if not task.cancelled():
                    task.exception()
                del self._fetches[transfer]

    async def _fetch(self, message: Message, who: str) -> None:
        root, private = await asyncio.to_thread(self._giver, message, who)
        headers = {PASSAGE: message.passage}
        base = f"{root}/-/api/transfers/{message.transfer}"
        keeper = self._keeper
        async with working(keeper), Downloads(AddressPolicy(allow_private=private), self._names) as door:
            async with door.get(
                base, most_bytes=LONGEST_DESCRIPTION, seconds=ANSWER_SECONDS, headers=headers
            ) as reply:
                if reply.status != _OK:
                    raise PeerGarbled(
                        "the giver does not describe it; it answered {status}", status=reply.status
                    )
                fetched = read_fetched(await reply.read(), message)
            check_takable(fetched.item, self._largest)
            here = await asyncio.to_thread(keeper.catalogue.holding, fetched.item.forms.main)
            _check_free(here)
            missing = without(fetched.item.files, here.files if here else ())
            staged = await fetch(
                door, keeper.storage, missing, lambda file: f"{base}/files/{file.name}", headers
            )
            await to_its_end(self._stage, message, who, root, fetched, staged)

    def _giver(self, message: Message, who: str) -> tuple[str, bool]:
        """Where the giver is: where our administrator says its token's owner is, else where it says, if public."""
        peer = Peer.read_tables(self._data).get(who)
        return (peer.address, True) if peer else (Place.parse(message.address).root, False)


def _check_free(here: Holding | None) -> None:
    if here is None or here.state is State.COPY:
        return
    if here.deleted:
        raise HoldingError("{name} was removed on {date}", name=here.forms.main, date=here.timestamp)
    raise HoldingError(
        "{name} is held here as the Original, beside which there is no copy", name=here.forms.main
    )


def _copy_of(hand: Hand, taking: Taking | None) -> Holding | None:
    """The Copy that a hand-over is about, None if there is none (any more)."""
    if taking is None or taking.item is None:
        return None
    held = hand.find(parse_name(transfers.main_name(hand.writer.run, taking.item)))
    return held if held is not None and held.state is State.COPY else None


def _unheard(message: Message, who: str) -> Taking:
    return Taking(
        id=message.transfer, item=None, giver=who, address=message.address, seal=message.seal, fingerprint="",
        history=(), stage=Taken.NONE, moment="",
    )  # fmt: skip


def _keep(hand: Hand, taking: Taking, stage: Taken) -> None:
    transfers.keep_taking(hand.writer.run, replace(taking, stage=stage, moment=hand.moment))
