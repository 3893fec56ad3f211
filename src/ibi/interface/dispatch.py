"""The JSON interface as a whole: who asks, for which route, and what goes wrong, said in the reader's language."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import (
    AlreadyHeld,
    BadItem,
    Conflict,
    HoldingError,
    IbiError,
    MintingError,
    NotHeld,
    NotOurs,
    ParseError,
    PeerError,
    SetupError,
)
from ibi.exchange import NO_STORE, PROBLEM, Response
from ibi.interface.bodies import Body, ClientGone
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT, Call, language_of
from ibi.texts import say

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from ibi.exchange import Asked
    from ibi.interface.bodies import Receive
    from ibi.interface.routes import Route
    from ibi.tokens import Token, Tokens

MOST_REQUESTS: Final = 32
"""Requests that change something and that one token may have under way."""

_STATUS: Final[tuple[tuple[type[IbiError], int], ...]] = (
    (NotHeld, 404), (AlreadyHeld, 409), (Conflict, 412), (BadItem, 422),
    (HoldingError, 409), (ParseError, 422), (PeerError, 502),
)  # fmt: skip
"""What an error means over HTTP; the first line that fits counts."""
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
_LATER: Final = ("retry-after", "10")

_log = logging.getLogger(__name__)


class Api:
    """What answers below /-/api/. `routes`: the tables of all rooms; `largest`: bytes of the largest body.

    `tunnel`: the beginning of paths under which POST may stand for another method (X-HTTP-Method-Override).
    """

    def __init__(self, routes: Iterable[Route], tokens: Tokens, largest: int, tunnel: str = "") -> None:
        self._tokens = tokens
        self._largest = largest
        self._tunnel = tunnel
        self._under_way: dict[str, int] = {}
        table: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in sorted(routes, key=lambda each: -each.plain):
            table.setdefault(route.pattern, (route.matcher, {}))[1][route.method] = route
        self._table = tuple(table.values())

    def knows(self, path: str) -> bool:
        """Whether a path, as it came, is one of the table."""
        below = path.removeprefix(ROOT)
        return below != path and any(matcher.fullmatch(below) for matcher, _ in self._table)

    async def answer(self, asked: Asked, receive: Receive) -> Response:
        """The answer to one request; whatever goes wrong is a problem (RFC 9457)."""
        try:
            return await self._answer(asked, receive)
        except Refusal as refusal:
            return _problem(asked, refusal)
        except IbiError as error:
            return _problem(asked, _refusal(error))
        except ClientGone:
            return Response(400)  # nobody reads it
        except asyncio.CancelledError:  # the server stops and waits no longer
            return _problem(asked, Refusal(503, IbiError("this server is stopping; ask again later"), _LATER))
        except Exception as error:  # noqa: BLE001 - a fault of ours must neither look like an answer nor show itself
            return _problem(asked, _fault(error))

    async def _answer(self, asked: Asked, receive: Receive) -> Response:
        route, values = self._find(asked)
        token = self._token(asked)
        if route.scope is not None:
            if token is None:
                why = IbiError("this needs a token: Authorization: Bearer TOKEN")
                raise Refusal(401, why, ("www-authenticate", "Bearer"))
            if not token.may(route.scope):
                why = IbiError("this needs a token with the scope {scope}", scope=route.scope)
                challenge = f'Bearer error="insufficient_scope", scope="{route.scope}"'
                raise Refusal(403, why, ("www-authenticate", challenge))
        call = Call(asked, Body(asked, receive, self._largest), token, values)
        if asked.reads or token is None:
            return await route.act(call)
        with self._counted(token):
            return await route.act(call)

    def _find(self, asked: Asked) -> tuple[Route, dict[str, str]]:
        """The route of a path and a method, and what stands at its places. Raises Refusal (404, 405)."""
        path, method = asked.path.removeprefix(ROOT), asked.method
        if method == "POST" and self._tunnel and path.startswith(self._tunnel):
            method = asked.header(b"x-http-method-override").upper() or method
        for matcher, methods in self._table:
            match = matcher.fullmatch(path)
            if match is None:
                continue
            route = methods.get(method) or (methods.get("GET") if method == "HEAD" else None)
            if route is None:
                offered = sorted({*methods, *(("HEAD",) if "GET" in methods else ())})
                why = IbiError("only {methods} are understood here", methods=", ".join(offered))
                raise Refusal(405, why, ("allow", ", ".join(offered)))
            return route, match.groupdict()
        raise NotHeld("there is no such page here")

    def _token(self, asked: Asked) -> Token | None:
        """Who asks; None if nobody says. Raises Refusal (401)."""
        header = asked.header(b"authorization")
        if not header:
            return None
        scheme, _, text = header.partition(" ")
        token = self._tokens.find(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            why = IbiError("this token is unknown, or was revoked")
            raise Refusal(401, why, ("www-authenticate", 'Bearer error="invalid_token"'))
        return token

    @contextmanager
    def _counted(self, token: Token) -> Iterator[None]:
        """Count a request while it lasts. Raises Refusal (429) for one too many."""
        if self._under_way.get(token.name, 0) >= MOST_REQUESTS:
            why = IbiError("too much is asked for at a time under this token; wait for what is under way")
            raise Refusal(429, why, ("retry-after", "1"))
        self._under_way[token.name] = self._under_way.get(token.name, 0) + 1
        try:
            yield
        finally:
            left = self._under_way.pop(token.name) - 1
            if left:
                self._under_way[token.name] = left


def _refusal(error: IbiError) -> Refusal:
    """The status of an error that was raised on purpose."""
    if isinstance(error, NotOurs):
        _log.error("%s", error)
        return Refusal(
            503, IbiError("this Archive has no name to mint under; its administrator can give it one")
        )
    if isinstance(error, SetupError):
        return _fault(error)
    if isinstance(error, MintingError):
        _log.error("no label can be given: %s", error)
        return Refusal(503, IbiError("no label can be given now; ask again later"), _LATER)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    return Refusal(status, error)


def _fault(error: Exception) -> Refusal:
    """What is told of a trouble of ours: the operator finds all of it in the log."""
    if _is_full(error):
        _log.error("the disk takes no more: %s", error)
        return Refusal(507, SetupError("the disk of this server takes no more at the moment"))
    _log.error("a request could not be answered", exc_info=error)
    return Refusal(503, IbiError("this server cannot answer now; try again later"), _LATER)


def _is_full(error: BaseException | None) -> bool:
    """Whether a disk that takes no more is behind an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        if getattr(error, "sqlite_errorname", "") == "SQLITE_FULL":
            return True
        error = error.__cause__ or error.__context__
    return False


def _problem(asked: Asked, refusal: Refusal) -> Response:
    """A problem (RFC 9457) in the reader's language."""
    language = language_of(asked)
    status = HTTPStatus(refusal.status)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": refusal.status,
        "detail": say(refusal.why, language),
        **refusal.members,
    }
    body = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
    told = (*refusal.headers, *NO_STORE, ("content-language", language), ("vary", "accept-language"))
    return Response(refusal.status, body, PROBLEM, told)
