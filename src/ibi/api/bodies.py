"""Read the bodies of requests piece by piece, and never beyond a limit (T12: smuggled line ends; T30: slow requests).

An unusable body raises `Refusal`, which becomes a status and a sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.errors import IbiError
from ibi.http.request import ClientGone
from ibi.http.response import Refusal
from ibi.runtime.strict_json import NameTwice, read_strict_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ibi.http.request import Request

    Receive = Callable[[], Awaitable[dict[str, Any]]]


LONGEST_JSON: Final = 1 << 20
"""Bytes of a JSON body."""

# Bytes of one piece: waking a thread for each packet would cost more than the work of the thread.
_BATCH: Final = 1 << 20
_JSON: Final = frozenset({"application/json", "application/merge-patch+json"})


class Body:
    """The body of one request; `longest`: the most bytes that are read of a body that is not JSON."""

    def __init__(self, request: Request, receive: Receive, longest: int) -> None:
        self._headers = request
        self._receive = receive
        self._longest = longest

    @property
    def kind(self) -> str:
        """The media type in lower case, without parameters; "" if none was sent."""
        return self._headers.header(b"content-type").partition(";")[0].strip().lower()

    def check_announced(self, *headers: tuple[str, str]) -> None:
        """Check that the headers announce a body and its end. Raises Refusal (411) with these headers."""
        announced = self._headers.headers
        if b"content-length" not in announced and b"transfer-encoding" not in announced:
            raise Refusal(411, IbiError("the request does not say how long its body is"), *headers)

    async def pieces(self, longest: int | None = None) -> AsyncIterator[bytes]:
        """Yield the bytes, about a mebibyte at a time. Raises Refusal (413, 415) and ClientGone."""
        most = self._longest if longest is None else longest
        length = self._headers.header(b"content-length")
        # The text is cut first, because converting ten thousand digits to a number would take long.
        if length.isdecimal() and int(length[:20]) > most:
            raise _too_long(most)
        if self._headers.header(b"content-encoding").lower() not in {"", "identity"}:
            raise Refusal(415, IbiError("the body must not be compressed"))
        size, waiting, more = 0, bytearray(), True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                # The bytes that have come are yielded first, because a resumable upload keeps them.
                if waiting:
                    yield bytes(waiting)
                raise ClientGone
            waiting += message.get("body", b"")
            more = message.get("more_body", False)
            if size + len(waiting) > most:
                raise _too_long(most)
            if len(waiting) >= _BATCH or not more:
                size += len(waiting)
                yield bytes(waiting)
                waiting.clear()

    async def json(self) -> Any:
        """Return the JSON value of the body, None if there is no body. Raises Refusal and ClientGone."""
        body = b"".join([piece async for piece in self.pieces(LONGEST_JSON)])
        if not body:
            return None
        if self.kind not in _JSON:
            raise Refusal(415, IbiError("the body must be plain JSON: Content-Type: application/json"))
        return read_json(body)


def read_json(body: bytes | bytearray) -> Any:
    """Read a JSON value: valid UTF-8, finite numbers, no name twice in an object. Raises Refusal (400)."""
    try:
        return read_strict_json(body)
    except NameTwice:
        raise Refusal(400, IbiError("a name stands twice in one object")) from None
    except (ValueError, RecursionError):
        raise Refusal(400, IbiError("the body is not JSON")) from None


def json_object(value: Any) -> dict[str, Any]:
    """Return the value of a body if it is a JSON object. Raises Refusal (422)."""
    if not isinstance(value, dict):
        raise Refusal(422, IbiError("the body must be a JSON object"))
    return value


def _too_long(most: int) -> Refusal:
    return Refusal(413, IbiError("the body is too long: at most {most} bytes are read", most=most))
