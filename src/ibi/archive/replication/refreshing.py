"""Make copies equal to their originals again; where that fails, record since when they may differ (ARC-13, CON-07)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.replication.copying import NotModified
from ibi.archive.replication.fetching import OriginalLocation, staging_session
from ibi.archive.store.tables import copies
from ibi.errors import HoldingError, NotHeld, ParseError, PeerError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.tasks import PeriodicTask

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.item import Holding
    from ibi.archive.replication.copying import Copier, FoundOriginal
    from ibi.archive.store.tables.copies import CopySource
    from ibi.http.client.download import Downloads
    from ibi.identifier.forms import Name

LOOK_SECONDS: Final = 60.0
"""Seconds between two looks for copies that are due."""

PORTION: Final = 20
"""Copies that are compared in a row."""


async def refresh(copier: Copier, name: Name, who: str) -> CopySource:
    """Make a copy equal to its original, or record why it may lag behind; return what is known of it then.

    An original that its Archive does not hold any more is searched through the resolver. Raises NotHeld, HoldingError
    for an item that is no copy, and SetupError.
    """
    holding, source = await asyncio.to_thread(_held, copier, name)
    now = copier.item_store.moment
    try:
        async with staging_session(copier.item_store), copier.downloads(private=source.private) as downloads:
            found = await _find_again(copier, downloads, name, holding, source)
            await copier.save(downloads, name, found, who)
            return found.source
    except NotModified:
        source = replace(source, checked=now, since="", problem=None)
    except (PeerError, HoldingError, ParseError) as error:
        source = replace(source, checked=now, since=source.since or now, problem=error)
    await asyncio.to_thread(_note, copier, holding, source)
    return source


async def refresh_due(copier: Copier, before: str, who: str) -> None:
    """Refresh some of the copies that were not compared since this moment, the oldest first."""
    names = await asyncio.to_thread(_due, copier, before)
    for name in names:
        try:
            await refresh(copier, parse_name(name), who)
        except HoldingError:
            # It has been handed over or removed since the list was read.
            continue


def refresh_task(copier: Copier, hours: int, now: Callable[[], float]) -> PeriodicTask:
    """The task that refreshes the copies of a running Archive: each one after so many hours."""

    async def find_at() -> None:
        await refresh_due(copier, timestamp_text(now() - hours * 3600), "refresh")

    return PeriodicTask("refresh", LOOK_SECONDS, find_at)


def _held(copier: Copier, name: Name) -> tuple[Holding, CopySource]:
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
    """Find the original where it was, or else where the resolver leads now. Raises as the first of these does."""
    if holding.url.startswith(f"{source.place}/"):
        # After a hand-over the files were left to the Archive of the original: there is nothing to refresh.
        raise NotModified
    try:
        return await _look_again(copier, downloads, name, source)
    except (PeerError, HoldingError):
        if not copier.resolver:
            raise
        try:
            return await copier.find(downloads, name, private=source.private)
        except (PeerError, HoldingError):
            pass
        raise


async def _look_again(copier: Copier, downloads: Downloads, name: Name, source: CopySource) -> FoundOriginal:
    if not source.archive:
        place = OriginalLocation(source.url, ())
        return await copier.find_file(downloads, place, name, source.tag, private=source.private)
    found = await copier.find_at(downloads, source.archive, name, source.tag, private=source.private)
    if found is None:
        raise HoldingError("{archive} no longer has {name}", archive=source.archive, name=name)
    return found


def _note(copier: Copier, holding: Holding, source: CopySource) -> None:
    with copier.item_store.catalogue.writing() as writer:
        copies.save_source(writer.run, holding.number, source)


def _due(copier: Copier, before: str) -> list[str]:
    with copier.item_store.catalogue.reading() as run:
        return copies.due_copies(run, before, PORTION)
