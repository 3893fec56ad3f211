"""Archives switch themselves on and off: inclusion and exclusion requests (R15 chapter 7).

    Archive                              resolver
       | -- inclusionRequest, with key ---> |      key right? otherwise: 403 status.archive refused
       | <-- inclusionConfirmationRequest - |      while the first request is still open (REG-04)
       | -- confirmation yes -------------> |      or nothing, for five seconds
       | <-- status.archive included ------ |

A missing confirmation does not prevent inclusion (REG-05); an address that must not be contacted does, and so does
an Archive that still answers elsewhere (`takeover`). A request that changes nothing costs no writing: that is the
heartbeat of an Archive.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, SetupError
from ibi.protocol.messages import ExclusionRequest, InclusionRequest
from ibi.protocol.replies import ExclusionStatus, InclusionStatus, Refusal, RequestError
from ibi.resolver.confirming import CONFIRMATION_SECONDS, Confirming, same_address
from ibi.resolver.key_check import KEY_FAILURES_PER_IBI, KEY_FAILURES_PER_SOURCE, KeyCheck, Verdict
from ibi.resolver.probation import Probation
from ibi.resolver.takeover import Takeover

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.identifier.forms import IBIForms
    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import RegisteredArchive, Registry
    from ibi.resolver.throttle import Throttle
    from ibi.resolver.witness import Witness
    from ibi.transport import AddressPolicy, Client, HostPort
    from ibi.transport.client import Names

__all__ = [
    "CONFIRMATION_SECONDS",
    "KEY_FAILURES_PER_IBI",
    "KEY_FAILURES_PER_SOURCE",
    "REFUSED",
    "Membership",
    "Outcome",
]

_OK = 200

_log = logging.getLogger("ibi.resolver.membership")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an Archive is told: HTTP status, body (a pair list), and seconds to wait before the next attempt."""

    status: int
    body: bytes
    retry_after: int | None = None


