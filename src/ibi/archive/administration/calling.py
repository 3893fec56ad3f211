"""What the rooms of the JSON interface are told by the pages, and what their errors mean here."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import vouched, within
from ibi.archive.administration.forms import read_with_files
from ibi.archive.api.intake import taking_in
from ibi.errors import Conflict, IbiError, MintingError, NotHeld, NotOurs, PeerError
from ibi.interface.bodies import Body, ClientGone
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Call
from ibi.signing_in.door import caller_of
from ibi.signing_in.forms import Gone
from ibi.tokens import Token

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ibi.archive.keeper import Keeper
    from ibi.exchange import Asked, Headers
    from ibi.settings import ArchiveSettings
    from ibi.signing_in.door import Caller
    from ibi.signing_in.forms import Check, Receive
    from ibi.signing_in.visit import Form, Visit

_STATUS: Final = ((NotHeld, 404), (Conflict, 409), (PeerError, 502))
_LATER: Final = (("retry-after", "10"),)
_log = logging.getLogger(__name__)


class Calling:
    """How one Archive is spoken with from its pages. `largest`: bytes of the largest form."""

    def __init__(self, settings: ArchiveSettings, keeper: Keeper, largest: int) -> None:
        self._settings = settings
        self._keeper = keeper
        self._largest = largest

    def caller(self, asked: Asked) -> Caller:
        """From where somebody asks, as far as that is vouched for."""
        proxies = self._settings.trusted_proxies
        address = vouched(asked.peer, asked.header(b"x-forwarded-for"), proxies)
        return caller_of(asked, address, proxied=within(asked.peer, proxies))

    @asynccontextmanager
    async def take(self, asked: Asked, receive: Receive, check: Check) -> AsyncIterator[Form]:
        """A form with its files in staging; those that no item lists at the end are removed."""
        body = Body(asked, receive, self._largest)
        kind = asked.header(b"content-type")
        async with taking_in(self._keeper) as files:
            try:
                form = await read_with_files(body, kind, self._keeper.storage, files, check)
            except ClientGone:
                raise Gone from None
            yield form


def judge(error: Exception) -> tuple[int, IbiError, Headers] | None:
    """What an error of our rooms means to somebody at a page; None for others."""
    if isinstance(error, Refusal):
        return error.status, error.why, error.headers
    if isinstance(error, MintingError):
        _log.error("no label can be given: %s", error)
        if isinstance(error, NotOurs):
            return (
                503,
                IbiError("this Archive has no name to mint under; its administrator can give it one"),
                (),
            )
        return 503, IbiError("no label can be given now; ask again later"), _LATER
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 0)
    return (status, error, ()) if status and isinstance(error, IbiError) else None


def call(visit: Visit, once: str) -> Call:
    """The same as a program would ask for with a token that has the scopes of the role; `once`: its own key for it."""
    headers = {**visit.asked.headers, b"idempotency-key": once.encode("ascii", "replace")}
    asked = replace(visit.asked, headers=headers)
    token = Token(visit.signed.name, "", "", visit.signed.role.scopes)
    return Call(asked, Body(asked, _nothing_more, 0), token, {"ibi": visit.rest})


async def _nothing_more() -> dict[str, Any]:
    """The body of a request that was read before."""
    raise ClientGone
