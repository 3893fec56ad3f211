"""Notifies the service manager (systemd) that the service is ready, reads its settings again, or stops: sd_notify(3).

The manager names a Unix socket in the environment. Without one, and if it cannot be reached, nothing happens.
"""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from ibi.runtime.environment import environment_notify_socket

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SECONDS: Final = 1.0
"""How long the manager may take to accept a message."""


def notify_ready(urls: Sequence[str]) -> None:
    """Say that the service answers at these URLs, which `systemctl status` shows."""
    _notify("READY=1", f"STATUS={' '.join(urls)}")


def notify_stopping() -> None:
    """Say that the service stops."""
    _notify("STOPPING=1")


@contextmanager
def notify_reloading() -> Iterator[None]:
    """Say that the service reads its settings again, and at the end that it is ready."""
    _notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
    try:
        yield
    finally:
        _notify("READY=1")


def _notify(*lines: str) -> None:
    path = environment_notify_socket()
    if path is None:
        return
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(_SECONDS)
        manager.connect(address)
        manager.send("\n".join(lines).encode())
