"""What a resolver in a test keeps: real files, in a folder of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.resolver.evidence import FILE, Evidence
from ibi.resolver.filters import LIMITS, HoldingsFilters
from ibi.resolver.knowledge import Knowledge
from ibi.resolver.location_index import LocationIndex
from ibi.resolver.mail import Mail
from ibi.resolver.memory import Memory
from ibi.resolver.metrics import Metrics
from ibi.resolver.readiness import Readiness
from ibi.resolver.stores import Doors, Stores
from ibi.resolver.thanks import Thanks
from ibi.resolver.throttle import Throttle
from ibi.transport import AddressPolicy, Client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.resolver.registry import Registry
    from ibi.transport.client import Names


def stores(registry: Registry, folder: Path, names: Names, now: Callable[[], float] = time.time) -> Stores:
    """What is kept in a folder, which may have been used before; its user closes it."""
    knowledge = Knowledge(
        LocationIndex(folder / "hints"), Memory(folder / "memory", now), Evidence(folder / FILE, now), now
    )
    throttle = Throttle(folder / "attempts", now)
    filters = HoldingsFilters(
        folder / "filters", registry.archives, lambda: Client(AddressPolicy(), names, LIMITS), now
    )
    return Stores(registry, Readiness(registry), knowledge, Metrics(folder), throttle, filters, names)


def doors(addresses: AddressPolicy, names: Names) -> Doors:
    """Doors to Archives that `names` leads to."""
    client = Client(addresses, names)
    return Doors(addresses, client, Client(addresses, names), Thanks(client), Mail("", "", ""))
