"""The removal of an item: its bytes go, its names and the date of removal stay for ever (ARC-07)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ibi.errors import HoldingError, NotHeld
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.archive.storage import Storage
    from ibi.identifier.forms import IBIForms, Name


def remove(catalogue: Catalogue, storage: Storage, name: Name, timestamp: str, service: IBIForms) -> Holding:
    """Remove an item; returns what is left of it. `timestamp` is the date of removal, `service` the Archive's own item.

    First the catalogue stops listing the files, then they go. What the item was related to is still known, so that
    its next edition is found. Raises NotHeld, and HoldingError for the Archive service, which must stay (ARC-11).
    """
    with storage.ingesting():
        with catalogue.writing() as writer:
            holding = writer.holding(name)
            if holding is None:
                raise NotHeld("{name} is not held here", name=name)
            if holding.forms.shares(service):
                raise HoldingError("{name} is the Archive service and cannot be removed", name=name)
            if holding.deleted:
                return holding
            left = replace(
                holding, state=State.DELETED, timestamp=timestamp, url="", files=(), target="", formats={}
            )
            writer.change(left)
        storage.remove(holding.forms)
    return left
