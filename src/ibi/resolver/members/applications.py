"""Applications for registration: an Archive applies, a person approves or refuses it later (REG-01, threat T41).

An Archive that has applied is not asked for anything: until it is approved, its requests are refused.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError

if TYPE_CHECKING:
    from ibi.identifier.forms import IBI
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.confirmation import ConfirmationClient
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.registry.registry import Registry

_CONCURRENT: Final = 4  # applications whose Archives are asked at the same time


@dataclass(frozen=True, slots=True)
class Application:
    """What an Archive applies with: `mail` and `name` are its administrator's, `hosts` those of its URLs."""

    service_ibi: IBI
    address: str
    mail: str
    name: str
    hosts: tuple[str, ...]


class NotConfirmed(IbiError):
    """The Archive does not confirm at the address of its application."""


class NotTaken(IbiError):
    """The application is not stored: the Archive is known already, or too many applications wait."""


@dataclass(eq=False, slots=True)
class Applications:
    """Takes applications; `administrator` is the mail address of the resolver's administrator, "" for none."""

    _registry: Registry
    _confirmation: ConfirmationClient
    _evidence: Evidence
    _mail: MailSender
    _administrator: str
    # Every client may apply, and each application makes this resolver open a connection to an address of the
    # applicant's choice: no more than a few at a time (T41).
    _semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT), init=False)

    async def apply(self, application: Application) -> str:
        """Store an application whose Archive confirms just now; return the key that it has once it is approved.

        Raises ParseError, ForbiddenAddress, NotConfirmed, NotTaken and SetupError.
        """
        async with self._semaphore:
            service_ibi, address = application.service_ibi, application.address
            self._confirmation.check(service_ibi, address)
            if not await self._confirmation.confirms(service_ibi, address):
                problem = (
                    "the Archive does not confirm at {address}: it must be switched on and reachable there"
                )
                raise NotConfirmed(problem, address=address)
            key = await asyncio.to_thread(
                self._registry.apply,
                service_ibi,
                address,
                application.mail,
                application.name,
                application.hosts,
                partial(self._evidence.write, "registered", ibi=str(service_ibi), by="form"),
            )
        if key is None:
            problem = "{ibi} is registered or has applied already, or too many applications wait"
            raise NotTaken(problem, ibi=service_ibi)
        self._mail.applied(service_ibi, address, self._administrator)
        return key
