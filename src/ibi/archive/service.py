"""The Archive service (R15 chapter 9, Algorithm 1): one URL, three subjects; a bare ASGI application.

    /<service IBI>?servicesubject=…     the messages of the standard: `subjects`
    /-/api/…                            what programs may do, with any method: given from above
    doors                               rooms of their own, by where their paths begin: given from above
    /col/…  /-/…  /  /robots.txt        files and pages: `site`
    anything else                       a persistent URL at our own address: `site` too (note 27)

It works on the raw path and the raw query, each decoded once (threat T27).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import vouched
from ibi.archive.answer import ArchiveIdentity
from ibi.archive.sparing import SparingCatalogue, TooLarge
from ibi.archive.subjects import NO_SERVICE, Subjects, no_request
from ibi.archive.thanks import Counting
from ibi.archive.url_key import UrlKeys
from ibi.archive.website.doorkeeper import Doorkeeper, as_program, status_of, too_much
from ibi.archive.website.site import Site
from ibi.errors import IbiError, ParseError, SetupError
from ibi.exchange import JSON, NO_STORE, PLAIN, Asked, Response, hosts_of
from ibi.limits import source_of
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import unescape
from ibi.protocol.relation import Relation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.storage import Storage
    from ibi.archive.url_key import Thanks
    from ibi.archive.website.pages import Renderer
    from ibi.archive.website.statistics import Visits
    from ibi.nonce import Nonce
    from ibi.settings import ArchiveSettings

    Receive = Callable[[], Awaitable[Any]]
    Api = Callable[[Asked, Receive], Awaitable[Response]]
    """What answers below /-/api/, or behind another door, whatever the method."""

LONGEST_URL = 16 * 1024
"""Characters of path and query that are read."""

MOST_WAITING: Final = 40
"""Requests about items of which very much is said that wait for their turn; the next one is told to come later."""

MOST_OF_ONE: Final = 10
"""How many of them one reader may have; the front page is one, where such an item is among the newest."""

_API = "/-/api/"
_SEARCH = "/-/search"
_FOR_ANY_HOST = frozenset({"/-/healthz", "/-/readyz", "/-/nonce"})  # a proof may ask by what our labels spell

_log = logging.getLogger(__name__)


def identity_of(settings: ArchiveSettings) -> ArchiveIdentity:
    """What an Archive says of itself. Raises SetupError for a relation that is none."""
    relations = None
    if settings.relations is not None:
        try:
            relations = tuple(Relation.from_qualifier(qualifier) for qualifier in settings.relations)
        except ParseError as error:
            raise SetupError("{text} is not a relation: {reason}", text=error.text, reason=error) from None
        if Relation() not in relations:
            raise SetupError('the relations must contain "", which is the item itself')
    return ArchiveIdentity(settings.address, settings.service, settings.platform_software, relations)


class ArchiveService:
    """The ASGI application of one Archive. It takes over `catalogue`, and closes it.

    `now` gives POSIX seconds. `renderer`: without it, pages are plain text; `nonce`: without it,
    nobody can prove that a name leads here; `api`: without it, there is nothing below /-/api/; `visits`: what counts
    readers, closed with it; `holdings` gives the filter of what is held (note 45), where it is published; `doors`
    lead to what answers at a word behind "/-/", below it, or at another whole path ("/sitemap.xml");
    `attestation_key` gives the public key of its receipts, "" while it has written none.
    """

    def __init__(  # noqa: PLR0913 - what an Archive is made of, all of it given
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        storage: Storage,
        now: Callable[[], float],
        renderer: Renderer | None = None,
        nonce: Nonce | None = None,
        *,
        api: Api | None = None,
        visits: Visits | None = None,
        holdings: Callable[[Asked], Response] | None = None,
        doors: Mapping[str, Api] = MappingProxyType({}),
        attestation_key: Callable[[], str] = str,
    ) -> None:
        self._settings = settings
        self._attestation_key = attestation_key
        self._holdings = holdings
        self._doors = doors
        self._nonce = nonce
        self._api = api
        self._visits = visits
        self._catalogue = catalogue
        self._thanks = Counting(catalogue, now)
        self._quick = SparingCatalogue(catalogue)
        find_in = partial(
            _parts, settings, storage, renderer, now, visits, self._thanks.hear, search=_SEARCH in doors
        )
        self._subjects, self._site = find_in(self._quick)
        self._patient = find_in(catalogue)
        self._thread = ThreadPoolExecutor(1, "large-items")
        self._waiting = Counter[str]()
        self._doorkeeper = Doorkeeper(settings, now)
        self._hosts = hosts_of((settings.address, *settings.aliases))
        self._paths = frozenset(f"/{canonical}".lower() for canonical in settings.service.canonicals)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        receive: Receive,
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one HTTP request; other kinds of connection are none of ours."""
        if scope["type"] != "http":
            return
        asked = Asked.of(scope)
        try:
            response = await self._answer(asked, receive)
        except Exception:  # noqa: BLE001 - a fault of ours: it must not look like an answer, nor show its insides
            _log.exception("a request could not be answered")
            response = self._site.refuse(
                asked, 503, IbiError("this Archive cannot answer now; try again later")
            )
        gone = receive if asked.reads else None  # nothing else is to be received then
        await response.send(send, head_only=asked.method == "HEAD", receive=gone)

    def at_once(
        self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str
    ) -> tuple[int, bytes, None] | None:
        """The answer to a GET that is a request to the service, as `serving.express` wants it; None for all others."""
        if words.SERVICE_SUBJECT.encode() not in target or len(target) > LONGEST_URL:
            return None
        asked = Asked.raw(target, headers, peer)
        if not asked.names(self._hosts) or (self._api is not None and asked.path.startswith(_API)):
            return None
        try:
            response = self._message(asked, self._subjects)
        except Exception:  # noqa: BLE001 - whoever answers instead will see it again, and write it down
            return None
        return None if response is None else (response.status, response.whole(), None)

    async def close(self) -> None:
        """Count the thanks and visits that wait, then give up the catalogue."""
        await self._thanks.close()
        if self._visits is not None:
            await self._visits.close()
        await asyncio.to_thread(self._thread.shutdown)
        self._quick.close()
        self._catalogue.close()

    async def _answer(self, asked: Asked, receive: Receive) -> Response:
        if len(asked.path) + len(asked.query) > LONGEST_URL:
            return self._site.refuse(asked, 414, IbiError("the address is too long"))
        if asked.path not in _FOR_ANY_HOST and not asked.names(self._hosts):
            return self._site.refuse(asked, 421, IbiError("no Archive of this name is here"))
        verdict = self._doorkeeper.ask(asked)
        if verdict is None:
            return await self._let_in(asked, receive)
        if verdict.wait:
            why = too_much(verdict.wait)
            return self._site.refuse(as_program(asked), status_of(asked), why).having(*verdict.headers)
        return (await self._let_in(asked, receive)).having(*verdict.headers)

    async def _let_in(self, asked: Asked, receive: Receive) -> Response:
        if self._api is not None and asked.path.startswith(_API):
            return await self._api(asked, receive)
        door = self._doors.get(_door_of(asked.path))
        if door is not None:
            return await door(asked, receive)
        if not asked.reads:
            refusal = self._site.refuse(asked, 405, IbiError("only GET and HEAD are understood here"))
            return refusal.having(("allow", "GET, HEAD"))
        try:
            return self._found(asked, self._subjects, self._site)
        except TooLarge:
            return await self._in_turn(asked)

    async def _in_turn(self, asked: Asked) -> Response:
        """The answer that is about an item of which very much is said: one at a time, in a thread."""
        source = source_of(self._asker(asked) or "")
        if self._waiting.total() >= MOST_WAITING or self._waiting[source] >= MOST_OF_ONE:
            busy = IbiError("this Archive cannot answer now; try again later")
            return self._site.refuse(asked, 503, busy).having(("retry-after", "5"))
        self._waiting[source] += 1
        try:
            find = partial(self._found, asked, *self._patient)
            return await asyncio.get_running_loop().run_in_executor(self._thread, find)
        finally:
            self._waiting[source] -= 1
            if not self._waiting[source]:
                del self._waiting[source]

    def _found(self, asked: Asked, subjects: Subjects, site: Site) -> Response:
        message = self._message(asked, subjects) if words.SERVICE_SUBJECT in asked.query else None
        return message or self._own_page(asked) or site.answer(asked)

    def _message(self, asked: Asked, subjects: Subjects) -> Response | None:
        """The answer to a request to the service (SVC-01); None if this is none. The query is read once."""
        if unescape(asked.path).lower() not in self._paths:
            return NO_SERVICE if asked.has_subject else None
        counts = asked.method == "GET" and not asked.only_prefetched
        try:
            return subjects.answer(asked.query, lambda: self._asker(asked), counts=counts)
        except ParseError as error:
            return no_request(error) if asked.has_subject else None

    def _asker(self, asked: Asked) -> str | None:
        """The address that a request came from, as far as it is vouched for."""
        return vouched(asked.peer, asked.header(b"x-forwarded-for"), self._settings.trusted_proxies)

    def _ready(self) -> Response:
        try:
            self._quick.count()
        except SetupError:
            return Response(503, b"the catalogue cannot be read\n", PLAIN, NO_STORE)
        return Response(200, b"ready\n", PLAIN, NO_STORE)

    def _own_page(self, asked: Asked) -> Response | None:
        """What machines ask of the service itself; None for any other page."""
        match asked.path:
            case "/-/healthz":
                return Response(200, b"ok\n", PLAIN, NO_STORE)
            case "/-/readyz":
                return self._ready()
            case "/-/about":
                return self._about()
            case "/-/nonce" if self._nonce is not None:
                return Response(*self._nonce.answer(), PLAIN, NO_STORE)
            case "/-/holdings" if self._holdings is not None:
                return self._holdings(asked)
            case _:
                return None

    def _about(self) -> Response:
        settings = self._settings
        facts = {
            "role": "archive",
            "service_ibi": str(settings.service.main),
            "service": str(settings.service),
            "address": settings.address,
            "aliases": list(settings.aliases),
            "platform_software": str(settings.platform_software) if settings.platform_software else None,
            "resolver": settings.resolver or None,
            "relations": list(settings.relations) if settings.relations is not None else None,
            "items": self._quick.count(),
            "attestation_key": self._attestation_key() or None,
        }
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, NO_STORE)


def _parts(
    settings: ArchiveSettings,
    storage: Storage,
    renderer: Renderer | None,
    now: Callable[[], float],
    visits: Visits | None,
    thank: Callable[[Thanks], None],
    catalogue: Catalogue,
    *,
    search: bool,
) -> tuple[Subjects, Site]:
    """What answers messages, and what answers all else, of what stands in a catalogue."""
    identity = identity_of(settings)
    keys = UrlKeys(bytes.fromhex(settings.secret), now)
    confirms = settings.switched_on and not settings.retired
    return (
        Subjects(catalogue.holding, identity, settings, keys, now, thank, confirms=confirms),
        Site(settings, identity, catalogue, storage, renderer, now, visits=visits, search=search),
    )


def _door_of(path: str) -> str:
    """Where a path leads: its word behind "/-/" and no more of it, or any other path as it is."""
    if not path.startswith("/-/"):
        return path
    end = path.find("/", len("/-/"))
    return path if end < 0 else path[:end]
