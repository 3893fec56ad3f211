"""Ports that a test may give away before a server listens on them."""

from __future__ import annotations

import os
import random
import socket

from ibi.errors import ForbiddenAddress
from ibi.http.client.address_policy import HostPort

_FIRST, _EACH, _WORKERS = 18_000, 1_400, 10
"""Below those that the system gives to connections by itself: one of these would be taken in between."""

_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS
_next = random.randrange(_EACH)


def free_port(row: int = 1) -> int:
    """Return the first of so many unused ports in a row, which no other test is given soon."""
    global _next  # noqa: PLW0603 - what was given last
    for _ in range(_EACH):
        if _next + row > _EACH:
            _next = 0
        first = _FIRST + _worker * _EACH + _next
        _next += row
        if all(_is_free(port) for port in range(first, first + row)):
            return first
    raise AssertionError("no port is free")


def _is_free(port: int) -> bool:
    try:
        HostPort.parse(f"127.0.0.1:{port}")  # some belong to databases, and no Archive may have them
    except ForbiddenAddress:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
