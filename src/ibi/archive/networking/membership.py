"""The place of an Archive at one resolver: switched on, kept, and switched off (R15 chapter 7, REG-03).

A resolver calls back while the inclusion request is still open (REG-04), so this runs only once the Archive answers
requests. A resolver that cannot be reached, or does not know the Archive yet, is asked for ever, with patience. What
came of it is kept in the ledger of memberships, and logged when it changes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers.memberships import Member, Standing
from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest
from ibi.protocol.replies import ExclusionStatus, InclusionStatus

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.errors import IbiError
    from ibi.protocol.messages import InclusionRequest
    from ibi.transport import Client

INCLUSION_SECONDS: Final = 10.0
"""How long a resolver may take; it calls back meanwhile."""

EXCLUSION_SECONDS: Final = 1.5
"""How long saying goodbye may take: an Archive stops within ten seconds."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds between tries: twice as many each time, and up to half of them less by chance."""

HEARTBEAT = 60.0
"""Seconds after which an included Archive asks for inclusion anew: whoever switched it off by a replayed message, or
included another machine in its place, did so for no longer than this (threat T17)."""

_OK, _FORBIDDEN = 200, 403
_log = logging.getLogger(__name__)


class Refused(Exception):
    """The resolver will not have this Archive, or not with this key."""

    def __init__(self) -> None:
        self.problem = PeerGarbled("it does not know this Archive, or not with this key")
        super().__init__(str(self.problem))


def resolver_address(root: str) -> str:
    """The "host[:port]" of a resolver's root URL. Raises SetupError for a URL that is no such root."""
    try:
        url = urlsplit(root)
        host = url.netloc
    except ValueError:
        url, host = None, ""
    if url is None or url.scheme != "http" or not host or "@" in host or url.path.strip("/") or url.query:
        raise SetupError(
            "a resolver is given by its root, such as http://resolver.example; this is not: {url}", url=root
        )
    return host


class Membership:
    """The place of one Archive at one resolver.

    `request` is what the Archive says of itself there, with the key for this resolver; `member` how it stood when it
    was last heard of. `keep` keeps how it stands now; `now` gives POSIX seconds.
    """

    def __init__(
        self,
        request: InclusionRequest,
        member: Member,
        client: Client,
        keep: Callable[[Member], Awaitable[None]],
        now: Callable[[], float],
    ) -> None:
        self.request = request
        self.member = member
        self._address = resolver_address(member.resolver)
        self._client = client
        self._keep = keep
        self._now = now
        self._service = ""
        self.asked = member.standing.included
        """Whether the resolver may think that the Archive is there."""

    async def stay(self) -> None:
        """Ask for inclusion until it is granted, and again every minute, for ever."""
        pause = FIRST_PAUSE
        while True:
            try:
                status = await self._include()
            except (PeerError, Refused) as error:
                await self._failed(error)
                await asyncio.sleep(_about(pause))
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                await self._stands(Standing.INCLUDED if status.confirmed else Standing.UNCONFIRMED)
                pause = FIRST_PAUSE
                await asyncio.sleep(_about(HEARTBEAT, 0.9))

    async def leave(self) -> None:
        """Ask for exclusion until it is granted; a resolver that does not know us need not be asked again."""
        pause = FIRST_PAUSE
        while not await self.say_goodbye():
            await asyncio.sleep(_about(pause))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def say_goodbye(self) -> bool:
        """Ask for exclusion once, if anything was ever asked here; whether nothing is left to say."""
        if not self.asked:
            return True
        request = self.request
        goodbye = ExclusionRequest(
            request.address, request.service_ibi, request.ip, request.platform_version, request.admin_mail,
            request.key,
        )  # fmt: skip
        try:
            ExclusionStatus.read(await self._ask(goodbye.query(), EXCLUSION_SECONDS))
        except ParseError:
            await self._failed(PeerGarbled("its reply is no exclusion status"))
            return False
        except (PeerError, Refused) as error:
            await self._failed(error)
            return isinstance(error, Refused)
        await self._stands(Standing.EXCLUDED)
        self.asked = False
        return True

    async def _include(self) -> InclusionStatus:
        query = self.request.query()
        try:
            return InclusionStatus.read(await self._ask(query, INCLUSION_SECONDS))
        except ParseError:
            raise PeerGarbled("its reply is no inclusion status") from None

    async def _ask(self, query: str, seconds: float) -> bytes:
        """Send a message to the resolver's service, which is looked up anew after every failure."""
        service = self._service or await find_service(self._client, self._address, seconds)
        self._service = ""
        self.asked = True
        reply = await self._client.get(self._address, f"/{service}?{query}", seconds)
        if reply.status == _FORBIDDEN:
            raise Refused
        if reply.status != _OK:
            raise PeerGarbled("it answered with status {status}", status=reply.status)
        self._service = service
        return reply.body

    async def _failed(self, error: PeerError | Refused) -> None:
        """Whoever says nothing still thinks what it thought before."""
        if isinstance(error, Refused):
            await self._stands(Standing.REFUSED, error.problem, heard=True)
        else:
            included = self.member.standing.included
            await self._stands(self.member.standing if included else Standing.WAITING, error)

    async def _stands(
        self, standing: Standing, problem: IbiError | None = None, *, heard: bool = False
    ) -> None:
        """Keep how the Archive stands; log it where it is news."""
        before, moment = self.member, timestamp_text(int(self._now()))
        heard = heard or problem is None
        self.member = Member(
            before.resolver,
            standing,
            before.since if standing is before.standing else moment,
            moment if heard else before.heard,
            problem,
        )
        news = standing is not before.standing or str(problem) != str(before.problem)
        if news:
            level = logging.WARNING if problem else logging.INFO
            reason = f": {problem}" if problem else ""
            _log.log(level, "%s at %s: %s%s", self.request.service_ibi, before.resolver, standing, reason)
        if news or heard:
            try:
                await self._keep(self.member)
            except SetupError as error:
                _log.warning("%s at %s was not noted: %s", self.request.service_ibi, before.resolver, error)


async def find_service(client: Client, address: str, seconds: float) -> str:
    """The service IBI of the resolver at an address, which it tells at /-/about (note 24). Raises PeerError."""
    reply = await client.get(address, "/-/about", seconds)
    try:
        return str(parse_ibi(str(json.loads(reply.body)["service_ibi"])))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise PeerGarbled("it does not tell its service IBI at /-/about: is it a resolver?") from None


def _about(seconds: float, least: float = 0.5) -> float:
    """So many seconds or some less: Archives that lost their resolver together do not come back together."""
    return seconds * random.uniform(least, 1.0)  # noqa: S311 - nothing secret hangs on it
