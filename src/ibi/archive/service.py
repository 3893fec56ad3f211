"""The Archive service (R15 chapter 9, Algorithm 1): one URL, three subjects; a bare ASGI application.

    /<service IBI>?servicesubject=…     the messages of the standard
    /col/…  /-/…  /  /robots.txt        files and pages: `site`
    anything else                       a persistent URL at our own address: `site` too (note 27)

It works on the raw path and the raw query, each decoded once (threat T27).
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from ibi.archive.answer import ArchiveIdentity, url_list
from ibi.archive.site import Site
from ibi.archive.thanks import Thanks
from ibi.archive.url_key import UrlKeys
from ibi.errors import IbiError, ParseError, SetupError
from ibi.exchange import JSON, NO_STORE, PLAIN, Asked, Response, hosts_of, pairs
from ibi.protocol.messages import Acknowledgment, ConfirmationRequest, UrlRequest, read_request
from ibi.protocol.query_string import unescape
from ibi.protocol.relation import Relation
from ibi.protocol.replies import Confirmation, Notice, RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.pages import Renderer
    from ibi.archive.storage import Storage
    from ibi.identifier.forms import Name
    from ibi.nonce import Nonce
    from ibi.settings import ArchiveSettings

LONGEST_URL = 16 * 1024
"""Characters of path and query that are read."""

_HEALTH, _READY, _ABOUT, _NONCE = "/-/healthz", "/-/readyz", "/-/about", "/-/nonce"
_FOR_ANY_HOST = frozenset({_HEALTH, _READY, _NONCE})  # a proof may ask by a name that our labels spell
_CONFIRMATION = Confirmation().body()
_NOTICE = Notice().body()

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
    nobody can prove that a name leads here.
    """

    def __init__(
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        storage: Storage,
        now: Callable[[], float],
        renderer: Renderer | None = None,
        nonce: Nonce | None = None,
    ) -> None:
        self._settings = settings
        self._nonce = nonce
        self._catalogue = catalogue
        self._identity = identity_of(settings)
        self._keys = UrlKeys(bytes.fromhex(settings.secret), now)
        self._thanks = Thanks(catalogue, self._keys, now)
        self._site = Site(settings, self._identity, catalogue, storage, renderer)
        self._hosts = hosts_of((settings.address, *settings.aliases))
        self._paths = frozenset(f"/{canonical}".lower() for canonical in settings.service.canonicals)

    async def __call__(
        self,
        scope: Mapping[str, Any],
        _receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """Answer one HTTP request; other kinds of connection are none of ours."""
        if scope["type"] != "http":
            return
        asked = Asked.of(scope)
        try:
            response = self._answer(asked)
        except Exception:  # noqa: BLE001 - a fault of ours: it must not look like an answer, nor show its insides
            _log.exception("a request could not be answered")
            response = self._site.refuse(
                asked, 503, IbiError("this Archive cannot answer now; try again later")
            )
        await response.send(send, head_only=asked.method == "HEAD")

    async def close(self) -> None:
        """Count the thanks that wait, then give up the catalogue."""
        await self._thanks.close()
        self._catalogue.close()

    def _answer(self, asked: Asked) -> Response:
        if not asked.reads:
            refusal = self._site.refuse(asked, 405, IbiError("only GET and HEAD are understood here"))
            return refusal.having(("allow", "GET, HEAD"))
        if len(asked.target) > LONGEST_URL:
            return self._site.refuse(asked, 414, IbiError("the address is too long"))
        if asked.path not in _FOR_ANY_HOST and not asked.names(self._hosts):
            return self._site.refuse(asked, 421, IbiError("no Archive of this name is here"))
        if asked.has_subject:
            return self._service(asked)
        if asked.path == _NONCE and self._nonce is not None:
            return Response(*self._nonce.answer(), PLAIN, NO_STORE)
        return self._own_page(asked) if asked.path in {_HEALTH, _READY, _ABOUT} else self._site.answer(asked)

    def _service(self, asked: Asked) -> Response:
        """Algorithm 1, MONTARRESPOSTA (SVC-01); what it has no words for is an error (AMB-32)."""
        if unescape(asked.path).lower() not in self._paths:
            return pairs(RequestError("there is no Archive service at this path").body(), 400)
        try:
            request = read_request(asked.query)
            if isinstance(request, UrlRequest):
                return pairs(self._url_list(request))
        except ParseError as error:
            return pairs(RequestError(f"{error.what}: {error}").body(), 400)
        if isinstance(request, ConfirmationRequest):
            return pairs(_CONFIRMATION)
        if isinstance(request, Acknowledgment):
            if asked.method == "GET" and not asked.only_prefetched:
                self._thanks.hear(request.url_key)
            return pairs(_NOTICE)
        return pairs(RequestError("this is an Archive, not a resolver").body(), 400)

    def _url_list(self, request: UrlRequest) -> bytes:
        held: dict[Name, Holding | None] = {}

        def lookup(name: Name) -> Holding | None:
            if name not in held:
                held[name] = self._catalogue.holding(name)
            return held[name]

        asked_for = lookup(request.ibi)
        key = self._keys.make(asked_for.number) if asked_for else ""
        filtered = self._settings.filter_answers
        return url_list(lookup, self._identity, request, key, filtered=filtered).body()

    def _ready(self) -> Response:
        try:
            self._catalogue.count()
        except SetupError:
            return Response(503, b"the catalogue cannot be read\n", PLAIN, NO_STORE)
        return Response(200, b"ready\n", PLAIN, NO_STORE)

    def _own_page(self, asked: Asked) -> Response:
        if asked.path == _HEALTH:
            return Response(200, b"ok\n", PLAIN, NO_STORE)
        if asked.path == _READY:
            return self._ready()
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
            "items": self._catalogue.count(),
        }
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, NO_STORE)
