"""The holdings filter of an Archive: what is in it, when it is made anew, and how it is given out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from ibi.app.archive import archive_service
from ibi.archive.membership import holdings_filter
from ibi.archive.membership.holdings_filter import FILE, HoldingsFilterFile
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.tables import listings
from ibi.errors import SetupError
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import (
    GONE,
    ITEMS,
    LINKED,
    REP,
    NewArchive,
    Served,
    fill,
    listener,
    serving,
)
from support.oracles.holdings import may_hold
from support.web.unnamed import RENDERER


@contextmanager
def publishing(new_archive: Callable[..., NewArchive]) -> Iterator[Served]:
    """An Archive whose filter is published once `look` has made it."""
    made = listener()
    archive = new_archive(f"127.0.0.1:{made.getsockname()[1]}")
    fill(archive)
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        holdings=partial(holdings_filter.filter_response, archive.data),
    )
    with serving(archive, made, Service(app, close=app.close)) as served:
        yield served


def look(archive: NewArchive, times: int = 1) -> bytes:
    """Make the filter, as the duty does; what is in the file then."""
    kept = HoldingsFilterFile(archive.catalogue, archive.data)
    for _ in range(times):
        asyncio.run(kept.look())
    return (archive.data / FILE).read_bytes()


def test_every_name_of_every_item_is_in_it_removed_ones_too(archive: NewArchive) -> None:
    fill(archive)
    archive.load({"rep": "a.example/b/2013/01.01.00.00", "aliases": ["6qtX3pFwXQZGivnJSY/M7t24"]})
    page = look(archive)
    names = [REP, "8JMKD3MGP8W/35MME4E", GONE, LINKED, "6qtX3pFwXQZGivnJSY/M7t24"]
    service = archive.settings.service
    held = [*(parse_name(name).canonical for name in names), *service.canonicals]
    assert [name for name in held if not may_hold(page, name)] == []
    others = [f"b.example/c/2013/01.01.{number:02}.{more:02}" for number in range(24) for more in range(60)]
    assert sum(may_hold(page, name) for name in others) < 30
    count = int(page.split(b"names=")[1].split()[0])
    assert count == len(ITEMS) + 2 + 1 + len(service.canonicals)  # two of the items have two names


def test_a_filter_of_many_pages_of_names_is_whole(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_of_many = listings.names_page
    monkeypatch.setattr(listings, "names_page", lambda run, after, _: page_of_many(run, after, 3))
    names = [f"a.example/b/2013/01.01.00.{number:02}" for number in range(50)]
    archive.load(*({"rep": name, "url": "http://far.example/"} for name in names))
    page = look(archive)
    assert all(may_hold(page, name) for name in names)


def test_it_is_made_anew_only_when_names_have_come(
    archive: NewArchive, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ibi.archive.membership.holdings_filter")
    kept = HoldingsFilterFile(archive.catalogue, archive.data)
    asyncio.run(kept.look())
    path = archive.data / FILE
    first = path.stat().st_ino  # a filter that is made anew is another file
    asyncio.run(kept.look())
    asyncio.run(HoldingsFilterFile(archive.catalogue, archive.data).look())  # as after a restart
    assert path.stat().st_ino == first
    archive.load({"rep": REP, "url": "http://far.example/"})
    asyncio.run(kept.look())
    assert may_hold(path.read_bytes(), parse_name(REP).canonical)
    assert path.stat().st_ino != first
    assert [each.name for each in archive.data.glob("holdings*")] == [FILE]
    logged = [each.getMessage() for each in caplog.records]
    assert logged == [f"the holdings filter tells of {number} names now" for number in (2, 3)]


def test_the_page_is_given_once_to_who_has_it_already(new_archive: Callable[..., NewArchive]) -> None:
    with publishing(new_archive) as served:
        assert served.get("/-/holdings").status == 503
        text = look(served.archive)
        answer = served.get("/-/holdings")
        assert (answer.status, answer.body) == (200, text)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["cache-control"] == "max-age=300"
        tag = answer.headers["etag"]
        again = served.get("/-/holdings", if_none_match=tag)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        served.archive.load({"rep": "a.example/b/2020/01.01.00.00", "url": "http://far.example/"})
        text = look(served.archive)
        newer = served.get("/-/holdings", if_none_match=tag)
        assert (newer.status, newer.body) == (200, text)
        head = served.get("/-/holdings", "HEAD")
        assert (head.status, head.headers["content-length"]) == (200, str(len(text)))


def test_an_archive_that_publishes_none_has_no_such_page(full: Served) -> None:
    assert full.get("/-/holdings").status == 404


def test_an_archive_of_too_many_names_publishes_none(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    look(archive)
    with archive.catalogue.reading() as run:
        names = listings.count_names(run)
    monkeypatch.setattr(holdings_filter, "MOST_NAMES", names)
    look(archive)
    archive.load({"rep": REP, "url": "http://far.example/"})
    for _ in range(2):
        with pytest.raises(SetupError) as refused:
            look(archive)
        assert str(refused.value) == f"an Archive of more than {names} names publishes no holdings filter"
        assert not (archive.data / FILE).exists()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_running_archive_makes_it_by_itself_if_it_is_wanted(
    new_archive: Callable[..., NewArchive], *, wanted: bool
) -> None:
    archive = new_archive("archive.example", holdings_filter=wanted)
    archive.settings.write(archive.data)
    made = listener()
    with serving(archive, made, archive_service(archive.data)) as served:
        answer = served.get("/-/holdings")
        for _ in range(1000):
            if answer.status in {200, 404}:
                break
            threading.Event().wait(0.02)
            answer = served.get("/-/holdings")
        assert answer.status == (200 if wanted else 404)
    assert (archive.data / FILE).exists() == wanted
