"""What goes back over HTTP: status, headers, body. Every header value is made visible ASCII first (DANGERS T12)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.resolver.membership import Outcome

HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"
PAIRS: Final = "text/plain"
PLAIN: Final = "text/plain; charset=utf-8"
PROBLEM: Final = "application/problem+json"

Headers = tuple[tuple[str, str], ...]

NO_STORE: Final[Headers] = (("cache-control", "no-store"),)

_ALWAYS: Final[Headers] = (("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer"))
_FIRST, _LAST = "!", "~"  # visible ASCII


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. `afterwards` is called once it has gone out. Of headers set twice, the first counts; links add up."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()
    afterwards: Callable[[], None] | None = field(default=None, repr=False)

    def having(self, *headers: tuple[str, str]) -> Response:
        """The same answer with more headers."""
        return replace(self, headers=(*self.headers, *headers))

    async def send(self, send: Callable[[dict[str, Any]], Awaitable[None]], *, head_only: bool) -> None:
        """Send it as ASGI messages; to HEAD without its body."""
        kind: Headers = (("content-type", self.content_type),) if self.content_type else ()
        size: Headers = (("content-length", str(len(self.body))),)
        headers: list[tuple[bytes, bytes]] = []
        seen: set[str] = set()
        for name, value in (*kind, *size, *self.headers, *_ALWAYS):
            if name not in seen or name == "link":
                headers.append((name.encode("ascii"), _harmless(value)))
                seen.add(name)
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if head_only else self.body})


def redirect(
    location: str, persistent: str, *, by_language: bool, afterwards: Callable[[], None] | None = None
) -> Response:
    """302 to a URL byte for byte (RES-12).

    `persistent` is the URL to cite; `by_language` tells whether readers of other languages may be sent elsewhere.
    """
    headers: Headers = (
        ("location", visible(location)),
        ("cache-control", "private, no-store"),
        ("link", f'<{visible(persistent, "<>")}>; rel="cite-as"'),
    )
    if by_language:
        headers = (*headers, ("vary", "Accept-Language"))
    return Response(302, headers=headers, afterwards=afterwards)


def service_answer(outcome: Outcome) -> Response:
    """The answer to an Archive: a pair list that nobody keeps, indexes or follows (T15, T38)."""
    headers = (*NO_STORE, ("x-robots-tag", "noindex, nofollow"))
    if outcome.retry_after is not None:
        headers = (*headers, ("retry-after", str(outcome.retry_after)))
    return Response(outcome.status, outcome.body, PAIRS, headers)


def links(alternates: tuple[tuple[str, str], ...]) -> Headers:
    """Link headers to the same item in other languages: pairs of language and URL."""
    return tuple(
        ("link", f'<{visible(url, "<>")}>; rel="alternate"; hreflang="{language}"')
        for language, url in alternates
    )


def visible(url: str, also: str = "") -> str:
    """A URL in visible ASCII; what is not (and what stands in `also`) is percent-encoded, the rest left alone.

    Texts from the wire have one character for each byte; such a byte stays that byte.
    """
    return "".join(char if _FIRST <= char <= _LAST and char not in also else _encoded(char) for char in url)


def _encoded(char: str) -> str:
    raw = char.encode("latin-1") if ord(char) <= 0xFF else char.encode("utf-8", "replace")  # noqa: PLR2004 - one byte
    return "".join(f"%{byte:02X}" for byte in raw)


def _harmless(value: str) -> bytes:
    """A header value that ends no header: blanks and visible ASCII."""
    return "".join(char if " " <= char <= _LAST else "?" for char in value).encode("ascii")
