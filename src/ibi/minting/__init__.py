"""Giving names: the durable side of the generation standard.

with Subsystem.open(path, host="archive.example.org", ip="150.163.34.243") as subsystem:
    print(subsystem.mint())
"""

from ibi.minting.subsystem import Label, Subsystem
from ibi.minting.waiting_room import WaitingRoom

__all__ = ["Label", "Subsystem", "WaitingRoom"]
