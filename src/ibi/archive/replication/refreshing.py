"""Refresh copies: make them equal to their originals again (ARC-13: copies follow originals; CON-07).

A running Archive refreshes each copy every `refresh_hours`, and when it learns of a change (`following`); a person can
refresh one at once. If the original is no longer where it was, the resolver is asked where it is now. If a refresh
fails or takes too long, the copy stays as it is, its source records since when it may differ and why, and the next copy
is refreshed.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.replication.copying import SLOWEST_SECONDS
from ibi.archive.replication.fetching import NotModified, OriginalLocation, staging_session
from ibi.archive.store.tables import copies
from ibi.errors import HoldingError, NotHeld, ParseError, PeerError, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.tasks import LONGEST, PeriodicTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.item import Holding
    from ibi.archive.replication.copying import Copier, FoundOriginal
    from ibi.archive.store.tables.copies import CopySource
    from ibi.errors import IbiError
    from ibi.http.client.download import Downloads
    from ibi.identifier.forms import Name

SEARCH_SECONDS: Final = 60.0
"""Seconds between two searches for copies that are due."""

COPIES_PER_SEARCH: Final = 20
"""Copies that are refreshed after one search."""

REFRESH_SECONDS: Final = SLOWEST_SECONDS
"""Seconds that one copy may take when an Archive refreshes its copies by itself; then the next one starts.

In a day, 8 GiB come at 100 kB/s. A copy that needs longer can be refreshed by the command, which has no such limit.
"""


async def refresh(copier: Copier, name: Name, who: str, seconds: float = math.inf) -> CopySource:
    """Make a copy equal to its original, or record why it may lag behind; return its updated source.

    If its Archive does not hold the original any more, the resolver is asked where it is now. All downloads
    together may take `seconds`. Raises NotHeld, HoldingError for an item that is no copy, and SetupError.
    """
    holding, source = await asyncio.to_thread(_copy_and_source, copier, name)
    now = copier.item_store.moment
    # At the limit the downloads end, and this task goes on. So a copy that is complete is stored, and a
    # cancellation always means that the Archive stops, which proves nothing about the original.
    downloading = copier.downloads(private=source.private, seconds=seconds)
    try:
        async with staging_session(copier.item_store), downloading as downloads:
            found = await _find_again(copier, downloads, name, holding, source)
            await copier.save(downloads, name, found, who)
            return found.source
    except NotModified:
        source = replace(source, checked=now, since="", problem=None)
    except (PeerError, HoldingError, ParseError) as error:
        source = _lagging(source, now, error)
    except SetupError as error:
        # Recorded, too: else a file that does not fit on the disk would be fetched again and again, and no other
        # copy would be refreshed.
        with suppress(SetupError):
            await asyncio.to_thread(_save_source, copier, holding, _lagging(source, now, error))
        raise
    await asyncio.to_thread(_save_source, copier, holding, source)
    return source


async def refresh_due(copier: Copier, before: str, who: str) -> None:
    """Refresh up to `COPIES_PER_SEARCH` copies that were last compared before this moment, the oldest first.

    After `LONGEST` seconds no further refresh starts, so that changed settings are soon followed.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + LONGEST
    names = await asyncio.to_thread(_due_copies, copier, before)
    for name in names:
        if clock() > end:
            return
        try:
            await refresh(copier, parse_name(name), who, REFRESH_SECONDS)
        except HoldingError:
            # The copy has become an Original or was removed since the list was read.
            continue


def refresh_task(copier: Copier, hours: int, now: Callable[[], float]) -> PeriodicTask:
    """Return the task of a running Archive that refreshes each copy every so many hours."""

    async def refresh_old_copies() -> None:
        await refresh_due(copier, timestamp_text(now() - hours * 3600), "refresh")

    # Each copy has its own limit, after which its problem is recorded; the task is never cancelled before that.
    return PeriodicTask("refresh", SEARCH_SECONDS, refresh_old_copies, longest=2 * REFRESH_SECONDS)


def _lagging(source: CopySource, now: str, problem: IbiError) -> CopySource:
    return replace(source, checked=now, since=source.since or now, problem=problem)


def _copy_and_source(copier: Copier, name: Name) -> tuple[Holding, CopySource]:
    catalogue = copier.item_store.catalogue
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("{name} is not held here", name=name)
    with catalogue.reading() as run:
        source = copies.source_of(run, holding.number)
    if holding.state is not ItemState.COPY or source is None:
        raise HoldingError("{name} is no copy that came from another Archive", name=holding.forms.main)
    return holding, source


async def _find_again(
    copier: Copier, downloads: Downloads, name: Name, holding: Holding, source: CopySource
) -> FoundOriginal:
    """Find the original where it was, or else where the resolver leads now. Raises the error of the first search."""
    if holding.url.startswith(f"{source.place}/"):
        # This copy only points at the Archive of the original since a hand-over: it has no files to refresh.
        raise NotModified
    try:
        return await _find_at_source(copier, downloads, name, source)
    except (PeerError, HoldingError):
        if not copier.resolver:
            raise
        with suppress(PeerError, HoldingError):
            return await copier.find(downloads, name, private=source.private)
        raise


async def _find_at_source(
    copier: Copier, downloads: Downloads, name: Name, source: CopySource
) -> FoundOriginal:
    if not source.archive:
        location = OriginalLocation(source.url, ())
        return await copier.find_file(downloads, location, name, source.tag, private=source.private)
    found = await copier.find_at(downloads, source.archive, name, source.tag, private=source.private)
    if found is None:
        raise HoldingError("{archive} no longer has {name}", archive=source.archive, name=name)
    return found


def _save_source(copier: Copier, holding: Holding, source: CopySource) -> None:
    with copier.item_store.catalogue.writing() as writer:
        copies.save_source(writer.run, holding.number, source)


def _due_copies(copier: Copier, before: str) -> list[str]:
    with copier.item_store.catalogue.reading() as run:
        return copies.due_copies(run, before, COPIES_PER_SEARCH)
