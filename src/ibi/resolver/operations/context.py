"""What an operation of a resolver works on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ibi.api.operations import OperationContext
from ibi.api.routes import say_to

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.accounts.layout import PageRequest
    from ibi.api.routes import Call
    from ibi.http.request import Request
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


@dataclass(frozen=True, slots=True)
class ActingOnResolver:
    """The contexts in which administrators and programs act on one resolver."""

    data: Path
    registrar: Registrar
    evidence: Evidence
    alerts: OriginalsAlerts
    status: Callable[[], NetworkStatus]

    def for_program(self, call: Call) -> ResolverContext:
        """The context of a request under a token."""
        return self._context(f"token {call.token_name}", call.request)

    def for_administrator(self, visit: PageRequest) -> ResolverContext:
        """The context of a form."""
        return self._context(f"account {visit.signed.name}", visit.request)

    def _context(self, who: str, request: Request) -> ResolverContext:
        return ResolverContext(
            who=who, say=partial(say_to, request), data=self.data, registrar=self.registrar, evidence=self.evidence,
            alerts=self.alerts, status=self.status,
        )  # fmt: skip
