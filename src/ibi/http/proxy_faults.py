"""Tells the operator, once, of a trusted proxy whose X-Forwarded-For cannot be read (threat T24, decision 0027)."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from ibi.http.client_address import hides_client

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.http.client_address import IPNetwork
    from ibi.http.request import Request

_log = logging.getLogger("ibi.http.proxies")


def log_hidden_client(request: Request, proxies: Sequence[IPNetwork]) -> None:
    """Log that the proxy of a request hides its clients, once a process and proxy."""
    forwarded = request.header(b"x-forwarded-for")
    if forwarded and hides_client(request.peer, forwarded, proxies):
        _log_once(request.peer)


# What the proxy wrote is left out: it may tell of a reader (threat T28).
@lru_cache(maxsize=64)
def _log_once(proxy: str) -> None:
    _log.warning(
        "the proxy %s writes into X-Forwarded-For what is no address: all its clients count as one", proxy
    )
