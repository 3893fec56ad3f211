"""The row of a waiting room, statement by statement, over a database in memory: what is trusted and written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self

import psycopg
import pytest

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.minting.state import SENTENCES, StateFault, StateRecord
from ibi.minting.state_row import MARGIN, LockedRow, StateRow
from ibi.minting.waiting_room import Overtaken
from ibi.runtime.database import open_engine
from support.machine import START

IDENTITY, TIMELINE = "77-16384", "00000001"
MOMENT = START // 1000
"""The time of the database, in microseconds."""
RECORD = StateRecord(START, START, 5, 3, "a-boot", IDENTITY, "names", "-")
NAME = "postgresql://db.example/ibi"
LOCKED = ["begin waiting room", "lock the row", "read"]


class Database:
    """A database with one row or none; `events` is what was done with it."""

    def __init__(self, record: StateRecord | None = None, **more: Any) -> None:
        self.line = None if record is None else record.line().decode()
        self.untouched = True
        self.written_on = self.timeline = TIMELINE
        self.identity = IDENTITY
        self.has_table = True
        self.fault: Exception | None = None
        self.events = list[str]()
        self.values = list[dict[str, Any]]()
        self.lost = False
        for name, value in more.items():
            setattr(self, name, value)

    @contextmanager
    def transaction(self, _engine: object, lock: str) -> Iterator[Self]:
        self.events.append(f"begin {lock}")
        yield self
        self.events.append("commit")

    def execute(self, statement: Any, values: dict[str, Any] | None = None) -> Any:
        words = str(statement)
        if words.startswith("SELECT to_regclass"):
            return SimpleNamespace(scalar_one=lambda: self.has_table)
        if words.startswith("CREATE TABLE"):
            self.events.append("make the table")
        elif words.startswith("SELECT 1 FROM waiting_room"):
            self.events.append("lock the row")
        elif words.startswith("UPDATE"):
            return self._replace(values or {})
        elif words.startswith("INSERT"):
            self.events.append("write")
            self.line, self.written_on = (values or {})["record"], (values or {})["timeline"]
        else:
            self.events.append("read")
            moment = (values or {})["moment"] or MOMENT
            return SimpleNamespace(one=lambda: (
                self.line, self.line and self.untouched, self.written_on, self.timeline, self.identity, moment,
            ))  # fmt: skip
        return None

    def _replace(self, values: dict[str, Any]) -> Any:
        self.events.append("replace")
        self.values.append(values)
        if self.fault is not None:
            raise self.fault
        if values["known"] != self.line or values["timeline"] != self.timeline:
            return SimpleNamespace(rowcount=0)
        self.line = values["record"]
        return SimpleNamespace(rowcount=1)

    # What the pool gives for single statements

    def raw_connection(self) -> Any:
        self.events.append("open")
        return self

    autocommit = False

    @property
    def dbapi_connection(self) -> Self:
        return self

    def detach(self) -> None:
        self.events.append("detach")

    def close(self) -> None:
        assert self.autocommit
        self.events.append("close")


def row_over(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, used: bool = False, moment: int | None = None
) -> StateRow:
    engine = open_engine("postgresql://node:secret@db.example/ibi")
    monkeypatch.setattr("ibi.minting.state_row.transaction", database.transaction)
    monkeypatch.setattr("ibi.runtime.database.postgresql.is_lost", lambda _: database.lost)
    monkeypatch.setattr(engine, "raw_connection", database.raw_connection)
    monkeypatch.setattr(engine, "dispose", lambda: database.events.append("dispose"))
    return StateRow(engine, lambda _: used, lambda: moment)


def draw(row: StateRow, record: StateRecord) -> None:
    with row.locked() as state:
        state.clock_confirmed(START)
        state.commit(record)


def test_the_first_record_makes_the_table_and_further_ones_take_one_statement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database(has_table=False)
    row = row_over(database, monkeypatch)
    assert row.name == NAME
    with row.locked() as state:
        assert (state.new, state.margin, state.waits_locked, state.drew_last) == (True, MARGIN, False, False)
        state.create(RECORD._replace(machine="another", file="its-file"))
        assert (state.new, state.is_latest, state.trusted()) == (False, True, RECORD)
    assert database.events == ["begin waiting room", "make the table", "commit", *LOCKED, "write", "commit"]
    database.events.clear()
    drawn = RECORD
    for number in (1, 2):
        before, drawn = drawn, drawn._replace(last=START + number, drawn=3 + number)
        with row.locked() as state:
            assert (state.new, state.margin, state.waits_locked, state.drew_last) == (
                False,
                MARGIN,
                False,
                True,
            )
            assert (state.is_latest, state.identity, state.trusted()) == (True, IDENTITY, before)
            assert state.clock_confirmed(START + 7_654_321)
            state.create(RECORD)  # without effect: there is a record
            state.commit(drawn)
        assert database.values.pop() == {
            "record": drawn.line().decode(), "known": before.line().decode(), "timeline": TIMELINE,
            "now": (START + 7_654_321) // 1000, "skew": 2_000_000, "moment": None,
        }  # fmt: skip
    assert database.events == ["open", "detach", "replace", "replace"]
    database.events.clear()
    row.leave()
    row.leave()
    assert database.events == ["close", "dispose", "dispose"]


def test_who_was_overtaken_reads_the_row_again(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(RECORD)
    row = row_over(database, monkeypatch)
    with row.locked() as state:
        state.commit(RECORD)
    database.line = RECORD._replace(drawn=9).line().decode()  # as another node has written it
    with pytest.raises(Overtaken):
        draw(row, RECORD._replace(drawn=4))
    with row.locked() as state:
        assert isinstance(state, LockedRow)
        assert state.trusted().drawn == 9
    assert database.events[-6:] == ["detach", "replace", *LOCKED, "commit"]


def test_a_statement_that_fails_is_one_sentence_and_a_lost_connection_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = Database(RECORD)
    row = row_over(database, monkeypatch)
    for _ in range(2):
        draw(row, RECORD)
    database.events.clear()
    database.lost = True
    draw(row, RECORD)
    assert database.events == ["close", "dispose", "open", "detach", "replace"]
    database.fault, database.lost = (
        psycopg.OperationalError("connection failed: FATAL: it is full\nHINT"),
        False,
    )
    with pytest.raises(SetupError) as refused:
        draw(row, RECORD)
    assert str(refused.value) == f"the database {NAME} cannot be used: it is full"
    database.events.clear()
    with pytest.raises(ZeroDivisionError), row.locked():
        raise ZeroDivisionError
    assert database.events == [*LOCKED, "close", "dispose"]


@pytest.mark.parametrize(
    ("database", "used", "fault"),
    [
        (Database(RECORD), True, None),
        (Database(RECORD, untouched=False), False, StateFault.TOUCHED),
        (Database(RECORD, identity="78-16384"), False, StateFault.OTHER_MACHINE),
        (Database(RECORD, line="1 2 3"), False, StateFault.DAMAGED),
        (Database(), True, StateFault.MISSING),
    ],
)
def test_only_a_row_that_was_written_here_last_is_trusted(
    database: Database, used: bool, fault: StateFault | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with row_over(database, monkeypatch, used=used).alone() as state:
        assert (state.fault, state.new, state.replica) == (fault, False, None)
        if fault is None:
            assert state.trusted() == RECORD
            return
        with pytest.raises(LostState) as refused:
            state.trusted()
        assert str(refused.value) == SENTENCES[fault].format(directory=NAME)
        state.create(RECORD)
        assert state.trusted() == RECORD._replace(machine=database.identity)


@pytest.mark.parametrize(("written_on", "is_latest"), [(TIMELINE, True), ("00000002", False)])
def test_after_a_failover_the_last_dates_may_be_lost(
    written_on: str, is_latest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(RECORD, written_on=written_on)
    with row_over(database, monkeypatch).locked() as state:
        assert state.is_latest is is_latest
        state.commit(RECORD)
        assert state.is_latest
    assert database.written_on == TIMELINE


@pytest.mark.parametrize("moment", [None, MOMENT - 5_000_000])
def test_the_clock_of_the_database_may_differ_by_two_seconds(
    moment: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = (moment or MOMENT) * 1000
    with row_over(Database(RECORD), monkeypatch, moment=moment).alone() as state:
        assert state.moment == at
        assert state.clock_confirmed(at - 2 * TICKS)
        assert state.clock_confirmed(at + 2 * TICKS)
        for apart in (-2 * TICKS - 1, 2 * TICKS + 1, 3 * TICKS - 1):
            with pytest.raises(ClockError) as refused:
                state.clock_confirmed(at + apart)
            assert str(refused.value) == (
                "the clock of this machine and that of the database are 2 seconds apart; no label is given here "
                "until both are right"
            )
