"""Everything about membership behind one door: switching on and off, applying, new keys.

membership     inclusion and exclusion requests
/-/register    an Archive applies (registration.py)
/-/api/keys    an Archive proves that it controls its address, and gets a new key (recovery.py)
watch          asks Archives again that have not confirmed (probation.py)
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ibi.exchange import NO_STORE, PLAIN, Response
from ibi.resolver import recovery, registration
from ibi.resolver.membership import Membership
from ibi.resolver.recovery import Recovery
from ibi.resolver.registration import LARGEST_BODY, Registration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.resolver.mail import Mail
    from ibi.resolver.registry import Registry
    from ibi.resolver.site import Site
    from ibi.resolver.throttle import Throttle
    from ibi.resolver.visitor import Visitor
    from ibi.resolver.witness import Witness
    from ibi.settings import ResolverSettings
    from ibi.transport import AddressPolicy, Client, HostPort
    from ibi.transport.client import Names

    Receive = Callable[[], Awaitable[Mapping[str, Any]]]

PATHS: Final = frozenset({registration.PATH, recovery.PATH})
"""The paths that take a body."""


class Admission:
    """The rooms of membership, put together. It takes over `mail`, which others may use too, and closes it.

    `own` are the addresses at which this resolver itself is reached; `names` looks names up; `now` gives POSIX
    seconds.
    """

    def __init__(  # noqa: PLR0913 - all that decides on membership, given once for all its rooms
        self,
        settings: ResolverSettings,
        registry: Registry,
        client: Client,
        policy: AddressPolicy,
        own: frozenset[HostPort],
        site: Site,
        *,
        names: Names,
        now: Callable[[], float],
        throttle: Throttle,
        witness: Witness,
        mail: Mail,
    ) -> None:
        self.mail = mail
        self.membership = Membership(
            registry,
            client,
            policy,
            own,
            service=settings.service,
            names=names,
            now=now,
            throttle=throttle,
            witness=witness,
            mail=mail,
            guarded=settings.policy != "strict",
        )
        confirming = self.membership.confirming
        self._registration = Registration(settings, registry, confirming, throttle, witness, mail, site)
        self._recovery = Recovery(
            [settings.address, *settings.aliases], registry, client, throttle, now, witness, mail
        )

    async def answer(self, visitor: Visitor, receive: Receive) -> Response:
        """Answer a request to one of PATHS; its body is read here."""
        body = b"" if visitor.reads else await _body(receive)
        if body is None:
            return Response(413, b"the body of the request is too large\n", PLAIN, NO_STORE)
        if visitor.path == recovery.PATH:
            return await self._recovery.keys(visitor, body)
        return await self._registration.register(visitor, body)

    async def close(self) -> None:
        """Keep what is known only here, and send the letters that wait."""
        await self.membership.close()
        await asyncio.to_thread(self.mail.close)


async def _body(receive: Receive) -> bytes | None:
    """The body of a request; None if it is longer than any that is wanted here, or breaks off."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LARGEST_BODY:
            return None
    return body
