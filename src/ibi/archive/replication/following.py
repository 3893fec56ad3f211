"""Follow the originals of copies: ask their Archives what has changed, and refresh the copies that are told.

It is the extension by which resolvers renew their leases (docs/standard/extensions.md). For each Archive from which
copies come, in turn:

    ask         the changes after the position that is noted here
    note        one transaction: the copies among the told names are due, and the new position (`tables.copies`)
    refresh     what is due, as `refreshing` does it; each mark is removed when the attempt is recorded

If this process ends in between, the marks stand, and the next process goes on with them. Each Archive has a task of its
own, so that one that is slow, or has a large file, does not delay the others.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.replication.refreshing import COPIES_PER_SEARCH, REFRESH_SECONDS, refresh
from ibi.archive.store.tables import copies
from ibi.errors import ForbiddenAddress, HoldingError, ParseError, PeerError, PeerSilent, SetupError
from ibi.identifier.forms import parse_ibi, parse_name
from ibi.protocol.extensions.changes import ChangesReply, ChangesRequest
from ibi.runtime.tasks import LONGEST, cancel_tasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.replication.copying import Copier
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.copies import CopiedArchive, DueCopy
    from ibi.http.client import Client
    from ibi.identifier.forms import IBI

ASK_EVERY: Final = 5.0
"""Seconds between two requests to an Archive.

On average, a copy follows after half of that. A request takes the other Archive less than a millisecond.
"""

SOON: Final = 2.0
"""Seconds until the next request if copies that were named are left, or changes to be told."""

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at whose turn it is, so an Archive is asked twice a second at most."""

LIST_EVERY: Final = 10.0
"""Seconds between two looks for Archives from which copies come."""

REPLY_SECONDS: Final = 10.0
"""Seconds that an Archive may take for its reply."""

PAGES: Final = 10
"""Replies that are read in one turn, of at most 500 names each."""

ANYTHING_EVERY: Final = 60.0
"""Seconds between two replies of an Archive by which anything may have changed: each marks all its copies."""

SILENT_SECONDS: Final = 900.0
"""Seconds between two requests to an Archive that does not answer; fewer at first."""

UNSUPPORTED_SECONDS: Final = 3600.0
"""Seconds for which an Archive is not asked that does not know the request, or does not let us ask."""

MOST_REFRESHING: Final = 8
"""Archives whose copies are refreshed at the same time."""

TRIES: Final = 4
"""Refreshes of a copy that fail because of its original, as while that is handed over; then the daily one has to do."""

MOST_LATER: Final = 1_000
"""Copies of an Archive that wait to be refreshed once more."""

_WHO: Final = "refresh"

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Retry:
    """When a copy is refreshed once more, after so many failures, of which so many are due to its original."""

    at: float = 0.0
    failures: int = 0
    faults: int = 0

    def plan(self, now: float, *, counts: bool) -> bool:
        """Plan one more refresh after a failure; return whether there is to be one. `counts`: due to the original."""
        self.at = now + min(ASK_EVERY * 4**self.failures, SILENT_SECONDS)
        self.failures = min(self.failures + 1, TRIES)
        self.faults += counts
        return self.faults < TRIES


@dataclass(eq=False, slots=True)
class _Followed:
    """One Archive that is followed. Times are those of the event loop.

    `due`: when it is asked next; `pause`: the seconds until then, after a failure; `woken`: whether a notice has come
    during its turn; `anything_at`: when it may say again that anything may have changed; `retries`: when the copies
    that could not be refreshed are tried again, by item.
    """

    copied: CopiedArchive
    due: float = 0.0
    pause: float = 0.0
    woken: bool = False
    anything_at: float = 0.0
    retries: dict[int, Retry] = field(default_factory=dict)
    task: asyncio.Task[None] | None = None


