"""Documents and replies of a shared store, statement by statement, over rows in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, Self, cast

import pytest
from sqlalchemy.exc import OperationalError

from ibi.errors import SetupError
from ibi.runtime.shared.documents import Documents, follow_documents
from ibi.runtime.shared.replies import held_reply
from ibi.runtime.shared.store import SharedStore

SPACE = 1357582448
AWAY = "the store cannot be reached now; ask again in a moment"


class Store:
    """A store with tables of one text for each name; `events` is what was done with it."""

    def __init__(self) -> None:
        self.rows = dict[str, str]()
        self.events = list[str]()
        self.texts = dict[str, str | None]()
        self.reading = threading.Lock()
        self.followed = dict[str, Callable[[], None]]()
        self.is_watched = self.is_away = False
        self.is_free = True
        self.counts = dict[str, int]()
        self.fault: Exception | None = None
        self.engine = self
        self.dialect = SimpleNamespace(loaded_dbapi=SimpleNamespace(Error=ZeroDivisionError))

    def check_reached(self) -> None:
        if self.is_away:
            raise SetupError(AWAY)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        before = dict(self.rows)
        self.events.append("begin")
        try:
            yield self
        except BaseException:
            self.rows = before
            self.events.append("undo")
            raise
        self.events.append("commit")

    def exec_driver_sql(self, statement: str, values: dict[str, Any] | None = None) -> Any:
        given, words = values or {}, statement.split()
        name, what = given.get("name", ""), " ".join(words[:2])
        shown = {each: value for each, value in given.items() if each not in {"facts", "content"}}
        self.events.append(f"{what.partition('(')[0]} {shown or ''}".rstrip())
        if self.fault is not None:
            raise self.fault
        if words[0] == "INSERT" and not (statement.endswith("DO NOTHING") and name in self.rows):
            self.rows[name] = str(given.get("content", given.get("facts")))
        if words[0] == "DELETE":
            self.rows.pop(name, None)
        found = self.is_free if "try_advisory" in statement else self.rows.get(name)
        return SimpleNamespace(scalar=lambda: found, scalar_one=lambda: found)

    def count(self, part: str) -> int:
        return self.counts.get(part, 0)

    def note_changed(self, part: str) -> None:
        self.events.append(f"changed {part}")

    def follow(self, part: str, read: Callable[[], None]) -> None:
        self.followed[part] = read
        read()

    def watch(self) -> None:
        self.is_watched = True

    @contextmanager
    def connect(self) -> Iterator[Self]:
        yield self

    def execution_options(self, *, isolation_level: str) -> Self:
        self.events.append(isolation_level)
        return self

    def invalidate(self) -> None:
        self.events.append("close")


NAME = {"name": "a"}
READ, REMOVE = (f"{words} {NAME}" for words in ("SELECT content", "DELETE FROM"))


def took(store: Store) -> list[str]:
    events, store.events = store.events, []
    return events


def test_without_a_watch_each_look_reads_the_document(tmp_path: Any) -> None:
    store = Store()
    documents = Documents(cast("SharedStore", store))
    assert (documents.read("a"), took(store)) == (None, ["begin", READ, "commit"])
    store.rows["a"] = "one"
    store.counts["document a"] = 7
    assert (documents.read("a"), documents.version("a"), documents.version("b")) == ("one", 7, 0)
    assert (store.texts, store.followed) == ({}, {})
    follow_documents(tmp_path, ["a"])  # without a store, nothing is followed


def test_with_a_watch_a_document_is_in_memory_and_read_again_when_it_has_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    store = Store()
    store.rows = {"a": "one"}
    monkeypatch.setattr("ibi.runtime.shared.documents.store_of", lambda _: store)
    follow_documents(tmp_path, ["a"])
    documents = Documents(cast("SharedStore", store))
    assert (store.is_watched, took(store)) == (True, ["begin", READ, "commit"])
    store.rows["a"] = "two"
    assert (documents.read("a"), took(store)) == ("one", [])
    store.followed["document a"]()
    assert (documents.read("a"), took(store)) == ("two", ["begin", READ, "commit"])
    store.rows["a"] = "three"
    documents.refresh()
    assert (documents.read("a"), took(store)) == ("three", ["begin", READ, "commit"])


def test_a_change_is_made_under_a_lock_and_shows_here_at_once() -> None:
    store = Store()
    store.is_watched = True
    documents = Documents(cast("SharedStore", store))
    documents.read("a")
    took(store)
    locked = ["begin", "SELECT pg_advisory_xact_lock {'name': 'document a'}", READ]
    shown = ["commit", "begin", READ, "commit", "changed document a"]
    with documents.changing("a") as document:
        assert (document.name, document.text) == ("a", None)
        document.write("one")
    assert (took(store), documents.read("a")) == ([*locked, f"INSERT INTO {NAME}", *shown], "one")
    with documents.changing("a") as document:
        assert document.text == "one"
        document.remove()
    assert (took(store), documents.read("a")) == ([*locked, REMOVE, *shown], None)
    with pytest.raises(ValueError, match="it fails"), documents.changing("a"):
        raise ValueError("it fails")
    assert took(store) == [*locked, "undo"]
    assert [documents.make("a", each) for each in ("one", "two")] == ["one", "one"]
    assert took(store) == ["begin", f"INSERT INTO {NAME}", READ, *shown] * 2
    with documents.changing("b") as document:
        document.write("x")
    assert took(store)[-2:] == ["commit", "changed document b"]  # it is not in memory
    store.is_away = True
    assert documents.read("a") == "one"
    with pytest.raises(SetupError, match=AWAY), documents.changing("a"):
        pytest.fail("it may not begin")
    with pytest.raises(SetupError, match=AWAY):
        documents.read("b")


# --- replies --------------------------------------------------------------------------------------------------------

REPLY_LOCK = f"SELECT pg_try_advisory_lock {{'space': {SPACE}, 'name': 'a'}}"
BEGUN = ["AUTOCOMMIT", REPLY_LOCK]
ENDED = ["SELECT pg_advisory_unlock_all", "close"]


def held(store: Store) -> Any:
    return held_reply(cast("SharedStore", store), "a", 1_000.0, 60.0)


def test_a_reply_is_one_row_under_a_lock_and_old_ones_are_forgotten() -> None:
    store = Store()
    with held(store) as reply:
        assert reply.read() == ""
        reply.write("facts")
        assert reply.read() == "facts"
        reply.clear()
        assert reply.read() == ""
    moment = "{'name': 'a', 'moment': 1000.0}"
    assert took(store) == [
        *BEGUN, "DELETE FROM {'before': 940.0}", f"SELECT facts {NAME}", f"INSERT INTO {moment}",
        f"SELECT facts {NAME}", REMOVE, f"SELECT facts {NAME}", *ENDED,
    ]  # fmt: skip


def test_a_reply_that_another_request_holds_is_none() -> None:
    store = Store()
    store.is_free = False
    with held(store) as reply:
        assert reply is None
    assert took(store) == [*BEGUN, *ENDED]


def test_a_reply_of_a_store_that_is_away_is_an_error() -> None:
    store = Store()
    store.fault = OperationalError("", {}, ValueError("gone"))
    with pytest.raises(SetupError) as refused, held(store):
        pytest.fail("it may not begin")
    assert str(refused.value) == AWAY
    assert took(store) == [*BEGUN, *ENDED]
    store.fault, store.is_away = None, True
    with pytest.raises(SetupError, match=AWAY), held(store):
        pytest.fail("it may not begin")
    assert took(store) == []
