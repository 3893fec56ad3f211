"""The waiting room of several nodes: a row in PostgreSQL instead of files, with the same rules for dates and clocks.

Tests of the files that hold for the row as well run here once more. Others are for files alone: how files are copied,
cut, renamed and flushed (`test_state.py` of `tests/unit/minting`), and clocks that leap by less than a day, which the
clock of the database contradicts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import GRANULARITIES, TICKS
from ibi.minting import WaitingRoom
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from ibi.minting.state_row import MARGIN, MOST_SKEW, LockedRow, StateRow
from ibi.minting.waiting_room import AHEAD
from ibi.runtime.database import open_engine
from service.minting import test_waiting_room as of_files
from support.concurrency.open_files import open_connections
from support.engines.postgresql import PostgreSQL
from support.machine import START, FalseMachine
from support.minting.rows import Rows
from unit.minting import test_clock as of_clocks

MILLISECOND = TICKS // 1000

FOR_BOTH = (
    of_files.test_dates_increase_over_runs_and_changes_of_granularity,
    of_files.test_the_coarsest_date_is_used_across_runs,
    of_files.test_a_label_is_given_only_when_the_clock_has_reached_it_however_short_the_sleep,
    of_files.test_a_batch_costs_one_write_and_runs_at_most_a_fifth_of_a_second_ahead,
    of_files.test_a_crash_burns_the_batch_and_never_repeats_it,
    of_files.test_both_forms_of_a_label_tell_the_same_moment,
    of_clocks.test_a_clock_set_back_after_a_long_wait_is_noticed,
    of_clocks.test_a_clock_set_back_during_the_wait_is_noticed,
    of_clocks.test_a_quiet_month_is_no_leap,
    of_clocks.test_an_operator_may_ask_for_a_clock_that_is_kept,
    of_clocks.test_the_last_moment_of_the_calendar_is_a_time,
    of_clocks.test_the_first_second_of_the_first_month_is_a_time,
)
"""Tests of the files, which get the row instead."""


@pytest.fixture
def rows(postgresql: PostgreSQL) -> Iterator[Rows]:
    rows = Rows(postgresql)
    yield rows
    rows.close()


@pytest.fixture
def engine(rows: Rows, tmp_path: Path) -> Engine:
    """The database that stands for `tmp_path`."""
    rows.at(tmp_path, FalseMachine())
    return rows.engines[str(tmp_path)]


def sql(engine: Engine, statement: str, **values: object) -> list[tuple[object, ...]]:
    """Do something to the database from outside."""
    with engine.begin() as connection:
        found = connection.execute(text(statement), values)
        return [tuple(row) for row in found] if found.returns_rows else []


@pytest.mark.proves("GEN-38", "GEN-40", "GEN-41", "GEN-43", "GEN-44")
@pytest.mark.parametrize("test", FOR_BOTH, ids=lambda test: test.__name__)
def test_what_holds_for_files_holds_for_the_row(
    test: Callable[[Path], None], tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (of_files, of_clocks):
        monkeypatch.setattr(module, "waiting_room_at", rows.at)
        monkeypatch.setattr(module, "WaitingRoom", rows.waiting_room)
    test(tmp_path)
    assert rows.engines
    assert not (tmp_path / "minting").exists()


@pytest.mark.proves("GEN-06", "GEN-42")
@pytest.mark.parametrize("granularity", GRANULARITIES[:4])
def test_the_first_label_is_later_than_all_that_may_have_been_reserved_at_the_start(
    tmp_path: Path, rows: Rows, granularity: int
) -> None:
    clock = FalseMachine()
    with rows.at(tmp_path, clock) as waiting_room:
        date = waiting_room.draw(granularity)
    assert START < date <= clock.at
    assert AHEAD < date - START <= AHEAD + granularity


@pytest.mark.proves("GEN-40", "GEN-41")
def test_who_comes_when_all_is_taken_waits_and_lets_other_nodes_come_first(
    tmp_path: Path, rows: Rows
) -> None:
    clock, other = FalseMachine(), FalseMachine()
    with rows.at(tmp_path, clock) as waiting_room, rows.at(tmp_path, other) as another:
        batch = waiting_room.reserve(MILLISECOND, 10_000)
        other.at, other.up, taken = clock.at, clock.up, clock.at
        later = waiting_room.reserve(MILLISECOND, 1)
        assert later.last == batch.last + MILLISECOND
        assert AHEAD // 4 < clock.at - taken <= AHEAD // 4 + 2 * MILLISECOND
        last = another.reserve(MILLISECOND, 1).last
        assert other.at - taken <= 3 * MILLISECOND
        assert last == later.last + MILLISECOND


# --- nodes ----------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-02", "GEN-41")
def test_two_nodes_draw_by_turns_and_no_date_comes_twice(tmp_path: Path, rows: Rows) -> None:
    clock, other = FalseMachine(), FalseMachine()
    other.identity, other.boot = "another-machine", "another-boot"
    dates = []
    with rows.at(tmp_path, clock) as one, rows.at(tmp_path, other) as two:
        for turn in range(20):
            dates.append((one, two)[turn % 2].draw(MILLISECOND))
            clock.at = other.at = max(clock.at, other.at)
            clock.up = other.up = max(clock.up, other.up)
    assert dates == sorted(set(dates))


@pytest.mark.proves("GEN-40", "GEN-44")
def test_threads_of_a_node_draw_one_after_the_other_each_with_one_statement(
    tmp_path: Path, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = StateRow(open_engine(postgresql.new_database()))
    given: list[list[int]] = [[] for _ in range(4)]
    read_again: list[object] = []
    alone = row.alone

    def counted() -> AbstractContextManager[LockedRow]:
        read_again.append(None)
        return alone()

    def draw(mine: list[int]) -> None:
        mine.extend(waiting_room.draw(1000) for _ in range(25))

    with WaitingRoom(tmp_path, this_machine(), state=row) as waiting_room:
        waiting_room.draw(1000)
        monkeypatch.setattr(row, "alone", counted)
        threads = [threading.Thread(target=draw, args=(mine,)) for mine in given]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert [len(mine) for mine in given] == [25] * 4
    assert len({date for mine in given for date in mine}) == 100
    assert read_again == []


def test_a_node_whose_clock_is_not_that_of_the_database_gives_no_label_and_hinders_no_other(
    tmp_path: Path, rows: Rows
) -> None:
    right, wrong = FalseMachine(), FalseMachine()
    with rows.at(tmp_path, right) as one, rows.at(tmp_path, wrong) as two:
        before = one.draw(TICKS)
        wrong.at, wrong.up = right.at, right.up
        for apart in (MOST_SKEW + 1, -MOST_SKEW - 1, 3600 * TICKS, -3600 * TICKS):
            wrong.at = right.at + apart
            with pytest.raises(ClockError, match=f"{abs(apart) // TICKS} seconds apart"):
                two.reserve(MILLISECOND, 1)
        after = one.draw(TICKS)
    assert before < after <= before + 3 * TICKS


def test_clocks_that_differ_a_little_make_nodes_wait_for_each_other(tmp_path: Path, rows: Rows) -> None:
    fast, slow = FalseMachine(), FalseMachine()
    with rows.at(tmp_path, fast) as one, rows.at(tmp_path, slow) as two:
        fast.at += MOST_SKEW - TICKS // 10
        first = one.draw(MILLISECOND)
        slow.up = fast.up
        second = two.draw(MILLISECOND)  # which waits until its own clock has come to it
    assert first < second <= slow.at
    assert slow.slept > 1.5


@pytest.mark.proves("GEN-44")
def test_a_node_that_was_silent_for_days_needs_no_confirmation_because_the_database_agrees(
    tmp_path: Path, rows: Rows
) -> None:
    clock, other = FalseMachine(), FalseMachine()
    other.boot, other.synchronised = "another-boot", False
    with rows.at(tmp_path, clock) as one, rows.at(tmp_path, other) as two:
        first = one.draw(TICKS)
        other.at, other.up = clock.at, clock.up
        other.pass_by(5 * 86400 * TICKS)
        assert two.draw(TICKS) > first


def test_a_draw_that_waits_keeps_no_transaction_open(tmp_path: Path, rows: Rows, engine: Engine) -> None:
    clock, open_while_waiting = FalseMachine(), []

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        statement = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state ~ 'in tr'"
        )
        open_while_waiting.append(sql(engine, statement)[0][0])

    with rows.waiting_room(tmp_path, replace(clock.machine, sleep=sleep)) as waiting_room:
        waiting_room.draw(TICKS)
        waiting_room.draw(TICKS)
    assert set(open_while_waiting) == {0}


@pytest.mark.proves("GEN-41")
def test_a_draw_waits_while_another_node_has_the_row(tmp_path: Path, postgresql: PostgreSQL) -> None:
    engine = open_engine(postgresql.new_database())
    with WaitingRoom(tmp_path, this_machine(), state=StateRow(engine)) as waiting_room:
        waiting_room.draw(MILLISECOND)
        drawn = threading.Event()

        def draw() -> None:
            waiting_room.draw(MILLISECOND)
            drawn.set()

        with StateRow(engine).locked():
            other = threading.Thread(target=draw)
            other.start()
            assert not drawn.wait(0.3)
        assert drawn.wait(10)
        other.join()
    engine.dispose()


# --- a state that cannot be trusted ---------------------------------------------------------------------------------


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("DELETE FROM waiting_room", "is missing"),
        ("DROP TABLE waiting_room", "cannot be used"),
        ("UPDATE waiting_room SET record = '', written = pg_current_xact_id()", "is damaged"),
        ("UPDATE waiting_room SET record = overlay(record PLACING '7' FROM 5)", "is damaged"),
        ("UPDATE waiting_room SET record = 'x'", "is damaged"),
        ("UPDATE waiting_room SET record = record", "touched from outside"),
    ],
)
def test_a_row_that_was_changed_from_outside_gives_no_label_until_it_is_repaired(
    tmp_path: Path, rows: Rows, engine: Engine, change: str, sentence: str
) -> None:
    clock = FalseMachine()
    with rows.at(tmp_path, clock) as waiting_room:
        given = [waiting_room.draw(MILLISECOND)]
        rows.used = True
        sql(engine, change)
        with pytest.raises((LostState, SetupError), match=f"postgresql.*{sentence}"):
            waiting_room.draw(MILLISECOND)
        found = recover(tmp_path, clock.machine, row=rows.row(tmp_path, clock.machine))
        assert found.last == clock.at + AHEAD + MARGIN
        given += [waiting_room.draw(step) for step in (MILLISECOND, TICKS)]
    assert given == sorted(set(given))


@pytest.mark.proves("GEN-44", "AMB-18")
def test_a_row_that_was_restored_into_another_database_gives_no_label_until_the_operator_says_so(
    tmp_path: Path, rows: Rows, engine: Engine
) -> None:
    clock = FalseMachine()
    with rows.at(tmp_path, clock) as waiting_room:
        last = waiting_room.draw(TICKS)
    record = sql(engine, "SELECT record, timeline FROM waiting_room")[0]
    other = tmp_path / "other"
    with rows.at(other, clock) as waiting_room:
        statement = (
            "UPDATE waiting_room SET record = :record, timeline = :timeline, written = pg_current_xact_id()"
        )
        sql(rows.engines[str(other)], statement, record=record[0], timeline=record[1])
        with pytest.raises(LostState, match="made by another machine"):
            waiting_room.draw(TICKS)
        row = rows.row(other, clock.machine)
        with pytest.raises(LostState, match="say so with --moved"):
            recover(other, clock.machine, row=row)
        recover(other, clock.machine, row=row, moved=True)
        assert waiting_room.draw(TICKS) > last


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("apart", [0, MOST_SKEW - MILLISECOND])
def test_after_a_failover_that_lost_transactions_no_date_comes_twice(
    tmp_path: Path, rows: Rows, engine: Engine, apart: int
) -> None:
    """The standby that took over lacks the last draws, also those of a node whose clock was ahead."""
    clock, ahead = FalseMachine(), FalseMachine()
    with rows.at(tmp_path, clock) as waiting_room, rows.at(tmp_path, ahead) as another:
        given = [waiting_room.draw(MILLISECOND)]
        older = sql(engine, "SELECT record FROM waiting_room")[0][0]
        ahead.at, ahead.up = clock.at + apart, clock.up
        given += another.reserve(MILLISECOND, 150)
        statement = (
            "UPDATE waiting_room SET record = :record, written = pg_current_xact_id(), timeline = '0000000A'"
        )
        sql(engine, statement, record=older)
        given += [waiting_room.draw(step) for step in (MILLISECOND, TICKS)]
        assert clock.slept < 8
    assert given == sorted(set(given))


def test_a_new_row_beside_other_rows_of_ours_is_a_lost_one(
    tmp_path: Path, rows: Rows, postgresql: PostgreSQL
) -> None:
    before = open_connections(postgresql.port)
    rows.used = True
    with pytest.raises(LostState, match="missing"), rows.at(tmp_path, FalseMachine()):
        pass
    # What could not be entered is not left either.
    assert open_connections(postgresql.port) == before


def test_a_waiting_room_that_is_left_has_no_connection(
    tmp_path: Path, rows: Rows, postgresql: PostgreSQL
) -> None:
    before = open_connections(postgresql.port)
    with rows.at(tmp_path, FalseMachine()) as waiting_room:
        for _ in range(3):
            waiting_room.draw(MILLISECOND)
        assert len(open_connections(postgresql.port)) == len(before) + 1
    assert open_connections(postgresql.port) == before


@pytest.mark.proves("GEN-44")
def test_a_node_goes_on_at_once_after_the_database_has_closed_its_connections(
    tmp_path: Path, rows: Rows, postgresql: PostgreSQL, engine: Engine
) -> None:
    with rows.at(tmp_path, FalseMachine()) as waiting_room:
        given = [waiting_room.draw(MILLISECOND) for _ in range(3)]
        before = open_connections(postgresql.port)
        statement = (
            "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        postgresql.execute(statement, str(engine.url.database))
        given += [waiting_room.draw(MILLISECOND) for _ in range(3)]
        assert before.isdisjoint(open_connections(postgresql.port))
    assert given == sorted(set(given))


@pytest.mark.proves("GEN-06")
def test_if_the_prefixes_change_the_present_clocks_are_taken_for_the_last_date(
    tmp_path: Path, rows: Rows
) -> None:
    clock = FalseMachine()
    with rows.waiting_room(tmp_path, clock.machine, prefixes=("a.example",)) as waiting_room:
        waiting_room.draw(MILLISECOND)
        began = clock.at
    with rows.waiting_room(tmp_path, clock.machine, prefixes=("b.example",)) as waiting_room:
        assert waiting_room.draw(MILLISECOND) > began + AHEAD
        began = clock.at
        assert waiting_room.draw(MILLISECOND) <= began + AHEAD


def test_a_database_that_is_away_is_one_sentence_without_the_password(tmp_path: Path) -> None:
    row = StateRow(open_engine("postgresql://ibi:secret@127.0.0.1:1/ibi"))
    with pytest.raises(SetupError) as refused, WaitingRoom(tmp_path, this_machine(), state=row):
        pass
    assert "secret" not in str(refused.value)


@pytest.mark.proves("GEN-44")
def test_a_commit_waits_for_the_disk_whatever_the_database_prefers(postgresql: PostgreSQL) -> None:
    engine = open_engine(postgresql.new_database())
    sql(engine, f"ALTER DATABASE {engine.url.database} SET synchronous_commit = off")
    engine.dispose()
    assert sql(engine, "SHOW synchronous_commit") == [("on",)]
    engine.dispose()
