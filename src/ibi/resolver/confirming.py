"""Asking an Archive whether it is there, and where an address leads (MSG-22, MSG-23, REG-09)."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final

from ibi.errors import ForbiddenAddress, ParseError, PeerError
from ibi.protocol.messages import ConfirmationRequest
from ibi.protocol.replies import Confirmation
from ibi.transport import HostPort

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.identifier.forms import IBI, IBIForms
    from ibi.transport import AddressPolicy, Client
    from ibi.transport.client import Names

CONFIRMATION_SECONDS: Final = 5.0
"""How long an Archive may take to confirm (REG-09)."""

CHECK_SECONDS: Final = 2.0
"""How long an Archive may take to confirm where it is known already; also a look-up of its name."""

_OK, _LOOP_DETECTED = 200, 508


class Confirming:
    """Asks Archives for confirmation, at addresses where one can be.

    `own` are the addresses at which this resolver itself is reached, `service` its own identifier: it never becomes
    its own Archive (threat T03). `names` looks names up.
    """

    def __init__(
        self,
        client: Client,
        policy: AddressPolicy,
        names: Names,
        own: Iterable[HostPort] = (),
        service: IBIForms | None = None,
    ) -> None:
        self._client = client
        self._policy = policy
        self._names = names
        self._own = {(address.host, address.port) for address in own} | {
            (_plain(str(address.ip)), address.port) for address in own if address.ip is not None
        }
        self._everywhere = {address.port for address in own if address.ip and address.ip.is_unspecified}
        self._service = service

    def check(self, service_ibi: IBI, text: str) -> None:
        """Raise ForbiddenAddress for an Archive that is ourselves, or an address at which no Archive can be.

        Names are judged when they are called.
        """
        if self._service is not None and self._service.names(service_ibi):
            raise ForbiddenAddress("this is the resolver's own service")
        address = HostPort.parse(text)
        if address.ip is not None:
            here = address.port in self._everywhere and address.ip.is_loopback
            if here or (_plain(str(address.ip)), address.port) in self._own:
                raise ForbiddenAddress("this is the resolver's own address")
            self._policy.check(str(address.ip))
        elif (address.host, address.port) in self._own:
            raise ForbiddenAddress("this is the resolver's own address")

    async def confirms(self, service_ibi: IBI, address: str, seconds: float = CONFIRMATION_SECONDS) -> bool:
        """Whether it says `confirmation yes` there, as exactly this pair.

        Raises ForbiddenAddress where it must not be asked, or is a resolver.
        """
        target = f"/{service_ibi}?{ConfirmationRequest().query()}"
        try:
            reply = await self._client.get(address, target, seconds)
        except ForbiddenAddress:
            raise
        except PeerError:
            return False
        if reply.status == _LOOP_DETECTED:
            raise ForbiddenAddress("a resolver answers at this address, not an Archive")
        if reply.status != _OK:
            return False
        try:
            Confirmation.read(reply.body)
        except ParseError:
            return False
        return True

    async def still_confirms(self, service_ibi: IBI, address: str) -> bool:
        """Whether it confirms where it was before, at this moment; a place that became forbidden is silent."""
        try:
            return await self.confirms(service_ibi, address, CHECK_SECONDS)
        except ForbiddenAddress:
            return False

    async def places(self, text: str) -> frozenset[str]:
        """The IP addresses that an address leads to now; none where it leads nowhere."""
        try:
            address = HostPort.parse(text)
        except ForbiddenAddress:
            return frozenset()
        if address.ip is not None:
            return frozenset({_plain(str(address.ip))})
        try:
            async with asyncio.timeout(CHECK_SECONDS):
                found = await self._names(address.host, address.port)
        except OSError:  # TimeoutError is one
            return frozenset()
        return frozenset(_plain(ip) for ip, _ in found)


def same_address(one: str, other: str) -> bool:
    """Whether two texts are one address in two spellings."""
    try:
        return str(HostPort.parse(one)) == str(HostPort.parse(other))
    except ForbiddenAddress:
        return one == other


def _plain(text: str) -> str:
    """An IP address in its one spelling; an IPv4 address in IPv6 clothes is that IPv4 address."""
    try:
        ip = ip_address(text)
    except ValueError:
        return text
    return str(getattr(ip, "ipv4_mapped", None) or ip)
