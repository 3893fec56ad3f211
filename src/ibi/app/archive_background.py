"""Assembly of what an Archive does by itself: memberships at resolvers, notices, copies that follow, and tasks.

The first process of a service does it. Where several nodes share a store, one node does it at a time
(`runtime.duty_lock`), except what each node keeps for itself: the search index, the holdings filter, uploads.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import ibi
from ibi.app.archive_tasks import copy_follower, task_loops
from ibi.archive.membership.membership import Memberships, MembershipStore
from ibi.archive.membership.notices import NoticeSender
from ibi.archive.service.metrics import SUBJECTS, CountedClient
from ibi.http.client import AddressPolicy
from ibi.runtime.duty_lock import DutyLock
from ibi.runtime.tasks import DoneBy, PeriodicTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.membership.joining import WatchedArchiveSettings
    from ibi.archive.membership.membership import WantedMemberships
    from ibi.archive.membership.resolver_addresses import ResolverAddresses
    from ibi.archive.service.metrics import ArchiveMetrics
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.client.address_policy import HostLookup
    from ibi.identifier.forms import IBI
    from ibi.runtime.tasks import PeriodicTask

DUTY = "archive"
"""The name of the lock under which one of several nodes works."""


class BackgroundParts(NamedTuple):
    """The parts of an Archive that its own work uses; `joined` returns the addresses of resolvers."""

    watched: WatchedArchiveSettings
    directory: DataDirectory
    catalogue: Catalogue
    host_lookup: HostLookup | None
    metrics: ArchiveMetrics
    joined: Callable[[Iterable[str]], ResolverAddresses]


class ArchiveBackground:
    """What an Archive does by itself. `indexing`: the task of its search index."""

    def __init__(self, parts: BackgroundParts, indexing: PeriodicTask) -> None:
        self.follow: Callable[[], object] = _nothing
        """Looks whether the settings have changed."""
        watched, directory, catalogue, host_lookup, metrics, _ = parts
        store = watched.current().settings.store
        self._lock = DutyLock(store, DUTY) if store else None
        self._tasks = partial(task_loops, watched, directory, catalogue, host_lookup, metrics.task_ended)
        self._make = partial(_Work, parts, self._look)
        # Apart from the other tasks, because a deposit must be found within seconds, not after an audit.
        self._indexing = PeriodicTasks(partial(_alone, [indexing]), metrics.task_ended)
        self._work = self._make()

    def _look(self) -> object:
        return self.follow()

    def wake(self, service: IBI) -> bool:
        """Have the Archive of a service asked what has changed; False if it is not followed here."""
        return self._work.follower.wake(service)

    async def run(self) -> None:
        """Work until cancelled."""
        if self._lock is None:
            tasks = self._tasks()
            await asyncio.gather(self._work.run(tasks), self._indexing.run())
            return
        of_node = self._tasks(only=DoneBy.EACH_NODE)
        await asyncio.gather(
            self._lock.while_held(self._hold), self._indexing.run(), *(each.run() for each in of_node)
        )

    async def _hold(self) -> None:
        """Do the work of all nodes. Each time with new parts: those of before have closed their connections."""
        self._work = self._make()
        try:
            await self._work.run(self._tasks(only=DoneBy.ONE_NODE))
        finally:
            await self._work.close()

    async def stop(self) -> None:
        """Ask resolvers for exclusion, unless other nodes may go on."""
        if self._lock is None:
            await self._work.memberships.stop()

    async def close(self) -> None:
        """Close all connections."""
        await self._work.close()


class _Work:
    """The work itself: made anew each time that this node takes the lock. `follow` looks for changed settings."""

    def __init__(self, parts: BackgroundParts, follow: Callable[[], object]) -> None:
        watched, directory, catalogue, host_lookup, metrics, joined = parts
        self.follower = copy_follower(watched, directory, catalogue, host_lookup)
        saved = MembershipStore(catalogue)

        def wanted() -> WantedMemberships:
            return watched.current().wanted(ibi.__version__)

        # The administrator chose the resolvers, so they may be at private addresses. Two clients, so that a
        # resolver that is slow to accept notices does not delay an inclusion.
        one, other = (
            CountedClient(
                AddressPolicy(allow_private=True), host_lookup, partial(metrics.message_ended, subject)
            )
            for subject in SUBJECTS
        )
        self._notifier = NoticeSender(catalogue, wanted, saved, other, joined, follow)
        self.memberships = Memberships(wanted, one, saved, time.time)

    async def run(self, tasks: list[PeriodicTasks]) -> None:
        """Do it until cancelled."""
        others = (each.run() for each in tasks)
        await asyncio.gather(self.memberships.run(), self._notifier.run(), self.follower.run(), *others)

    async def close(self) -> None:
        """Close the connections of the memberships; the other parts have closed theirs."""
        await self.memberships.close()


def _nothing() -> None:
    """Do nothing."""


def _alone(tasks: list[PeriodicTask]) -> list[PeriodicTask]:
    return tasks
