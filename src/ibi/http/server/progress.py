"""Whether a client sends what it has begun, and takes what it is sent: else its connection ends (threat T30)."""

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
"""How long nothing of a large body may come (T30)."""
BODY_GRACE_SECONDS = 60
"""How long a large body may come slowly; after that, see SLOWEST_BODY (T30)."""
SLOWEST_BODY = 1024
"""Bytes a second, on average, that a large body must bring (T30)."""
SILENT_SECONDS: Final = 30
"""How long a client may take nothing of an answer that waits for it (T30)."""
SLOWEST_READER: Final = 1024
"""Bytes a second that it must take on average over a minute (T30)."""
_WINDOW: Final = 60
_NO_LINGERING: Final = struct.pack("ii", 1, 0)

# Where Linux tells how many bytes the other side has acknowledged: struct tcp_info, tcpi_bytes_acked.
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_ACKNOWLEDGED: Final = slice(120, 128)


class Progress:
    """What a client has taken of the answers on one connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._moved_at: float | None = (
            None  # when it was seen last that something had moved; None: nothing waits
        )
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
        """Have the system drop what it holds for the client when the connection is closed: up to four MiB."""
        with suppress(OSError):
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING
            )

    def _acknowledged(self, waiting: int) -> int:
        """Return the bytes that the client's machine has taken; elsewhere than on Linux, what waits no more."""
        if _TCP_INFO is None:
            return -waiting
        try:
            info = self._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 192)
        except OSError:
            return -waiting
        return int.from_bytes(info[_ACKNOWLEDGED], sys.byteorder)


class BodyProgress:
    """How one large body keeps coming; it is looked at once a second, while it is read."""

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
