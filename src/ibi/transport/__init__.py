"""The outbound door (floor 3): every word to another machine leaves through here, and every answer is weighed here.

    address.py   where may be called: host[:port] as the standards write it, and which addresses are out of bounds
    exchange.py  one connection: one request at a time, one answer measured as it comes in
    client.py    the door itself: names, checks, connections kept warm, deadlines, crowds held back
    download.py  a second door, for what is too large to be held in memory: copies, hand-overs, harvests
    judged.py    its look-up of names, which lets no address pass that the first door would refuse

Nothing of a reader is known here. What is sent beyond the target says only who we are.
"""

from __future__ import annotations

from ibi.transport.address import AddressPolicy, HostPort
from ibi.transport.client import LOOP_NAME, Client, Limits
from ibi.transport.exchange import Reply

__all__ = ["LOOP_NAME", "AddressPolicy", "Client", "HostPort", "Limits", "Reply"]
