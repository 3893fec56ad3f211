"""How many searches wait for the thread, what is refused then, and what the front page knows of all items."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from ibi.archive.pages.models import CollectionFacts, SiteContext
from ibi.archive.pages.search_pages import MOST_WAITING, SearchPages
from ibi.archive.pages.statistics import UsageReport
from ibi.archive.search import search as looking
from ibi.errors import SetupError
from ibi.http.request import Request
from ibi.http.response import Response
from support.archive.archive_fixture import NewArchive
from support.archive.search_fixture import indexed, item
from support.web.unnamed import RENDERER

IN_ENGLISH = (("cache-control", "no-store"), ("content-language", "en"))
TEXT = "text/plain; charset=utf-8"


def pages_of(archive: NewArchive) -> SearchPages:
    """The search pages of an Archive; to be closed."""
    place = SiteContext("http://archive.example", "", "admin@archive.example", search=True)
    service = str(archive.settings.service.main)
    return SearchPages(
        place, "archive.example", archive.catalogue, indexed(archive), RENDERER, archive.clock.seconds, service
    )  # fmt: skip


async def ask(pages: SearchPages, handled: str, path: str, query: str = "", method: str = "GET") -> Response:
    async def receive() -> Any:
        raise AssertionError

    return await pages.handlers()[handled](Request(method, path, query, {}), receive)


def whole(response: Response) -> tuple[Any, ...]:
    return response.status, response.content_type, response.body.decode(), tuple(response.headers)


def test_forty_searches_may_wait_and_one_more_is_refused(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, search = threading.Event(), looking.search

    def waiting(*values: Any) -> Any:
        assert go.wait(60)
        return search(*values)

    async def work() -> None:
        pages = pages_of(archive)
        monkeypatch.setattr(looking, "search", waiting)
        for _ in range(2):  # those that have ended wait no more
            go.clear()
            under_way = [
                asyncio.create_task(ask(pages, "/-/search", "/-/search", "text=a"))
                for _ in range(MOST_WAITING)
            ]
            await asyncio.sleep(0)
            refused = await ask(pages, "/-/search", "/-/search", "text=b")
            sentence = "too many searches are under way; try again in a few seconds\n"
            head = (IN_ENGLISH[0], ("retry-after", "5"), IN_ENGLISH[1])
            assert whole(refused) == (503, TEXT, sentence, head)
            go.set()
            assert {each.status for each in await asyncio.gather(*under_way)} == {200}
        await pages.close()

    assert MOST_WAITING == 40
    asyncio.run(work())


def test_another_method_or_path_is_refused_before_it_waits(archive: NewArchive) -> None:
    async def work() -> None:
        pages = pages_of(archive)
        only = "only GET and HEAD are understood here\n"
        head = (*IN_ENGLISH, ("allow", "GET, HEAD"))
        assert whole(await ask(pages, "/-/search", "/-/search", method="POST")) == (405, TEXT, only, head)
        for path in ("/-/search/x", "/-/search/"):
            found = await ask(pages, "/-/search", path)
            assert whole(found) == (404, TEXT, "there is no such page here\n", IN_ENGLISH)
        await pages.close()

    asyncio.run(work())


def test_the_front_page_knows_the_subjects_and_the_last_year_and_soon_the_usage(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.load(
        item(1, "Water", subject=["rivers"], date=["1999"]),
        item(2, "Fire", subject=["rivers"], date=["2003"]),
    )
    pages = pages_of(archive)
    facts = pages.facts()
    assert facts == CollectionFacts(facts.kinds, facts.subjects, "2003", facts.usage, 2)
    assert [(each.value, each.items) for each in facts.subjects] == [("rivers", 2)]
    ends = time.monotonic() + 60
    while pages.facts().usage is None and time.monotonic() < ends:  # the report is made in a thread
        time.sleep(0.005)
    assert pages.facts().usage == UsageReport()

    def failing(*_: object) -> Any:
        raise SetupError("the index cannot be read")

    monkeypatch.setattr(looking, "facet_values", failing)
    assert pages.facts() == CollectionFacts(usage=UsageReport())
    asyncio.run(pages.close())
