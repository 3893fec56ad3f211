"""Limits the connections of each client: one must not hold all that a process may have open (T30: slow requests)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ibi.http.client_address import in_networks, is_loopback
from ibi.http.limits.token_bucket import client_key

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_CONNECTIONS: Final = 256
"""Connections that one client may have with a process at once; one more is answered with 503 (T30: slow requests)."""

_SENTENCE: Final = b"too many connections of your address\n"
TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nretry-after: 10\r\nconnection: close\r\n\r\n%b" % (len(_SENTENCE), _SENTENCE)
)
"""The answer to a client with too many connections."""


class Connections:
    """The open connections of one service in one process, by client; proxies may have any number.

    `proxies` returns the networks of the trusted proxies. If there are none, this machine counts as a proxy:
    a proxy in front of the service that the settings do not name must not be taken for a single client.
    """

    def __init__(self, proxies: Callable[[], tuple[str, ...]]) -> None:
        self._proxies = proxies
        self._open: Counter[str] = Counter()

    def enter(self, peer: str) -> bool:
        """Count one more connection from an address ("" if unreadable); False if it is one too many."""
        client = client_key(peer)
        self._open[client] += 1
        return self._open[client] <= MOST_CONNECTIONS or self._is_proxy(peer)

    def leave(self, peer: str) -> None:
        """Count one connection less."""
        client = client_key(peer)
        self._open[client] -= 1
        if not self._open[client]:
            del self._open[client]

    def _is_proxy(self, peer: str) -> bool:
        proxies = self._proxies()
        return not peer or (in_networks(peer, proxies) if proxies else is_loopback(peer))
