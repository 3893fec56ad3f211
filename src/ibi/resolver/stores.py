"""What one resolver is made of: what it keeps in its data directory, and what leads from it to the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.resolver.filters import HoldingsFilters
    from ibi.resolver.knowledge import Knowledge
    from ibi.resolver.mail import Mail
    from ibi.resolver.metrics import Metrics
    from ibi.resolver.readiness import Readiness
    from ibi.resolver.registry import Registry
    from ibi.resolver.thanks import Thanks
    from ibi.resolver.throttle import Throttle
    from ibi.transport import AddressPolicy, Client
    from ibi.transport.client import Names


@dataclass(frozen=True, slots=True)
class Stores:
    """What a resolver keeps in its data directory, whatever its settings are. `names` looks host names up."""

    registry: Registry
    readiness: Readiness
    knowledge: Knowledge
    metrics: Metrics
    throttle: Throttle
    filters: HoldingsFilters
    names: Names

    def close(self) -> None:
        """Write down what waits; not for an event loop."""
        self.knowledge.close()
        self.metrics.close()
        self.throttle.close()
        self.registry.close()


@dataclass(frozen=True, slots=True)
class Doors:
    """What leads to the world, as the settings are at one time; a service takes it over, and closes it.

    `addresses` judges where Archives may be; `client` asks them, `upstream` the upstream resolver, which was chosen
    by the administrator and may be anywhere.
    """

    addresses: AddressPolicy
    client: Client
    upstream: Client
    thanks: Thanks
    mail: Mail
