"""The pages by which readers and programs find items.

    /-/search?text=&person=&year=&language=&kind=      /-/browse  /-/browse?letter=c
    /-/statistics   /-/statistics?format=csv           how the items are used
    /-/feed   /-/feed?text=…                           the latest changes of all items or of a search (Atom)
    /sitemap.xml  /-/sitemap/<n>.xml                   for search engines
    /.well-known/resourcesync  /-/resourcesync/…       for programs that keep a copy: `search.resource_sync`

The pages are made one at a time in a thread of their own, and at most `MOST_WAITING` requests wait for it. So
many searches do not slow down the readers of items. What the front page shows of all items is read by `facts`,
which waits for none of them.
"""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from ibi.archive.api import items
from ibi.archive.model.access import day_of
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.pages.models import BrowsePage, CollectionFacts, ListedItem, SearchPage, StatisticsPage
from ibi.archive.pages.responses import PageResponses
from ibi.archive.pages.statistics import Statistics, UsageReports, write_csv
from ibi.archive.search import feeds, resource_sync
from ibi.archive.search import search as looking
from ibi.archive.search.hints import find_hints
from ibi.archive.search.index import IndexNotReady, SearchIndex, entry
from ibi.archive.search.search import hits, page_of
from ibi.archive.search.words import fold, path_with_query, read_search_query
from ibi.errors import IbiError, NotHeld, ParseError, SetupError
from ibi.http.conditional import http_date, unchanged
from ibi.http.response import Response
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.query_string import read_query
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.api.routes import Route
    from ibi.archive.pages.models import Renderer, SiteContext
    from ibi.archive.search.search import SearchHit
    from ibi.archive.search.words import SearchQuery
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.http.response import Handler

MOST_WAITING: Final = 40
"""Requests that wait for the thread; further ones are refused with 503 and Retry-After."""

RETRY_AFTER: Final = 5
"""Seconds after which a search makes sense again."""

MOST_YEARS: Final = 300
"""Years on the browse page."""
MOST_VALUES: Final = 100
"""Languages, or kinds, on the browse page."""
MOST_LETTERS: Final = 200
"""Letters on the browse page."""
PEOPLE_PER_PAGE: Final = 200
"""People on one page of the list of a letter."""
MOST_SUBJECTS: Final = 40
"""Subjects on the browse page."""
FRONT_KINDS: Final = 12
"""Kinds on the front page."""
FRONT_SUBJECTS: Final = 9
"""Subjects on the front page."""
SHOWN_READ: Final = 10
"""Items on the page of statistics."""
LONGEST_BEGINNING: Final = 40
"""Characters of the beginning of a name to which a reader jumps."""

_XML: Final = "application/xml; charset=utf-8"
_WHILE: Final = 600
_FOR_A_WHILE: Final = ("cache-control", f"public, max-age={_WHILE}")
_SETTLING: Final = 5
"""Seconds that a change may take to reach the index."""
_ASK_AGAIN: Final = ("cache-control", "public, no-cache")
_NO_INDEX: Final = ("x-robots-tag", "noindex")
_CSV: Final = "text/csv; charset=utf-8"
_AS_FILE: Final = ("content-disposition", 'attachment; filename="statistics.csv"')
_DECADE: Final = re.compile(r"[0-9]{3}0", re.ASCII)
_SHEET: Final = re.compile(r"/-/sitemap/([1-9][0-9]{0,8})\.xml", re.ASCII)
_CHANGES: Final = re.compile(r"/-/resourcesync/changes/([1-9][0-9]{0,11})\.xml", re.ASCII)
_NEWS: Final = "New and changed items of {address}"
_NEWS_OF: Final = "New and changed items of {address}: {search}"


