"""A server of PostgreSQL that hangs is waited for once, and found again; no server is asked, and no time passes."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine

from ibi.errors import SetupError
from ibi.runtime.database import open_engine, postgresql, transaction

STORE = "postgresql://maria:secret@db.example/archive"
REFUSED = "the database postgresql://db.example/archive cannot be used: "


@dataclass
class Server:
    """What connections to a server meet: each attempt takes so many seconds, and fails."""

    seconds: float = 0.0
    reason: str = "timeout expired"
    attempts: int = 0
    now: float = 100.0
    pauses: list[float] = field(default_factory=list)
    looked: threading.Event = field(default_factory=threading.Event)
    looks: list[Callable[[], Any]] = field(default_factory=list)
    """What each look of the thread meets, of which there may be as many as are listed here."""
    meet: Callable[[], object] = lambda: None
    """What each attempt does first."""
    more: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def connect(self, **options: object) -> object:
        assert options["host"] == "db.example"
        self.attempts += 1
        self.meet()
        self.now += self.seconds
        raise psycopg.OperationalError(self.reason)

    def look(self, **options: object) -> object:
        assert options["user"] == "maria"
        assert self.more.acquire(timeout=30)
        return self.looks.pop(0)()

    def late(self) -> None:
        """Fail after more than a second."""
        self.now += 1.1
        raise psycopg.OperationalError("timeout expired")

    def soon(self) -> None:
        """Fail after a second: so the server is there."""
        self.now += 1.0
        raise psycopg.OperationalError("the database system is starting up")

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that all connections of this test lead to."""
    made = Server()
    monkeypatch.setattr(postgresql, "time", made)
    monkeypatch.setattr("ibi.runtime.database.postgresql._Connection.connect", made.connect)
    monkeypatch.setattr(psycopg, "connect", made.look)
    before = set(threading.enumerate())
    yield made
    for _ in made.looks:
        made.more.release()
    for thread in set(threading.enumerate()) - before:
        thread.join(30)


def refusal(engine: Engine) -> str:
    with pytest.raises(SetupError) as refused, transaction(engine):
        pass
    return str(refused.value)


def until(holds: Callable[[], bool]) -> None:
    """Wait until something has happened in another thread."""
    for _ in range(3000):
        if holds():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it did not happen")


def test_a_server_that_refuses_at_once_is_asked_again_at_once(server: Server) -> None:
    engine = open_engine(STORE)
    for server.seconds in (0.0, 1.0, 0.5):
        assert refusal(engine) == f"{REFUSED}timeout expired"
    assert server.attempts == 3


def test_a_server_that_hangs_is_asked_by_one_thread_alone_until_it_answers(server: Server) -> None:
    ended = threading.Event()
    server.looks = [server.late, server.late, lambda: SimpleNamespace(close=ended.set)]
    engine = open_engine(STORE)
    server.seconds = 1.1
    for _ in range(3):
        assert refusal(engine) == f"{REFUSED}timeout expired"
    assert (server.attempts, server.pauses) == (1, [])
    for pauses in (1, 2):
        server.more.release()
        until(lambda pauses=pauses: len(server.pauses) == pauses)  # type: ignore[misc]  # bound now
        assert refusal(engine) == f"{REFUSED}timeout expired"
    assert (server.attempts, server.pauses) == (1, [1.0, 1.0])
    server.more.release()
    assert ended.wait(30)
    server.seconds, server.reason = 0.0, "FATAL: not yet"
    until(lambda: refusal(engine) == f"{REFUSED}not yet")
    assert server.looks == []


def test_a_refusal_shows_that_a_server_is_there_again(server: Server) -> None:
    server.looks = [server.soon]
    engine = open_engine(STORE)
    server.seconds = 1.1
    refusal(engine)
    server.more.release()
    server.seconds, server.reason = 0.0, "FATAL: not yet"
    until(lambda: refusal(engine) == f"{REFUSED}not yet")
    assert server.pauses == []


def lookers(before: set[threading.Thread]) -> list[threading.Thread]:
    """The threads that look for a server, of those that are new."""
    return [each for each in threading.enumerate() if each not in before]


def test_of_two_threads_that_find_it_at_once_one_has_it_looked_for(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.looks = [server.soon, server.soon]
    server.seconds = 1.1
    before, together, meeting = set(threading.enumerate()), threading.Barrier(2), threading.Barrier(2)
    server.meet = lambda: together.wait(30)
    getpid = os.getpid

    def slow() -> int:
        if together.n_waiting == 0 and server.attempts == 2 and threading.current_thread() in asking:
            with suppress(threading.BrokenBarrierError):
                meeting.wait(0.2)  # only a thread that is alone here waits so long
        return getpid()

    monkeypatch.setattr(os, "getpid", slow)
    engine = open_engine(STORE)
    asking = [threading.Thread(target=refusal, args=(engine,)) for _ in range(2)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(30)
    assert [each.daemon for each in lookers(before)] == [True]


def test_the_server_of_an_engine_that_is_gone_is_not_looked_for(server: Server) -> None:
    server.looks = [server.late]
    server.seconds = 1.1
    before = set(threading.enumerate())
    engine = open_engine(STORE)
    refusal(engine)
    [looking] = lookers(before)
    engine.dispose()
    del engine
    gc.collect()
    server.more.release()
    looking.join(30)
    assert (looking.is_alive(), server.pauses, server.looks) == (False, [1.0], [])


def test_a_fork_asks_by_itself_because_it_has_no_thread_that_looks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.looks = [server.soon]
    engine = open_engine(STORE)
    server.seconds = 1.1
    refusal(engine)
    assert (refusal(engine), server.attempts) == (f"{REFUSED}timeout expired", 1)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    server.seconds = 0.0
    assert (refusal(engine), server.attempts) == (f"{REFUSED}timeout expired", 2)


@dataclass
class Idle:
    """A connection of the driver, as far as it is asked whether it was lost."""

    handle: int
    closed: bool = False
    opened_by: object = None

    def fileno(self) -> int:
        return self.handle


def test_a_connection_is_lost_that_is_closed_or_on_which_an_idle_server_speaks_or_hangs() -> None:
    read, write = os.pipe()
    try:
        hanging, sound = SimpleNamespace(problem="it hangs"), SimpleNamespace(problem="")
        assert not postgresql.is_lost(Idle(read))
        assert not postgresql.is_lost(Idle(read, opened_by=sound))
        assert postgresql.is_lost(Idle(read, opened_by=hanging))
        assert postgresql.is_lost(Idle(-1, closed=True))
        os.write(write, b"N")
        assert postgresql.is_lost(Idle(read))
        os.read(read, 1)
        assert not postgresql.is_lost(Idle(read))
    finally:
        os.close(write)
    try:
        assert postgresql.is_lost(Idle(read))  # the other side has closed it
    finally:
        os.close(read)
