"""Dispatch requests to the JSON interface: find the route, check the token, report problems (RFC 9457)."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from ibi.api.bodies import Body
from ibi.api.routes import ROOT, Call, language_of
from ibi.errors import (
    AlreadyHeld,
    BadField,
    BadItem,
    Conflict,
    HoldingError,
    IbiError,
    MintingError,
    MintingNotAllowed,
    NotHeld,
    ParseError,
    PeerError,
    SetupError,
    Unsettled,
    with_text,
)
from ibi.http.request import ClientGone
from ibi.http.response import LATER, NO_STORE, PROBLEM, Refusal, Response, fault_refusal
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator

    from ibi.accounts.tokens import Token, Tokens
    from ibi.api.bodies import Receive
    from ibi.api.idempotency import Replies
    from ibi.api.routes import Route
    from ibi.http.request import Request

MOST_REQUESTS: Final = 32
"""Requests that change something, of one token, at the same time."""

_STATUS: Final[tuple[tuple[type[IbiError], int], ...]] = (
    (BadField, 422), (NotHeld, 404), (AlreadyHeld, 409), (Conflict, 412), (BadItem, 422),
    (Unsettled, 503), (HoldingError, 409), (ParseError, 422), (PeerError, 502),
)  # fmt: skip
"""The status for each class of errors; the first match counts."""

_log = logging.getLogger(__name__)


class Api:
    """Answers requests below /-/api/. `routes`: those of all packages; `largest`: bytes of the largest body.

    `tunnel`: the beginning of paths under which POST may stand for another method (X-HTTP-Method-Override). `replies`:
    the stored replies to requests with an Idempotency-Key; without it, this header is ignored.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        tokens: Tokens,
        largest: int,
        tunnel: str = "",
        replies: Replies | None = None,
    ) -> None:
        self._tokens = tokens
        self._replies = replies
        self._largest = largest
        self._tunnel = tunnel
        self._in_flight: Counter[str] = Counter()  # by the names of tokens, which are few
        table: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        # Patterns with fixed words come before patterns with places, which would match these words, too.
        for route in sorted(routes, key=lambda each: -each.plain):
            table.setdefault(route.pattern, (route.matcher, {}))[1][route.method] = route
        self.table = tuple(table.values())
        """Pairs of a path expression and its routes by method; the first match answers a request."""

    def knows(self, path: str) -> bool:
        """Return whether a route has this path (still percent-encoded)."""
        below = path.removeprefix(ROOT)
        return below != path and any(matcher.fullmatch(below) for matcher, _ in self.table)

    async def answer(self, request: Request, receive: Receive) -> Response:
        """Answer one request; every error becomes a problem (RFC 9457)."""
        try:
            return await self._answer(request, receive)
        except Refusal as refusal:
            return _problem(request, refusal)
        except IbiError as error:
            return _problem(request, _refusal(error))
        except ClientGone:
            return Response(400)  # to a closed connection
        except asyncio.CancelledError:
            # The server stops and waits no longer; without this, uvicorn would answer 500.
            why = IbiError("this server is stopping; ask again later")
            return _problem(request, Refusal(503, why, LATER))
        except Exception as error:  # noqa: BLE001 - a fault of ours becomes a problem without its details
            return _problem(request, fault_refusal(error))

    async def _answer(self, request: Request, receive: Receive) -> Response:
        route, values = self._find(request)
        token = self._token(request)
        if route.scope is not None:
            if token is None:
                why = IbiError("this needs a token: Authorization: Bearer TOKEN")
                raise Refusal(401, why, ("www-authenticate", "Bearer"))
            if not token.may(route.scope):
                why = IbiError("this needs a token with the scope {scope}", scope=route.scope)
                challenge = f'Bearer error="insufficient_scope", scope="{route.scope}"'
                raise Refusal(403, why, ("www-authenticate", challenge))
        body = Body(request, receive, self._largest)
        call = Call(request, body, token, values, self._replies, route.shown_once)
        if request.reads or token is None:
            return await route.act(call)
        with self._counted(token):
            return await route.act(call)

    def _find(self, request: Request) -> tuple[Route, dict[str, str]]:
        """Find the route of a request, and the texts at its places. Raises NotHeld, Refusal (405)."""
        path, method = request.path.removeprefix(ROOT), request.method
        if method == "POST" and self._tunnel and path.startswith(self._tunnel):
            method = request.header(b"x-http-method-override").upper() or method
        for matcher, methods in self.table:
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

    def _token(self, request: Request) -> Token | None:
        """Return the token of a request; None if it has none. Raises Refusal (401) for an unknown token."""
        header = request.header(b"authorization")
        if not header:
            return None
        token = self._tokens.bearer(header)
        if token is None:
            why = IbiError("this token is unknown, or was revoked")
            raise Refusal(401, why, ("www-authenticate", 'Bearer error="invalid_token"'))
        return token

    @contextmanager
    def _counted(self, token: Token) -> Iterator[None]:
        """Count a request of a token while it lasts. Raises Refusal (429) beyond `MOST_REQUESTS`."""
        if self._in_flight[token.name] >= MOST_REQUESTS:
            why = IbiError("too much is requested at a time with this token; wait for what is under way")
            raise Refusal(429, why, ("retry-after", "1"))
        self._in_flight[token.name] += 1
        try:
            yield
        finally:
            self._in_flight[token.name] -= 1


def _refusal(error: IbiError) -> Refusal:
    """Return the refusal for an error that was raised on purpose."""
    if isinstance(error, MintingError):
        return minting_refusal(error)
    if isinstance(error, SetupError):
        return fault_refusal(error)
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    return Refusal(status, error)


def minting_refusal(error: MintingError) -> Refusal:
    """Return the refusal for a label that cannot be minted: 503."""
    # The reason is only logged, because the sentences of these errors name files and clocks of the server.
    if isinstance(error, MintingNotAllowed):
        _log.error("%s", error)
        why = IbiError("this Archive has no name to mint under; its administrator can give it one")
        return Refusal(503, why)
    _log.error("no label can be given: %s", error)
    return Refusal(503, IbiError("no label can be given now; ask again later"), LATER)


def _problem(request: Request, refusal: Refusal) -> Response:
    """Return a problem (RFC 9457) in the reader's language."""
    language = language_of(request)
    status = HTTPStatus(refusal.status)
    problem: dict[str, Any] = {
        "type": "about:blank",
        "title": status.phrase,
        "status": refusal.status,
        "detail": say(with_text(refusal.why), language),
        **refusal.members,
    }
    # A sentence may quote a lone surrogate (half a character), which UTF-8 cannot encode.
    body = json.dumps(problem, ensure_ascii=False).encode("utf-8", "replace")
    headers = (*refusal.headers, *NO_STORE, ("content-language", language), ("vary", "accept-language"))
    return Response(refusal.status, body, PROBLEM, headers)