class CopyFollower:
    """Follows the Archives from which copies of one Archive come. It takes over the clients, and closes them.

    `copier` returns the copier by the present settings; None: copies are refreshed on demand only. `public` contacts
    public addresses, `private` also those of private networks.
    """

    def __init__(
        self, catalogue: Catalogue, copier: Callable[[], Copier | None], public: Client, private: Client
    ) -> None:
        self._catalogue = catalogue
        self._copier = copier
        self._public, self._private = public, private
        self._followed: dict[tuple[str, str], _Followed] = {}
        self._listed_at = -LIST_EVERY
        self._slots = asyncio.Semaphore(MOST_REFRESHING)
        self._problem = ""

    async def run(self) -> None:
        """Follow the Archives, until cancelled."""
        try:
            while True:
                try:
                    await self._look()
                except SetupError as error:
                    self._complain("copies do not follow their originals: %s", error)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            await self._keep_to([])
            await asyncio.gather(self._public.close(), self._private.close())

    def wake(self, service: IBI) -> bool:
        """Have the Archive of a service asked at once, from wherever a notice comes; False if it is not followed.

        One that failed to answer is asked when it is due.
        """
        known = [
            each
            for each in self._followed.values()
            if parse_ibi(each.copied.service).canonical == service.canonical
        ]
        for followed in known:
            if followed.task is not None:
                followed.woken = True
            elif followed.due <= asyncio.get_running_loop().time() + ASK_EVERY:
                followed.due = 0.0
        return bool(known)

    async def _look(self) -> None:
        """Start a task for each Archive whose turn it is."""
        copier, now = self._copier(), asyncio.get_running_loop().time()
        if copier is None:
            self._listed_at = -LIST_EVERY
            await self._keep_to([])
            return
        if now - self._listed_at >= LIST_EVERY:
            await self._keep_to(await asyncio.to_thread(self._list))
            self._listed_at = now
        for followed in self._followed.values():
            if followed.task is None and now >= followed.due:
                followed.task = asyncio.create_task(self._serve(copier, followed))

    def _list(self) -> list[CopiedArchive]:
        with self._catalogue.reading() as run:
            return copies.copied_archives(run)

    async def _keep_to(self, wanted: list[CopiedArchive]) -> None:
        """Follow these Archives from now on."""
        places = {(each.archive, each.service): each for each in wanted}
        gone = [self._followed.pop(place).task for place in [*self._followed] if place not in places]
        await cancel_tasks(task for task in gone if task is not None)
        for place, each in places.items():
            self._followed.setdefault(place, _Followed(each)).copied = each

    async def _serve(self, copier: Copier, followed: _Followed) -> None:
        """Take one turn of an Archive, and say when the next one is."""
        clock = asyncio.get_running_loop().time
        try:
            more = await self._ask(followed)
            async with self._slots:
                left = await self._refresh_due(copier, followed)
        except (ParseError, ForbiddenAddress) as error:
            _log.info("%s is not asked what changes, for an hour: %s", followed.copied.archive, error)
            followed.due = clock() + UNSUPPORTED_SECONDS
        except (PeerError, SetupError) as error:
            followed.pause = min(2 * max(followed.pause, ASK_EVERY), SILENT_SECONDS)
            followed.due = clock() + followed.pause
            if isinstance(error, SetupError):
                self._complain("copies do not follow their originals: %s", error)
        except Exception:  # noqa: BLE001 - a fault of ours with one Archive must not end the others
            _log.exception("copies from %s do not follow their originals", followed.copied.archive)
            followed.due = clock() + SILENT_SECONDS
        else:
            followed.pause, self._problem = 0.0, ""
            followed.due = 0.0 if followed.woken else clock() + (SOON if more or left else ASK_EVERY)
            followed.woken = False
        finally:
            followed.task = None

    async def _ask(self, followed: _Followed) -> bool:
        """Ask an Archive what has changed, and note it; return whether there is more.

        Raises PeerError if it does not answer now, ParseError if it answers with something else, SetupError.
        """
        clock, copied = asyncio.get_running_loop().time, followed.copied
        client = self._private if copied.private else self._public
        address = copied.archive.removeprefix("http://")
        position = await asyncio.to_thread(self._position, copied)
        for _ in range(PAGES):
            word = secrets.token_hex(8)
            request = ChangesRequest(word, position)
            reply = await client.get(address, f"/{copied.service}?{request.query()}", REPLY_SECONDS)
            changes = ChangesReply.of(reply.status, reply.body, word)
            if changes.names is None:
                # The marks of all its copies are written each time, and each copy is compared.
                if clock() < followed.anything_at:
                    raise PeerSilent("it says too often that anything may have changed")
                followed.anything_at = clock() + ANYTHING_EVERY
            elif changes.to == position:
                if changes.more or changes.names:
                    raise ParseError("reply", position, "this is not the reply that was expected")
                return False
            await asyncio.to_thread(self._note, copied, changes)
            position = changes.to
            if not changes.more:
                return False
        return True

    def _position(self, copied: CopiedArchive) -> str:
        with self._catalogue.reading() as run:
            return copies.position_of(run, copied.archive, copied.service)

    def _note(self, copied: CopiedArchive, changes: ChangesReply) -> None:
        with self._catalogue.writing() as writer:
            copies.note_changes(writer.run, copied.archive, copied.service, changes.names, changes.to)

    async def _refresh_due(self, copier: Copier, followed: _Followed) -> bool:
        """Refresh up to COPIES_PER_SEARCH copies that are due; return whether named ones are left. Raises SetupError.

        After LONGEST seconds no further refresh starts, so that the Archive is asked again and settings are followed.
        """
        clock = asyncio.get_running_loop().time
        end = clock() + LONGEST
        most = COPIES_PER_SEARCH + len(followed.retries) + 1
        due = await asyncio.to_thread(self._due, followed.copied, most)
        now = [
            each
            for each in due
            if each.item not in followed.retries or clock() >= followed.retries[each.item].at
        ]
        for each in now[:COPIES_PER_SEARCH]:
            if clock() > end or not await self._refresh(copier, followed, each):
                return False
        return any(each.named for each in now[COPIES_PER_SEARCH:])

    def _due(self, copied: CopiedArchive, most: int) -> list[DueCopy]:
        with self._catalogue.reading() as run:
            return copies.copies_to_compare(run, copied.archive, copied.service, most)

    async def _refresh(self, copier: Copier, followed: _Followed, due: DueCopy) -> bool:
        """Refresh a copy, and remove its mark unless it is to be tried again; return whether others may follow now."""
        try:
            problem = (await refresh(copier, parse_name(due.name), _WHO, REFRESH_SECONDS)).problem
        except SetupError:  # recorded, as for the copies that are compared once a day
            self._retry(followed, due, counts=True)
            raise
        except HoldingError:
            problem = None  # it has become an Original or was removed meanwhile
        is_silent = isinstance(problem, PeerSilent)
        if problem is not None and self._retry(followed, due, counts=not is_silent):
            return not is_silent
        followed.retries.pop(due.item, None)
        await asyncio.to_thread(self._unmark, due)
        return not is_silent

    def _retry(self, followed: _Followed, due: DueCopy, *, counts: bool) -> bool:
        """Plan one more refresh of a copy; return whether there is to be one."""
        retry = followed.retries.get(due.item)
        if retry is None:
            if len(followed.retries) >= MOST_LATER:
                return False
            retry = followed.retries[due.item] = Retry()
        return retry.plan(asyncio.get_running_loop().time(), counts=counts)

    def _unmark(self, due: DueCopy) -> None:
        with self._catalogue.writing() as writer:
            copies.unmark(writer.run, due)

    def _complain(self, sentence: str, error: SetupError) -> None:
        """Log a fault of this machine, once as long as it lasts."""
        if str(error) != self._problem:
            _log.warning(sentence, error)
        self._problem = str(error)
