"""What the watch of a shared store reads when, and what it tells: with a scripted driver and a false clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from ibi.errors import SetupError
from ibi.runtime.shared.store import SharedStore, node_name, store_of, store_url

URL = "postgresql://node:secret@db.example/ibi"
LOCK = 2744102374
BEGUN = [f"lock {LOCK}", "LISTEN ibi_changes", "LISTEN ibi_notices", "look"]
SOON = 10.0
"""Seconds that a thread may take."""


class Driver:
    """The driver of the database: `step` is what happens while the watch waits for a notice."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.events = list[str]()
        self.counts = dict[str, int]()
        self.is_free = True
        self.fault: Exception | None = None
        self._steps = SimpleQueue[Any]()
        self._waits = threading.Event()

    def connect(self, **options: Any) -> Driver:
        self.events.append(f"connect to {options['host']}, autocommit {options['autocommit']}")
        if self.fault is not None:
            raise self.fault
        return self

    def execute(self, statement: str) -> Any:
        if statement.startswith("SELECT pg_try_advisory_lock_shared("):
            self.events.append(f"lock {statement.partition('(')[2].rstrip(')')}")
            return SimpleNamespace(fetchone=lambda: (self.is_free,))
        self.events.append("look" if statement == "SELECT name, number FROM change_count" else statement)
        return SimpleNamespace(fetchall=lambda: list(self.counts.items()))

    def notifies(self, *, timeout: float, stop_after: int) -> Iterator[Any]:
        assert (timeout, stop_after) == (0.25, 1)
        self._waits.set()
        step = self._steps.get(timeout=SOON)
        if isinstance(step, Exception):
            raise step
        self.now += step if isinstance(step, float) else 0
        if isinstance(step, tuple):
            yield SimpleNamespace(channel=step[0], payload=step[1])

    def close(self) -> None:
        self.events.append("close")

    def wait(self) -> None:
        assert self._waits.wait(SOON)

    def step(self, *steps: tuple[str, str] | float | Exception) -> list[str]:
        """What is done while these things happen, one after the other."""
        self.events.clear()
        for each in steps:
            self._waits.clear()
            self._steps.put(each)
            self.wait()
        return [*self.events]

    def end(self, store: SharedStore) -> None:
        self._steps.put(0.0)
        store.close()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    made = Driver()
    monkeypatch.setattr(psycopg, "connect", made.connect)
    monkeypatch.setattr("ibi.runtime.shared.store.time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr("ibi.runtime.shared.store._RETRY", 0.01)
    return made


@pytest.fixture
def store(driver: Driver) -> Iterator[SharedStore]:
    """A store that is watched."""
    made = SharedStore(URL)
    driver.counts = {"a": 3}
    made.watch()
    driver.wait()
    yield made
    driver.end(made)


CHANGE = ("ibi_changes", "a")


def test_the_counters_are_read_after_a_notice_of_a_change_and_every_second(
    driver: Driver, store: SharedStore
) -> None:
    heard = list[str]()
    assert driver.events == ["connect to db.example, autocommit True", *BEGUN]
    assert (store.is_watched, store.count("a"), store.count("b")) == (True, 3, 0)
    driver.counts = {"a": 4, "b": 1}
    assert driver.step(CHANGE) == ["look"]
    assert (store.count("a"), store.count("b")) == (4, 1)
    assert driver.step(("ibi_notices", "unheard")) == []
    store.hear(heard.append)
    assert driver.step(("ibi_notices", "one"), ("another", "two"), ("ibi_notices", "three")) == []
    assert heard == ["one", "three"]
    assert driver.step(0.25, 0.25, 0.25) == []
    assert driver.step(0.25) == ["look"]
    assert driver.step(0.75, CHANGE, 0.75) == ["look"]
    assert driver.step(0.25) == ["look"]


def test_a_part_is_read_at_once_and_at_each_change_of_its_own(driver: Driver, store: SharedStore) -> None:
    reads = list[str]()
    store.follow("a", lambda: reads.append("a"))
    store.follow("b", lambda: reads.append("b"))
    assert reads == ["a", "b"]
    driver.step(CHANGE)  # once more, since it may have changed in that moment
    assert reads == ["a", "b"] * 2
    driver.step(CHANGE)
    driver.counts["b"] = 1
    driver.step(CHANGE)
    assert reads == [*["a", "b"] * 2, "b"]
    assert (store.count("a"), store.count("b")) == (3, 1)


def test_what_this_process_has_changed_is_read_again_before_the_store_tells_of_it(
    driver: Driver, store: SharedStore
) -> None:
    reads = list[int]()
    store.follow("a", lambda: reads.append(store.count("a")))
    driver.step(CHANGE)
    store.note_changed("a")
    first = store.count("a")
    store.note_changed("a")
    assert (first, store.count("a")) == (-1, -2)
    driver.counts["a"] = 5
    driver.step(CHANGE)
    assert (reads, store.count("a")) == ([3, 3, -2], 5)


def test_a_change_that_comes_while_another_is_read_is_not_overlooked(
    driver: Driver, store: SharedStore
) -> None:
    changes = [False, True, False]

    def read() -> None:
        if changes.pop(0):
            store.note_changed("a")

    store.follow("a", read)
    driver.counts["a"] = 4
    driver.step(CHANGE)
    assert store.count("a") == -1
    driver.step(CHANGE)
    assert (store.count("a"), changes) == (4, [])


def test_a_follower_that_fails_is_called_again_and_ends_no_watch(
    driver: Driver, store: SharedStore, caplog: pytest.LogCaptureFixture
) -> None:
    faults: list[Exception | None] = [None, SetupError("it is away"), ValueError("it fails"), None]
    reads = list[int]()

    def read() -> None:
        fault = faults.pop(0)
        if fault is not None:
            raise fault
        reads.append(store.count("a"))

    store.follow("a", read)
    driver.counts["a"] = 4
    driver.step(CHANGE)
    assert store.count("a") == 3
    driver.step(CHANGE, CHANGE, CHANGE)
    assert (reads, store.count("a")) == ([3, 3], 4)
    problem = "a change of another node was not followed"
    assert caplog.messages == [f"{problem}: it is away", problem]
    assert "ValueError: it fails" in caplog.text

    def bad(_text: str) -> None:
        raise SetupError("it is not understood")

    store.hear(bad)
    driver.step(("ibi_notices", "x"), CHANGE)
    assert caplog.messages[2:] == [f"{problem}: it is not understood"]


def test_a_store_counts_as_reached_for_three_seconds_after_it_was_read(
    driver: Driver, store: SharedStore
) -> None:
    assert not SharedStore(URL).is_watched
    assert SharedStore(URL).is_reached
    driver.now += 2.99
    store.check_reached()
    driver.now += 0.01
    with pytest.raises(SetupError) as refused:
        store.check_reached()
    assert str(refused.value) == "the store cannot be reached now; ask again in a moment"
    assert not store.is_reached
    store.tell("nothing is sent, and nothing raised")
    driver.step(CHANGE)
    store.check_reached()


def test_a_store_that_breaks_off_is_tried_again_and_each_time_it_is_logged_once(
    driver: Driver, store: SharedStore, caplog: pytest.LogCaptureFixture
) -> None:
    again = ["close", "connect to db.example, autocommit True"]
    for fault in (*[psycopg.OperationalError("gone\nfor ever")] * 2, OSError()):
        assert driver.step(fault) == [*again, *BEGUN]
        driver.step(1.0)
    driver.is_free = False
    driver.events.clear()
    driver.counts["a"] = 9
    threading.Timer(0.1, lambda: setattr(driver, "is_free", True)).start()
    found = driver.step(SetupError("it is away"))
    assert found[-4:] == BEGUN
    assert found[:4] == [*again, f"lock {LOCK}", "close"]
    assert store.count("a") == 9
    problem = "the store cannot be reached: "
    assert caplog.messages == [f"{problem}gone"] * 2 + [problem, f"{problem}it is away"]


def test_a_watch_that_reaches_no_store_says_so_and_ends(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    store = SharedStore(URL)
    refused_by = psycopg.OperationalError("refused")
    for fault, reason in ((refused_by, "refused"), (None, "it is being moved")):
        driver.fault, driver.is_free = fault, False
        with pytest.raises(SetupError) as refused:
            store.watch(0.25)
        assert str(refused.value) == (
            "the store cannot be reached: look at `store` in the settings, and at its server"
        )
        assert caplog.messages[-1] == f"the store cannot be reached: {reason}"
        assert not [each for each in threading.enumerate() if each.name == "shared store"]
        store = SharedStore(URL)
    assert set(driver.events) == {"connect to db.example, autocommit True", f"lock {LOCK}", "close"}


def test_the_thread_of_a_watch_holds_up_no_end_of_the_process(driver: Driver, store: SharedStore) -> None:
    (thread,) = [each for each in threading.enumerate() if each.name == "shared store"]
    assert thread.daemon
    driver.end(store)
    thread.join(SOON)
    assert driver.events[-1] == "close"


# --- which store the settings of a data directory name --------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "text", "variables", "url"),
    [
        ("resolver.toml", "store = 'a'", {}, "a"),
        ("resolver.toml", "store = 'a'\nservice = 'x'", {}, "a"),
        ("resolver.toml", "", {}, ""),
        ("resolver.toml", "store = 5", {}, ""),
        ("resolver.toml", "store = 'a'", {"IBI_RESOLVER_STORE": "b"}, "b"),
        ("resolver.toml", "store = 'a'", {"IBI_ARCHIVE_STORE": "b"}, "a"),
        ("resolver.toml", "= 5", {"IBI_RESOLVER_STORE": "b"}, ""),
        ("archive.toml", "store = 'a'", {}, "a"),
        ("archive.toml", "store = 'a'\nservice = 'x'", {}, ""),
        ("archive.toml", "service = 'x'", {"IBI_ARCHIVE_STORE": "b"}, ""),
        ("archive.toml", "", {"IBI_ARCHIVE_STORE": "b"}, "b"),
        ("another.toml", "store = 'a'", {"IBI_RESOLVER_STORE": "b", "IBI_ARCHIVE_STORE": "b"}, ""),
    ],
)
def test_the_file_of_a_node_names_the_store_or_a_variable_does(
    file: str, text: str, variables: dict[str, str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    (tmp_path / file).write_text(text)
    assert store_url(tmp_path) == url
    assert url or store_of(tmp_path) is None


def test_a_file_that_cannot_be_read_names_the_store_that_it_named_before(tmp_path: Path) -> None:
    file = tmp_path / "resolver.toml"
    for text, url in (("store = 'a'", "a"), ("= 5", "a"), ("store = 'bc'", "bc"), ("\xff", "bc")):
        file.write_text(text, encoding="latin-1")
        assert store_url(tmp_path) == url
    file.unlink()
    assert store_url(tmp_path) == ""
    assert store_url(tmp_path / "absent") == ""


def test_a_node_is_a_machine_and_a_data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "node-a")
    (tmp_path / "link").symlink_to(tmp_path)
    assert node_name(tmp_path / "link") == f"node-a:{tmp_path.resolve()}"
