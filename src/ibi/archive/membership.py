"""An Archive takes part in a network: it switches itself on and off at its resolver (R15 chapter 7, REG-03, REG-04).

The resolver calls back while the inclusion request is still open, so this runs only once the Archive answers
requests. A resolver that cannot be reached, or does not know the Archive yet, is asked again and again.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.protocol.messages import ExclusionRequest
from ibi.protocol.replies import ExclusionStatus, InclusionStatus

if TYPE_CHECKING:
    from ibi.settings import ArchiveSettings
    from ibi.transport import Client

INCLUSION_SECONDS: Final = 10.0
"""How long the resolver may take; it calls back meanwhile."""

EXCLUSION_SECONDS: Final = 1.5
"""How long saying goodbye may take: an Archive stops within ten seconds."""

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Seconds between tries: twice as many each time."""

_OK, _FORBIDDEN = 200, 403
_log = logging.getLogger(__name__)


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
    """The place of one Archive at its resolver. `version` is that of our software; `client` is closed by `close`."""

    def __init__(self, settings: ArchiveSettings, client: Client, version: str) -> None:
        self._request = settings.inclusion_request(version)
        self._resolver = resolver_address(settings.resolver) if settings.resolver else ""
        self._client = client
        self._service = ""
        self._tried = False

    async def switch_on(self) -> None:
        """Ask for inclusion until it is granted; returns at once where no resolver is joined."""
        pause = FIRST_PAUSE
        while self._resolver:
            self._tried = True
            try:
                status = await self._include()
            except PeerError as error:
                _log.warning("not included by %s, trying again in %g s: %s", self._resolver, pause, error)
            else:
                outcome = "confirmed" if status.confirmed else "but it could not reach this Archive"
                _log.info("included by %s, %s", self._resolver, outcome)
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def switch_off(self) -> None:
        """Ask for exclusion, once; whatever comes of it, this Archive stops."""
        if not self._tried:
            return
        request = self._request
        goodbye = ExclusionRequest(
            request.address,
            request.service_ibi,
            request.ip,
            request.platform_version,
            request.admin_mail,
            request.key,
        )
        try:
            ExclusionStatus.read(await self._ask(goodbye.query(), EXCLUSION_SECONDS))
        except (PeerError, ParseError) as error:
            _log.warning("not excluded by %s: %s", self._resolver, error)
        else:
            _log.info("excluded by %s", self._resolver)

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()

    async def _include(self) -> InclusionStatus:
        try:
            return InclusionStatus.read(await self._ask(self._request.query(), INCLUSION_SECONDS))
        except ParseError:
            raise PeerGarbled("its reply is no inclusion status") from None

    async def _ask(self, query: str, seconds: float) -> bytes:
        if not self._service:
            self._service = await self._find_service()
        reply = await self._client.get(self._resolver, f"/{self._service}?{query}", seconds)
        if reply.status == _FORBIDDEN:
            raise PeerGarbled("it does not know this Archive, or not with this key")
        if reply.status != _OK:
            raise PeerGarbled("it answered with status {status}", status=reply.status)
        return reply.body

    async def _find_service(self) -> str:
        """The resolver's service IBI, which it tells at /-/about (note 24)."""
        reply = await self._client.get(self._resolver, "/-/about", INCLUSION_SECONDS)
        try:
            return str(parse_ibi(str(json.loads(reply.body)["service_ibi"])))
        except (ValueError, LookupError, TypeError, RecursionError):
            raise PeerGarbled("it does not tell its service IBI at /-/about: is it a resolver?") from None
