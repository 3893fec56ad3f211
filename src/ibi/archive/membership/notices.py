"""Sends change notices to the resolvers that have included this Archive and take notices (note 46: notices of change).

    catalogue: changes 17 to 19     resolver r has had notices up to 16: a notice with the items of 17 to 19
                                    resolver s is new, or missed too much: a general notice (anything changed)

Each resolver has a task of its own, so that a resolver that is down does not delay the others. Nothing
depends on a notice: a cached answer expires by itself after the time that the Archive allowed for it, or the resolver
requests what has changed, and does so at once when a notice comes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.membership.membership import destination_of, find_service
from ibi.archive.membership.resolver_addresses import ResolverAddresses
from ibi.archive.store.tables import change_log, history
from ibi.errors import ParseError, PeerError, PeerGarbled, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.messages import MOST_CHANGED, ChangeNotification
from ibi.protocol.replies import ChangeReceived
from ibi.runtime.tasks import cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from ibi.archive.membership.membership import MembershipStore, WantedMemberships
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.client import Client
    from ibi.identifier.forms import IBI, Name

LOOK_EVERY: Final = 0.25
"""Seconds between two checks for changes."""

SEND_EVERY: Final = 0.5
"""Seconds between two notices to one resolver, or between two groups of notices about single names."""

MOST_NAMES: Final = 500
"""Names that are sent one by one; if more have changed since the last notice, a general notice is sent."""

ANYTHING_EVERY: Final = 10.0
"""Seconds between two general notices, that anything may have changed: an import makes many changes."""

TRIES: Final = 3
TRIES_OF_REQUESTING: Final = 2
"""Tries for a resolver that requests changes: its next request will do."""
NOTICE_SECONDS: Final = 3.0
"""Seconds that a resolver may take for its reply."""

UNSUPPORTED_SECONDS: Final = 3600.0
"""Seconds without notices for a resolver that does not know notices."""

UNREACHABLE_SECONDS: Final = 60.0
"""Seconds without notices for a resolver that cannot be reached, or takes no notices at present."""

PAUSE: Final = 0.5
"""Seconds before a failed notice is sent again."""

# Characters of the names in one notice, which has to fit into a URL.
_LONGEST: Final = 4000
_OK: Final = 200
_NOT_NOW: Final = frozenset({403, 429, 502, 503, 504})

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class _Recipient:
    """One resolver, and the notices that were sent to it.

    `addresses`: those of this resolver; `sent`: the last change of which it has a notice, None if unknown;
    `silent_until`: when the next notice may be sent; `nothing_general_until`: when the next general notice may be
    sent; `known_service`: the IBI of its service by the settings; `found_service`: the IBI that it states at /-/about;
    `problem`: the fault of this machine that the log names already.
    """

    address: str
    addresses: ResolverAddresses
    sent: int | None = None
    silent_until: float = 0.0
    nothing_general_until: float = 0.0
    known_service: str = ""
    found_service: str = ""
    problem: str = ""
    task: asyncio.Task[None] | None = None


@dataclass(eq=False, slots=True)
class NoticeSender:
    """Sends the change notices of one Archive. It takes over `client`, and closes it.

    `wanted` returns the memberships of the present settings; `kept` stores the state at each resolver; `addresses`
    makes the look-up of the addresses of a resolver, by its root URL; `follow` follows changed settings, although no
    request comes: that may log a change.
    """

    catalogue: Catalogue
    wanted: Callable[[], WantedMemberships]
    kept: MembershipStore
    client: Client
    addresses: Callable[[Iterable[str]], ResolverAddresses] = ResolverAddresses
    follow: Callable[[], object] = bool
    _recipients: dict[str, _Recipient] = field(default_factory=dict)
    _problem: str = ""

    async def run(self) -> None:
        """Check for changes periodically, until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                    self._problem = ""
                except SetupError as error:
                    if str(error) != self._problem:
                        _log.warning("resolvers are not told what has changed: %s", error)
                    self._problem = str(error)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await self._keep_to({})
            await self.client.close()

    async def _look(self) -> None:
        """Start a task for each resolver that has not had all notices."""
        self.follow()
        wanted = self.wanted()
        if not wanted.on:
            await self._keep_to({})
            return
        last, included = await asyncio.to_thread(self._read)
        clock = asyncio.get_running_loop().time()
        for url, request in wanted.requests.items():
            if url not in self._recipients:
                self._recipients[url] = _Recipient(destination_of(url), self.addresses([url]))
            recipient = self._recipients[url]
            recipient.known_service = wanted.services.get(url, "")
            # A resolver that includes the Archive again may have an old cache, so it is treated as a new one.
            if url not in included:
                recipient.sent = None
            elif recipient.sent != last and recipient.task is None and clock >= recipient.silent_until:
                recipient.silent_until = clock + SEND_EVERY
                recipient.task = asyncio.create_task(self._send_all(recipient, request.service_ibi, last))
        await self._keep_to(wanted.requests)

    async def _keep_to(self, wanted: Container[str]) -> None:
        """Cancel the tasks of resolvers that are not wanted any more, and forget these resolvers."""
        gone = [url for url in self._recipients if url not in wanted]
        tasks = [self._recipients.pop(url).task for url in gone]
        await cancel_tasks(task for task in tasks if task is not None)

    def _read(self) -> tuple[int, set[str]]:
        """Return the last change, and the resolvers that have included this Archive and take notices."""
        with self.catalogue.reading() as run:
            last = change_log.newest_change(run)
        known = self.kept.read().items()
        return last, {url for url, member in known if member.standing.included and member.notices}

    async def _send_all(self, recipient: _Recipient, service: IBI, last: int) -> None:
        """Send a resolver the notices up to a change."""
        clock = asyncio.get_running_loop().time
        requests = False
        try:
            requests = await recipient.addresses.request_changes()
            most, tries = (MOST_CHANGED, TRIES_OF_REQUESTING) if requests else (MOST_NAMES, TRIES)
            names, removed = await asyncio.to_thread(self._names, recipient.sent, last, most)
            # An import changes thousands of items; one general notice covers them all.
            if names is None and not requests and clock() < recipient.nothing_general_until:
                return
            for notice in _notices(service, names, removed):
                await self._send(recipient, notice, tries)
        except (PeerError, ParseError) as error:
            if requests and not isinstance(error, PeerGarbled | ParseError):
                recipient.sent = last
                return
            # A resolver that knows no notices is tried again after a long time, as it may have been updated meanwhile.
            seconds = (
                UNSUPPORTED_SECONDS if isinstance(error, PeerGarbled | ParseError) else UNREACHABLE_SECONDS
            )
            _log.info("%s is not told what changes, for %g s: %s", recipient.address, seconds, error)
            recipient.sent, recipient.silent_until = None, clock() + seconds
        except SetupError as error:
            # It is tried again at the next check, so a problem that lasts is logged once.
            if str(error) != recipient.problem:
                _log.warning("%s is not told what has changed: %s", recipient.address, error)
            recipient.problem = str(error)
        else:
            recipient.problem = ""
            recipient.sent = last
            if names is None:
                recipient.nothing_general_until = clock() + ANYTHING_EVERY
        finally:
            recipient.task = None

    def _names(self, after: int | None, last: int, most: int) -> tuple[list[Name] | None, frozenset[str]]:
        """Return the names of changed items (None: anything), and the names of removed items among them."""
        if after is None or last < after:
            return None, frozenset()
        with self.catalogue.reading() as run:
            found = change_log.changed_names(run, after, last, most)
            removed = frozenset(history.removed_names(run, found or []))
        return None if found is None else [parse_name(name) for name in found], removed

    async def _send(self, recipient: _Recipient, notice: ChangeNotification, tries: int) -> None:
        """Send a notice, so many times at most. Raises PeerError if the resolver does not accept it."""
        for left in reversed(range(tries)):
            try:
                await self._send_once(recipient, notice)
                break
            except PeerError as error:
                recipient.found_service = ""
                if not left or isinstance(error, PeerGarbled):
                    raise
                await asyncio.sleep(PAUSE)

    async def _send_once(self, recipient: _Recipient, notice: ChangeNotification) -> None:
        service = recipient.known_service or recipient.found_service
        if not service:
            service = await find_service(self.client, recipient.address, NOTICE_SECONDS)
            recipient.found_service = service
        await send_notice(self.client, recipient.address, service, notice, NOTICE_SECONDS)


