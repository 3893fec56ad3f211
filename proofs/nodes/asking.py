"""One request by a connection of its own, and what became of it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REFUSED: Final = 503
_LONGEST: Final = 90.0  # seconds until a client gives up
_NO_ANSWER: Final = frozenset({0, 502, 504})


@dataclass(frozen=True)
class Reply:
    """The answer to one request; `status` 0: it broke off, for the reason in `body`.

    `begun`, `ended`: seconds of the monotonic clock. Names of headers are in lower case.
    """

    status: int
    begun: float
    ended: float
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def refused(self) -> bool:
        """Whether it was refused as it must be: 503, and when to ask again."""
        return self.status == REFUSED and "retry-after" in self.headers

    @property
    def failed(self) -> bool:
        """Whether no service has answered."""
        return self.status in _NO_ANSWER and "application/problem+json" not in self.kind

    @property
    def kind(self) -> str:
        """The media type of the body."""
        return self.headers.get("content-type", "")

    @property
    def location(self) -> str:
        """Where the reader is led, "" for nowhere."""
        return self.headers.get("location", "")

    def __str__(self) -> str:
        """Return it for a sentence."""
        return f"{self.status} {self.location} {self.body[:200]!r} after {self.ended - self.begun:.1f} s"


def ask(
    address: tuple[str, int],
    target: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    source: str = "127.0.0.1",
) -> Reply:
    """Send one request from an address of this machine; nothing is sent twice."""
    begun = time.monotonic()
    connection = HTTPConnection(*address, timeout=_LONGEST, source_address=(source, 0))
    try:
        # Who refuses a large body answers before all of it has come, and closes the connection.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, target, body, dict(headers or {}))
        reply = connection.getresponse()
        content = reply.read()
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, begun, time.monotonic(), content, found)
    except (OSError, HTTPException) as error:
        return Reply(0, begun, time.monotonic(), repr(error).encode())
    finally:
        connection.close()
