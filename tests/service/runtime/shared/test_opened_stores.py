"""The stores that a process has opened: one for each data directory, and none left once they are closed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.runtime.shared.store import (
    SharedStore,
    close_store,
    close_stores,
    opened_stores,
    store_of,
)
from support.concurrency.open_files import open_connections
from support.concurrency.threads import switching_often, together
from support.engines.postgresql import PostgreSQL
from support.engines.shared_store import new_store, share

NOWHERE = "postgresql://ibi@127.0.0.1:9"


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what a test has opened, also where it fails."""
    before = opened_stores()
    yield
    close_stores(before)


def opened(data: Path, url: str) -> SharedStore:
    """The store of a data directory that names this one."""
    store = store_of(share(data, url))
    assert store is not None
    return store


def until(truth: Callable[[], bool]) -> None:
    """Wait until it is so."""
    end = time.monotonic() + 20
    while not truth():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.01)


def watching() -> list[threading.Thread]:
    """The threads that watch a store."""
    return [each for each in threading.enumerate() if each.name == "shared store"]


def test_threads_that_ask_at_the_same_moment_get_one_store(tmp_path: Path) -> None:
    def differ(data: Path) -> int:
        return len({id(each) for each in together(8, lambda _: store_of(data))})

    with switching_often():
        assert [differ(share(tmp_path / name, f"{NOWHERE}/{name}")) for name in "abcdefgh"] == [1] * 8


@pytest.mark.parametrize("close", [close_store, lambda _: close_stores()], ids=["one", "all"])
def test_threads_that_close_the_same_stores_do_not_get_in_each_others_way(
    tmp_path: Path, close: Callable[[Path], None]
) -> None:
    data = tmp_path / "data"
    with switching_often():
        for _ in range(3):
            before = opened_stores()
            for number in range(40):
                opened(data, f"{NOWHERE}/{number}")
            assert len(opened_stores() - before) == 40
            together(8, lambda _: close(data))
            assert opened_stores() <= before


def test_stores_of_other_directories_and_processes_stay_open(tmp_path: Path) -> None:
    one, other = (opened(tmp_path / name, f"{NOWHERE}/{name}") for name in ("one", "other"))
    close_store(tmp_path / "one")
    assert store_of(tmp_path / "other") is other
    assert store_of(tmp_path / "one") is not one


def test_a_command_closes_what_it_has_opened_and_nothing_else(tmp_path: Path) -> None:
    earlier = opened(tmp_path / "earlier", f"{NOWHERE}/earlier")
    before = opened_stores()
    later = opened(tmp_path / "later", f"{NOWHERE}/later")
    close_stores(before)
    assert opened_stores() == before
    assert store_of(tmp_path / "earlier") is earlier
    assert store_of(tmp_path / "later") is not later


@pytest.mark.parametrize("close", [close_store, lambda _: close_stores()], ids=["one", "all"])
@pytest.mark.parametrize("is_watched", [False, True])
def test_a_store_that_is_closed_has_no_connection_and_no_thread(
    tmp_path: Path, postgresql: PostgreSQL, close: Callable[[Path], None], is_watched: bool
) -> None:
    before = len(open_connections(postgresql.port))
    store = opened(tmp_path / "data", new_store(postgresql))  # kept, so that nothing but `close` closes it
    if is_watched:
        store.watch(20)
    with store.transaction() as run:
        assert run.exec_driver_sql("SELECT 1").scalar() == 1
    assert len(open_connections(postgresql.port)) == before + 1 + is_watched
    close(tmp_path / "data")
    until(lambda: len(open_connections(postgresql.port)) == before)
    until(lambda: not watching())
    assert store.is_watched == is_watched


def test_a_watch_that_cannot_begin_is_ended() -> None:
    store = SharedStore(f"{NOWHERE}/nothing")
    with pytest.raises(SetupError, match="the store cannot be reached"):
        store.watch(0.1)
    until(lambda: not watching())