async def send_notice(
    client: Client, address: str, service: str, notice: ChangeNotification, seconds: float
) -> None:
    """Send a notice to the service of a resolver at an address.

    Raises PeerError if the resolver does not accept it now, PeerGarbled or ParseError if it knows no notices.
    """
    reply = await client.get(address, f"/{service}?{notice.query()}", seconds)
    if reply.status in _NOT_NOW:
        raise PeerError("it answered with status {status}", status=reply.status)
    if reply.status != _OK:
        raise PeerGarbled("it answered with status {status}", status=reply.status)
    ChangeReceived.read(reply.body)


def _notices(
    service: IBI, names: Sequence[Name] | None, removed: frozenset[str]
) -> Iterator[ChangeNotification]:
    """Yield the notices about these names (None: anything), each short enough for a URL."""
    if names is None:
        yield ChangeNotification(service)
        return
    some: list[Name] = []
    length = 0
    for name in names:
        # An estimate: each escaped slash takes three characters.
        longer = length + (3 * len(name.canonical) // 2 + 3) * (2 if name.canonical in removed else 1)
        if some and (len(some) == MOST_CHANGED or longer > _LONGEST):
            yield _notice(service, some, removed)
            some, longer = [], longer - length
        some.append(name)
        length = longer
    if some:
        yield _notice(service, some, removed)


def _notice(service: IBI, names: Sequence[Name], removed: frozenset[str]) -> ChangeNotification:
    gone = tuple(name for name in names if name.canonical in removed)
    return ChangeNotification(service, tuple(names), gone)
