"""Archives switch themselves on and off: inclusion and exclusion requests (R15 chapter 7).

    Archive                              resolver
       | -- inclusionRequest, with key ---> |      key right? otherwise: 403 status.archive refused
       | <-- inclusionConfirmationRequest - |      while the first request is still open (REG-04)
       | -- confirmation yes -------------> |      or nothing, for five seconds
       | <-- status.archive included ------ |

A missing confirmation does not prevent inclusion (REG-05); an address that must not be contacted does.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, ParseError, PeerError, SetupError
from ibi.protocol.messages import ConfirmationRequest, ExclusionRequest, InclusionRequest
from ibi.protocol.replies import Confirmation, ExclusionStatus, InclusionStatus, Refusal, RequestError
from ibi.resolver.throttle import Throttle
from ibi.transport import AddressPolicy, HostPort

if TYPE_CHECKING:
    from ibi.resolver.registry import Registry
    from ibi.transport import Client

CONFIRMATION_SECONDS: Final = 5.0
"""How long an Archive may take to confirm (REG-09)."""

KEY_FAILURES_PER_IBI: Final = 5
KEY_FAILURES_PER_SOURCE: Final = 20
"""Wrong keys in a minute before the next attempt has to wait (docs/threats.md)."""

_HASHING_AT_ONCE = 2  # each takes memory and a core
_HASHING_WAITING = 256
_OK = 200
_LOOP_DETECTED = 508

_log = logging.getLogger("ibi.resolver.membership")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an Archive is told: HTTP status, body (a pair list), and seconds to wait before the next attempt."""

    status: int
    body: bytes
    retry_after: int | None = None


class Membership:
    """Decides on inclusion and exclusion.

    `own` are the addresses at which this resolver itself is reached: it never becomes its own Archive (threat T03).
    """

    def __init__(
        self,
        registry: Registry,
        client: Client,
        policy: AddressPolicy,
        own: frozenset[HostPort] = frozenset(),
    ) -> None:
        self._registry = registry
        self._client = client
        self._policy = policy
        self._own = own
        self._by_ibi = Throttle(KEY_FAILURES_PER_IBI, _loop_time)
        self._by_source = Throttle(KEY_FAILURES_PER_SOURCE, _loop_time)
        self._hashing = asyncio.Semaphore(_HASHING_AT_ONCE)
        self._waiting = 0

    async def answer(self, request: InclusionRequest | ExclusionRequest, source: str) -> Outcome:
        """Carry a request out and say what became of it (REG-06). `source` is the address it came from."""
        try:
            refused = await self._refuse_key(request, source)
            if refused is not None:
                return refused
            change = await asyncio.to_thread(self._registry.open_change, request.service_ibi)
            if isinstance(request, InclusionRequest):
                return await self._include(request, change)
            if not await asyncio.to_thread(self._registry.exclude, request.service_ibi, change):
                return REFUSED
            _log.info("excluded %s", request.service_ibi)
            return Outcome(_OK, ExclusionStatus().body())
        except SetupError as error:
            _log.error("a request for %s was left undone: %s", request.service_ibi, error)
            return _later(str(error), 5)

    async def _include(self, request: InclusionRequest, change: int) -> Outcome:
        try:
            self._check_address(request.address)
            confirmed = await self._confirms(request)
        except ForbiddenAddress as forbidden:
            _log.warning("refused to include %s at %s: %s", request.service_ibi, request.address, forbidden)
            return REFUSED
        if not await asyncio.to_thread(self._registry.include, request, change, confirmed=confirmed):
            return REFUSED  # a later request came in between
        _log.info("included %s at %s, confirmed: %s", request.service_ibi, request.address, confirmed)
        return Outcome(_OK, InclusionStatus(confirmed).body())

    def _check_address(self, text: str) -> None:
        """Raise ForbiddenAddress for an address at which no Archive can be; names are judged when they are called."""
        address = HostPort.parse(text)
        if address in self._own:
            raise ForbiddenAddress("this is the resolver's own address")
        if address.ip is not None:
            self._policy.check(str(address.ip))

    async def _confirms(self, request: InclusionRequest) -> bool:
        """Ask the Archive at the address it gave (MSG-22); only the exact pair `confirmation yes` counts (REG-09)."""
        target = f"/{request.service_ibi}?{ConfirmationRequest().query()}"
        try:
            reply = await self._client.get(request.address, target, CONFIRMATION_SECONDS)
        except ForbiddenAddress:
            raise
        except PeerError:
            return False
        if reply.status == _LOOP_DETECTED:
            raise ForbiddenAddress("a resolver answers at this address, not an Archive")
        return reply.status == _OK and _is_confirmation(reply.body)

    async def _refuse_key(self, request: InclusionRequest | ExclusionRequest, source: str) -> Outcome | None:
        """None if the key is right. Guesses are counted before they cost any work (threat T16)."""
        ibi, origin = request.service_ibi.canonical, _origin(source)
        refused = self._must_wait(ibi, origin)
        if refused is not None:
            return refused
        if self._waiting >= _HASHING_WAITING:
            return _later("too many requests are waiting", 5)
        self._waiting += 1
        try:
            async with self._hashing:
                refused = self._must_wait(ibi, origin)
                if refused is not None:
                    return refused
                self._by_ibi.failed(ibi)
                self._by_source.failed(origin)
                if not await asyncio.to_thread(self._registry.check_key, request.service_ibi, request.key):
                    _log.warning(
                        "refused a request for %s from %s: not registered, or a wrong key", ibi, origin
                    )
                    return REFUSED
                self._by_ibi.succeeded(ibi)
                self._by_source.succeeded(origin)
                return None
        finally:
            self._waiting -= 1

    def _must_wait(self, ibi: str, origin: str) -> Outcome | None:
        seconds = max(self._by_ibi.wait(ibi), self._by_source.wait(origin))
        if not seconds:
            return None
        return Outcome(429, Refusal().body(), retry_after=int(seconds) + 1)


REFUSED: Final = Outcome(403, Refusal().body())
"""Not registered, another key, an address that must not be contacted, or overtaken: why is not told (AMB-33)."""


def _is_confirmation(body: bytes) -> bool:
    try:
        Confirmation.read(body)
    except ParseError:
        return False
    return True


def _later(problem: str, seconds: int) -> Outcome:
    return Outcome(503, RequestError(problem).body(), retry_after=seconds)


def _origin(source: str) -> str:
    """What counts as one source: an IPv4 address, or the /64 that one IPv6 customer has."""
    try:
        ip = ip_address(source)
    except ValueError:
        return source
    return str(ip) if ip.version == 4 else str(ip.exploded[:19])  # noqa: PLR2004 - IPv4


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
