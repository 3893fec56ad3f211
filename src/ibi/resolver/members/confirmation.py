"""Confirmation: whether an Archive is there, and where an address leads.

The resolver asks for it with every inclusion. Without any request, it also asks Archives that have not confirmed
(T18: unconfirmed Archives) and those that were just excluded (T17: replayed inclusions). See MSG-22: the request for
confirmation; MSG-23: the confirmation; REG-09: what confirms.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, ParseError, PeerError, SetupError
from ibi.http.client import HostPort
from ibi.protocol.messages import ConfirmationRequest
from ibi.protocol.replies import Confirmation
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.http.client import AddressPolicy, Client
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import IBI, IBIForms
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.registry.registry import Registry


CONFIRMATION_SECONDS: Final = 5.0
"""How long an Archive may take to confirm (REG-09: what confirms)."""

CHECK_SECONDS: Final = 2.0
"""How long an Archive may take to confirm at its old address, and a look-up of its name."""


class ConfirmationClient:
    """Asks Archives for confirmation, at addresses that an Archive can have.

    `own` are the addresses at which this resolver itself is reached, `service` its own identifier: it never becomes
    its own Archive (T03: loops of resolvers).
    """

    def __init__(
        self,
        client: Client,
        policy: AddressPolicy,
        host_lookup: HostLookup,
        own: Iterable[HostPort],
        service: IBIForms,
    ) -> None:
        self._client = client
        self._policy = policy
        self._host_lookup = host_lookup
        self._own = {(_plain_host(address), address.port) for address in own}
        self._own_ports = {address.port for address in own if address.ip and address.ip.is_unspecified}
        self._service = service

    def check(self, service_ibi: IBI, text: str) -> None:
        """Raise ForbiddenAddress for this resolver itself, or an address at which no Archive can be."""
        if self._service.names(service_ibi):
            raise ForbiddenAddress("this is the resolver's own service")
        address = HostPort.parse(text)
        here = address.ip is not None and address.ip.is_loopback and address.port in self._own_ports
        if here or (_plain_host(address), address.port) in self._own:
            raise ForbiddenAddress("this is the resolver's own address")
        # A name is judged by the client when it connects: its addresses may change after this check.
        if address.ip is not None:
            self._policy.check(str(address.ip))

    async def confirms(self, service_ibi: IBI, address: str, seconds: float = CONFIRMATION_SECONDS) -> bool:
        """Whether an Archive answers at an address with the pair `confirmation yes`, and with nothing else.

        Raises ForbiddenAddress if the address must not be contacted, or if a resolver answers there.
        """
        target = f"/{service_ibi}?{ConfirmationRequest().query()}"
        try:
            reply = await self._client.get(address, target, seconds)
        except ForbiddenAddress:
            raise
        except PeerError:
            return False
        if reply.status == HTTPStatus.LOOP_DETECTED:
            raise ForbiddenAddress("a resolver answers at this address, not an Archive")
        try:
            Confirmation.read(reply.body)
        except ParseError:
            return False
        return reply.status == HTTPStatus.OK

    async def still_confirms(self, service_ibi: IBI, address: str) -> bool:
        """Whether an Archive confirms at its old address just now; a forbidden address counts as silent."""
        try:
            return await self.confirms(service_ibi, address, CHECK_SECONDS)
        except ForbiddenAddress:
            return False

    async def ip_addresses(self, text: str) -> frozenset[str]:
        """Look up the IP addresses of an address, "host[:port]"; empty if there are none."""
        return await ip_addresses(text, self._host_lookup)


async def ip_addresses(text: str, host_lookup: HostLookup) -> frozenset[str]:
    """Look up the IP addresses of an address, each in its one spelling; empty if there are none."""
    try:
        address = HostPort.parse(text)
        if address.ip is not None:
            return frozenset({_plain_host(address)})
        async with asyncio.timeout(CHECK_SECONDS):
            resolved = await host_lookup(address.host, address.port)
    except (ForbiddenAddress, OSError):  # TimeoutError is an OSError
        return frozenset()
    return frozenset(plain_ip(ip) for ip, _ in resolved) - {""}


def _plain_host(address: HostPort) -> str:
    return address.host if address.ip is None else plain_ip(str(address.ip))


def same_address(one: str, other: str) -> bool:
    """Whether two texts are one address in two spellings."""
    try:
        return str(HostPort.parse(one)) == str(HostPort.parse(other))
    except ForbiddenAddress:
        return one == other


def plain_ip(text: str) -> str:
    """Write an IP address in its one spelling, an IPv4-mapped one as IPv4; "" for any other text."""
    try:
        ip = ip_address(text.partition("%")[0])
    except ValueError:
        return ""
    return str(getattr(ip, "ipv4_mapped", None) or ip)


ASK_AGAIN_SECONDS: Final = 60.0
"""Seconds between two confirmation requests to an Archive that has not confirmed."""

WRITE_SECONDS: Final = 60.0
"""Seconds between two writes of when Archives were last heard."""

RECHECK_SECONDS: Final = 3.0
"""Seconds after an exclusion until the Archive is asked whether it is still there."""

_CONCURRENT = 16  # confirmation requests at the same time
_MOST_CHECKS = 256  # excluded Archives that wait to be asked

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Probation:
    """Asks Archives for confirmation again, and records when each was last heard, in POSIX seconds."""

    _registry: Registry
    _confirmation: ConfirmationClient
    _now: Callable[[], float]
    _evidence: Evidence
    _heard: dict[str, float] = field(default_factory=dict, init=False)
    _written_at: float | None = field(default=None, init=False)
    _checks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    async def ask_again(self) -> None:
        """Ask every included Archive that has not confirmed, once."""
        # One process does it for all, every ASK_AGAIN_SECONDS. Readers do not wait for an unconfirmed Archive if
        # another answer will do (T18: unconfirmed Archives), so an Archive that was only restarting must be asked
        # again soon.
        slots = asyncio.Semaphore(_CONCURRENT)

        async def ask(archive: Archive) -> None:
            async with slots:
                await self._ask(archive)

        await asyncio.gather(*(ask(each) for each in self._registry.archives() if not each.confirmed))

    async def heard(self, service_ibi: IBI) -> None:
        """Record that an Archive was heard."""
        # Written once a minute for all together: the heartbeats of a thousand Archives cost one transaction.
        now = self._now()
        self._heard[service_ibi.canonical] = now
        if self._written_at is None:
            self._written_at = now
        elif now - self._written_at >= WRITE_SECONDS:
            await self._write()

    def check_excluded(self, service_ibi: IBI, change: int) -> None:
        """Ask an Archive, a few seconds after this change has excluded it, whether it is still there."""
        # An excluded Archive that still confirms may not have asked for its exclusion: its key may have been stolen,
        # or an old request replayed (T17: replayed inclusions). It stays excluded, but the evidence records this.
        if len(self._checks) < _MOST_CHECKS:
            task = asyncio.create_task(self._check_excluded(service_ibi, change))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def close(self) -> None:
        """Cancel the checks under way, and write when Archives were last heard."""
        await cancel_tasks(self._checks)
        await self._write()

    async def _ask(self, archive: Archive) -> None:
        try:
            if not await self._confirmation.confirms(archive.service_ibi, archive.address):
                return
            confirmed = await asyncio.to_thread(self._registry.confirm, archive)
        except (ForbiddenAddress, SetupError) as error:
            _log.warning("%s at %s could not be asked: %s", archive.service_ibi, archive.address, error)
            return
        if confirmed:
            ibi = str(archive.service_ibi)
            _log.info("confirmed after all: %s at %s", ibi, archive.address)
            self._evidence.note("included", ibi=ibi, address=archive.address, confirmed=1)

    async def _check_excluded(self, service_ibi: IBI, change: int) -> None:
        await asyncio.sleep(RECHECK_SECONDS)
        try:
            known = await asyncio.to_thread(self._registry.entry, service_ibi)
        except SetupError:
            return
        if known is None or known.change != change or known.included is not None:
            return
        address = known.confirmed_address
        if address and await self._confirmation.still_confirms(service_ibi, address):
            _log.warning("%s was excluded, but still answers at %s", service_ibi, address)
            facts: dict[str, str | int] = {"ibi": str(service_ibi), "address": address, "still_answers": 1}
            try:
                await asyncio.to_thread(self._evidence.write, "excluded", **facts)
            except SetupError as error:
                _log.warning("that %s still answers was not recorded: %s", service_ibi, error)

    async def _write(self) -> None:
        moments, self._heard, self._written_at = self._heard, {}, self._now()
        try:
            await asyncio.to_thread(self._registry.heard, moments)
        except SetupError as error:
            _log.warning("when Archives were last heard was not kept: %s", error)
