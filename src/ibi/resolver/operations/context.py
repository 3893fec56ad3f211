"""What an operation of a resolver works on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibi.api.operations import OperationContext

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.evidence.pages import OriginalsAlerts
    from ibi.resolver.members.registrar import Registrar
    from ibi.resolver.members.status import NetworkStatus


@dataclass(slots=True, kw_only=True)
class ResolverContext(OperationContext):
    """Who decides, and at which resolver. `who`: the command, account or token, as the evidence has it.

    `status` returns that of the network, as far as this process knows; it may wait for the event loop.
    """

    data: Path
    registrar: Registrar
    evidence: Evidence
    alerts: OriginalsAlerts
    status: Callable[[], NetworkStatus]
