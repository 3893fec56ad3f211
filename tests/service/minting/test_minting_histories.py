"""Draws, wrong clocks, crashes and failovers in any order, from files and from the row: no date comes twice, ever."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sqlalchemy import text

from ibi.errors import ClockError
from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.machine import Machine
from ibi.minting.state_row import MOST_SKEW, StateRow
from support.engines.postgresql import PostgreSQL
from support.machine import START
from support.minting.rows import Rows
from support.oracles.state_machines import folder_in_memory, try_histories

STEPS = (TICKS, TICKS // 10, TICKS // 1000, 1)
nodes = st.sampled_from(range(3))
little = st.integers(-MOST_SKEW, MOST_SKEW)
much = st.integers(-(10**14), 10**14)


class World:
    """One true time, and three clocks that differ from it."""

    def __init__(self) -> None:
        self.true = START
        self.offsets = [0, 0, 0]

    def machine(self, node: int) -> Machine:
        return Machine(
            now=lambda: self.true + self.offsets[node],
            sleep=lambda seconds: self.pass_by(max(1, int(seconds * TICKS))),
            running=lambda: self.true,
            boot="boot",
            identity="machine",
            synchronised=lambda: None,
        )

    def pass_by(self, ticks: int) -> None:
        self.true += ticks


class MintingHistories(RuleBasedStateMachine):
    """Three nodes with one waiting room; `rows`: None for files."""

    numbers = itertools.count()

    def __init__(self, folder: Path, rows: Rows | None) -> None:
        super().__init__()
        self.folder = folder / str(next(self.numbers))
        self.rows = rows
        self.world = World()
        self.given: list[int] = []
        self.records: list[str] = []
        self.entered = [self.enter(node) for node in range(3)]

    def enter(self, node: int) -> WaitingRoom:
        machine = self.world.machine(node)
        state = self.row(machine) if self.rows is not None else None
        return WaitingRoom(self.folder, machine, state=state).__enter__()

    def row(self, machine: Machine) -> StateRow:
        assert self.rows is not None
        return self.rows.row(self.folder, machine)

    def teardown(self) -> None:
        if self.rows is not None:
            self.rows.close()

    def tell(self, statement: str, **values: str) -> str:
        assert self.rows is not None
        with self.rows.engines[str(self.folder)].begin() as connection:
            found = connection.execute(text(statement), values)
            return str(found.scalar_one()) if found.returns_rows else ""

    @rule(node=nodes, granularity=st.sampled_from(STEPS), count=st.sampled_from([1, 1, 5, 300]))
    def draw(self, node: int, granularity: int, count: int) -> None:
        before = self.world.true
        try:
            dates = list(self.entered[node].reserve(granularity, count))
        except ClockError:
            assert self.world.offsets != [0, 0, 0] or self.given
            return
        assert min(dates) > max(self.given, default=0)
        assert dates == sorted(set(dates))
        self.given += dates
        assert self.world.true - before <= granularity + 10 * TICKS
        if self.rows is not None:
            self.records.append(self.tell("SELECT record FROM waiting_room"))

    @rule(ticks=st.integers(1, 10 * TICKS))
    def wait(self, ticks: int) -> None:
        self.world.pass_by(ticks)

    @rule(node=nodes, offset=little)
    def slew(self, node: int, offset: int) -> None:
        self.world.offsets[node] = offset

    @rule(node=nodes, offset=much)
    def set_wrong(self, node: int, offset: int) -> None:
        self.world.offsets[node] = offset

    @rule(node=nodes)
    def set_right(self, node: int) -> None:
        self.world.offsets[node] = 0

    @rule(node=nodes)
    def crash(self, node: int) -> None:
        try:
            self.entered[node] = self.enter(node)
        except ClockError:
            assert self.world.offsets[node]

    @precondition(lambda self: bool(self.records))
    @rule(share=st.floats(0, 1), name=st.sampled_from(["0000000A", "0000000B"]))
    def fail_over(self, share: float, name: str) -> None:
        """A standby takes over that lacks some of the last transactions, on another timeline."""
        record = self.records[int(share * (len(self.records) - 1))]
        self.tell(
            "UPDATE waiting_room SET record = :record, written = pg_current_xact_id(), timeline = :name",
            record=record, name=name,
        )  # fmt: skip

    @invariant()
    def nothing_twice(self) -> None:
        assert len(set(self.given)) == len(self.given)


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-38", "GEN-41", "GEN-43", "GEN-44", "AMB-18")
def test_whatever_happens_to_clocks_and_processes_no_date_comes_twice() -> None:
    with folder_in_memory() as folder:
        try_histories(partial(MintingHistories, folder, None), one_in=4, steps=40)


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-38", "GEN-41", "GEN-43", "GEN-44", "AMB-18")
def test_whatever_happens_to_clocks_nodes_and_database_no_date_comes_twice(
    tmp_path: Path, postgresql: PostgreSQL
) -> None:
    try_histories(partial(MintingHistories, tmp_path, Rows(postgresql)), one_in=4, steps=40)
