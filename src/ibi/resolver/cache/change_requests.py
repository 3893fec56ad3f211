"""Requests changes from Archives, applies the replies, and so renews the leases of their answers (`lease`).

When a request is sent:

    at an inclusion, after a notice, and after an answer of another position    changes are known to have happened
    when a cached answer is wanted whose lease has ended                       instead of a query about its item
    when one is used whose lease ends within 15 s                               in the background
    every 15 minutes                                                            for news of who holds which items

One process of a resolver at a time requests the changes of an Archive, and not more often than every half second. Each
other one that wants its lease renewed waits for the lock, and looks at the lease again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError, PeerError, PeerSilent, QueryNotSent, SetupError
from ibi.protocol.extensions.changes import LONGEST_VALIDITY, ChangesReply, ChangesRequest
from ibi.resolver.cache.lease import LEASE_SECONDS, NEVER, RENEW_AFTER, lease_age

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.http.client import Client
    from ibi.resolver.cache.answers import AnswerCache
    from ibi.resolver.cache.lease import Moment
    from ibi.resolver.model.archive import Archive

REPLY_SECONDS: Final = 2.0
"""Seconds after which a reply counts no more, and the lock of its Archive is free."""

UNDER_WAY_SECONDS: Final = 10.0
"""Seconds after which no request to an Archive is under way any more, and no reply is being applied."""

PAUSE: Final = 0.5
"""Seconds between two requests to an Archive, of all processes."""

ASK_EVERY: Final = 900.0
"""Seconds after which an Archive is asked although none of its answers is wanted."""

LOOK_SECONDS: Final = 10.0
"""Seconds between two looks for such Archives."""

UNSUPPORTED_SECONDS: Final = 3600.0
"""Seconds for which an Archive is not asked that does not reply to requests for changes."""

MOST_PAGES: Final = 250
"""Replies to one series of requests; more names than an Archive's log has are no news, but a fault."""

_LOCKED: Final = 0.02  # seconds between two tries to take a lock
_BETWEEN: Final = 0.005  # seconds from one Archive to the next

_log = logging.getLogger(__name__)


