"""Finds clients that stop sending a body or taking an answer, so that their connection ends (T30: slow requests)."""

from __future__ import annotations

import socket
import struct
import sys
import termios
from contextlib import suppress
from fcntl import ioctl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio

BODY_PAUSE_SECONDS = 10
"""How long a client may send nothing of a large body (T30: slow requests)."""
BODY_GRACE_SECONDS = 60
"""How long a large body may come slowly, before SLOWEST_BODY applies (T30: slow requests)."""
SLOWEST_BODY = 1024
"""Bytes a second, on average, that a large body must bring (T30: slow requests)."""
SILENT_SECONDS: Final = 30
"""How long a client may take nothing of an answer that waits for it (T30: slow requests)."""
SLOWEST_READER: Final = 1024
"""Bytes a second that a client must take of an answer, on average over a minute (T30: slow requests)."""
_WINDOW: Final = 60
_NO_LINGERING: Final = struct.pack("ii", 1, 0)

# Linux reports how many bytes the other side has acknowledged: struct tcp_info, tcpi_bytes_acked.
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_ACKNOWLEDGED: Final = slice(120, 128)


class Progress:
    """How fast a client takes the answers on one connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._moved_at: float | None = None  # when bytes were last seen to have moved; None: nothing waits
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

    def drop_unsent(self) -> None:
        """Have the system drop its unsent bytes, up to four MiB, when the connection is closed."""
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING
            )

    def _acknowledged(self, waiting: int) -> int:
        """Return a count of the bytes that the client's machine has taken; off Linux, minus those waiting."""
        if _TCP_INFO is None:
            return -waiting
        try:
            info = self._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 192)
        except OSError:
            return -waiting
        return int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)


class BodyProgress:
    """How fast one large body comes; to be asked once a second while the body is read."""

    def __init__(self) -> None:
        self._seconds = self._silent = 0
        self._last_received = 0

    def is_too_slow(self, received: int, body_bytes: int) -> bool:
        """Whether too little has come; `received`: bytes with framing, `body_bytes` without."""
        self._seconds += 1
        self._silent = self._silent + 1 if received == self._last_received else 0
        self._last_received = received
        slow = self._seconds > BODY_GRACE_SECONDS and body_bytes < SLOWEST_BODY * self._seconds
        return slow or self._silent >= BODY_PAUSE_SECONDS


def has_unread(transport: asyncio.Transport) -> bool:
    """Whether the system holds bytes of the client that the event loop has not read yet."""
    try:
        count = ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4))
    except OSError:
        return False
    return int.from_bytes(count, sys.byteorder) > 0
