"""The ASGI application of an Archive (R15 chapter 9, Algorithm 1): its messages, its JSON interface and its pages.

    /<service IBI>?servicesubject=…     the messages of the standard: `messages`
    /-/api/…                            the JSON interface, with any method: given by `app`
    handlers                            further routes, by how their paths begin: given by `app`
    /col/…  /-/…  /  /robots.txt        files and pages: `site`
    any other path                      a persistent URL at the Archive's own address: `site`, too (note 27)

At `files_address` only files are served (note 32: pages of depositors). Raw paths and queries are decoded only once
(T27: two readings).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

from ibi.archive.membership.resolver_addresses import AddressesUnknown, ResolverAddresses
from ibi.archive.model.url_key import UrlKeys
from ibi.archive.pages.delivery import COL
from ibi.archive.pages.models import CollectionFacts
from ibi.archive.pages.site import Site
from ibi.archive.service import admission
from ibi.archive.service.acknowledgments import AcknowledgmentCounter
from ibi.archive.service.changes import AnsweredChanges
from ibi.archive.service.messages import NO_SERVICE, MessageService, refusal
from ibi.archive.service.metrics import AnswerCounts
from ibi.archive.store.data_directory import identity_of
from ibi.archive.store.tables.catalogue import BoundedCatalogue, TooLarge
from ibi.errors import IbiError, ParseError, SetupError
from ibi.http import cors
from ibi.http.client_address import networks_of
from ibi.http.limits.token_bucket import client_key
from ibi.http.proxy_faults import ProxyFaults
from ibi.http.request import Request, hosts_of
from ibi.http.response import JSON, NO_STORE, PLAIN, RemoteFile, Response
from ibi.protocol import vocabulary as words
from ibi.protocol.query_string import unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.pages.models import Renderer
    from ibi.archive.pages.visits import VisitCounter
    from ibi.archive.service.later import LaterAnswers
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.proxy_faults import UndeclaredProxies
    from ibi.http.response import Handler, Receive, Send
    from ibi.http.server.config import Answer
    from ibi.http.server.head import Head
    from ibi.identifier.forms import IBI
    from ibi.runtime.nonce import Nonce
    from ibi.runtime.settings import ArchiveSettings
    from ibi.runtime.shared.store import SharedStore

LONGEST_URL = 16 * 1024
"""Characters of path and query that are read (T10: slow or huge answers)."""

LARGE: Final = 1 << 16
"""Characters of the largest item that the event loop itself reads: its row, and 64 for each file (T10: large items)."""

MOST_WAITING: Final = 40
"""Requests about large items that wait for the thread; others are refused with 503 and Retry-After (T10: huge
answers)."""

MOST_OF_ONE: Final = 10
"""Such requests of one client (T30: slow requests). The front page is one, while a large item is among the newest."""

REMOTE_AT_ONCE: Final = 16
"""Requests for files of an S3 store for which threads ask it at the same time (T10: slow answers)."""

MOST_REMOTE: Final = 200
"""Requests for such files that are asked about, or wait; others are refused with 503 and Retry-After (T10: huge
answers)."""

AWAY_SECONDS: Final = 2
"""Seconds after which is to be asked again what was refused because the store that nodes share is away (T37:
overload)."""

_CANNOT_NOW: Final = "this Archive cannot answer now; try again later"
_API = "/-/api/"
_OF_FILES: Final = (COL, "/-/zip/")
_SEARCH = "/-/search"
# Health checks may name the server by its address. `/-/nonce` proves that a host name leads to this Archive, so it is
# asked for under that name, whichever it is.
_FOR_ANY_HOST = frozenset({"/-/healthz", "/-/readyz", "/-/nonce"})

_VARY: Final = ("vary", "Accept")
_log = logging.getLogger(__name__)


class ArchiveService:
    """The ASGI application of one Archive. It takes over `catalogue`, and closes it.

    What it is given besides its settings and stores:

        now               returns POSIX seconds
        nonce             serves proofs that a name leads here; None for no proofs
        api               the JSON interface; None for none
        visits            the counter of visits, which is closed with the application
        holdings          serves the filter of the names that it answers for, if it is published
        handlers          further routes: by a path such as "/-/search", which includes all paths below it, or by
                          another whole path ("/sitemap.xml")
        attestation_key   returns the public key of the Archive's receipts, "" before the first receipt
        joined            the addresses of the joined resolvers: their counts of readers are believed, and they may
                          request changes, as may others that `AnsweredChanges.reply` admits
        undeclared        the list of proxies that are not trusted
        counts            what it counts for the metrics
        facts             returns what the front page shows of all items
        noticed           see `MessageService`
        shared            the store that its nodes share; None for an Archive of one node
    """

    def __init__(  # noqa: PLR0913 - the parts of an Archive, all of them given
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        file_store: FileStore,
        now: Callable[[], float],
        renderer: Renderer,
        nonce: Nonce | None = None,
        *,
        api: Handler | None = None,
        visits: VisitCounter | None = None,
        holdings: Callable[[Request], Response] | None = None,
        handlers: Mapping[str, Handler] = MappingProxyType({}),
        attestation_key: Callable[[], str] = str,
        joined: ResolverAddresses | None = None,
        undeclared: UndeclaredProxies | None = None,
        counts: AnswerCounts | None = None,
        facts: Callable[[], CollectionFacts] = CollectionFacts,
        noticed: Callable[[IBI], bool] = lambda _: False,
        shared: SharedStore | None = None,
    ) -> None:
        self._settings, self._facts, self._institution = settings, facts, renderer.institution
        self._counts, self._noticed = counts or AnswerCounts(), noticed
        self._holdings, self._handlers, self._attestation_key = holdings, handlers, attestation_key
        self._nonce, self._api, self._visits, self._shared = nonce, api, visits, shared
        self._catalogue, self._joined = catalogue, joined or ResolverAddresses()
        self._acknowledgments = AcknowledgmentCounter(catalogue, now, self._joined)
        self._bounded = BoundedCatalogue(catalogue, LARGE)
        parts = partial(self._parts, identity_of(settings), file_store, renderer, now)
        self._messages, self._site = parts(self._bounded)
        self._of_large_items = parts(catalogue)
        self._later = _later_answers(settings.store, self._messages, self._counts)
        self._thread = ThreadPoolExecutor(1, "large-items")  # more would take more from the event loop
        self._remote_files = ThreadPoolExecutor(REMOTE_AT_ONCE, "files") if file_store.is_remote else None
        self._remote_waiting, self._waiting = 0, Counter[str]()
        self._admission = admission.AdmissionControl(settings, now)
        self._proxy_faults = ProxyFaults(networks_of(settings.trusted_proxies), undeclared)
        self._hosts = hosts_of(settings.addresses)
        # Names are compared without regard to case (GEN-13: case does not count).
        self._paths = frozenset(f"/{canonical}".lower() for canonical in settings.service.canonicals)

    def _parts(
        self,
        identity: ArchiveIdentity,
        file_store: FileStore,
        renderer: Renderer,
        now: Callable[[], float],
        catalogue: Catalogue,
    ) -> tuple[MessageService, Site]:
        """Make the message service and the site that read one catalogue.

        Both exist twice: the event loop uses a catalogue that refuses large items, and a thread answers about these,
        because a large item would block the loop for up to seconds.
        """
        settings = self._settings
        keys = UrlKeys(bytes.fromhex(settings.secret), now)
        counter, search = self._acknowledgments, _SEARCH in self._handlers
        self._changes = AnsweredChanges(catalogue, identity, settings, self._joined, self._counts.changes)
        confirms = settings.switched_on and not settings.retired
        return (
            MessageService(
                catalogue.holding,
                identity,
                settings,
                keys,
                now,
                counter.add,
                acknowledge_of=counter.add_of,
                record=counter.record,
                confirms=confirms,
                changes=self._changes,
                noticed=self._noticed,
            ),
            Site(
                settings,
                identity,
                catalogue,
                file_store,
                renderer,
                now,
                visits=self._visits,
                facts=self._facts if search else None,
            ),
        )

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request; ignore other kinds of connection."""
        if scope["type"] != "http":
            return
        request = Request.of(scope)
        if b"x-forwarded-for" in request.headers:
            self._proxy_faults.look(request)
        try:
            away = self._shared is not None and not self._shared.is_reached
            if not away or request.path in _FOR_ANY_HOST:
                response = await self._answer(request, receive)
            else:  # before anything waits for a store that hangs
                response = self._site.refuse(request, 503, IbiError(_CANNOT_NOW), retry_after=AWAY_SECONDS)
        except Exception:  # noqa: BLE001 - a fault of ours: it must not look like an answer, nor show its insides
            _log.exception("a request could not be answered")
            fault = IbiError(_CANNOT_NOW)
            response = self._site.refuse(request, 503, fault, retry_after=10)
        if not self._site.files_origin.receives(request):
            response = cors.shared(request, response, cors.ARCHIVE)
        # So that sending a large file stops when the reader disconnects (T30: slow requests).
        gone = receive if request.reads else None
        await response.send(send, head_only=request.method == "HEAD", receive=gone)

    def at_once(self, method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
        """Answer a GET that is a message (see `http.server.protocol`); None for all other requests."""
        request = self._message_request(target, head, peer) if method == b"GET" else None
        if request is None:
            return None
        try:
            response = self._answer_message(request, self._messages)
        except Exception:  # noqa: BLE001 - the ordinary path meets it again, and logs it; a large item is one of these
            return None
        if response is None:
            return None
        self._counts.at_once[response.status] += 1
        return response.status, response.whole()

    def later(self, target: bytes, head: Head, peer: str, done: Callable[[Answer | None], None]) -> bool:
        """Begin to answer a GET that is a URL request (`Config.later`), with a store in PostgreSQL."""
        request = self._message_request(target, head, peer) if self._later is not None else None
        if self._later is None or request is None or unescape(request.path).lower() not in self._paths:
            return False
        return self._later.begin(request, done)

    def _message_request(self, target: bytes, head: Head, peer: str) -> Request | None:
        """Return the request of a GET if it is a message at our own host."""
        # Nearly all requests of readers are declined here, by their bytes, before anything is parsed.
        if words.SERVICE_SUBJECT.encode() not in target or len(target) > LONGEST_URL:
            return None
        if self._shared is not None and not self._shared.is_reached:
            return None
        request = Request.raw(target, head, peer)
        if not request.names(self._hosts) or (self._api is not None and request.path.startswith(_API)):
            return None
        return request

    def log_rules(self) -> None:
        """Log that any answer may be different, if the last ones were made by other settings."""
        self._changes.log_rules()

    @property
    def waiting_acknowledgments(self) -> int:
        """How many acknowledgments are not in the catalogue yet."""
        return self._acknowledgments.waiting

    async def close(self) -> None:
        """Count the pending acknowledgments and visits, then close the catalogue."""
        await self._acknowledgments.close()
        if self._visits is not None:
            await self._visits.close()
        if self._later is not None:
            await self._later.close()
        await asyncio.to_thread(self._thread.shutdown)
        if self._remote_files is not None:
            await asyncio.to_thread(self._remote_files.shutdown)
        self._bounded.close()
        self._catalogue.close()

    async def _answer(self, request: Request, receive: Receive) -> Response:
        """Check length, host and rate of a request, then route it."""
        for_files = self._site.files_origin.receives(request)
        if for_files and request.form == "html":  # no pages at the address of files, not even for refusals
            request = replace(request, headers={**request.headers, b"accept": b"text/plain"})
        if len(request.path) + len(request.query) > LONGEST_URL:
            return self._site.refuse(request, 414, IbiError("the address is too long"))
        if for_files and request.path not in _FOR_ANY_HOST:
            return await self._only_file(request)
        # A page fetched under a foreign host name could pass for a page of that host (T26: foreign host names).
        if request.path not in _FOR_ANY_HOST and not request.names(self._hosts):
            return self._site.refuse(request, 421, IbiError("no Archive of this name is here"))
        verdict = self._admission.check(request)
        if verdict is None:
            return await self._route(request, receive)
        if verdict.wait:
            # Each answer to a counted request has headers with the limits, so that clients can slow down.
            refused = self._site.refuse(
                *admission.refusal(request, verdict.wait), retry_after=ceil(verdict.wait)
            )
            return refused.having(*verdict.headers)
        return (await self._route(request, receive)).having(*verdict.headers)

    async def _route(self, request: Request, receive: Receive) -> Response:
        """Answer a request by the handler of its path."""
        if self._api is not None and request.path.startswith(_API):
            return await self._api(request, receive)
        handler = self._handlers.get(_handled_path(request.path))
        if handler is not None:
            return await handler(request, receive)
        if not request.reads:
            return self._wrong_method(request)
        return await self._read(request)

    async def _read(self, request: Request) -> Response:
        """Answer a reading request by a message, a page or a file."""
        if self._remote_files is not None and request.path.startswith(_OF_FILES):
            return await self._remote(request, partial(self._message_or_page, request, *self._of_large_items))
        try:
            return self._message_or_page(request, self._messages, self._site)
        except AddressesUnknown:
            await self._joined.all()
            return self._message_or_page(request, self._messages, self._site)
        except TooLarge:
            return await self._in_thread(
                request, partial(self._message_or_page, request, *self._of_large_items)
            )

    async def _only_file(self, request: Request) -> Response:
        """Answer at the address of the files, where only files are served (note 32: pages of depositors)."""
        if not request.reads:
            return self._wrong_method(request)
        if self._remote_files is not None:
            return await self._remote(request, partial(self._of_large_items[1].only_file, request))
        try:
            return self._site.only_file(request)
        except TooLarge:
            return await self._in_thread(request, partial(self._of_large_items[1].only_file, request))

    def _wrong_method(self, request: Request) -> Response:
        refused = self._site.refuse(request, 405, IbiError("only GET and HEAD are understood here"))
        return refused.having(("allow", "GET, HEAD"))

    async def _in_thread(self, request: Request, answer: Callable[[], Response]) -> Response:
        """Answer a request about a large item in the thread, one at a time."""
        # Counted by client, so that one client that requests many large items does not block the others.
        source = client_key(self._messages.client_of(request) or "")
        if self._waiting.total() >= MOST_WAITING or self._waiting[source] >= MOST_OF_ONE:
            busy = IbiError(_CANNOT_NOW)
            return self._site.refuse(request, 503, busy, retry_after=5)
        self._waiting[source] += 1
        try:
            loop, context = asyncio.get_running_loop(), copy_context()
            return await loop.run_in_executor(self._thread, context.run, answer)
        finally:
            self._waiting[source] -= 1
            if not self._waiting[source]:
                del self._waiting[source]

    async def _remote(self, request: Request, answer: Callable[[], Response]) -> Response:
        """Answer with files of another machine, in threads, because that machine may be slow or silent."""
        if self._remote_waiting >= MOST_REMOTE:
            busy = IbiError(_CANNOT_NOW)
            return self._site.refuse(request, 503, busy, retry_after=5)
        self._remote_waiting += 1
        try:
            loop, context = asyncio.get_running_loop(), copy_context()
            begun = partial(self._begun, request, answer)
            return await loop.run_in_executor(self._remote_files, context.run, begun)
        finally:
            self._remote_waiting -= 1

    def _begun(self, request: Request, answer: Callable[[], Response]) -> Response:
        """Return an answer whose file can be read: 200 was said in vain if the other machine is silent then."""
        response = answer()
        file = cast("object", response.file)
        if isinstance(file, RemoteFile) and request.method != "HEAD":
            try:
                file.begin(response.start, response.size)
            except (OSError, SetupError) as error:
                _log.warning("a file could not be read: %s", error)
                fault = IbiError(_CANNOT_NOW)
                return self._site.refuse(request, 503, fault, retry_after=10)
        return response

    def _message_or_page(self, request: Request, messages: MessageService, site: Site) -> Response:
        """Answer a reading request: a message, a page about the service, or a page or file of the site."""
        message = self._answer_message(request, messages) if words.SERVICE_SUBJECT in request.query else None
        return message or self._service_page(request) or site.answer(request)

    def _answer_message(self, request: Request, messages: MessageService) -> Response | None:
        """Answer a message to the service (SVC-01: its subjects); None for any other request."""
        if unescape(request.path).lower() not in self._paths:
            return NO_SERVICE if request.has_subject else None
        try:
            return messages.answer(request)
        except ParseError as error:
            # Without a subject it is a persistent URL of the service item, whose errors the site reports.
            return refusal(error) if request.has_subject else None

    def _service_page(self, request: Request) -> Response | None:
        """Return a page about the service itself, for programs; None for any other page."""
        match request.path:
            case "/-/healthz":
                return Response(200, b"ok\n", PLAIN, NO_STORE)
            case "/-/readyz":
                return self._readiness()
            case "/-/about" if request.form != "html":
                return self._about()
            case "/-/nonce" if self._nonce is not None:
                return Response(*self._nonce.answer(), PLAIN, NO_STORE)
            case "/-/holdings" if self._holdings is not None:
                return self._holdings(request)
            case _:
                return None

    def _readiness(self) -> Response:
        try:
            if self._shared is not None and not self._shared.is_reached:
                return Response(503, b"the store cannot be reached\n", PLAIN, NO_STORE)
            self._bounded.count()
        except SetupError:
            return Response(503, b"the catalogue cannot be read\n", PLAIN, NO_STORE)
        return Response(200, b"ready\n", PLAIN, NO_STORE)

    def _about(self) -> Response:
        settings = self._settings
        facts = {
            "role": "archive",
            "service_ibi": str(settings.service.main),
            "service": str(settings.service),
            "address": settings.address,
            "aliases": list(settings.aliases),
            "public_url": settings.root,
            "platform_software": str(settings.platform_software) if settings.platform_software else None,
            "resolver": settings.resolver or None,
            "relations": list(settings.relations) if settings.relations is not None else None,
            "items": self._bounded.count(),
            "attestation_key": self._attestation_key() or None,
            "institution": self._institution.names,
            "publisher": self._institution.as_publisher or None,
        }
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, (*NO_STORE, _VARY))


def _later_answers(store: str, messages: MessageService, counts: AnswerCounts) -> LaterAnswers | None:
    """Return what answers while PostgreSQL is asked; None where the catalogue is a file, which is read at once."""
    if not store:
        return None
    # Imported here, because the driver is an extra.
    from ibi.archive.service.later import LaterAnswers

    return LaterAnswers(store, LARGE, messages, counts)


def _handled_path(path: str) -> str:
    """Return the route of a path: "/-/search" of "/-/search/more", and any other path as a whole."""
    if not path.startswith("/-/"):
        return path
    end = path.find("/", len("/-/"))
    return path if end < 0 else path[:end]
