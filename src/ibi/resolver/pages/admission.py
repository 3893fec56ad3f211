"""All of membership, put together from the settings and the stores, and its two paths over HTTP.

    inclusion and exclusion requests    `membership`
    /-/register                         an Archive applies: `registration`
    /-/api/keys                         an Archive asks for a new key: `ibi.resolver.api.keys`

It decides nothing itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.resolver.api import keys
from ibi.resolver.api.keys import KeyRecoveryHandler
from ibi.resolver.members.confirmation import ConfirmationClient
from ibi.resolver.members.membership import Membership
from ibi.resolver.pages import registration
from ibi.resolver.pages.registration import LARGEST_BODY, RegistrationHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from ibi.http.client import AddressPolicy, Client, HostPort
    from ibi.http.client.address import Names
    from ibi.http.limits.window import FailureWindows
    from ibi.http.request import Request
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.members.mail import MailSender
    from ibi.resolver.pages.site import Site
    from ibi.resolver.registry.registry import Registry
    from ibi.runtime.settings import ResolverSettings

    Receive = Callable[[], Awaitable[Mapping[str, Any]]]

PATHS: Final = frozenset({registration.PATH, keys.PATH})
"""The paths that take a body."""


class Admission:
    """Membership and its two handlers. It closes `mail`, which others may use, too.

    `own` are the addresses at which this resolver itself is reached; `names` looks names up; `now` returns POSIX
    seconds.
    """

    def __init__(  # noqa: PLR0913 - everything that membership depends on
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
        throttle: FailureWindows,
        evidence: Evidence,
        mail: MailSender,
    ) -> None:
        self.mail = mail
        confirmation = ConfirmationClient(client, policy, names, own, settings.service)
        # The standard moves an Archive by its key alone; `strict` keeps to its letter (threat T17).
        guarded = settings.policy != "strict"
        self.membership = Membership(registry, confirmation, throttle, evidence, mail, now, guarded=guarded)
        self._registration = RegistrationHandler(
            settings, registry, confirmation, throttle, evidence, mail, site
        )
        addresses = [settings.address, *settings.aliases]
        self._keys = KeyRecoveryHandler(addresses, registry, client, throttle, now, evidence, mail)

    async def answer(self, request: Request, receive: Receive) -> Response:
        """Answer a request to one of PATHS; its body is read here."""
        # Read here for both: all clients may send one, so its limit is far below that of the server.
        body = b"" if request.reads else await _read_body(receive)
        if body is None:
            return Response(413, b"the body of the request is too large\n", PLAIN, NO_STORE)
        if request.path == keys.PATH:
            return await self._keys.answer(request, body)
        return await self._registration.answer(request, body)

    async def close(self) -> None:
        """Write what is known only in memory, and send the mail that waits."""
        await self.membership.probation.close()
        await asyncio.to_thread(self.mail.close)


async def _read_body(receive: Receive) -> bytes | None:
    """Read the body of a request; None if it is longer than any that is accepted here, or breaks off."""
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
