"""Hand-overs between two Archives in any order, with messages lost and doubled: never two originals, never none."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from ibi.archive.model.handover import GiverStage
from ibi.archive.model.item_json import read_item
from ibi.archive.store.item_changes import deposit, edit, remove
from ibi.archive.store.tables import history
from ibi.errors import HoldingError, IbiError, NotHeld, PeerError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from proofs.transfer.wire import Fate, Moment, Seen, Wire
from support.archive.replication_fixture import make_archive
from support.oracles.state_machines import folder_in_memory, try_histories

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.replication.giving import Giver
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.archive.store.tables.transfers import OutgoingTransfer
    from ibi.identifier.forms import IBI

SIDES = (0, 1)
MOST_ITEMS = 2
WHO = "maria"
sides = st.sampled_from(SIDES)


class Fault(NamedTuple):
    """What becomes of one message of a hand-over: of which one to this Archive, and whether of its answer instead."""

    to_receiver: bool
    number: int
    moment: Moment
    fate: Fate


_WAYS = [(Moment.REQUESTED, Fate.LOSE), (Moment.REQUESTED, Fate.DOUBLE), (Moment.ANSWERED, Fate.LOSE)]
# The receiver gets a proposal, and then the proof; it fetches the description and the file.
_FAULTS = [Fault(to, number, *way) for to in (True, False) for number in (0, 1) for way in _WAYS]
faults: st.SearchStrategy[Fault | None] = st.sampled_from([None, *_FAULTS])


@dataclass
class Pair:
    """Two Archives, served, each with a giver; what goes from one to the other goes through the wire."""

    wire: Wire
    givers: list[Giver]
    runner: asyncio.Runner

    def store(self, side: int) -> ItemStore:
        return self.givers[side].item_store

    def follow(self, fault: Fault | None, giver: int) -> None:
        """Let this fault happen to what follows, once."""
        seen_before = {str(side): -1 for side in SIDES}

        async def plan(seen: Seen) -> Fate:
            if seen.moment is Moment.REQUESTED:
                seen_before[seen.target] += 1
            if fault is None or fault.to_receiver != (seen.target == str(1 - giver)):
                return Fate.GO_ON
            is_it = (seen_before[seen.target], seen.moment) == (fault.number, fault.moment)
            return fault.fate if is_it else Fate.GO_ON

        self.wire.follow(plan)


@contextmanager
def pair(folder: Path) -> Iterator[Pair]:
    archives = [make_archive(folder, 1), make_archive(folder, 2)]
    with ExitStack() as stack:
        wire = Wire({str(side): archives[side].port for side in SIDES})
        stack.callback(wire.close)
        for side in SIDES:
            other = archives[1 - side]
            peer = Peer(
                address=f"http://127.0.0.1:{wire.ports[str(1 - side)]}", token=other.lets_in("neighbour")
            )
            Peer.write_tables(archives[side].data, {"neighbour": peer})
        for archive in archives:
            stack.enter_context(archive.served())
        givers = [stack.enter_context(archive.giver()) for archive in archives]
        yield Pair(wire, givers, stack.enter_context(asyncio.Runner()))


@dataclass
class Expected:
    """An item as it was acknowledged: its content, and whether the original, or the copy of a side, was removed."""

    name: IBI
    content: bytes
    original_removed: bool = False
    copies_removed: set[int] = field(default_factory=set)
    events: dict[int, list[ItemEvent]] = field(default_factory=lambda: {0: [], 1: []})


class TransferHistories(RuleBasedStateMachine):
    """Items of one history have names of their own; all histories share two Archives."""

    items = Bundle("items")

    def __init__(self, archives: Pair, numbered: Iterable[int]) -> None:
        super().__init__()
        self.archives = archives
        self.number = next(iter(numbered))
        self.held: list[Expected] = []

    # What may happen

    @precondition(lambda self: len(self.held) < MOST_ITEMS)
    @rule(target=items, side=sides, content=st.binary(max_size=3))
    def deposit(self, side: int, content: bytes) -> int:
        name = f"a.example/t{self.number}/2010/01.01.00.{len(self.held):02}"
        store = self.archives.store(side)
        staging = store.file_store.stage_stream("a.txt")
        staging.write(content)
        deposit(store, read_item({"rep": name, "files": {"a.txt": ""}}), [staging.finish()], WHO)
        self.held.append(Expected(parse_ibi(name), content))
        return len(self.held) - 1

    @rule(item=items, dropped=st.booleans(), fault=faults)
    def hand_over(self, item: int, dropped: bool, fault: Fault | None) -> None:
        for side in SIDES:
            if self.state(item, side) is ItemState.ORIGINAL:
                giver = self.archives.givers[side]
                self.advance(side, giver.offer(self.held[item].name, "neighbour", WHO, remove=dropped), fault)
                return

    @rule(item=items)
    def offer_what_is_no_original(self, item: int) -> None:
        for side in SIDES:
            if self.state(item, side) is not ItemState.ORIGINAL and not self.open(side, item):
                with pytest.raises((HoldingError, NotHeld)):
                    self.archives.givers[side].offer(self.held[item].name, "neighbour", WHO)

    @rule(side=sides, fault=faults)
    def go_on(self, side: int, fault: Fault | None) -> None:
        for each in self.open(side):
            self.advance(side, each, fault)

    @rule(side=sides, fault=faults)
    def take_back(self, side: int, fault: Fault | None) -> None:
        for each in self.open(side):
            self.archives.follow(fault, side)
            try:
                after = self.archives.runner.run(self.archives.givers[side].withdraw(each))
            except PeerError:
                continue
            assert after.stage in {GiverStage.ENDED, GiverStage.DONE}

    @rule(item=items, side=sides, content=st.binary(max_size=3))
    def edit(self, item: int, side: int, content: bytes) -> None:
        store = self.archives.store(side)
        staging = store.file_store.stage_stream("a.txt")
        staging.write(content)
        staged = [staging.finish()]
        if self.state(item, side) is ItemState.ORIGINAL:
            edit(store, self.held[item].name, {}, WHO, staged=staged)
            self.held[item].content = content
        else:
            with pytest.raises(IbiError):
                edit(store, self.held[item].name, {}, WHO, staged=staged)

    @rule(item=items, side=sides)
    def remove(self, item: int, side: int) -> None:
        """Remove an original, or a copy of one that is at the other side."""
        known = self.held[item]
        states = [self.state(item, each) for each in SIDES]
        if states[side] is ItemState.ORIGINAL:
            known.original_removed = True
        elif states[side] is ItemState.COPY and states[1 - side] is ItemState.ORIGINAL:
            known.copies_removed.add(side)
        else:
            return
        remove(self.archives.store(side), known.name, "asked for", WHO)

    # What must hold

    @invariant()
    def never_two_originals_and_never_none(self) -> None:
        for item, known in enumerate(self.held):
            states = [self.state(item, side) for side in SIDES]
            assert states.count(ItemState.ORIGINAL) <= 1
            if known.original_removed:
                assert ItemState.ORIGINAL not in states
            elif ItemState.ORIGINAL in states:
                assert self.content(item, states.index(ItemState.ORIGINAL)) == known.content
            else:
                # Between stepping back and taking over, readers are led to one of two copies.
                assert known.content in [self.content(item, side) for side in SIDES]
                assert any(self.open(side, item) for side in SIDES)

    @invariant()
    def histories_only_grow(self) -> None:
        for item, known in enumerate(self.held):
            for side in SIDES:
                events = self.events(item, side)
                assert [each for each in known.events[side] if each not in events] == []
                known.events[side] = events

    def teardown(self) -> None:
        """Without further faults, each hand-over comes to its end, or is taken back."""
        for side in SIDES:
            for each in self.open(side):
                self.advance(side, each, None)
        for side in SIDES:
            for each in self.open(side):
                self.archives.runner.run(self.archives.givers[side].withdraw(each))
            assert self.open(side) == []
        self.never_two_originals_and_never_none()
        for item, known in enumerate(self.held):
            originals = [self.state(item, side) for side in SIDES].count(ItemState.ORIGINAL)
            assert originals == (not known.original_removed)

    # How it is done

    def advance(self, side: int, giving: OutgoingTransfer, fault: Fault | None) -> None:
        self.archives.follow(fault, side)
        self.archives.runner.run(self.archives.givers[side].advance(giving))

    def open(self, side: int, item: int | None = None) -> list[OutgoingTransfer]:
        """The open hand-overs of the items of this history."""
        giver = self.archives.givers[side]
        wanted = range(len(self.held)) if item is None else [item]
        return [each for each in giver.open() if any(self.is_of(giver, each, number) for number in wanted)]

    def is_of(self, giver: Giver, transfer: OutgoingTransfer, item: int) -> bool:
        return giver.find(transfer.id)[1].forms.main == self.held[item].name

    def holding(self, item: int, side: int) -> Holding | None:
        return self.archives.store(side).catalogue.holding(self.held[item].name)

    def state(self, item: int, side: int) -> ItemState | None:
        holding = self.holding(item, side)
        return holding.state if holding else None

    def content(self, item: int, side: int) -> bytes | None:
        holding = self.holding(item, side)
        if holding is None or not holding.files:
            return None
        with self.archives.store(side).file_store.open(holding.forms, holding.files[0]) as opened:
            return opened.read()

    def events(self, item: int, side: int) -> list[ItemEvent]:
        holding = self.holding(item, side)
        if holding is None:
            return []
        with self.archives.store(side).catalogue.reading() as run:
            return history.events_of(run, holding.number)


@pytest.mark.proves("ARC-08", "ARC-05")
@pytest.mark.long
def test_whatever_is_lost_on_the_way_there_is_one_original() -> None:
    with folder_in_memory() as folder, pair(folder) as archives:
        try_histories(partial(TransferHistories, archives, count()), one_in=7, steps=15)
