"""How a copy is compared with its original again: where that is looked for, and what is noted of the outcome."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.replication import refreshing
from ibi.archive.replication.copying import FoundOriginal
from ibi.archive.replication.fetching import NotModified, OriginalLocation
from ibi.archive.replication.refreshing import refresh, refresh_due, refresh_task
from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import HoldingError, IbiError, NotHeld, ParseError, PeerGarbled, PeerSilent, SetupError
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import NOW, WHEN, NewArchive
from support.clock import run_with_false_clock

NAME = "a.example/b/2010/01.01.00.00"
ROOT = "http://far.example"
BEFORE, SINCE = "2023-11-01T00:00:00Z", "2023-11-02T00:00:00Z"
SOURCE = CopySource(archive=ROOT, service="far.example/w/2020/01.01.00.00", tag='"1"', checked=BEFORE)
NEW = replace(SOURCE, original=WHEN, tag='"2"', checked=WHEN)
SILENT = PeerSilent("it is silent")
Outcome = Exception | None | str
"""Of a search: what is raised, nothing, or what was found."""


class Copier:
    """A copier that writes down what it is asked for; what it then does is in `there`, `elsewhere` and `saves`."""

    def __init__(
        self,
        archive: NewArchive,
        there: Outcome = "found",
        elsewhere: Outcome = None,
        saves: Exception | None = None,
        resolver: str = "",
    ) -> None:
        self.item_store = archive.item_store
        self.there, self.elsewhere, self.saves = there, elsewhere, saves
        self.resolver = resolver
        self.calls: list[tuple[Any, ...]] = []

    @asynccontextmanager
    async def downloads(self, *, private: bool, seconds: float = 0) -> AsyncIterator[str]:
        self.calls.append(("downloads", private, seconds))
        yield "downloads"

    def _outcome(self, outcome: Outcome) -> FoundOriginal | None:
        if isinstance(outcome, Exception):
            raise outcome
        holding: Any = "the original"
        return FoundOriginal(holding, NEW, lambda _: "") if outcome else None

    async def find_at(
        self, downloads: str, root: str, name: Any, tag: str, *, private: bool
    ) -> FoundOriginal | None:
        self.calls.append(("find_at", downloads, root, str(name), tag, private))
        return self._outcome(self.there)

    async def find_file(
        self, downloads: str, location: OriginalLocation, name: Any, tag: str, *, private: bool
    ) -> FoundOriginal | None:
        self.calls.append(("find_file", downloads, location.url, location.archives, str(name), tag, private))
        return self._outcome(self.there)

    async def find(self, downloads: str, name: Any, *, private: bool) -> FoundOriginal | None:
        self.calls.append(("find", downloads, str(name), private))
        return self._outcome(self.elsewhere)

    async def save(self, downloads: str, name: Any, found: FoundOriginal, who: str) -> None:
        self.calls.append(("save", downloads, str(name), found.holding, who))
        if self.saves:
            raise self.saves


def copied(
    archive: NewArchive, source: CopySource = SOURCE, name: str = NAME, url: str = "http://x.example/"
) -> None:
    assert archive.load({"rep": name, "state": "Copy", "url": url}).added == 1
    held = archive.catalogue.holding(parse_name(name))
    assert held is not None
    with archive.catalogue.writing() as writer:
        copies.save_source(writer.run, held.number, source)


def source_of(archive: NewArchive, name: str = NAME) -> CopySource | None:
    held = archive.catalogue.holding(parse_name(name))
    assert held is not None
    with archive.catalogue.reading() as run:
        return copies.source_of(run, held.number)


def refreshed(copier: Any, seconds: float = math.inf) -> CopySource:
    return asyncio.run(refresh(copier, parse_name(NAME), "otto", seconds))


def facts_of(source: CopySource | None) -> tuple[str, str, str]:
    """When a copy was last compared, since when it may differ, and why."""
    assert source is not None
    return source.checked, source.since, str(source.problem or "")


FOUND_AT = ("find_at", "downloads", ROOT, NAME, '"1"', True)
SAVED = ("save", "downloads", NAME, "the original", "otto")
LAGGING = replace(SOURCE, since=SINCE, problem=IbiError("it was silent"))


def test_an_original_that_has_changed_is_looked_for_where_it_was_and_saved(archive: NewArchive) -> None:
    copied(archive, replace(SOURCE, private=True))
    copier = Copier(archive)
    assert refreshed(copier, 7.0) == NEW
    assert copier.calls == [("downloads", True, 7.0), FOUND_AT, SAVED]


def test_an_original_that_only_has_a_url_is_looked_for_there(archive: NewArchive) -> None:
    copied(archive, replace(SOURCE, archive="", url="http://far.example/x"))
    copier = Copier(archive)
    assert refreshed(copier) == NEW
    found = ("find_file", "downloads", "http://far.example/x", (), NAME, '"1"', False)
    assert copier.calls == [("downloads", False, math.inf), found, SAVED]


@pytest.mark.parametrize("there", [NotModified(), "found"], ids=["not modified", "moved"])
def test_a_copy_that_equals_its_original_lags_no_longer(archive: NewArchive, there: Outcome) -> None:
    """A copy that only leads to the Archive to which the original was handed over has no files to compare."""
    copied(archive, LAGGING, url=f"{ROOT}/{NAME}" if there == "found" else "http://x.example/")
    copier = Copier(archive, there)
    assert refreshed(copier) == source_of(archive)
    assert source_of(archive) == replace(SOURCE, checked=WHEN)
    assert len(copier.calls) == (1 if there == "found" else 2)


GONE = f"{ROOT} no longer has {NAME}"


@pytest.mark.parametrize(
    ("source", "there", "elsewhere", "resolver", "problem"),
    [
        (SOURCE, SILENT, "found", "", "it is silent"),
        (SOURCE, HoldingError("it was removed"), "found", "", "it was removed"),
        (SOURCE, ParseError("name", "x", "it is no name"), "found", "http://r.example", "it is no name"),
        (SOURCE, None, None, "", GONE),
        (SOURCE, None, PeerGarbled("no redirect"), "http://r.example", GONE),
        (SOURCE, SILENT, HoldingError("nowhere"), "http://r.example", "it is silent"),
        (LAGGING, SILENT, None, "", "it is silent"),
    ],
    ids=["silent", "removed", "parsed", "gone", "gone everywhere", "silent and nowhere", "lagging"],
)
def test_a_copy_whose_original_is_not_found_lags_since_then(
    archive: NewArchive,
    source: CopySource,
    there: Outcome,
    elsewhere: Outcome,
    resolver: str,
    problem: str,
) -> None:
    """What is told is why it is not where it was."""
    copied(archive, source)
    copier = Copier(archive, there, elsewhere, resolver=resolver)
    found = refreshed(copier)
    checked, since, reason = facts_of(source_of(archive))
    assert facts_of(found) == (checked, since, reason)
    assert (checked, since, reason.partition(" (")[0]) == (WHEN, source.since or WHEN, problem)
    from_resolver = resolver and not isinstance(there, ParseError)
    assert [call[0] for call in copier.calls] == [
        "downloads",
        "find_at",
        *(["find"] if from_resolver else []),
    ]


def test_an_original_that_has_moved_is_found_by_the_resolver(archive: NewArchive) -> None:
    copied(archive, replace(SOURCE, private=True))
    copier = Copier(archive, SILENT, "found", resolver="http://r.example")
    assert refreshed(copier) == NEW
    assert copier.calls[2:] == [("find", "downloads", NAME, True), SAVED]


def test_a_fault_of_this_machine_is_noted_and_told(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied(archive)
    copier: Any = Copier(archive, saves=SetupError("the disk is full"))
    with pytest.raises(SetupError, match="the disk is full"):
        refreshed(copier)
    assert facts_of(source_of(archive)) == (WHEN, WHEN, "the disk is full")

    def fail(*_: object) -> None:
        raise SetupError("not even that can be noted")

    monkeypatch.setattr(copies, "save_source", fail)
    with pytest.raises(SetupError, match="the disk is full"):
        refreshed(copier)


def test_only_a_copy_from_elsewhere_is_refreshed(archive: NewArchive) -> None:
    copier = Copier(archive)
    with pytest.raises(NotHeld) as none:
        refreshed(copier)
    assert str(none.value) == f"{NAME} is not held here"
    copied(archive)
    held = archive.catalogue.holding(parse_name(NAME))
    assert held is not None
    with archive.catalogue.writing() as writer:
        copies.forget_source(writer.run, held.number)
    with pytest.raises(HoldingError) as other:
        refreshed(copier)
    assert str(other.value) == f"{NAME} is no copy that came from another Archive"
    assert copier.calls == []


# Those that are due


def name(number: int) -> str:
    return f"a.example/b/2011/01.01.00.{number:02}"


class Refreshes:
    """What is refreshed, each for so many seconds; some are no copies any more."""

    def __init__(self, patch: pytest.MonkeyPatch, seconds: float = 0.0, gone: tuple[str, ...] = ()) -> None:
        self.done: list[tuple[float, str]] = []
        self.seconds, self.gone = seconds, gone
        patch.setattr(refreshing, "refresh", self.refresh)

    async def refresh(self, _copier: Any, name: Any, who: str, seconds: float) -> None:
        assert (who, seconds) == ("refresh", 86_400)
        self.done.append((asyncio.get_running_loop().time() - 1000, str(name)))
        await asyncio.sleep(self.seconds)
        if str(name) in self.gone:
            raise HoldingError("it is the Original now")


def many_copies(archive: NewArchive, count: int) -> None:
    """Copies of which each was compared a second after the one before it."""
    for number in range(count):
        copied(archive, replace(SOURCE, checked=f"2023-11-13T22:13:{number:02}Z"), name(number))


def test_of_the_copies_that_are_due_the_oldest_twenty_are_refreshed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_copies(archive, 25)
    done = Refreshes(monkeypatch, gone=(name(3),))
    copier: Any = Copier(archive)
    run_with_false_clock(refresh_due(copier, WHEN, "refresh"), sockets=False)
    assert done.done == [(0.0, name(number)) for number in range(20)]


def test_after_ten_minutes_no_further_copy_is_refreshed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_copies(archive, 5)
    done = Refreshes(monkeypatch, seconds=300.0)
    copier: Any = Copier(archive)
    run_with_false_clock(refresh_due(copier, WHEN, "refresh"), sockets=False)
    assert done.done == [(0.0, name(0)), (300.0, name(1)), (600.0, name(2))]


def test_a_copy_is_due_when_more_than_so_many_hours_have_passed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    many_copies(archive, 5)
    done = Refreshes(monkeypatch)
    copier: Any = Copier(archive)
    task = refresh_task(copier, 24, lambda: NOW - 18)

    async def do() -> None:
        await task.do()

    run_with_false_clock(do(), sockets=False)
    assert done.done == [(0.0, name(0)), (0.0, name(1))]
