"""The minting service: labels over HTTP, for those who have a token; a bare ASGI application.

    POST /-/api/mint               new labels, each when its moment has come
    GET /-/healthz  /-/about       that it runs, and what it mints under
    further pages                  as they are given to it

The labels of a client that goes away are burned; nothing that was handed out is ever given again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.errors import ClockError, IbiError, LostState, MintingError, SetupError
from ibi.exchange import JSON, NO_STORE, PLAIN, PROBLEM, Asked, Response
from ibi.identifier.dates import granularity_text
from ibi.minting.desk import LONGEST_WAIT, PATIENCE, Busy
from ibi.minting.order import MOST_LABELS, Order, Refusal, read_body, write_labels
from ibi.protocol.language import LanguagePreference
from ibi.texts import LANGUAGES, say

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from ibi.identifier.distributor import Batch
    from ibi.minting.desk import Desk
    from ibi.tokens import Tokens

    Page = Callable[[], Response]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

MOST_REQUESTS_PER_CLIENT: Final = 64
MOST_LABELS_PER_CLIENT: Final = 20_000
"""Requests, and labels, that one client may be waiting for at a time (threat T37)."""
SENDING_SECONDS: Final = 30
"""How long a client may take to read its labels; then its connection is closed."""

_MINT: Final = "/-/api/mint"
_PIECE: Final = 256 * 1024  # bytes that are sent in one go

_log = logging.getLogger(__name__)


class _ClientGone(Exception):
    """The client has closed the connection before its request was complete."""


class MintingService:
    """The ASGI application that mints.

    `desks`, at least one: what is minted under. `choose` says which desk serves an order, and may raise an IbiError
    or a Refusal; without it, it is the first that can. `pages`: what else is shown, by path.
    """

    def __init__(
        self,
        desks: Sequence[Desk],
        tokens: Tokens,
        choose: Callable[[Order], Desk] | None = None,
        pages: Mapping[str, Page] | None = None,
    ) -> None:
        self._desks = desks
        self._tokens = tokens
        self._choose = choose or (lambda order: order.able(desks)[0])
        self._clients = _Clients()
        self._trouble = ""
        self._pages: dict[str, Page] = {"/-/healthz": _health, "/-/about": self._about, **(pages or {})}

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request; other kinds of connection are none of ours."""
        if scope["type"] != "http":
            return
        asked = Asked.of(scope)
        with ExitStack() as place:  # a client keeps its place in the line until it has read its labels
            try:
                response = await self._answer(asked, receive, place)
            except _ClientGone:
                return
            try:
                async with asyncio.timeout(SENDING_SECONDS):
                    await response.send(send, head_only=asked.method == "HEAD")
            except TimeoutError:
                _log.warning("a client was too slow to read its labels")

    async def stop(self) -> None:
        """Take no more requests; what is reserved is still handed out."""
        for desk in self._desks:
            desk.stop()

    async def _answer(self, asked: Asked, receive: Receive, place: ExitStack) -> Response:
        try:
            if asked.path == _MINT:
                return await self._mint(asked, receive, place)
            return self._page(asked)
        except Refusal as refusal:
            return _problem(asked, refusal)
        except asyncio.CancelledError:  # the server stops and waits no longer; left alone, it would say 500
            return _problem(
                asked, _later(MintingError("this service is stopping; ask again later"), PATIENCE)
            )
        except _ClientGone:
            raise
        except Exception:  # noqa: BLE001 - a fault of ours must neither look like an answer nor show its insides
            _log.exception("a request could not be answered")
            return _problem(asked, _later(MintingError("no label can be given now; ask again later")))

    async def _mint(self, asked: Asked, receive: Receive, place: ExitStack) -> Response:
        if asked.method != "POST":
            why = "only POST mints; GET for the standard's older clients is not offered"
            raise Refusal(405, IbiError(why), ("allow", "POST"))
        client = self._client(asked)
        order = Order.read(asked, await read_body(asked, _reader(receive)))
        desk = self._desk(order)
        place.enter_context(self._clients.waiting(client, order.count))
        batches = await self._draw(desk, order.count)
        body = await write_labels(desk.generator, batches, order)
        kind = PLAIN if order.as_text else JSON
        if len(body) <= _PIECE:
            return Response(200, body, kind, _HEADERS)
        # In pieces, so that a client that does not read holds up no more than one.
        pieces = (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))
        return Response(200, content_type=kind, headers=_HEADERS, parts=pieces, size=len(body))

    def _client(self, asked: Asked) -> str:
        """The name of the token that a request brings."""
        scheme, _, token = asked.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            why = IbiError("minting needs a token: Authorization: Bearer TOKEN")
            raise Refusal(401, why, ("www-authenticate", "Bearer"))
        try:
            known = self._tokens.find(token.strip())
        except SetupError as error:
            raise self._no_label(error) from None
        if known is None:
            why = IbiError("this token is unknown, or was revoked")
            raise Refusal(401, why, ("www-authenticate", 'Bearer error="invalid_token"'))
        return known.name

    def _desk(self, order: Order) -> Desk:
        try:
            return self._choose(order)
        except IbiError as error:
            raise Refusal(400, error) from None

    def _page(self, asked: Asked) -> Response:
        page = self._pages.get(asked.path)
        if page is None:
            raise Refusal(404, IbiError("there is no such page here"))
        if not asked.reads:
            raise Refusal(405, IbiError("only GET and HEAD are understood here"), ("allow", "GET, HEAD"))
        return page()

    def _about(self) -> Response:
        subsystems = [
            {
                "host": desk.generator.host,
                "port": desk.generator.port,
                "ip": desk.generator.ip,
                "ip_port": desk.generator.ip_port if desk.generator.ip else None,
                "granularity": granularity_text(desk.granularity) if desk.granularity else "auto",
                "for_trying": desk.generator.why_not_ours is not None,
            }
            for desk in self._desks
        ]
        facts = {"role": "mint", "subsystems": subsystems, "most_labels": MOST_LABELS}
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, NO_STORE)

    async def _draw(self, desk: Desk, count: int) -> list[Batch]:
        try:
            batches = await desk.draw(count)
        except Busy as busy:
            raise _later(busy.why, busy.seconds) from None
        except IbiError as error:
            raise self._no_label(error) from None
        self._trouble = ""
        return batches

    def _no_label(self, error: IbiError) -> Refusal:
        """What a client is told of a trouble; the operator gets a line in the log, once until it is over."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            _log.error("no label can be given: %s", error)
        if isinstance(error, ClockError):
            return _later(error)
        if isinstance(error, LostState):
            why = "no label is given until the minting state is repaired: ibi mint recover"
            return Refusal(503, LostState(why))
        return _later(SetupError("the disk of this service fails, so no label is given; ask again later"))


class _Clients:
    """How much each client is waiting for."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[int, int]] = {}  # requests and labels

    @contextmanager
    def waiting(self, client: str, count: int) -> Iterator[None]:
        """Count a request while it lasts. Raises Refusal for one too many."""
        requests, labels = self._under_way.get(client, (0, 0))
        if requests >= MOST_REQUESTS_PER_CLIENT or labels + count > MOST_LABELS_PER_CLIENT:
            why = "too much is asked for at a time under this token; wait for the labels that are under way"
            raise Refusal(429, MintingError(why), ("retry-after", "1"))
        self._under_way[client] = requests + 1, labels + count
        try:
            yield
        finally:
            requests, labels = self._under_way.pop(client)
            if requests > 1:
                self._under_way[client] = requests - 1, labels - count


_HEADERS: Final = (*NO_STORE, ("vary", "accept"))


def _health() -> Response:
    return Response(200, b'{"status": "ok"}', JSON, NO_STORE)


def _reader(receive: Receive) -> Callable[[], Awaitable[tuple[bytes, bool]]]:
    """The body of a request, piece by piece: bytes, and whether there is more."""

    async def read() -> tuple[bytes, bool]:
        message = await receive()
        if message["type"] != "http.request":
            raise _ClientGone
        return message.get("body", b""), message.get("more_body", False)

    return read


def _later(why: IbiError, seconds: int = LONGEST_WAIT) -> Refusal:
    return Refusal(503, why, ("retry-after", str(seconds)))


def _problem(asked: Asked, refusal: Refusal) -> Response:
    """A problem (RFC 9457) in the client's language."""
    language = LanguagePreference.parse(asked.header(b"accept-language")).choose(LANGUAGES) or LANGUAGES[0]
    problem = {"type": "about:blank", "status": refusal.status, "detail": say(refusal.why, language)}
    told = (*NO_STORE, ("content-language", language), ("vary", "accept-language"), *refusal.headers)
    return Response(refusal.status, json.dumps(problem).encode(), PROBLEM, told)
