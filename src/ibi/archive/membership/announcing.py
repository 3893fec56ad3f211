"""Tell the resolvers at once that an item has changed, and wait for their replies: at a hand-over.

`notices` sends its notices half a second later, and nothing waits for them. Where an original has moved, both
Archives first tell their resolvers, and only then that it has; so the next reader is led by what is true. See ARC-08:
an original may move.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import ibi
from ibi.archive.membership.joining import Resolvers
from ibi.archive.membership.membership import destination_of, find_service
from ibi.archive.membership.notices import send_notice
from ibi.archive.store.tables import memberships
from ibi.errors import IbiError, ParseError, PeerError, PeerGarbled, PeerSilent
from ibi.http.client import AddressPolicy, Client
from ibi.protocol.messages import ChangeNotification

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.archive.membership.membership import WantedMemberships
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import Name

WAIT_SECONDS: Final = 2.0
"""Seconds that a resolver may take for its reply; then the hand-over goes on."""

SILENT_SECONDS: Final = 60.0
"""Seconds for which a resolver is not told at once that took longer, or knows no notices."""

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Announcer:
    """Tells the resolvers of the Archive in a data directory; `host_lookup` replaces that of this machine."""

    data: Path
    catalogue: Catalogue
    host_lookup: HostLookup | None = None
    _silent_until: dict[str, float] = field(default_factory=dict)

    async def announce(self, changed: Sequence[Name]) -> None:
        """Tell all resolvers that include the Archive that the item with these names has changed.

        Returns when each has replied, has been silent for WAIT_SECONDS, or was silent lately. Nothing is raised if that
        fails, because a hand-over must not depend on a resolver.
        """
        if not changed:
            return
        try:
            wanted, included = await asyncio.to_thread(self._resolvers)
        except IbiError as error:
            _log.warning("resolvers are not told at once of a hand-over: %s", error)
            return
        now = time.monotonic()
        notified = [url for url in included if self._silent_until.get(url, now) <= now]
        if not notified:
            return
        # The administrator chose the resolvers, so they may be at private addresses. A client belongs to one event
        # loop, and a command has a new loop for each step.
        client = Client(AddressPolicy(allow_private=True), self.host_lookup)
        try:
            await asyncio.gather(*(self._tell(client, wanted, url, changed) for url in notified))
        finally:
            await client.close()

    def _resolvers(self) -> tuple[WantedMemberships, list[str]]:
        """Return the memberships by the settings, and the root URLs of the resolvers that include this Archive."""
        wanted = Resolvers.read(self.data).wanted(ibi.__version__)
        with self.catalogue.reading() as run:
            known = memberships.all_memberships(run)
        return wanted, [
            url for url in wanted.requests if wanted.on and url in known and known[url].standing.included
        ]

    async def _tell(
        self, client: Client, wanted: WantedMemberships, url: str, changed: Sequence[Name]
    ) -> None:
        notice = ChangeNotification(wanted.requests[url].service_ibi, tuple(changed))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                address, service = destination_of(url), wanted.services.get(url, "")
                service = service or await find_service(client, address, WAIT_SECONDS)
                await send_notice(client, address, service, notice, WAIT_SECONDS)
        except (TimeoutError, PeerSilent, PeerGarbled, ParseError) as error:
            _log.info("%s is not told at once of hand-overs, for %g s: %s", url, SILENT_SECONDS, error)
            self._silent_until[url] = time.monotonic() + SILENT_SECONDS
        except PeerError as error:
            # Its reply is that it takes no notice now: if it has had too many, it asks for all changes already.
            _log.info("%s is not told at once of a hand-over: %s", url, error)
