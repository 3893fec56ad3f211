"""Pipes whose readers do not read."""

from __future__ import annotations

import fcntl
import struct
import termios
import time

_TIMEOUT = 60.0  # seconds
_SOME, _STILL = 16_384, 1.0  # bytes that every full pipe holds; seconds in which nothing comes


def wait_until_full(pipe: int) -> None:
    """Wait until the writer of a pipe is blocked; `pipe` is the end that is read.

    A full pipe may hold half of what it could: what is written in one go is not always parted between its pages.
    """
    end, last, since = time.monotonic() + _TIMEOUT, 0, time.monotonic()
    while last < _SOME or time.monotonic() < since + _STILL:
        assert time.monotonic() < end, f"nobody fills the pipe: {last} bytes"
        held = _held(pipe)
        if held != last:
            last, since = held, time.monotonic()
        time.sleep(0.02)


def _held(pipe: int) -> int:
    """The bytes that wait to be read."""
    count: int = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)))[0]
    return count
