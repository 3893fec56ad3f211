"""The door of the OAI-PMH repository: GET with a query, POST with a form, and how busy it may be (OAI-PMH 2.0, 3.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.oai.provider import OAI
from ibi.errors import IbiError, NotHeld, SetupError
from ibi.exchange import NO_STORE, PLAIN, Response
from ibi.interface.bodies import Body, ClientGone
from ibi.interface.refusal import Refusal
from ibi.interface.routes import aside
from ibi.protocol.query_string import MAX_QUERY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from ibi.archive.oai.provider import Provider
    from ibi.exchange import Asked

    Receive = Callable[[], Awaitable[Any]]

MOST_AT_ONCE: Final = 8
"""Questions of harvesters that wait for their answer; more are asked to come again."""

_XML: Final = "text/xml; charset=utf-8"
_FORM: Final = "application/x-www-form-urlencoded"
_LATER: Final = ("retry-after", "10")


class OaiDoor:
    """Lets harvesters in; what is wrong with HTTP itself is refused as plain text, everything else is XML with 200."""

    def __init__(self, provider: Provider, close: Callable[[], None]) -> None:
        self._provider = provider
        self.close = close
        """Give up what the provider reads from."""
        self._waiting = 0

    async def answer(self, asked: Asked, receive: Receive) -> Response:
        """The answer to one request."""
        try:
            return await self._answer(asked, receive)
        except Refusal as refusal:
            return _refused(refusal.status, refusal.why)
        except SetupError as error:
            return _refused(503, error, _LATER)
        except ClientGone:
            return Response(400)  # nobody reads it

    async def _answer(self, asked: Asked, receive: Receive) -> Response:
        if asked.path != OAI:
            return _refused(404, NotHeld("there is no such page here"))
        question = asked.query
        if asked.method == "POST":
            question = "&".join(filter(None, (question, await _form(asked, receive))))
        elif not asked.reads:
            return _refused(
                405, IbiError("only GET, HEAD and POST are understood here"), ("allow", "GET, HEAD, POST")
            )
        if self._waiting >= MOST_AT_ONCE:
            return _refused(503, IbiError("too many harvesters are asking at once; ask again later"), _LATER)
        self._waiting += 1
        try:
            return Response(200, await aside(self._provider.answer, question), _XML, NO_STORE)
        finally:
            self._waiting -= 1


async def _form(asked: Asked, receive: Receive) -> str:
    """The form in a body, as a query is written. Raises Refusal and ClientGone."""
    body = Body(asked, receive, MAX_QUERY)
    if body.kind != _FORM:
        raise Refusal(415, IbiError("a question is a form: Content-Type: application/x-www-form-urlencoded"))
    return b"".join([piece async for piece in body.pieces()]).decode("latin-1")


def _refused(status: int, why: IbiError, *headers: tuple[str, str]) -> Response:
    return Response(status, f"{why}\n".encode("utf-8", "replace"), PLAIN, (*headers, *NO_STORE))
