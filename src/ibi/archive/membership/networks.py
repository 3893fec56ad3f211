"""The memberships of an Archive, each in a task of its own: a resolver that is down delays no other (ARC-15).

    resolver r    stay: inclusionRequest, again every minute (threat T17)     pause, leave: exclusionRequest
    resolver s    the same

Switched off, an Archive still answers: files, pages, and its own persistent URLs.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ibi.archive.membership.membership import Membership
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.store.tables import memberships
from ibi.archive.store.tables.memberships import MembershipRecord, MembershipStanding
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.store.tables.catalogue import Catalogue, SqlRunner
    from ibi.http.client import Client
    from ibi.protocol.messages import InclusionRequest

LOOK_EVERY = 0.5
"""Seconds between two looks at the wanted memberships."""

_Doing = Literal["stay", "pause", "leave"]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WantedMemberships:
    """Where an Archive takes part by its settings: the request for each resolver, by root URL, and whether it is on."""

    requests: dict[str, InclusionRequest]
    on: bool


class MembershipStore:
    """The table of memberships, written in threads: the event loop does not wait for the disk."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def read(self) -> dict[str, MembershipRecord]:
        """Read all memberships, by the root URLs of the resolvers. Raises SetupError."""
        with self._catalogue.reading() as run:
            return memberships.all_memberships(run)

    async def keep(self, member: MembershipRecord) -> None:
        """Save how the Archive stands at a resolver. Raises SetupError."""
        await asyncio.to_thread(self._write, memberships.save, member)

    async def forget(self, resolver: str) -> None:
        """Delete the membership at a resolver that was left for good. Raises SetupError."""
        await asyncio.to_thread(self._write, memberships.forget, resolver)

    def _write(self, write: Callable[[SqlRunner, Any], None], value: Any) -> None:
        with self._catalogue.writing() as writer:
            write(writer.run, value)


class Memberships:
    """The memberships of one Archive. It takes over `client`, and closes it.

    `wanted` gives those of the present settings; it is called twice a second, so that a change of the settings needs
    no restart.
    """

    def __init__(
        self,
        wanted: Callable[[], WantedMemberships],
        client: Client,
        kept: MembershipStore,
        now: Callable[[], float],
    ) -> None:
        self._wanted = wanted
        self._client = client
        self._kept = kept
        self._now = now
        self._memberships: dict[str, Membership] = {}
        self._tasks: dict[str, tuple[_Doing, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Follow the wanted memberships, until cancelled."""
        try:
            known = await asyncio.to_thread(self._kept.read)
        except SetupError as error:
            _log.warning("how this Archive stood at its resolvers is not known: %s", error)
            known = {}
        try:
            while True:
                self._turn(self._wanted(), known)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            tasks = [task for _, task in self._tasks.values()]
            for task in tasks:
                task.cancel()
            # Awaited, so that none writes into a catalogue that is closed next.
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """Request exclusion at every resolver, once and concurrently; the Archive stops whatever they reply."""
        await asyncio.gather(*(membership.request_exclusion() for membership in self._memberships.values()))

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()

    def _turn(self, wanted: WantedMemberships, known: dict[str, MembershipRecord]) -> None:
        """Start the tasks that are wanted and not yet running; stop the others."""
        for url, request in wanted.requests.items():
            membership = self._memberships.get(url)
            if membership is None or membership.request != request:
                self._memberships[url] = self._make(url, request, membership, known)
            self._do(url, "stay" if wanted.on else "pause")
        for url in self._memberships.keys() - wanted.requests.keys():
            self._do(url, "leave")
            if self._tasks[url][1].done():
                del self._tasks[url], self._memberships[url]

    def _make(
        self,
        url: str,
        request: InclusionRequest,
        before: Membership | None,
        known: dict[str, MembershipRecord],
    ) -> Membership:
        """Make the membership at a resolver, or make it again for a changed request."""
        self._end(url)
        member = before.member if before else known.pop(url, None)
        membership = Membership(
            request,
            member or MembershipRecord(url, MembershipStanding.WAITING, timestamp_text(int(self._now()))),
            self._client,
            self._kept.keep,
            self._now,
        )
        # A changed request does not undo the inclusion that the former one may have brought.
        membership.inclusion_requested |= bool(before and before.inclusion_requested)
        return membership

    def _do(self, url: str, what: _Doing) -> None:
        doing = self._tasks.get(url)
        if doing is not None and doing[0] == what:
            return
        self._end(url)
        membership = self._memberships[url]
        if what == "stay":
            task = asyncio.create_task(membership.stay())
        else:
            task = asyncio.create_task(self._leave(membership, for_good=what == "leave"))
        task.add_done_callback(_log_fault)
        self._tasks[url] = (what, task)

    async def _leave(self, membership: Membership, *, for_good: bool) -> None:
        await membership.leave()
        if for_good:
            await self._kept.forget(membership.member.resolver)

    def _end(self, url: str) -> None:
        doing = self._tasks.pop(url, None)
        if doing is not None:
            doing[1].cancel()


async def request_exclusions(
    wanted: WantedMemberships,
    resolvers: Iterable[str],
    client: Client,
    kept: MembershipStore,
    now: Callable[[], float],
) -> list[MembershipRecord]:
    """Request exclusion once of resolvers that may have included the Archive, while it is not served.

    Returns the memberships then. Raises SetupError.
    """
    known = await asyncio.to_thread(kept.read)
    memberships_there = [
        Membership(wanted.requests[url], known[url], client, kept.keep, now)
        for url in resolvers
        if url in known and url in wanted.requests
    ]
    await asyncio.gather(*(membership.request_exclusion() for membership in memberships_there))
    return [membership.member for membership in memberships_there]


def _log_fault(task: asyncio.Task[None]) -> None:
    """Log a fault of ours in a task whose result is not awaited."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("an Archive has stopped asking a resolver", exc_info=error)
