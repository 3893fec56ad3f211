"""Whether a client takes what it is sent: one that does not would keep its connection for ever (threat T30)."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

SILENT_SECONDS: Final = 30
"""How long a client may take nothing of an answer that waits for it (T30)."""
SLOWEST_READER: Final = 1024
"""Bytes a second that it must take on average over a minute (T30)."""
_WINDOW: Final = 60

# Where Linux tells how many bytes the other side has acknowledged: struct tcp_info, tcpi_bytes_acked.
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_ACKNOWLEDGED: Final = slice(120, 128)


class Progress:
    """What a client has taken of the answers on one connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._moved_at: float | None = None  # when it was seen last that something had moved; None: nothing waits
        self._window_began = 0.0
        self._taken = self._taken_before = 0  # bytes now, and when the window began

    def is_stuck(self, now: float) -> bool:
        """Whether the client has taken nothing for too long, or too little. `now`: seconds of the event loop."""
        waiting = self._transport.get_write_buffer_size()
        if not waiting:
            self._moved_at = None
            return False
        taken = self._acknowledged(waiting)
        if self._moved_at is None:
            self._moved_at = self._window_began = now
            self._taken = self._taken_before = taken
            return False
        if taken != self._taken:
            self._taken, self._moved_at = taken, now
        if now - self._moved_at >= SILENT_SECONDS:
            return True
        if now - self._window_began < _WINDOW:
            return False
        slow = taken - self._taken_before < SLOWEST_READER * _WINDOW
        self._window_began, self._taken_before = now, taken
        return slow

    def _acknowledged(self, waiting: int) -> int:
        """Return the bytes that the client's machine has taken; elsewhere than on Linux, what waits no more."""
        if _TCP_INFO is None:
            return -waiting
        try:
            info = self._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 192)
        except OSError:
            return -waiting
        return int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)
