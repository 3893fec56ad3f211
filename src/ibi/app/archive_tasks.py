"""Assembly of an Archive's periodic tasks: hand-overs, the settling of restored originals, copies, and others."""

from __future__ import annotations

import asyncio
import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from ibi.archive.api import transfers
from ibi.archive.api.shared_uploads import SharedUploads
from ibi.archive.api.uploads import Uploads
from ibi.archive.membership.holdings_filter import HoldingsFilterFile
from ibi.archive.preservation import audit as audit_duty
from ibi.archive.preservation.audit import AuditDuty
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.following import CopyFollower
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.refreshing import refresh_task
from ibi.archive.replication.restored_originals import SETTLE_EVERY, Settler, SettlingDuty
from ibi.http.client import AddressPolicy, Client
from ibi.runtime.shared.store import store_of
from ibi.runtime.tasks import DoneBy, PeriodicTask, PeriodicTasks

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.membership.joining import WatchedArchiveSettings
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.client.address_policy import HostLookup
    from ibi.runtime.settings import ArchiveSettings

EXPIRE_EVERY: Final = 3600.0
"""Seconds between two checks for abandoned uploads."""


def task_loops(
    watched: WatchedArchiveSettings,
    directory: DataDirectory,
    catalogue: Catalogue,
    host_lookup: HostLookup | None,
    ended: Callable[[str, bool], None],
    *,
    only: DoneBy | None = None,
) -> list[PeriodicTasks]:
    """Make the loops of tasks of the first process; the tasks follow the settings.

    `ended`, `only`: as `PeriodicTasks` takes them.
    """
    # Separate loops, because no task must wait for the refresh of a large copy, which may take a day, and a
    # hand-over not even for a portion of an audit.
    return [
        _loop(watched, partial(tasks, directory, catalogue, host_lookup), ended, only)
        for tasks in (_transfer_tasks, _settling_tasks, _refresh_tasks, _other_tasks)
    ]


def _loop(
    watched: WatchedArchiveSettings,
    make: Callable[[ArchiveSettings], list[PeriodicTask]],
    ended: Callable[[str, bool], None],
    only: DoneBy | None,
) -> PeriodicTasks:
    """Make a loop of tasks that follow the settings."""
    # A cache of one entry: tasks are made again when the settings change, and otherwise keep their state.
    made = lru_cache(maxsize=1)(make)
    return PeriodicTasks(lambda: made(watched.current().settings), ended, only=only)


def _transfer_tasks(
    directory: DataDirectory, catalogue: Catalogue, host_lookup: HostLookup | None, settings: ArchiveSettings
) -> list[PeriodicTask]:
    """Make the task that continues transfers of originals to other Archives."""
    item_store = directory.item_store_over(catalogue, settings)
    giver = Giver(item_store, directory.path, settings.root, host_lookup)
    return [PeriodicTask("hand-overs", transfers.EVERY_SECONDS, giver.advance_all)]


def _settling_tasks(
    directory: DataDirectory, catalogue: Catalogue, host_lookup: HostLookup | None, settings: ArchiveSettings
) -> list[PeriodicTask]:
    """Make the task that settles originals that came back from a backup."""
    item_store = directory.item_store_over(catalogue, settings)
    duty = SettlingDuty(Settler(item_store, directory.path, host_lookup))
    return [PeriodicTask("settling", SETTLE_EVERY, duty.look)]


def _refresh_tasks(
    directory: DataDirectory, catalogue: Catalogue, host_lookup: HostLookup | None, settings: ArchiveSettings
) -> list[PeriodicTask]:
    """Make the task that refreshes copies, unless they are refreshed only on demand."""
    if not settings.refresh_hours:
        return []
    copier = _copier(directory, catalogue, host_lookup, settings)
    return [refresh_task(copier, settings.refresh_hours, time.time)]


def copy_follower(
    watched: WatchedArchiveSettings,
    directory: DataDirectory,
    catalogue: Catalogue,
    host_lookup: HostLookup | None,
) -> CopyFollower:
    """Make the follower of the Archives from which copies come; it rests while copies are refreshed on demand only."""
    made = lru_cache(maxsize=1)(partial(_copier, directory, catalogue, host_lookup))

    def copier() -> Copier | None:
        settings = watched.current().settings
        return made(settings) if settings.refresh_hours else None

    public, private = (Client(AddressPolicy(allow_private=allowed), host_lookup) for allowed in (False, True))
    return CopyFollower(catalogue, copier, public, private)


def _copier(
    directory: DataDirectory, catalogue: Catalogue, host_lookup: HostLookup | None, settings: ArchiveSettings
) -> Copier:
    item_store = directory.item_store_over(catalogue, settings)
    return Copier(item_store, settings.resolver, settings.largest_upload, host_lookup)


def _other_tasks(
    directory: DataDirectory,
    catalogue: Catalogue,
    _host_lookup: HostLookup | None,
    settings: ArchiveSettings,
) -> list[PeriodicTask]:
    """Make the tasks that have no loop of their own: uploads, the filter, objects in S3, audits."""
    uploads = upload_store(directory, settings)
    expire = partial(asyncio.to_thread, uploads.expire)
    tasks = [PeriodicTask("uploads", EXPIRE_EVERY, expire, done_by=DoneBy.EACH_NODE)]
    if settings.holdings_filter:
        tasks.append(HoldingsFilterFile(catalogue, directory.path).task())
    if settings.files:
        from ibi.archive.store.s3_duty import object_task

        tasks.append(object_task(catalogue, directory.file_store(), time.time))
    if settings.audit_days:
        audit = AuditDuty(catalogue, directory.file_store(), time.time, settings.audit_days)
        tasks.append(PeriodicTask("audit", audit_duty.EVERY, audit.portion, close=audit.close))
    return tasks


def upload_store(directory: DataDirectory, settings: ArchiveSettings) -> Uploads:
    """Return the store of uploads."""
    folder, store = directory.path / "uploads", store_of(directory.path)
    if store is not None:
        return SharedUploads(folder, store, time.time, settings.largest_upload)
    return Uploads(folder, time.time, settings.largest_upload)
