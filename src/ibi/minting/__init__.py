"""Giving names: the durable side of the generation standard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.minting.waiting_room import WaitingRoom

if TYPE_CHECKING:
    from ibi.identifier.forms import IBIForms
    from ibi.identifier.generator import Subsystem

__all__ = ["WaitingRoom", "mint"]


def mint(room: WaitingRoom, subsystem: Subsystem, granularity: int) -> IBIForms:
    """Draw one date and spell it in every form that the subsystem has (GEN-08); returns when the moment has come.

    `granularity` in ticks, one of GRANULARITIES. Raises MintingError where no label can be given.
    """
    return subsystem.label(room.draw(granularity).date)
