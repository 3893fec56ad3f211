"""Downloads without a socket: each URL has its reply, and each request is kept with all that was said of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ibi.errors import PeerUnreachable

Page = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""
_PIECE = 100_000


@dataclass(frozen=True)
class DownloadRequest:
    """A request: how many bytes its reply may have, and how many seconds it may take."""

    url: str
    most_bytes: int
    seconds: float
    headers: Mapping[str, str] = field(default_factory=dict)
    follow: bool = False


@dataclass(frozen=True)
class ScriptedReply:
    """What comes of a request."""

    url: str
    status: int
    headers: dict[str, str]
    body: bytes

    async def read(self) -> bytes:
        """The whole body."""
        return self.body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, in pieces."""
        for start in range(0, len(self.body), _PIECE):
            yield self.body[start : start + _PIECE]


class ScriptedDownloads:
    """Has these pages; at any other URL nothing answers."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self.requests: list[DownloadRequest] = []

    @asynccontextmanager
    async def get(
        self,
        url: str,
        *,
        most_bytes: int,
        seconds: float,
        headers: Mapping[str, str] | None = None,
        follow: bool = False,
    ) -> AsyncIterator[ScriptedReply]:
        """One request."""
        self.requests.append(DownloadRequest(url, most_bytes, seconds, dict(headers or {}), follow))
        if url not in self.pages:
            raise PeerUnreachable("nothing answers at {url}", url=url)
        yield ScriptedReply(url, *self.pages[url])
