"""Where readers and programs find what an Archive holds, at its own address.

    /-/search?text=&person=&year=&language=&kind=      /-/browse  /-/browse?letter=c
    /-/feed   /-/feed?text=…                           what is new, as Atom; of a search
    /sitemap.xml  /-/sitemap/<n>.xml                   what search engines read

Answers are made in a thread of their own, one at a time, and only so many wait for it: whoever looks for much holds up
nobody who reads.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from ibi.archive.finding import feeds, progress, searching, sitemaps
from ibi.archive.finding import search as looking
from ibi.archive.finding.index import entry
from ibi.archive.finding.pages import BrowsePage, SearchPage
from ibi.archive.finding.question import asked_path, read_question
from ibi.archive.finding.results import page_of, results
from ibi.archive.finding.tables import BeingMade
from ibi.archive.finding.words import fold
from ibi.archive.item_lines import timestamp_text
from ibi.archive.website.conditions import http_date, unchanged
from ibi.archive.website.showing import Showing
from ibi.errors import IbiError, NotHeld, ParseError, SetupError
from ibi.exchange import Response
from ibi.identifier.peeling import peel
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.finding.index import Index
    from ibi.archive.finding.question import Question
    from ibi.archive.service import Api
    from ibi.archive.website.pages import Renderer
    from ibi.archive.website.place import Place
    from ibi.exchange import Asked
    from ibi.interface.routes import Route

MOST_WAITING: Final = 40
"""Requests that wait for their turn; the next one is told to come later."""

RETRY_AFTER: Final = ("retry-after", "5")

MOST_YEARS: Final = 300
MOST_VALUES: Final = 100
MOST_LETTERS: Final = 200
PEOPLE_PER_PAGE: Final = 200

_XML: Final = "application/xml; charset=utf-8"
_FOR_A_WHILE: Final = ("cache-control", "public, max-age=600")
_ASK_AGAIN: Final = ("cache-control", "public, no-cache")
_NO_INDEX: Final = ("x-robots-tag", "noindex")
_SHEET: Final = re.compile(r"/-/sitemap/([1-9][0-9]{0,8})\.xml", re.ASCII)
_NEWS: Final = "New and changed items of {address}"
_NEWS_OF: Final = "New and changed items of {address}: {search}"


class Finding:
    """What answers where items can be found. It takes over `index`, and closes it.

    `renderer`: without it, pages are plain text.
    """

    def __init__(
        self, place: Place, address: str, catalogue: Catalogue, index: Index, renderer: Renderer | None
    ) -> None:
        self._place = place
        self._address = address
        self._catalogue = catalogue
        self.index = index
        self._renderer = renderer
        self._showing = Showing(renderer, place)
        self._thread = ThreadPoolExecutor(1, "finding")
        self._waiting = 0

    def doors(self) -> dict[str, Api]:
        """What answers at which path, as `ArchiveService` takes it."""
        pages: Mapping[str, Callable[[Asked], Response]] = {
            "/-/search": self._search,
            "/-/browse": self._browse,
            "/-/feed": self._feed,
            "/-/sitemap": self._sheet,
            "/sitemap.xml": self._sitemap,
        }
        return {path: self._door(path, answer) for path, answer in pages.items()}

    def routes(self) -> tuple[Route, ...]:
        """What the JSON interface offers."""
        return (*searching.routes(self.index, self._catalogue), progress.route(self.index, self._catalogue))

    async def close(self) -> None:
        """Give up the thread and the index."""
        await asyncio.to_thread(self._thread.shutdown)
        self.index.close()

    def _door(self, path: str, answer: Callable[[Asked], Response]) -> Api:
        async def opened(asked: Asked, _receive: object) -> Response:
            if not asked.reads:
                refusal = self._showing.refuse(asked, 405, IbiError("only GET and HEAD are understood here"))
                return refusal.having(("allow", "GET, HEAD"))
            if asked.path != path and answer != self._sheet:
                return self._showing.refuse(asked, 404, NotHeld("there is no such page here"))
            if self._waiting >= MOST_WAITING:
                busy = IbiError("too many searches are under way; try again in a few seconds")
                return self._showing.refuse(asked, 503, busy).having(RETRY_AFTER)
            self._waiting += 1
            try:
                return await asyncio.get_running_loop().run_in_executor(
                    self._thread, self._answer, answer, asked
                )
            finally:
                self._waiting -= 1

        return opened

    def _answer(self, answer: Callable[[Asked], Response], asked: Asked) -> Response:
        try:
            return answer(asked)
        except ParseError as error:
            return self._showing.refuse(asked, 400, error)
        except NotHeld as error:
            return self._showing.refuse(asked, 404, error)
        except BeingMade as error:
            return self._showing.refuse(asked, 503, error).having(RETRY_AFTER)
        except SetupError as error:
            return self._showing.refuse(asked, 503, error)

    def _search(self, asked: Asked) -> Response:
        """The results of a search or of a list; without a question, the form for one."""
        question = read_question(asked.query)
        if question.is_empty:
            return self._showing.page(asked, SearchPage(self._place, question))
        found = looking.search(self.index, question)
        leads, meant = self._identifier(question.text)
        page = SearchPage(
            self._place,
            question,
            found,
            results(self._catalogue, found.entries),
            leads,
            meant if not found.count else "",
        )
        shown = self._showing.page(asked, page)
        return shown if worth_indexing(question) and found.count else shown.having(_NO_INDEX)

    def _identifier(self, text: str) -> tuple[tuple[str, str] | None, str]:
        """The identifier in a text and where it leads, and what may have been meant by one that is none."""
        if not text:
            return None, ""
        try:
            name = peel(text).ibi
        except ParseError as error:
            return None, error.suggestion or ""
        holding = self._catalogue.holding(name)
        held = holding is not None and not holding.deleted
        return (str(name), page_of(str(name)) if held else f"/{name}"), ""

    def _browse(self, asked: Asked) -> Response:
        """The lists by which everything can be walked through, or the people of one letter."""
        said = dict(read_query(asked.query))
        letter = fold(_decoded(said.get("letter", "")))[:1]
        if not letter:
            page = BrowsePage(
                self._place,
                years=tuple(looking.years(self.index, MOST_YEARS)),
                languages=tuple(looking.values(self.index, "language", MOST_VALUES)),
                kinds=tuple(looking.values(self.index, "kind", MOST_VALUES)),
                letters=tuple(looking.letters(self.index, MOST_LETTERS)),
            )
            return self._showing.page(asked, page)
        after = fold(_decoded(said.get("after", "")))
        people = looking.people(self.index, letter, after, PEOPLE_PER_PAGE + 1)
        if not people:
            raise NotHeld("there is no such page here")
        more = people[PEOPLE_PER_PAGE - 1].value if len(people) > PEOPLE_PER_PAGE else ""
        page = BrowsePage(self._place, letter=letter, people=tuple(people[:PEOPLE_PER_PAGE]), after=more)
        return self._showing.page(asked, page)

    def _feed(self, asked: Asked) -> Response:
        """What changed last, of everything or of a search, in the reader's language."""
        question = read_question(asked.query).having()
        if question.is_empty:
            rows = self.index.rows(looking.NEWS, {"most": feeds.MOST})
            entries = tuple(map(entry, rows))
        else:
            entries = looking.newest(self.index, question, feeds.MOST)
        listed = results(self._catalogue, entries)
        language = self._showing.language(asked)
        feed = feeds.Feed(
            base=self._place.base,
            root=self._place.root,
            path=asked_path("/-/feed", question),
            page=asked_path("/-/search", question) if not question.is_empty else "/",
            title=self._title(language, question),
            language=language,
            updated=self.index.earliest() or 0,
        )
        body = feeds.write(feed, listed)
        newest = timestamp_text(max((each.entry.stamp for each in listed), default=feed.updated))
        headers = (
            ("etag", feeds.tag_of(body)),
            ("last-modified", http_date(newest)),
            ("content-language", language),
            ("vary", "Accept-Language"),
            _ASK_AGAIN,
        )
        if unchanged(asked, feeds.tag_of(body), newest):
            return Response(304, headers=headers)
        return Response(200, body, f"{feeds.MEDIA_TYPE}; charset=utf-8", headers)

    def _title(self, language: str, question: Question) -> str:
        say = self._renderer.say(language) if self._renderer else None
        sentence = _NEWS if question.is_empty else _NEWS_OF
        words = (question.text, question.person, str(question.year or ""), question.language, question.kind)
        details = {"address": self._address, "search": ", ".join(filter(None, words))}
        return say(sentence, details) if say else sentence.format(**details)

    def _sitemap(self, _asked: Asked) -> Response:
        return Response(200, sitemaps.write_index(self.index, self._place.base), _XML, (_FOR_A_WHILE,))

    def _sheet(self, asked: Asked) -> Response:
        found = _SHEET.fullmatch(asked.path)
        body = sitemaps.write_sheet(self.index, self._place.base, int(found[1])) if found else None
        if body is None:
            raise NotHeld("there is no such page here")
        return Response(200, body, _XML, (_FOR_A_WHILE,))


def worth_indexing(question: Question) -> bool:
    """Whether a search engine should keep a page of results: only lists of one year, one person and the like."""
    return not question.ranked and question.conditions == 1


def _decoded(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "replace")
