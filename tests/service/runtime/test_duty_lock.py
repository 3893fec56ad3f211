"""Duties run once: real processes with one PostgreSQL, killed, stopped and cut off from it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from psycopg import AsyncConnection

from ibi.errors import SetupError
from ibi.runtime.database import open_engine, transaction
from ibi.runtime.duty_lock import ANSWER_SECONDS, IDLE_SECONDS, TABLE, TRY_EVERY, DutyLock
from support.engines.postgresql import PostgreSQL
from support.network.far_node import FarNode

WORKER = Path(__file__).parents[2] / "support/concurrency/duty_worker.py"
SOON = 3  # seconds without a sign of life, in tests that need not wait for as long as in operation
LATE = 12.0  # seconds that a busy machine may take beyond what is asked for


@dataclass
class Trial:
    """Nodes with one duty, and what they have written."""

    server: PostgreSQL
    store: str
    nodes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, server: PostgreSQL) -> Self:
        trial = cls(server, server.new_database())
        trial.sql(TABLE)
        trial.sql("CREATE TABLE steps (number bigserial PRIMARY KEY, node text NOT NULL)")
        return trial

    def sql(self, statement: str) -> list[tuple[object, ...]]:
        return self.server.execute(statement, self.store.rpartition("/")[2])

    def start(self, node: str, idle: int = SOON, pause: float = 0, far: FarNode | None = None) -> None:
        store = self.store
        if far is not None:
            store = store.replace(f"127.0.0.1:{self.server.port}", f"{far.address}:{far.port}")
        command = [sys.executable, str(WORKER), store, node, str(idle), str(pause)]
        self.nodes[node] = subprocess.Popen(
            far.command(*command) if far else command, stdout=subprocess.PIPE, text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip

    def steps(self, node: str, after: int = 0) -> int:
        return [row[0] for row in self.sql("SELECT node FROM steps ORDER BY number")[after:]].count(node)

    def last(self) -> int:
        return len(self.sql("SELECT number FROM steps"))

    def wait_for_steps(self, node: str, within: float) -> float:
        """Wait until a node has taken two more steps; return for how long that took."""
        began, after = time.monotonic(), self.last()
        while self.steps(node, after) < 2:
            assert time.monotonic() - began < within, f"{node} took no step within {within} s"
            time.sleep(0.05)
        return time.monotonic() - began

    def wait_for_a_step(self, within: float) -> None:
        """Wait until any node has taken a step."""
        end, after = time.monotonic() + within, self.last()
        while self.last() == after:
            assert time.monotonic() < end, f"no step within {within} s"
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.nodes.values():
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def trial(postgresql: PostgreSQL) -> Iterator[Trial]:
    trial = Trial.of(postgresql)
    yield trial
    trial.close()


def both_started(trial: Trial, idle: int = SOON) -> None:
    """The first node has the duty, and the second waits for it."""
    trial.start("first", idle)
    trial.wait_for_steps("first", LATE)
    trial.start("second", idle)
    trial.wait_for_steps("first", LATE)
    time.sleep(TRY_EVERY)
    assert trial.steps("second") == 0


def test_a_duty_is_done_by_one_node_and_by_the_next_when_that_is_killed(trial: Trial) -> None:
    both_started(trial)
    trial.nodes["first"].kill()
    assert trial.wait_for_steps("second", TRY_EVERY + LATE) < IDLE_SECONDS
    assert trial.sql("SELECT name, holder FROM duties") == [("trial", socket.gethostname())]


def test_a_node_that_ends_gives_its_duty_away_at_once(trial: Trial) -> None:
    both_started(trial)
    trial.nodes["first"].send_signal(signal.SIGINT)
    trial.wait_for_steps("second", TRY_EVERY + LATE)


@pytest.mark.long
def test_a_node_that_is_stopped_loses_its_duty_and_writes_nothing_when_it_wakes_up(trial: Trial) -> None:
    both_started(trial, idle=IDLE_SECONDS)
    trial.nodes["first"].send_signal(signal.SIGSTOP)
    trial.wait_for_steps("second", 30)
    after = trial.last()
    trial.nodes["first"].send_signal(signal.SIGCONT)
    trial.wait_for_steps("second", LATE)
    time.sleep(1)
    assert trial.steps("first", after) == 0


@pytest.mark.long
def test_a_node_that_is_stopped_within_a_step_has_not_taken_that_step(trial: Trial) -> None:
    """PostgreSQL undoes the open transaction after its time, and only then the next node begins."""
    trial.start("first", pause=1.5)
    trial.wait_for_steps("first", LATE)
    trial.start("second")
    time.sleep(2)
    trial.nodes["first"].send_signal(signal.SIGSTOP)
    trial.wait_for_steps("second", 30)
    after = trial.last()
    trial.nodes["first"].send_signal(signal.SIGCONT)
    time.sleep(3)
    assert trial.steps("first", after) == 0
    assert trial.steps("second", after) > 0


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_a_node_that_is_cut_off_loses_its_duty_and_writes_nothing_when_it_is_back(trial: Trial) -> None:
    with FarNode(trial.server.port) as far:
        trial.start("first", far=far)
        trial.wait_for_steps("first", LATE)
        trial.start("second")
        far.cut()
        trial.wait_for_steps("second", 30)
        after = trial.last()
        far.mend()
        trial.wait_for_steps("second", LATE)
        time.sleep(1)
        assert trial.steps("first", after) == 0
        trial.nodes["second"].kill()
        trial.wait_for_steps("first", 30)  # which waits for its turn again
        trial.nodes["first"].kill()


def test_a_duty_goes_on_after_its_connections_were_closed(trial: Trial) -> None:
    both_started(trial)
    trial.server.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ibi'"
    )
    trial.wait_for_a_step(30)


@pytest.mark.long
def test_a_duty_goes_on_after_the_database_has_stood_still() -> None:
    server = PostgreSQL()
    try:
        server.start()
        own = Trial.of(server)
        try:
            both_started(own)
            server.suspend()
            time.sleep(ANSWER_SECONDS + 2)
            server.resume()
            own.wait_for_a_step(30)
        finally:
            own.close()
    finally:
        server.remove()


def test_a_step_after_another_node_has_taken_over_is_refused(trial: Trial) -> None:
    engine, refused = open_engine(trial.store), []

    async def work() -> None:
        trial.sql("UPDATE duties SET term = term + 1")
        try:
            with transaction(engine) as connection:
                connection.exec_driver_sql("INSERT INTO steps (node) VALUES ('late')")
        except SetupError as error:
            refused.append(str(error))

    asyncio.run(DutyLock(trial.store, "trial").while_held(work))
    engine.dispose()
    assert refused == ["another node has taken this work over, so nothing was written"]
    assert trial.last() == 0


def test_work_that_is_no_duty_writes_whichever_node_has_the_lock(trial: Trial) -> None:
    trial.sql("INSERT INTO duties VALUES ('trial', 7, 'elsewhere')")
    engine = open_engine(trial.store)
    with transaction(engine) as connection:
        connection.exec_driver_sql("INSERT INTO steps (node) VALUES ('any')")
    engine.dispose()
    assert trial.last() == 1


def test_an_error_of_the_work_reaches_the_caller_and_frees_the_lock(trial: Trial) -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def end() -> None:
        pass

    async def both() -> None:
        with pytest.raises(ValueError, match="no"):
            await DutyLock(trial.store, "trial").while_held(fail)
        await asyncio.wait_for(DutyLock(trial.store, "trial").while_held(end), LATE)

    asyncio.run(both())


def test_the_work_is_ended_before_it_begins_again_when_the_lock_was_lost(
    trial: Trial, caplog: pytest.LogCaptureFixture
) -> None:
    happened = list[str]()

    async def work() -> None:
        happened.append("begun")
        if happened.count("begun") == 2:
            return
        try:
            trial.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
            )
            await asyncio.sleep(120)
        finally:
            await asyncio.sleep(0)
            happened.append("ended")

    with caplog.at_level(logging.INFO, "ibi.runtime.duty_lock"):
        asyncio.run(DutyLock(trial.store, "trial", SOON).while_held(work))
    assert happened == ["begun", "ended", "begun"]
    begun, lost = "trial: this node does it from now on", "trial: the lock was lost; another node may go on"
    assert [each for each in caplog.messages if each in {begun, lost}] == [begun, lost, begun]
    [why] = set(caplog.messages) - {begun, lost}  # in the words of the driver
    assert why.startswith("trial: ")


def test_why_a_lock_cannot_be_had_is_said_once_and_again_when_it_could_be_had_meanwhile(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ibi.runtime.duty_lock.TRY_EVERY", 0.01)
    lock, attempts, connect = DutyLock(trial.store, "trial"), list[bool](), AsyncConnection.connect

    async def watched(**options: Any) -> AsyncConnection[Any]:
        attempts.append(len(attempts) % 4 != 3)
        if attempts[-1]:
            raise TimeoutError  # as after ANSWER_SECONDS
        return await connect(**options)

    async def end() -> None: ...

    monkeypatch.setattr(AsyncConnection, "connect", watched)
    for _ in range(2):
        asyncio.run(lock.while_held(end))
    assert attempts == [True, True, True, False] * 2
    assert caplog.messages == ["trial: TimeoutError"] * 2
    assert {each.levelno for each in caplog.records} == {logging.WARNING}


def test_duties_that_begin_together_in_a_new_store_make_their_table_once(
    postgresql: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    store = postgresql.new_database()

    async def end() -> None:
        pass

    async def all_of_them() -> None:
        await asyncio.gather(*(DutyLock(store, f"duty {number}").while_held(end) for number in range(12)))

    asyncio.run(all_of_them())
    assert [each for each in caplog.messages if "duplicate key" in each] == []


_BLOCKED = """
import asyncio, sys, time, uvloop
from ibi.runtime import duty_lock

duty_lock.ANSWER_SECONDS = 0.5

async def main():
    for seconds in (0.3, 0.4, 0.35, 0.45, 0.3, 0.4):
        connection = await duty_lock.DutyLock(sys.argv[1], "trial")._connect()
        asyncio.get_running_loop().call_later(seconds, time.sleep, 0.4)
        try:
            await duty_lock._answer(connection, "SELECT pg_sleep(60)")
        except TimeoutError as error:
            print(error)
        await duty_lock._close(connection)

uvloop.run(main())
"""


def test_an_answer_that_is_given_up_after_the_loop_was_blocked_does_not_end_the_process(trial: Trial) -> None:
    # uvloop ends a process that closes a file which it has just been told to watch, as the driver does again and again.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", _BLOCKED, trial.store],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "the database has not answered\n" * 6), done.stderr
