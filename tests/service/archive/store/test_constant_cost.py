"""What is done for one item costs the same in a large Archive as in a small one, counted in steps of SQLite."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.archive.model.item import Holding
from ibi.archive.store.tables import change_log, history
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import WHEN, NewArchive, listener, serving

pytestmark = pytest.mark.one_store("sqlite", "it counts steps of SQLite")

SMALL, LARGE = 2_000, 20_000
EVERY = 10  # steps between two calls that count them
MORE = 200  # steps for trees that are one page higher
PAGES = (
    "/",
    "/-/about",
    "/-/readyz",
    "/a.example/b7/2010/01.01.00.00",
    "/-/item/a.example/b7/2010/01.01.00.00",
    "/-/api/items/a.example/b7/2010/01.01.00.00",
    "/-/timemap/a.example/b7/2010/01.01.00.00",
)


class Steps:
    """Counts the steps of all connections that are opened from now on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.thread = threading.main_thread()
        """The only thread whose steps count: others make an index for searches meanwhile."""
        connect = sqlite3.dbapi2.connect

        def counted(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection: sqlite3.Connection = connect(*arguments, **options)
            connection.set_progress_handler(self._count, EVERY)
            return connection

        monkeypatch.setattr(sqlite3.dbapi2, "connect", counted)

    def _count(self) -> int:
        if threading.current_thread() is self.thread:
            self.number += EVERY
        return 0

    def of(self, act: Callable[[], object]) -> int:
        """Return the steps of an act."""
        before = self.number
        act()
        return self.number - before


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    return Steps(monkeypatch)


def forms(number: int) -> IBIForms:
    return IBIForms.parse(f"rep a.example/b{number}/2010/01.01.00.00")


def grow(archive: NewArchive, first: int, last: int) -> None:
    lines = [
        {"rep": str(forms(n).rep), "url": f"http://far.example/{n}", "metadata": {"title": [f"Title {n}"]}}
        for n in range(first, last)
    ]
    assert archive.load(*lines).added == last - first


def writes(archive: NewArchive, item: int, steps: Steps) -> dict[str, int]:
    """The steps of each kind of change of an item."""
    store = archive.item_store

    def add() -> None:
        with store.unit_of_work("tester") as work:
            work.add(Holding(forms=forms(-item), timestamp=WHEN, url="http://far.example/"), (), "deposited")

    def change() -> None:
        with store.unit_of_work("tester") as work:
            held = work.get(forms(item).main)
            work.change(held, replace(held, url="http://far.example/new"), (), "edited")

    def remove() -> None:
        with store.unit_of_work("tester") as work:
            work.remove(work.get(forms(item).main), "by mistake")

    def trim() -> None:
        with archive.catalogue.writing() as writer:
            change_log.log_changes(writer.run, [None] * 1_001)

    def follow() -> None:
        with archive.catalogue.reading() as run:
            history.feed_after(run, history.feed_now(run)[0] - 5, 10)
            history.feed_ends(run)

    acts = {"add": add, "change": change, "remove": remove, "trim": trim, "follow": follow}
    return {name: steps.of(act) for name, act in acts.items()}


def test_a_change_costs_the_same_in_a_large_archive(
    steps: Steps, archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "KEPT", 100)
    monkeypatch.setattr(change_log, "TRIM_MOST", 500)
    grow(archive, 1, SMALL)
    writes(archive, 5, steps)
    small = writes(archive, 7, steps)
    grow(archive, SMALL, LARGE)
    large = writes(archive, 9, steps)
    assert min(small.values()) > 0
    assert {
        name: (small[name], number) for name, number in large.items() if number > small[name] + MORE
    } == {}


def test_a_page_costs_the_same_in_a_large_archive(steps: Steps, archive: NewArchive) -> None:
    def reads() -> dict[str, int]:
        before = set(threading.enumerate())
        with serving(archive, listener(), archive_service(archive.data)) as served:
            new = set(threading.enumerate()) - before
            [steps.thread] = [each for each in new if "<lambda>" in each.name]  # the one of `serving`

            def read(page: str) -> None:
                assert served.get(page).status in {200, 302, 303}, page

            return {page: min(steps.of(partial(read, page)) for _ in range(3)) for page in PAGES}

    grow(archive, 1, SMALL)
    small = reads()
    grow(archive, SMALL, LARGE)
    large = reads()
    assert sum(small.values()) > 0
    assert {
        page: (small[page], number) for page, number in large.items() if number > small[page] + MORE
    } == {}
