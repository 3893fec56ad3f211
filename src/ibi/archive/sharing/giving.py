"""Originals that go to other Archives: the giver's side of a hand-over, with its journal (`handover` has the steps)."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.ledgers import copies, transfers
from ibi.archive.ledgers.copies import Source
from ibi.archive.ledgers.transfers import Giving
from ibi.archive.sharing.handover import (
    Given,
    Reply,
    Step,
    Word,
    fingerprint,
    first_word,
    next_step,
    outcome,
    seal_of,
)
from ibi.archive.sharing.handover_words import Answer, read_answer
from ibi.errors import HoldingError, IbiError, NotHeld, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import State
from ibi.settings import Peer
from ibi.transport import AddressPolicy
from ibi.transport.download import Downloads, Place

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.holding import Holding
    from ibi.archive.keeper import Hand, Keeper
    from ibi.identifier.forms import Name
    from ibi.transport.client import Names

PATH: Final = "/-/api/transfers"
ANSWER_SECONDS: Final = 30.0
"""How long the receiver may take to answer; fetching goes on when it has answered."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
"""Seconds after which a running Archive tries again: twice as many each time."""

_MOST_STEPS: Final = 12  # of one go; whatever still changes then is taken up later
_OK: Final = 200


class Giver:
    """Hands originals of one Archive over to the peers that its settings name.

    `data` is its data directory, `address` its own root URL; `names` stands in for this machine's own look-up of host
    names. Peers were chosen by an administrator, so they may be at any address.
    """

    def __init__(self, keeper: Keeper, data: Path, address: str, names: Names | None = None) -> None:
        self.keeper = keeper
        self._data = data
        self._address = address
        self._names = names
        self._pauses: dict[str, tuple[float, float]] = {}

    def offer(self, name: Name, to: str, who: str, *, remove: bool = False) -> Giving:
        """Begin the hand-over of an item, or find the one that is under way: one transaction.

        `to`: the name or the root URL of a peer. Raises SetupError, NotHeld, and HoldingError where it must stay.
        """
        peer_name, peer = self._peer(to)
        with self.keeper.changing(who) as hand:
            held, run = hand.held(name), hand.writer.run
            for known in transfers.givings_of(run, held.number):
                if known.stage.open and known.address == peer.address:
                    return self._keep(hand, replace(known, peer=peer_name, remove=remove))
                if known.stage is Given.HANDED:
                    problem = "{name} is being handed over to {archive}; that must be finished first"
                    raise HoldingError(problem, name=held.forms.main, archive=known.address)
                if known.stage.open:
                    self._keep(hand, replace(known, stage=Given.ENDED))
            _check_givable(held, self.keeper.service.main)
            giving = Giving(
                id=secrets.token_hex(16),
                item=held.number,
                peer=peer_name,
                address=peer.address,
                passage=secrets.token_urlsafe(32),
                proof=secrets.token_urlsafe(32),
                remove=remove,
                who=who,
                stage=Given.OFFERED,
                moment=hand.moment,
            )
            return self._keep(hand, giving)

    def open(self) -> list[Giving]:
        """The hand-overs that are not at their end, the one that changed longest ago first."""
        with self.keeper.catalogue.reading() as run:
            return transfers.open_givings(run)

    def find(self, transfer: str) -> tuple[Giving, Holding]:
        """A hand-over and its item. Raises NotHeld."""
        catalogue = self.keeper.catalogue
        with catalogue.reading() as run:
            giving = transfers.giving_of(run, transfer)
            name = transfers.main_name(run, giving.item) if giving else ""
        holding = catalogue.holding(parse_name(name)) if name else None
        if giving is None or holding is None:
            raise NotHeld("there is no such hand-over")
        return giving, holding

    async def advance(self, giving: Giving) -> tuple[Giving, Reply | None]:
        """Go on with an open hand-over as far as it goes now; returns how far it is, and the receiver's last word.

        What goes wrong is noted in it, and None returned for a receiver that said nothing. Raises SetupError.
        """
        word, reply = first_word(giving.stage), None
        try:
            async with Downloads(AddressPolicy(allow_private=True), self._names) as door:
                for _ in range(_MOST_STEPS):
                    answer = await self._say(door, giving, word)
                    reply = answer.reply
                    step = next_step(giving.stage, reply)
                    giving = await asyncio.to_thread(self._take, giving, step, answer)
                    if step is Step.WAIT or not giving.stage.open:
                        break
                    word = Word.PROPOSE if step is Step.PROPOSE else first_word(giving.stage)
        except IbiError as error:
            reply = None
            giving = await asyncio.to_thread(self._note, giving, error)
        return giving, reply

    async def withdraw(self, giving: Giving) -> Giving:
        """Ask the receiver never to become the owner, and take the item back if it promises.

        Raises PeerError where it must be asked, because it may have been told the proof, and does not answer.
        """
        try:
            async with Downloads(AddressPolicy(allow_private=True), self._names) as door:
                answer = await self._say(door, giving, Word.WITHDRAW)
        except PeerError:
            if giving.stage is not Given.OFFERED:
                raise
            answer = Answer(Reply.DECLINED)  # it was never told the proof
        return await asyncio.to_thread(self._take, giving, next_step(giving.stage, answer.reply), answer)

    async def advance_all(self) -> None:
        """Go on with every open hand-over; where nothing moves, less and less often."""
        clock = asyncio.get_running_loop().time
        for giving in await asyncio.to_thread(self.open):
            due, pause = self._pauses.pop(giving.id, (0.0, FIRST_PAUSE))
            if clock() < due:
                self._pauses[giving.id] = (due, pause)
                continue
            after, reply = await self.advance(giving)
            if after.stage is giving.stage and reply is not Reply.FETCHING:
                self._pauses[giving.id] = (clock() + pause, min(2 * pause, LONGEST_PAUSE))

    async def _say(self, door: Downloads, giving: Giving, word: Word) -> Answer:
        message: dict[str, Any] = {"transfer": giving.id, "word": word.value}
        if word is Word.PROPOSE:
            _, holding = await asyncio.to_thread(self.find, giving.id)
            message |= {
                "address": self._address,
                "ibi": str(holding.forms.main),
                "passage": giving.passage,
                "seal": seal_of(giving.proof),
                "fingerprint": giving.fingerprint or fingerprint(holding),
            }
        elif word is Word.COMPLETE:
            message |= {"proof": giving.proof, "fingerprint": giving.fingerprint}
        _, peer = self._peer(giving.peer)
        reply = await door.send(
            "POST", f"{peer.address}{PATH}", json=message, token=peer.token, seconds=ANSWER_SECONDS
        )
        if reply.status != _OK:
            raise PeerGarbled("{archive} does not take part in hand-overs with us: it answered {status}",
                              archive=peer.address, status=reply.status)  # fmt: skip
        answer = read_answer(reply.json(), peer.address)
        if giving.service and answer.service != giving.service:  # the first one may be the owner by now
            problem = "at {archive} there is another Archive than the one that has taken the copy"
            raise PeerGarbled(problem, archive=peer.address)
        return answer

    def _take(self, giving: Giving, step: Step, answer: Answer) -> Giving:
        """One step, in one transaction with the journal; nothing if somebody else has gone on meanwhile."""
        with self.keeper.changing(giving.who) as hand:
            known = transfers.giving_of(hand.writer.run, giving.id)
            if known is None or known.stage is not giving.stage:
                return known or giving
            held = hand.held(parse_name(transfers.main_name(hand.writer.run, giving.item)))
            return self._keep(
                hand, self._stepped(hand, replace(known, problem=answer.problem), held, step, answer)
            )

    def _stepped(self, hand: Hand, giving: Giving, held: Holding, step: Step, answer: Answer) -> Giving:
        same = fingerprint(held) == answer.fingerprint
        stage, state = outcome(giving.stage, step, held.state, transferable=held.transferable, same=same)
        if state is State.COPY is not held.state:
            self._become_copy(hand, giving, held, answer)
        elif state is State.ORIGINAL is not held.state:
            hand.change(held, replace(held, state=state), (), "returned", by=giving.address)
            copies.forget(hand.writer.run, held.number)
        if stage is Given.HANDED is not giving.stage:
            giving = replace(giving, fingerprint=fingerprint(held), service=answer.service)
        if stage is Given.DONE and giving.remove and held.files:
            here, pointer = hand.held(held.forms.main), f"{giving.address}/{held.forms.main}"
            bare = replace(here, files=(), target="", url=pointer)
            hand.change(here, bare, (), "dropped", to=giving.address)
        if stage is Given.ENDED and step is Step.STEP_BACK:
            problem = "{name} is no longer an original that can be handed over"
            giving = replace(giving, problem=HoldingError(problem, name=held.forms.main))
        return replace(giving, stage=stage)

    @staticmethod
    def _become_copy(hand: Hand, giving: Giving, held: Holding, answer: Answer) -> None:
        hand.change(
            held, replace(held, state=State.COPY), (), "given", to=giving.address, service=answer.service
        )
        source = Source(
            archive=giving.address,
            service=answer.service,
            original=held.timestamp,
            checked=hand.moment,
            private=True,
        )
        copies.keep(hand.writer.run, held.number, source)

    def _note(self, giving: Giving, problem: IbiError) -> Giving:
        with self.keeper.changing(giving.who) as hand:
            known = transfers.giving_of(hand.writer.run, giving.id)
            if known is None or str(known.problem) == str(problem):
                return known or giving
            return self._keep(hand, replace(known, problem=problem))

    @staticmethod
    def _keep(hand: Hand, giving: Giving) -> Giving:
        kept = replace(giving, moment=hand.moment)
        transfers.keep_giving(hand.writer.run, kept)
        return kept

    def _peer(self, to: str) -> tuple[str, Peer]:
        """A peer with a token, by its name or its root URL. Raises SetupError."""
        root = Place.parse(to).root if "://" in to else to
        for name, peer in Peer.read_tables(self._data).items():
            if peer.token and root in {name, peer.address}:
                return name, peer
        raise SetupError("there is no peer {name} with a token: add it with `ibi archive peer`", name=to)


def _check_givable(held: Holding, service: object) -> None:
    name = held.forms.main
    if name == service:
        raise HoldingError("{name} is the Archive service and cannot be handed over", name=name)
    if held.deleted:
        raise HoldingError("{name} was removed on {date}", name=name, date=held.timestamp)
    if held.state is State.COPY:
        raise HoldingError("{name} is a copy: only the Archive of the original can hand it over", name=name)
    if not held.transferable:
        raise HoldingError("{name} is an original that must stay in this Archive", name=name)
