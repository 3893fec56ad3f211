"""What a node says to the database for its duty, second by second, and when it works: with no server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from ibi.errors import SetupError
from ibi.runtime.database.fencing import FENCE
from ibi.runtime.duty_lock import DutyLock
from support.clock import run_with_false_clock

STORE = "postgresql://node:secret@db.example/ibi"
KEY, TERM = 787093393, 4711
TAKE = "try to lock"
WORDS = {
    "SELECT pg_try_advisory_lock(%s)": TAKE,
    "SELECT to_regclass('duties') IS NULL": "is there a table?",
    "SELECT 1": "beat",
}
Answer = Any
"""What the database says to a statement: a row, an error to raise, or None for nothing ever."""


def now() -> float:
    return round(asyncio.get_running_loop().time() - 1_000, 2)


class Database:
    """A database that answers as `answer` says to a statement of its session with this number; all is in `events`."""

    def __init__(self, answer: Callable[[int, str], Answer], connect: Callable[[int], Answer]) -> None:
        self.events = list[str]()
        self.options = list[dict[str, Any]]()
        self._answer = answer
        self._connect = connect
        self.descriptor = os.open(os.devnull, os.O_RDONLY)

    def note(self, what: str) -> None:
        self.events.append(f"{now():g} {what}")

    async def connect(self, **options: Any) -> Session:
        number = len(self.options)
        self.options.append(options)
        self.note("connect")
        await self.outcome(self._connect(number))
        return Session(self, number)

    async def outcome(self, answer: Answer) -> Any:
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.sleep(3_600)
        return answer

    def answer(self, number: int, words: str) -> Answer:
        return self._answer(number, words)


class Session:
    """One connection."""

    def __init__(self, database: Database, number: int) -> None:
        self._database = database
        self._number = number
        self.pgconn = SimpleNamespace(socket=database.descriptor, finish=lambda: database.note("give up"))

    async def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Any:
        words = WORDS.get(statement) or ("take" if "INSERT INTO duties" in statement else "make")
        self._database.note(words + "".join(f" {each}" for each in values))
        row = await self._database.outcome(self._database.answer(self._number, words))

        async def fetchone() -> Any:
            return row

        return SimpleNamespace(fetchone=fetchone)

    async def close(self) -> None:
        self._database.note("close")
        raise psycopg.OperationalError("closed already")


def usual(_number: int, words: str) -> Answer:
    return (TERM,) if words == "take" else (words != "is there a table?",)


@pytest.fixture(autouse=True)
def _node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-a")
    monkeypatch.setattr("secrets.randbits", lambda bits: TERM if bits == 62 else 0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Database]]:
    """Holds a duty for some seconds; what was done, and all the work."""
    databases = list[Database]()

    def hold(
        answer: Callable[[int, str], Answer] = usual,
        *,
        connect: Callable[[int], Answer] = lambda _: True,
        seconds: float = 10,
        idle: int = 20,
        work: Callable[[Database], Awaitable[None]] | None = None,
    ) -> Database:
        database = Database(answer, connect)
        databases.append(database)
        monkeypatch.setattr(psycopg.AsyncConnection, "connect", database.connect)

        async def working() -> None:
            database.note("work")
            try:
                await (work(database) if work else asyncio.sleep(3_600))
            finally:
                database.note("end of work")

        async def play() -> None:
            lock = DutyLock(STORE, "sweeping", idle)
            holding = asyncio.ensure_future(lock.while_held(working))
            await asyncio.wait([holding], timeout=seconds)
            if holding.done():
                database.note("return")
                holding.result()
            else:
                database.note("cancel")
                holding.cancel()
                await asyncio.wait([holding])

        run_with_false_clock(play())
        return database

    yield hold
    for each in databases:
        os.close(each.descriptor)


TAKEN = ["connect", f"{TAKE} {KEY}", "is there a table?", f"take sweeping {TERM} node-a", "work"]
ENDED = ["cancel", "end of work", "close"]
BEGUN = "sweeping: this node does it from now on"
LOST = "sweeping: the lock was lost; another node may go on"


def at(second: float, *what: str) -> list[str]:
    return [f"{second:g} {each}" for each in what]


def beats(*seconds: float) -> list[str]:
    return [f"{second:g} beat" for second in seconds]


def test_who_has_the_lock_works_and_says_something_every_three_seconds(
    held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    database = held()
    assert database.events == [*at(0, *TAKEN), *beats(3, 6, 9), *at(10, *ENDED)]
    assert caplog.messages == [BEGUN]
    (options,) = database.options
    assert options["autocommit"] is True
    session = dict(each.split("=", 1) for each in options["options"].split("-c ") if each)
    assert {name: value.strip() for name, value in session.items()}.items() >= {
        "idle_session_timeout": "20s", "lock_timeout": "15s", "tcp_keepalives_idle": "5",
        "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3", "tcp_user_timeout": "10s",
    }.items()  # fmt: skip


def test_who_may_be_silent_for_less_says_something_more_often(held: Any) -> None:
    assert held(idle=4, seconds=3.5).events == [*at(0, *TAKEN), *beats(1, 2, 3), *at(3.5, *ENDED)]
    assert held(idle=1000, seconds=3.5).events == [*at(0, *TAKEN), *beats(3), *at(3.5, *ENDED)]


def test_the_table_is_made_where_there_is_none(held: Any) -> None:
    database = held(lambda _, words: (TERM,) if words == "take" else (True,), seconds=1)
    assert database.events == [*at(0, *TAKEN[:3], "make", *TAKEN[3:]), *at(1, *ENDED)]


def test_who_has_no_lock_tries_again_every_two_seconds(held: Any) -> None:
    tries = iter([False, False, True])
    database = held(lambda _, words: (next(tries),) if words == TAKE else usual(0, words), seconds=5)
    again = [each for second in (2, 4) for each in at(second, TAKEN[1])]
    assert database.events == [*at(0, *TAKEN[:2]), *again, *at(4, *TAKEN[2:]), *at(5, *ENDED)]


def test_a_database_that_is_away_is_tried_every_two_seconds_and_each_reason_is_logged_once(
    held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    faults = [
        psycopg.OperationalError("refused\nIs it running?"),
        psycopg.OperationalError("refused"),
        OSError("x"),
    ]
    database = held(connect=lambda number: [*faults, None, True][number], seconds=20)
    tries = [f"{second} connect" for second in (0, 2, 4, 6)]
    assert database.events == [*tries, *at(18, *TAKEN), *at(20, *ENDED)]
    assert caplog.messages == ["sweeping: refused", "sweeping: x", "sweeping: TimeoutError", BEGUN]


@pytest.mark.parametrize("words", [TAKE, "is there a table?", "take"])
def test_a_connection_that_breaks_before_the_lock_is_held_is_closed(
    words: str, held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(number: int, each: str) -> Answer:
        return psycopg.OperationalError("gone") if (number, each) == (0, words) else usual(0, each)

    database = held(answer, seconds=3)
    first = TAKEN[: 2 + [TAKE, "is there a table?", "take"].index(words)]
    assert database.events == [*at(0, *first, "close"), *at(2, *TAKEN), *at(3, *ENDED)]
    assert caplog.messages == ["sweeping: gone"]


def test_who_loses_the_connection_ends_its_work_and_tries_again(
    held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    def answer(number: int, words: str) -> Answer:
        return OSError("cut off") if (number, words) == (0, "beat") else usual(0, words)

    database = held(answer, seconds=5)
    assert database.events == [
        *at(0, *TAKEN), *beats(3), *at(3, "end of work", "close", *TAKEN), *at(5, *ENDED),
    ]  # fmt: skip
    assert caplog.messages == [BEGUN, "sweeping: cut off", LOST, BEGUN]


def test_who_gets_no_answer_for_ten_seconds_ends_its_work_without_waiting_for_the_server(
    held: Any, caplog: pytest.LogCaptureFixture
) -> None:
    database = held(
        lambda number, words: None if (number, words) == (0, "beat") else usual(0, words), seconds=15
    )
    assert database.events == [
        *at(0, *TAKEN), *beats(3), *at(14, "give up", "end of work", "close", *TAKEN), *at(15, *ENDED),
    ]  # fmt: skip
    assert caplog.messages == ["sweeping: the database has not answered", LOST]


def test_work_that_ends_or_fails_gives_the_lock_back(held: Any) -> None:
    async def soon(_: Database) -> None:
        await asyncio.sleep(1)

    async def fails(_: Database) -> None:
        raise ValueError("it fails")

    assert held(work=soon).events == [*at(0, *TAKEN), *at(1, "end of work", "close", "return")]
    with pytest.raises(ValueError, match="it fails"):
        held(work=fails)


class Rows:
    """A connection to the tables, where the duty has this term."""

    def __init__(self, term: int, statements: list[Any]) -> None:
        self._term = term
        self._statements = statements

    def exec_driver_sql(self, *words: Any) -> Rows:
        self._statements.append(words)
        return self

    def scalar(self) -> int:
        return self._term


def test_each_write_of_the_work_is_fenced_and_no_other(held: Any) -> None:
    statements = list[Any]()

    async def writes(database: Database) -> None:
        check = FENCE.get()
        assert check is not None
        for term in (TERM, TERM + 1):
            connection: Any = Rows(term, statements)
            try:
                check(connection)
            except SetupError as error:
                database.note(str(error))
            else:
                database.note("may write")

    assert held(work=writes).events[5:] == at(
        0, "may write", "another node has taken this work over, so nothing was written",
        "end of work", "close", "return",
    )  # fmt: skip
    assert statements == [("SELECT term FROM duties WHERE name = %s FOR SHARE", ("sweeping",))] * 2
    assert FENCE.get() is None