class SearchPages:
    """The search pages of one Archive. It takes over `index`, and closes it. `now` returns POSIX seconds.

    `service`: the name of the Archive's service item, which is in no list.
    """

    def __init__(
        self,
        place: SiteContext,
        address: str,
        catalogue: Catalogue,
        index: SearchIndex,
        renderer: Renderer,
        now: Callable[[], float],
        service: str,
    ) -> None:
        self._place, self._service = place, service
        self._address, self._institution = address, renderer.institution
        self._catalogue = catalogue
        self.index = index
        self._responses = PageResponses(renderer, place)
        self._thread = ThreadPoolExecutor(1, "finding")
        self._waiting = 0
        self._now = now
        # An index of its own, because one connection serves one statement at a time, and a search may take long.
        self._front_index = SearchIndex(index.path.parent)
        self._usage = UsageReports(catalogue, index, now)
        self._reading = False

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers by path, for `ArchiveService`."""
        pages: Mapping[str, Callable[[Request], Response]] = {
            "/-/search": self._search,
            "/-/browse": self._browse,
            "/-/statistics": self._statistics,
            "/-/feed": self._feed,
            "/-/sitemap": self._sheet,
            resource_sync.SITEMAP: self._sitemap,
            "/-/resourcesync": self._resource_sync,
            resource_sync.SOURCE: self._resource_sync,
        }
        return {path: self._handler(path, answer) for path, answer in pages.items()}

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of the JSON interface."""
        return items.search_routes(self.index, self._catalogue)

    def facts(self) -> CollectionFacts:
        """Return what the front page shows of all items, by a few short reads of the index.

        The figures of usage are those of the last report; if it is old, the thread makes another one.
        """
        if self._usage.is_old and not self._reading:
            self._reading = True
            self._thread.submit(self._read_usage)
        usage, index = self._usage.latest, self._front_index
        try:
            years = looking.facet_values(index, "year", 1)
            return CollectionFacts(
                tuple(looking.facet_values(index, "kind", FRONT_KINDS)),
                tuple(looking.subjects(index, FRONT_SUBJECTS)),
                years[0].value if years else "",
                usage,
                looking.count_shown(index),
            )
        except SetupError:
            return CollectionFacts(usage=usage)

    def _read_usage(self) -> None:
        try:
            self._usage.report()
        except SetupError:
            pass  # the next reader of the front page begins again
        finally:
            self._reading = False

    async def close(self) -> None:
        """Close the thread and the index."""
        await asyncio.to_thread(self._thread.shutdown)
        self.index.close()
        self._front_index.close()

    def _handler(self, path: str, answer: Callable[[Request], Response]) -> Handler:
        async def opened(request: Request, _receive: object) -> Response:
            if not request.reads:
                why = IbiError("only GET and HEAD are understood here")
                return self._responses.refuse(request, 405, why).having(("allow", "GET, HEAD"))
            if request.path != path and answer not in {self._sheet, self._resource_sync}:
                return self._responses.refuse(request, 404, NotHeld("there is no such page here"))
            if self._waiting >= MOST_WAITING:
                busy = IbiError("too many searches are under way; try again in a few seconds")
                return self._responses.refuse(request, 503, busy, retry_after=RETRY_AFTER)
            self._waiting += 1
            try:
                loop, context = asyncio.get_running_loop(), copy_context()
                return await loop.run_in_executor(self._thread, context.run, self._answer, answer, request)
            finally:
                self._waiting -= 1

        return opened

    def _answer(self, answer: Callable[[Request], Response], request: Request) -> Response:
        try:
            return answer(request)
        except IndexNotReady as error:
            return self._responses.refuse(request, 503, error, retry_after=RETRY_AFTER)
        except (ParseError, NotHeld, SetupError) as error:
            return self._responses.refuse_error(request, error)

    def _search(self, request: Request) -> Response:
        """Serve the results of a search; without a query, the search form."""
        question = read_search_query(request.query)
        if question.is_empty:
            return self._responses.page(request, SearchPage(self._place, question))
        found = looking.search(self.index, question)
        leads, meant = self._identifier(question.text)
        results = tuple(map(self._listed, hits(self._catalogue, found.entries)))
        suggestion = meant if not found.count else ""
        hints = find_hints(self.index, question) if not found.count else None
        page = SearchPage(self._place, question, found, results, leads, suggestion, hints)
        response = self._responses.page(request, page)
        # Otherwise search engines would index endless combinations of words.
        return response if worth_indexing(question) and found.count else response.having(_NO_INDEX)

    def _listed(self, hit: SearchHit) -> ListedItem:
        return ListedItem(hit.holding, hit.metadata, hit.holding.access_on(day_of(self._now())))

    def _identifier(self, text: str) -> tuple[tuple[str, str] | None, str]:
        """Return the identifier in a text with its URL, or None, and a suggestion for a misspelt one."""
        if not text:
            return None, ""
        try:
            name = unwrap(text).ibi
        except ParseError as error:
            return None, error.suggestion or ""
        holding = self._catalogue.holding(name)
        held = holding is not None and not holding.deleted
        return (str(name), page_of(str(name)) if held else f"/{name}"), ""

    def _browse(self, request: Request) -> Response:
        """Serve the lists by which all items can be reached, or the people of one letter."""
        words = dict(read_query(request.query))
        letter = fold(_decoded(words.get("letter", "")))[:LONGEST_BEGINNING]
        letters = tuple(looking.facet_values(self.index, "letter", MOST_LETTERS))
        if not letter:
            decade = words.get("decade", "")
            page = BrowsePage(
                self._place,
                years=tuple(looking.facet_values(self.index, "year", MOST_YEARS)),
                languages=tuple(looking.facet_values(self.index, "language", MOST_VALUES)),
                kinds=tuple(looking.facet_values(self.index, "kind", MOST_VALUES)),
                subjects=tuple(looking.subjects(self.index, MOST_SUBJECTS)),
                letters=letters,
                undated=looking.undated(self.index),
                decade=int(decade) if _DECADE.fullmatch(decade) else 0,
            )
            return self._responses.page(request, page)
        after = fold(_decoded(words.get("after", "")))
        people = looking.people(self.index, letter, after, PEOPLE_PER_PAGE + 1)
        more = people[PEOPLE_PER_PAGE - 1].value if len(people) > PEOPLE_PER_PAGE else ""
        shown = tuple(people[:PEOPLE_PER_PAGE])
        status = 200 if shown else 404
        page = BrowsePage(
            self._place, letters=letters, letter=letter, people=shown, after=more, status=status
        )
        return self._responses.page(request, page)

    def _statistics(self, request: Request) -> Response:
        """Serve how the items were used in the last twelve months; with format=csv, all months for programs."""
        if dict(read_query(request.query)).get("format") == "csv":
            body = write_csv(Statistics(self._catalogue).of_all())
            return Response(200, body, _CSV, (_FOR_A_WHILE, _AS_FILE))
        report = self._usage.report()
        entries = {each.number: self.index.entry_of(each.number) for each in report.most_read}
        shown = [each for each in entries.values() if each is not None and each.shown]
        usage = {each.number: each for each in report.most_read}
        listed = [(self._listed(hit), usage[hit.entry.number]) for hit in hits(self._catalogue, shown)]
        items = looking.count_shown(self.index)
        return self._responses.page(
            request, StatisticsPage(self._place, report, items, tuple(listed[:SHOWN_READ]))
        )

    def _feed(self, request: Request) -> Response:
        """Serve the latest changes, of all items or of the results of a search, in the reader's language."""
        question = read_search_query(request.query).having(order="")
        if question.is_empty:
            entries = tuple(map(entry, self.index.rows(looking.NEWS, {"most": feeds.MOST})))
        else:
            entries = looking.newest(self.index, question, feeds.MOST)
        listed = hits(self._catalogue, entries)
        language, _ = self._responses.language(request)
        name = self._institution.text("name", language) or self._address
        title = _NEWS if question.is_empty else _NEWS_OF
        named = (question.text, question.person, question.subject)
        words = (*named, question.year_text, question.language, question.kind)
        feed = feeds.Feed(
            base=self._place.base,
            root=self._place.root,
            path=path_with_query("/-/feed", question),
            page=path_with_query("/-/search", question) if not question.is_empty else "/",
            title=say(title, language, address=name, search=", ".join(filter(None, words))),
            language=language,
            updated=self.index.earliest() or 0,
            author=name,
            publisher=self._institution.publisher or name,
        )
        body = feeds.write_feed(feed, listed)
        newest = timestamp_text(max((each.entry.stamp for each in listed), default=feed.updated))
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        of_text = (("content-language", language), ("vary", "Accept-Language"), _ASK_AGAIN)
        headers = (("etag", tag), ("last-modified", http_date(newest)), *of_text)
        if unchanged(request, tag, newest):
            return Response(304, headers=headers)
        return Response(200, body, f"{feeds.MEDIA_TYPE}; charset=utf-8", headers)

    def _sitemap(self, _request: Request) -> Response:
        body = feeds.write_index(self.index, self._place.base, self._listed_at())
        return Response(200, body, _XML, (_FOR_A_WHILE,))

    def _sheet(self, request: Request) -> Response:
        found = _SHEET.fullmatch(request.path)
        at = self._listed_at()
        body = feeds.write_sheet(self.index, self._place.base, int(found[1]), at) if found else None
        if body is None:
            raise NotHeld("there is no such page here")
        return Response(200, body, _XML, (_FOR_A_WHILE,))

    def _listed_at(self) -> float:
        # Early enough for a sheet that a cache has kept: what changed since is in the change list (10.1).
        return self._now() - _SETTLING - _WHILE

    def _resource_sync(self, request: Request) -> Response:
        """Serve what ResourceSync needs besides the sitemap."""
        path, base = request.path, self._place.base
        whole = {
            resource_sync.SOURCE: resource_sync.write_source,
            resource_sync.CAPABILITIES: resource_sync.write_capabilities,
        }
        if path in whole:
            return Response(200, whole[path](base), _XML, (_FOR_A_WHILE,))
        found = _CHANGES.fullmatch(path)
        with self._catalogue.reading() as run:
            body = resource_sync.write_changes(run, base, int(found[1]), self._service) if found else None
            if path == resource_sync.CHANGES:
                body = resource_sync.write_change_list(run, base, self._service, self._now())
        if body is None:
            raise NotHeld("there is no such page here")
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        if unchanged(request, tag, ""):
            return Response(304, headers=(("etag", tag), _ASK_AGAIN))
        return Response(200, body, _XML, (("etag", tag), _ASK_AGAIN))


def worth_indexing(question: SearchQuery) -> bool:
    """Return whether search engines should index the results: only for one condition that is not a text."""
    return not (question.text or question.order) and question.conditions == 1


def _decoded(text: str) -> str:
    # `read_query` decodes each byte to one character, but browsers send UTF-8.
    return text.encode("latin-1").decode("utf-8", "replace")