class Membership:
    """Decides on inclusion and exclusion.

    `own` are the addresses at which this resolver itself is reached, `service` its own identifier: it never becomes
    its own Archive (threat T03). `names` looks names up; `now` gives POSIX seconds. Without `guarded`, the letter of
    the standard holds, and the right key alone moves an Archive (threat T17).
    """

    def __init__(  # noqa: PLR0913 - it knows everything that decides on membership, all of it given
        self,
        registry: Registry,
        client: Client,
        policy: AddressPolicy,
        own: frozenset[HostPort],
        *,
        service: IBIForms,
        names: Names,
        now: Callable[[], float],
        throttle: Throttle,
        witness: Witness,
        mail: Mail,
        guarded: bool = True,
    ) -> None:
        self._registry = registry
        self._witness = witness
        self._mail = mail
        self._guarded = guarded
        self.confirming = Confirming(client, policy, names, own, service)
        self._keys = KeyCheck(registry, throttle)
        self._takeover = Takeover(registry, self.confirming, now, witness, mail)
        self.probation = Probation(registry, self.confirming, now, witness)

    async def answer(self, request: InclusionRequest | ExclusionRequest, source: str) -> Outcome:
        """Carry a request out and say what became of it (REG-06). `source` is the address it came from."""
        try:
            verdict = await self._keys.check(request.service_ibi, request.key, source)
            if not verdict.right:
                return _not_looked_at(verdict)
            known = await asyncio.to_thread(self._registry.entry, request.service_ibi)
            if known is None:
                return REFUSED
            if isinstance(request, InclusionRequest):
                return await self._include(request, known, source)
            return await self._exclude(request, known, source)
        except SetupError as error:
            _log.error("a request for %s was left undone: %s", request.service_ibi, error)
            return _later(str(error), 5)

    async def close(self) -> None:
        """Keep what is known only here, and end what is under way."""
        await self.probation.close()

    async def _include(self, request: InclusionRequest, known: RegisteredArchive, source: str) -> Outcome:
        try:
            self.confirming.check(request.service_ibi, request.address)
            if self._guarded and await self._takeover.holds(request, known, source):
                return HELD
            change = None if _changes_nothing(request, known, source) else await self._open(request)
            confirmed = await self.confirming.confirms(request.service_ibi, request.address)
        except ForbiddenAddress as forbidden:
            _log.warning("refused to include %s at %s: %s", request.service_ibi, request.address, forbidden)
            return REFUSED
        if change is None and known.included is not None and known.included.confirmed == confirmed:
            return await self._renew(known, confirmed=confirmed)
        if change is None:
            change = await asyncio.to_thread(self._registry.open_change, known.service_ibi, known.change)
        include = self._registry.include
        if not change or not await asyncio.to_thread(
            include, request, change, confirmed=confirmed, source=source
        ):
            return REFUSED  # a later request came in between
        _log.info("included %s at %s, confirmed: %s", request.service_ibi, request.address, confirmed)
        await self._included(request, known, source, confirmed=confirmed)
        return Outcome(_OK, InclusionStatus(confirmed).body())

    async def _renew(self, known: RegisteredArchive, *, confirmed: bool) -> Outcome:
        """Say again what holds already, unless a later request came in between."""
        latest = await asyncio.to_thread(self._registry.entry, known.service_ibi)
        if latest is None or latest.change != known.change:
            return REFUSED
        await self.probation.heard(known.service_ibi)
        return Outcome(_OK, InclusionStatus(confirmed).body())

    async def _included(
        self, request: InclusionRequest, known: RegisteredArchive, source: str, *, confirmed: bool
    ) -> None:
        """Write down what is new, and write to the administrator about a new address."""
        ibi, before = str(known.service_ibi), known.confirmed_address or ""
        moved = bool(before) and not same_address(before, request.address)
        facts: dict[str, str | int] = {
            "ibi": ibi,
            "address": request.address,
            "source": source,
            "confirmed": int(confirmed),
        }
        if known.included is None or not same_address(known.address, request.address):
            await asyncio.to_thread(self._witness.write, "included", **facts)
        elif known.included.confirmed != confirmed:
            self._witness.note("included", **facts)
        if moved and not same_address(known.address, request.address):
            facts |= {"outcome": "done", "before": before, "allowed": int(known.move_allowed)}
            await asyncio.to_thread(self._witness.write, "moved-address", **facts)
            self._mail.moved(known, request.address)

    async def _exclude(self, request: ExclusionRequest, known: RegisteredArchive, source: str) -> Outcome:
        change = await self._open(request)
        if not await asyncio.to_thread(self._registry.exclude, request.service_ibi, change, source):
            return REFUSED
        _log.info("excluded %s", request.service_ibi)
        ibi = str(known.service_ibi)
        await asyncio.to_thread(self._witness.write, "excluded", ibi=ibi, source=source)
        self.probation.look_after(request.service_ibi, change)
        return Outcome(_OK, ExclusionStatus().body())

    async def _open(self, request: InclusionRequest | ExclusionRequest) -> int:
        return await asyncio.to_thread(self._registry.open_change, request.service_ibi)


REFUSED: Final = Outcome(403, Refusal().body())
"""Not registered, another key, an address that must not be contacted, or overtaken: why is not told (AMB-33)."""

HELD: Final = Outcome(403, Refusal().body(), retry_after=30)
"""Its old address answers, or has not been silent for long enough; the next requests decide (threat T17)."""


def _changes_nothing(request: InclusionRequest, known: RegisteredArchive, source: str) -> bool:
    """Whether the Archive is included already, with all that this request says."""
    here = known.included
    return (
        here is not None
        and source == known.source
        and (
            here.address,
            here.ip,
            here.protocol,
            here.platform_version,
            here.admin_mail,
        )
        == (
            request.address,
            request.ip,
            request.protocol,
            request.platform_version,
            request.admin_mail,
        )
    )


def _not_looked_at(verdict: Verdict) -> Outcome:
    if verdict.busy:
        return _later("too many requests are waiting", verdict.wait)
    return Outcome(429, Refusal().body(), retry_after=verdict.wait) if verdict.wait else REFUSED


def _later(problem: str, seconds: int) -> Outcome:
    return Outcome(503, RequestError(problem).body(), retry_after=seconds)
