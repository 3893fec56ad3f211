"""The library door for other platforms: a look-up of items in, a conforming Archive service out (R15 9, CON-01).

    door = Door(lookup, address="archive.example.org", service="rep …", secret=b"…", now=time.time)
    door.wsgi       door.asgi       door.cgi(os.environ, sys.stdout.buffer)

It answers at one URL, http://<address>/<service IBI>, and has no pages: where items, metadata and files are, the
look-up says. Nothing but Python is needed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import checked, vouched
from ibi.archive.answer import ArchiveIdentity
from ibi.archive.subjects import NO_SERVICE, Subjects, no_request
from ibi.archive.url_key import UrlKeys
from ibi.errors import ParseError, SetupError
from ibi.exchange import Asked, joined_headers, pairs
from ibi.identifier.forms import IBIForms
from ibi.protocol.messages import split_hostport
from ibi.protocol.relation import ITEM, Relation
from ibi.protocol.replies import RequestError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from ibi.archive.related import Lookup
    from ibi.archive.url_key import Thanks
    from ibi.exchange import Response

SHORTEST_SECRET: Final = 16
"""Bytes of the shortest secret that urlkeys are sealed with."""

_NO_METHOD: Final = pairs(
    RequestError("only GET and HEAD are understood here").body(), 405, ("allow", "GET, HEAD")
)
_NOT_NOW: Final = pairs(RequestError("this Archive cannot answer now; try again later").body(), 503)

_log = logging.getLogger(__name__)


def _no_thanks(_thanks: Thanks) -> None:
    """Nobody counts."""


class Door:
    """The service of one Archive.

    `lookup`: an IBI, or an older opaque id, to the item that it names, None for what is not held; whatever it raises
    is logged and answered with 503. `address`: "host[:port]"; `service`: the names of the Archive service item, "rep …
    ibip …"; `secret`: at least 16 random bytes that stay the same; `now` gives POSIX seconds.

    `thank` is given each acknowledgment with a key of ours, and may be given it again: `Thanks.once` counts once.
    `relations`: those that are answered (SVC-07); None for all that the items say, ("",) for the smallest Archive.
    The others are as in the settings of an Archive. Raises ParseError or SetupError for what no service can have.
    """

    def __init__(  # noqa: PLR0913 - all but the look-up are named, and most have their usual value
        self,
        lookup: Lookup,
        *,
        address: str,
        service: str,
        secret: bytes,
        now: Callable[[], float],
        thank: Callable[[Thanks], None] = _no_thanks,
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
        self.networks = checked(networks)
        self.trusted_resolvers = checked(trusted_resolvers)
        self.filter_answers = filter_answers
        self.reuse_seconds = reuse_seconds
        self._trusted_proxies = checked(trusted_proxies)
        self._paths = frozenset(f"/{canonical}".lower() for canonical in names.canonicals)
        identity = ArchiveIdentity(address, names, software, answered, pages=False)
        self._subjects = Subjects(lookup, identity, self, UrlKeys(secret, now), now, thank)

    async def asgi(
        self,
        scope: Mapping[str, Any],
        _receive: Callable[[], Awaitable[Any]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        """The service as an ASGI application. The look-up runs in another thread."""
        if scope["type"] != "http":
            return
        headers = joined_headers(scope["headers"])
        query = scope["query_string"].decode("latin-1")
        peer = (scope.get("client") or ("",))[0]
        asked = Asked(scope["method"], scope["path"], query, headers, peer=peer)
        response = await asyncio.to_thread(self._answer, asked)
        await response.send(send, head_only=asked.method == "HEAD")

    def wsgi(
        self, environ: Mapping[str, Any], start_response: Callable[[str, list[tuple[str, str]]], Any]
    ) -> Iterable[bytes]:
        """The service as a WSGI application."""
        asked = _asked(environ)
        response = self._answer(asked)
        start_response(_status(response), _headers(response))
        return [b"" if asked.method == "HEAD" else response.body]

    def cgi(self, environ: Mapping[str, str], output: BinaryIO) -> None:
        """Answer one request that a Web server hands over as CGI variables (RFC 3875)."""
        opaque = {
            name: value.encode("utf-8", "surrogateescape").decode("latin-1")
            for name, value in environ.items()
        }
        asked = _asked(opaque)
        response = self._answer(asked)
        head = [("Status", _status(response)), *_headers(response)]
        output.write("".join(f"{name}: {value}\r\n" for name, value in head).encode("latin-1") + b"\r\n")
        output.write(b"" if asked.method == "HEAD" else response.body)
        output.flush()

    def _answer(self, asked: Asked) -> Response:
        """The answer to a request whose path is decoded already."""
        if asked.path.lower() not in self._paths:
            return replace(NO_SERVICE, status=404)
        if not asked.reads:
            return _NO_METHOD
        counts = asked.method == "GET" and not asked.only_prefetched
        try:
            return self._subjects.answer(asked.query, lambda: self._asker(asked), counts=counts)
        except ParseError as error:
            return no_request(error)
        except Exception:  # noqa: BLE001 - a fault of the platform: it must not look like an answer, nor show its insides
            _log.exception("a request could not be answered")
            return _NOT_NOW

    def _asker(self, asked: Asked) -> str | None:
        return vouched(asked.peer, asked.header(b"x-forwarded-for"), self._trusted_proxies)


def _asked(environ: Mapping[str, Any]) -> Asked:
    """One request as WSGI and CGI tell it, each text with one character for each byte."""
    headers = {
        name[5:].replace("_", "-").lower().encode("latin-1"): str(value).encode("latin-1", "replace")
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    path = environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", "")
    method, query = environ.get("REQUEST_METHOD", "GET"), environ.get("QUERY_STRING", "")
    return Asked(method, path, query, headers, peer=environ.get("REMOTE_ADDR", ""))


def _status(response: Response) -> str:
    return f"{response.status} {HTTPStatus(response.status).phrase}"


def _headers(response: Response) -> list[tuple[str, str]]:
    """What an answer says about its body; of headers set twice, the first counts."""
    every = (
        ("content-type", response.content_type),
        ("content-length", str(len(response.body))),
        *response.headers,
    )
    return [(name.title(), value) for name, value in dict(reversed(every)).items()]
