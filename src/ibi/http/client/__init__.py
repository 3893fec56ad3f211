"""The HTTP client: GET from checked addresses within a deadline, with a limit of requests at once.

It never follows a redirect by itself, adds nothing about a reader, nor connects to an address that was not judged
(T01: private addresses; T02: changing addresses). Its own headers say only which program it is.

Entry points: `Client.get` and `Client.ask` (short answers, many at once), `download.Downloads` (what is too large for
memory: copies, transfers, harvests), `AddressPolicy` and `HostPort` (which addresses).

    client.py      a GET from its slot to its answer        request.py     one request: bytes, slots, deadline
    pool.py        names, addresses, connections            connection.py  one request at a time, one answer
    address.py     which addresses may be contacted         response.py    the bytes that come back, bounded
    cpu_budget.py  large answers, a few at a time           download.py    files, over aiohttp
    loop_lag.py    whether this machine causes time-outs
"""

from __future__ import annotations

from ibi.http.client.address_policy import AddressPolicy, HostPort
from ibi.http.client.client import Client
from ibi.http.client.pool import ClientLimits
from ibi.http.client.request import (
    LOOP_NAME,
    Deadline,
    OutgoingRequest,
    Target,
    TargetPart,
    target_part,
    too_many,
)
from ibi.http.client.response import Reply, too_large

__all__ = [
    "LOOP_NAME",
    "AddressPolicy",
    "Client",
    "ClientLimits",
    "Deadline",
    "HostPort",
    "OutgoingRequest",
    "Reply",
    "Target",
    "TargetPart",
    "target_part",
    "too_large",
    "too_many",
]
