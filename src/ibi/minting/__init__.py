"""Giving names: the durable side of the generation standard.

with Subsystem.open(path, host="archive.example.org", ip=ADDRESS) as subsystem:
    print(subsystem.mint())
"""

from ibi.minting.subsystem import Label, Subsystem
from ibi.minting.waiting_room import WaitingRoom

__all__ = ["Label", "Subsystem", "WaitingRoom"]
