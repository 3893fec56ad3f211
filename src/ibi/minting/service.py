"""The minting service, an ASGI application: gives labels over HTTP to clients with a token.

    POST /-/api/mint               new labels, each when its moment has come
    GET /-/healthz  /-/about       whether it runs, and under which names it mints
    GET /-/metrics                 what it has counted
    further pages                  passed by the caller

If a client goes away, its labels are burned: they are never given to another client.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import language_of
from ibi.errors import ClockError, IbiError, LostState, MintingError, SetupError
from ibi.http.metrics.numbers import PATH
from ibi.http.request import ClientGone, Request
from ibi.http.response import JSON, NO_STORE, PLAIN, PROBLEM, Refusal, Response
from ibi.identifier.dates import granularity_text
from ibi.minting.batcher import LONGEST_WAIT, STALL_SECONDS, Busy
from ibi.minting.metrics import MINT
from ibi.minting.order import MOST_LABELS, LabelOrder, read_body, write_labels
from ibi.runtime.i18n import say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ibi.accounts.tokens import Tokens
    from ibi.http.response import Receive, Send
    from ibi.identifier.distributor import Batch
    from ibi.minting.batcher import LabelBatcher
    from ibi.minting.metrics import MintMetrics

    Page = Callable[[Request], Response]

MOST_REQUESTS_PER_CLIENT: Final = 64
"""Requests of one client that may wait at the same time (T37: overload)."""
MOST_LABELS_PER_CLIENT: Final = 20_000
"""Labels that one client may wait for at the same time (T37: overload)."""
SENDING_SECONDS: Final = 30
"""Seconds that a client may take to read its labels; then its connection is closed."""

_PIECE: Final = 256 * 1024  # bytes that are sent in one go

_log = logging.getLogger(__name__)


class MintingService:
    """The ASGI application that mints.

    `batchers`: at least one; `choose` returns the batcher for an order, and may raise an IbiError or a
    Refusal; `pages`: path -> function that answers it.
    """

    def __init__(
        self,
        batchers: Sequence[LabelBatcher],
        tokens: Tokens,
        choose: Callable[[LabelOrder], LabelBatcher],
        pages: Mapping[str, Page],
        metrics: MintMetrics,
    ) -> None:
        self._metrics = metrics
        self._batchers = batchers
        self._tokens = tokens
        self._choose = choose
        self._under_way: dict[str, tuple[int, int]] = {}  # requests and labels of each client
        self._trouble = ""
        self._pages: dict[str, Page] = {
            "/-/healthz": lambda _: Response(200, b'{"status": "ok"}', JSON, NO_STORE),
            "/-/about": self._about,
            PATH: metrics.respond,
            **pages,
        }

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one HTTP request; ignore other kinds of connection."""
        if scope["type"] != "http":
            return
        request = Request.of(scope, ())
        # A client counts as waiting until it has read its labels, because slow readers cost memory.
        with ExitStack() as counted:
            try:
                response = await self._answer(request, receive, counted)
            except ClientGone:
                return
            try:
                async with asyncio.timeout(SENDING_SECONDS):
                    await response.send(send, head_only=request.method == "HEAD")
            except TimeoutError:
                _log.warning("a client was too slow to read its labels")

    async def stop(self) -> None:
        """Accept no more requests; reserved labels are still given."""
        for batcher in self._batchers:
            batcher.stop()

    async def _answer(self, request: Request, receive: Receive, counted: ExitStack) -> Response:
        try:
            if request.path == MINT:
                return await self._mint(request, receive, counted)
            return self._page(request)
        except Refusal as refusal:
            return _problem(request, refusal)
        except asyncio.CancelledError:
            # The server stops and waits no longer; without this, uvicorn would answer 500.
            return _problem(
                request, _later(MintingError("this service is stopping; ask again later"), STALL_SECONDS)
            )
        except ClientGone:
            raise
        except Exception:  # noqa: BLE001 - a fault of ours becomes a problem without its details
            _log.exception("a request could not be answered")
            return _problem(request, _later(MintingError("no label can be given now; ask again later")))

    async def _mint(self, request: Request, receive: Receive, counted: ExitStack) -> Response:
        if request.method != "POST":
            why = "only POST mints; GET for the standard's older clients is not offered"
            raise Refusal(405, IbiError(why), ("allow", "POST"))
        client = self._client(request)
        try:
            order = LabelOrder.read(request, await read_body(request, receive))
            batcher = self._choose(order)
        except Refusal:
            self._metrics.refused("order")
            raise
        except IbiError as error:
            self._metrics.refused("order")
            raise Refusal(400, error) from None
        counted.enter_context(self._counted(client, order.count))
        batches = await self._draw(batcher, order.count)
        body = await write_labels(batcher.generator, batches, order)
        kind = PLAIN if order.as_text else JSON
        if len(body) <= _PIECE:
            return Response(200, body, kind, _HEADERS)
        # Sent in pieces, so that only one piece is pending for a client that does not read.
        pieces = (body[at : at + _PIECE] for at in range(0, len(body), _PIECE))
        return Response(200, content_type=kind, headers=_HEADERS, parts=pieces, size=len(body))

    def _client(self, request: Request) -> str:
        """Return the name of the token of a request. Raises Refusal."""
        scheme, _, token = request.header(b"authorization").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            self._metrics.refused("token")
            why = IbiError("minting needs a token: Authorization: Bearer TOKEN")
            raise Refusal(401, why, ("www-authenticate", "Bearer"))
        try:
            known = self._tokens.find(token.strip())
        except SetupError as error:
            raise self._no_label(error) from None
        if known is None:
            self._metrics.refused("token")
            why = IbiError("this token is unknown, or was revoked")
            raise Refusal(401, why, ("www-authenticate", 'Bearer error="invalid_token"'))
        return known.name

    def _page(self, request: Request) -> Response:
        page = self._pages.get(request.path)
        if page is None:
            raise Refusal(404, IbiError("there is no such page here"))
        if not request.reads:
            raise Refusal(405, IbiError("only GET and HEAD are understood here"), ("allow", "GET, HEAD"))
        return page(request)

    def _about(self, _request: Request) -> Response:
        subsystems = [
            {
                "host": batcher.generator.host,
                "port": batcher.generator.port,
                "ip": batcher.generator.ip,
                "ip_port": batcher.generator.ip_port if batcher.generator.ip else None,
                "granularity": granularity_text(batcher.granularity) if batcher.granularity else "auto",
                "for_trying": batcher.generator.why_not_unique is not None,
            }
            for batcher in self._batchers
        ]
        facts = {"role": "mint", "subsystems": subsystems, "most_labels": MOST_LABELS}
        return Response(200, json.dumps(facts, indent=1).encode(), JSON, NO_STORE)

    async def _draw(self, batcher: LabelBatcher, count: int) -> list[Batch]:
        try:
            batches = await batcher.draw(count)
        except Busy as busy:
            self._metrics.refused("busy")
            raise _later(busy.why, busy.seconds) from None
        except IbiError as error:
            raise self._no_label(error) from None
        self._trouble = ""
        self._metrics.given(count)
        return batches

    def _no_label(self, error: IbiError) -> Refusal:
        """Return the refusal if no label can be given; log the error once until labels are given again."""
        # Thousands of clients meet the same error; in a ClockError, the seconds differ each time.
        trouble = error.problem if isinstance(error, ClockError) else str(error)
        if trouble != self._trouble:
            self._trouble = trouble
            _log.error("no label can be given: %s", error)
        if isinstance(error, ClockError):
            self._metrics.refused("clock")
            return _later(error)
        if isinstance(error, LostState):
            self._metrics.refused("state")
            why = "no label is given until the minting state is repaired: ibi mint recover"
            return Refusal(503, LostState(why))
        self._metrics.refused("disk")
        return _later(SetupError("the disk of this service fails, so no label is given; ask again later"))

    @contextmanager
    def _counted(self, client: str, count: int) -> Iterator[None]:
        """Count a request and its labels for a client during the block. Raises Refusal for too many (T37: overload)."""
        requests, labels = self._under_way.get(client, (0, 0))
        if requests >= MOST_REQUESTS_PER_CLIENT or labels + count > MOST_LABELS_PER_CLIENT:
            self._metrics.refused("too much")
            why = "too much is requested at a time with this token; wait for the labels that are under way"
            raise Refusal(429, MintingError(why), ("retry-after", "1"))
        self._under_way[client] = requests + 1, labels + count
        try:
            yield
        finally:
            requests, labels = self._under_way.pop(client)
            if requests > 1:
                self._under_way[client] = requests - 1, labels - count


_HEADERS: Final = (*NO_STORE, ("vary", "accept"))


def _later(why: IbiError, seconds: int = LONGEST_WAIT) -> Refusal:
    return Refusal(503, why, ("retry-after", str(seconds)))


def _problem(request: Request, refusal: Refusal) -> Response:
    """Return a problem (RFC 9457) in the client's language."""
    language = language_of(request)
    problem = {"type": "about:blank", "status": refusal.status, "detail": say(refusal.why, language)}
    headers = (*NO_STORE, ("content-language", language), ("vary", "accept-language"), *refusal.headers)
    return Response(refusal.status, json.dumps(problem).encode(), PROBLEM, headers)
