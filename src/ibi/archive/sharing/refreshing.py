"""Copies kept as their originals are; where that fails, how far they may lag is written down (ARC-13, CON-07)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import copies
from ibi.archive.networking.duties import Duty
from ibi.archive.sharing.copying import NotModified
from ibi.archive.sharing.fetching import working
from ibi.archive.sharing.whereabouts import Whereabouts
from ibi.errors import HoldingError, NotHeld, ParseError, PeerError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.copies import Source
    from ibi.archive.sharing.copying import Copier, Found
    from ibi.identifier.forms import Name
    from ibi.transport.download import Downloads

LOOK_SECONDS: Final = 60.0
"""How often a running Archive looks whether a copy is due."""

PORTION: Final = 20
"""Copies that are looked at in one go."""


async def refresh(copier: Copier, name: Name, who: str) -> Source:
    """Make a copy equal to its original, or note why it may lag behind; returns what is known of it then.

    An original that its Archive does not hold any more is looked for through the resolver. Raises NotHeld, HoldingError
    for an item that is no copy, and SetupError.
    """
    holding, source = await asyncio.to_thread(_held, copier, name)
    now = copier.keeper.moment
    try:
        async with working(copier.keeper), copier.door(private=source.private) as door:
            found = await _find_again(copier, door, name, holding, source)
            await copier.take(door, name, found, who)
            return found.source
    except NotModified:
        source = replace(source, checked=now, since="", problem=None)
    except (PeerError, HoldingError, ParseError) as error:
        source = replace(source, checked=now, since=source.since or now, problem=error)
    await asyncio.to_thread(_note, copier, holding, source)
    return source


async def refresh_due(copier: Copier, before: str, who: str) -> None:
    """Refresh some of the copies that were not looked at since this moment, the longest ago first."""
    names = await asyncio.to_thread(_due, copier, before)
    for name in names:
        try:
            await refresh(copier, parse_name(name), who)
        except HoldingError:
            continue  # meanwhile it has become something else


def duty(copier: Copier, hours: int, now: Callable[[], float]) -> Duty:
    """What keeps the copies of a running Archive fresh: each is looked at after so many hours."""

    async def look() -> None:
        await refresh_due(copier, timestamp_text(now() - hours * 3600), "refresh")

    return Duty("refresh", LOOK_SECONDS, look)


def _held(copier: Copier, name: Name) -> tuple[Holding, Source]:
    catalogue = copier.keeper.catalogue
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("{name} is not held here", name=name)
    with catalogue.reading() as run:
        source = copies.source_of(run, holding.number)
    if holding.state is not State.COPY or source is None:
        raise HoldingError("{name} is no copy that came from another Archive", name=holding.forms.main)
    return holding, source


async def _find_again(copier: Copier, door: Downloads, name: Name, holding: Holding, source: Source) -> Found:
    """The original where it was, or else where the resolver leads now. Raises as the first of these does."""
    if holding.url.startswith(f"{source.place}/"):
        raise NotModified  # its files were left to the Archive of the original: there is nothing to refresh
    try:
        return await _look_again(copier, door, name, source)
    except (PeerError, HoldingError):
        if not copier.resolver:
            raise
        try:
            return await copier.find(door, name, private=source.private)
        except (PeerError, HoldingError):
            pass
        raise


async def _look_again(copier: Copier, door: Downloads, name: Name, source: Source) -> Found:
    if not source.archive:
        place = Whereabouts(source.url, ())
        return await copier.look_at_file(door, place, name, source.tag, private=source.private)
    found = await copier.look(door, source.archive, name, source.tag, private=source.private)
    if found is None:
        raise HoldingError("{archive} no longer has {name}", archive=source.archive, name=name)
    return found


def _note(copier: Copier, holding: Holding, source: Source) -> None:
    with copier.keeper.catalogue.writing() as writer:
        copies.keep(writer.run, holding.number, source)


def _due(copier: Copier, before: str) -> list[str]:
    with copier.keeper.catalogue.reading() as run:
        return copies.due(run, before, PORTION)
