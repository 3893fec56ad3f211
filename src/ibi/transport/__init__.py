"""The outbound door (floor 3): every word to another machine leaves through here, and every answer is weighed here.

    address.py   where may be called: host[:port] as the standards write it, and which addresses are out of bounds
    exchange.py  what comes back: one answer after the other, measured as it comes in
    alike.py     short answers that came before, by their bytes
    ration.py    large ones, a few at a time
    connection.py  one connection: one request at a time
    request.py   what is sent, and that it says nothing but what it should
    crowd.py     places: who finds none free waits in turn
    errand.py    one question on its way, and the deadline of all that are asked together
    peers.py     names looked up, addresses judged, connections kept warm
    client.py    the door itself: deadlines, crowds held back
    download.py  a second door, for what is too large to be held in memory: copies, hand-overs, harvests
    judged.py    its look-up of names, which lets no address pass that the first door would refuse

Nothing of a reader is known here. What is sent beyond the target says only who we are.
"""

from __future__ import annotations

from ibi.transport.address import AddressPolicy, HostPort
from ibi.transport.client import LOOP_NAME, Client, Limits
from ibi.transport.errand import Deadline, Errand, too_many
from ibi.transport.exchange import Reply, too_large
from ibi.transport.request import Path, Query, Target, path_of, query_of

__all__ = [
    "LOOP_NAME",
    "AddressPolicy",
    "Client",
    "Deadline",
    "Errand",
    "HostPort",
    "Limits",
    "Path",
    "Query",
    "Reply",
    "Target",
    "path_of",
    "query_of",
    "too_large",
    "too_many",
]