class ChangesRequester:
    """Renews the leases of one process; belongs to one event loop. `archives`: those that are included now.

    `most_seconds`: how long a leased answer is used at most; 0: no Archive is asked what has changed. `on_names` is
    called with the names that an Archive has changed (canonical), and its service.
    """

    def __init__(
        self,
        client: Client,
        cache: AnswerCache,
        archives: Callable[[], Sequence[Archive]],
        most_seconds: float = LONGEST_VALIDITY,
        *,
        on_names: Callable[[Sequence[str], str], None] = lambda _names, _service: None,
    ) -> None:
        self._on_names = on_names
        self.most_seconds = most_seconds
        self._client = client
        self._cache = cache
        self._leases = cache.leases
        self._archives = archives
        self._included: Sequence[Archive] = ()
        self._by_slot: dict[int, Archive] = {}
        self._waiting: dict[str, list[Callable[[PeerError | None], None]]] = {}
        self._since: dict[str, Moment] = {}
        """By Archive: its lease must be counted from this moment at least."""
        self.unsupported: set[str] = set()
        """The Archives that lack the extension, and are not asked for an hour."""

    def supports(self, archive: Archive) -> bool:
        """Whether answers of an Archive may be used as leased ones: it is not known to lack the extension."""
        return self.most_seconds > 0 and archive.service not in self.unsupported

    def seconds_since_reply(self, archive: Archive) -> float:
        """Return how long ago any process sent the last request for changes that is answered; infinity if none is."""
        began = self._leases.began(self._leases.slot(archive.service))
        return self._cache.boot() - began.boot if began != NEVER else inf

    def renew(self, archive: Archive, done: Callable[[PeerError | None], None]) -> None:
        """Have the lease of an Archive renewed; `done` is called later, with the error if it could not be."""
        waiting = self._waiting.get(archive.service)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[archive.service] = [done]
        self._client.keep(asyncio.create_task(self._serve(archive)))

    def refresh(self, archive: Archive, *, anew: bool = False) -> None:
        """Have the changes of an Archive requested at once: it has changed, or (`anew`) was included just now."""
        if anew:
            self.unsupported.discard(archive.service)
        if self.supports(archive):
            self._since[archive.service] = self._cache.moment
            self.renew(archive, _ignore)

    async def catch_up(self, archive: Archive) -> bool:
        """Have what an Archive has changed until now requested and applied; return whether it was."""
        if not self.supports(archive):
            return False
        ended: asyncio.Future[PeerError | None] = asyncio.get_running_loop().create_future()
        self._since[archive.service] = self._cache.moment
        self.renew(archive, lambda error: None if ended.done() else ended.set_result(error))
        return await ended is None and self.supports(archive)

    def wake(self, archive: Archive) -> None:
        """Have the changes of an Archive requested at once if its lease runs, or may soon: there is a notice.

        A reply that is under way may be from before the change, and it may begin a lease: so another request follows.
        """
        slot = self._leases.slot(archive.service)
        runs = lease_age(self._leases.began(slot), self._cache.moment) < LEASE_SECONDS
        if runs or 0 <= self._cache.boot() - self._leases.sent(slot) < UNDER_WAY_SECONDS:
            self.refresh(archive)

    def renew_slots(self, slots: Sequence[int]) -> None:
        """Have the leases of Archives renewed in the background, given by their slots."""
        included = self._archives()
        if included is not self._included:  # the same tuple while nothing changes
            self._included = included
            self._by_slot = {self._leases.slot(archive.service): archive for archive in included}
        for archive in [self._by_slot[slot] for slot in slots if slot in self._by_slot]:
            if archive.service not in self._waiting and self.supports(archive):
                self.renew(archive, _ignore)

    async def look(self) -> None:
        """Ask the Archives that were not asked for long; one process of a resolver calls this every LOOK_SECONDS."""
        for archive in self._archives():
            age = self._cache.boot() - self._leases.sent(self._leases.slot(archive.service))
            if not 0 <= age < ASK_EVERY and archive.service not in self._waiting and self.supports(archive):
                self.refresh(archive)
                await asyncio.sleep(_BETWEEN)

    async def _serve(self, archive: Archive) -> None:
        """Renew the lease of an Archive, and call all that wait for it."""
        error: PeerError | None = PeerSilent("this client is closed")
        try:
            await self._renew(archive)
            error = None
        except PeerError as failure:
            error = failure
        except SetupError:  # the log of `cache.store` says why
            error = QueryNotSent("its earlier answers cannot be forgotten")
        finally:
            for done in self._waiting.pop(archive.service):
                done(error)

    async def _renew(self, archive: Archive) -> None:
        """Renew the lease of an Archive under its lock. Raises PeerError if it is silent."""
        slot = self._leases.slot(archive.service)
        end = self._cache.boot() + REPLY_SECONDS
        while not self._leases.lock(slot):
            await asyncio.sleep(_LOCKED)
            if self._is_renewed(archive, slot):
                return
            if self._cache.boot() > end:
                raise PeerSilent("another process still waits for its reply")
        try:
            more = False
            for _ in range(MOST_PAGES):
                if not more and self._is_renewed(archive, slot):
                    return
                more = await self._exchange(archive, slot, paced=not more)
        except ParseError as error:
            self._note_unsupported(archive, error)
        finally:
            self._leases.unlock(slot)

    def _is_renewed(self, archive: Archive, slot: int) -> bool:
        """Whether the lease runs, and is counted from the moment that is wanted."""
        began, since = self._leases.began(slot), self._since.get(archive.service, NEVER)
        return lease_age(began, self._cache.moment) < RENEW_AFTER and began.boot > since.boot

    async def _exchange(self, archive: Archive, slot: int, *, paced: bool) -> bool:
        """Send one request and apply its reply; return whether there are more changes.

        Raises PeerError, and ParseError for what is no reply to it.
        """
        pause = self._leases.sent(slot) + PAUSE - self._cache.boot()
        if paced and 0 < pause <= PAUSE:
            await asyncio.sleep(pause)
        word, session = secrets.token_hex(8), self._leases.session(slot)
        request = ChangesRequest(word, self._cache.position(archive.service))
        sent = self._cache.moment
        self._leases.note_sent(slot, sent.boot)
        reply = await self._client.get(archive.address, f"/{archive.name}?{request.query()}", REPLY_SECONDS)
        changes = ChangesReply.of(reply.status, reply.body, word)
        if self._leases.session(slot) != session:
            raise PeerSilent("it was excluded or moved meanwhile")
        applying = asyncio.ensure_future(
            asyncio.to_thread(self._cache.apply, archive.service, changes, sent, session)
        )
        try:
            await asyncio.shield(applying)
        except asyncio.CancelledError:
            while not applying.done():  # the lock must not be free before all is written
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([applying])
            raise
        self._on_names(changes.names or (), archive.service)
        return changes.more

    def _note_unsupported(self, archive: Archive, error: Exception) -> None:
        _log.info("%s does not reply to requests for changes: %s", archive.service, error)
        self.unsupported.add(archive.service)
        loop = asyncio.get_running_loop()
        loop.call_later(UNSUPPORTED_SECONDS, self.unsupported.discard, archive.service)


def _ignore(_: PeerError | None) -> None:
    """Wait for nothing."""
