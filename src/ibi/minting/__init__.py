"""Minting: gives each label only once, whatever crashes (the generation standard; its pure part is `identifier`).

    with Subsystem.open(path, host="archive.example.org", ip=ADDRESS) as subsystem:
        print(subsystem.mint())

It never gives a label before its moment, or before its date is on disk.

Entry points: `Subsystem`, `WaitingRoom`, `recovery.recover`, `service.MintingService`.
"""

from ibi.minting.subsystem import Label, Subsystem
from ibi.minting.waiting_room import WaitingRoom

__all__ = ["Label", "Subsystem", "WaitingRoom"]
