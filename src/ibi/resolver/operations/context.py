"""The context of an operation of a resolver: who decides, and the objects that it works on."""

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
    from ibi.resolver.evidence.reading import OriginalsAlerts
    from ibi.resolver.members.registrar import Registrar
    from ibi.resolver.members.status import NetworkStatus


@dataclass(slots=True, kw_only=True)
class ResolverContext(OperationContext):
    """Who decides, and at which resolver. `who`: the command, account or token, as the evidence has it.

    `status` returns the status of the network, as far as this process knows; it may wait for the event loop.
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
        """Return the context of a request with a token."""
        return self._context(f"token {call.token_name}", call.request)

    def for_administrator(self, visit: PageRequest) -> ResolverContext:
        """Return the context of a form that an administrator sent."""
        return self._context(f"account {visit.signed.name}", visit.request)

    def _context(self, who: str, request: Request) -> ResolverContext:
        return ResolverContext(
            who=who, say=partial(say_to, request), data=self.data, registrar=self.registrar, evidence=self.evidence,
            alerts=self.alerts, status=self.status,
        )  # fmt: skip
