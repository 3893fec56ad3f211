"""An Archive service for other platforms, which give it a function that looks up items (R15 9; CON-01).

    archive = ArchiveAdapter(lookup, address="archive.example.org", service="rep …", secret=b"…", now=time.time)
    archive.wsgi       archive.asgi       archive.cgi(os.environ, sys.stdout.buffer)

It answers at one URL, http://<address>/<service IBI>, and has no pages: the URLs of items and of metadata
come from the look-up. It needs only the standard library, so that it fits into any platform.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.answer import ArchiveIdentity
from ibi.archive.model.url_key import UrlKeys
from ibi.archive.service.messages import NO_SERVICE, AdapterSettings, MessageService, refusal
from ibi.errors import ParseError, SetupError
from ibi.http.client_address import check_networks
from ibi.http.request import Request, joined_headers
from ibi.http.response import pairs
from ibi.identifier.forms import IBIForms
from ibi.protocol.messages import split_hostport
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.replies import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from ibi.archive.model.relations import Lookup
    from ibi.archive.model.url_key import AcknowledgmentCount
    from ibi.http.response import Receive, Response, Send

SHORTEST_SECRET: Final = 16
"""Bytes of the shortest secret that URL keys are signed with."""

_NO_METHOD: Final = pairs(
    RequestError("only GET and HEAD are understood here").body(), 405, ("allow", "GET, HEAD")
)
_NOT_NOW: Final = pairs(RequestError("this Archive cannot answer now; try again later").body(), 503)

_log = logging.getLogger(__name__)


class ArchiveAdapter:
    """The service of one Archive.

    `lookup` returns the item of an IBI or an older opaque id, None if it is not held; an exception from it is
    logged and answered with 503. `address`: "host[:port]"; `service`: the names of the Archive service item,
    "rep … ibip …"; `secret`: at least 16 random bytes that stay the same; `now` returns POSIX seconds.

    `acknowledge` receives each acknowledgment with a valid key, perhaps repeatedly: count each value of `once` only
    once. `relations`: the relations that are answered (SVC-07: which relations); None for all that can be derived
    from the items, ("",) for a minimal Archive. The other parameters are as in the settings of an Archive. Raises
    ParseError or SetupError for invalid values.
    """

    def __init__(  # noqa: PLR0913 - all but the look-up are keywords, and most have a default
        self,
        lookup: Lookup,
        *,
        address: str,
        service: str,
        secret: bytes,
        now: Callable[[], float],
        acknowledge: Callable[[AcknowledgmentCount], None] = lambda _acknowledgment: None,
        relations: Sequence[str] | None = None,
        platform_software: str = "",
        networks: Sequence[str] = (),
        trusted_resolvers: Sequence[str] = (),
        trusted_proxies: Sequence[str] = (),
        filter_answers: bool = True,
        reuse_seconds: int = 0,
    ) -> None:
        split_hostport(address)
        if len(secret) < SHORTEST_SECRET:
            raise SetupError("the secret has at least {limit} bytes", limit=SHORTEST_SECRET)
        names = IBIForms.parse(service)
        software = IBIForms.parse(platform_software) if platform_software else None
        answered = None if relations is None else tuple(map(Relation.from_qualifier, relations))
        if answered is not None and ITEM not in answered:
            raise SetupError('the relations must contain "", which is the item itself')
        settings = AdapterSettings(
            check_networks(networks),
            check_networks(trusted_resolvers),
            check_networks(trusted_proxies),
            filter_answers,
            reuse_seconds,
        )
        self._paths = frozenset(f"/{canonical}".lower() for canonical in names.canonicals)
        identity = ArchiveIdentity(address, names, software, answered, pages=False)
        self._messages = MessageService(lookup, identity, settings, UrlKeys(secret, now), now, acknowledge)

    async def asgi(self, scope: Mapping[str, Any], _receive: Receive, send: Send) -> None:
        """The service as an ASGI application. The look-up runs in another thread, since it may block."""
        if scope["type"] != "http":
            return
        headers = joined_headers(scope["headers"])
        query = scope["query_string"].decode("latin-1")
        peer = (scope.get("client") or ("",))[0]
        request = Request(scope["method"], scope["path"], query, headers, peer=peer)
        response = await asyncio.to_thread(self._answer, request)
        await response.send(send, head_only=request.method == "HEAD")

    def wsgi(
        self, environ: Mapping[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]
    ) -> Iterable[bytes]:
        """The service as a WSGI application."""
        request = _request_of(environ)
        response = self._answer(request)
        status = f"{response.status} {HTTPStatus(response.status).phrase}"
        size = ("content-length", str(len(response.body)))
        headers = (("content-type", response.content_type), size, *response.headers)
        # If a header is set twice, the first value counts.
        once = dict(reversed(headers))
        start_response(status, [(name.title(), value) for name, value in once.items()])
        return [b"" if request.method == "HEAD" else response.body]

    def cgi(self, environ: Mapping[str, str], output: BinaryIO) -> None:
        """Answer one request that a Web server passes as CGI variables (RFC 3875)."""
        # One character for each byte, as in WSGI, so that bytes that are no UTF-8 are kept.
        opaque = {
            name: value.encode("utf-8", "surrogateescape").decode("latin-1")
            for name, value in environ.items()
        }
        head: list[tuple[str, str]] = []
        body = self.wsgi(opaque, lambda status, headers: head.extend((("Status", status), *headers)))
        output.write("".join(f"{name}: {value}\r\n" for name, value in head).encode("latin-1") + b"\r\n")
        output.writelines(body)
        output.flush()

    def _answer(self, request: Request) -> Response:
        """Answer a request whose path is decoded already."""
        # The platform routes by path: a request to another path is no message, whatever its query.
        if request.path.lower() not in self._paths:
            return replace(NO_SERVICE, status=404)
        if not request.reads:
            return _NO_METHOD
        try:
            return self._messages.answer(request)
        except ParseError as error:
            return refusal(error)
        except Exception:  # noqa: BLE001 - a fault of the platform: it must not look like an answer, nor show its insides
            _log.exception("a request could not be answered")
            return _NOT_NOW


def _request_of(environ: Mapping[str, Any]) -> Request:
    """Read the variables of WSGI or CGI, whose texts have one character for each byte."""
    headers = {
        name[5:].replace("_", "-").lower().encode("latin-1"): str(value).encode("latin-1", "replace")
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    method, query = environ.get("REQUEST_METHOD", "GET"), environ.get("QUERY_STRING", "")
    return Request(method, path, query, headers, peer=environ.get("REMOTE_ADDR", ""))
