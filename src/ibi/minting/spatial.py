"""The spatial distributor: which subsystem names which item (G15 chapter 5 leaves the choice free).

By collection: a subsystem that lists collections names their items and no others. In turn: among several that may
name an item, the one for which the fewest labels are waited for, and of those the one that has rested longest; so two
subsystems give twice the labels of one at the same granularity (GEN-46).

Each subsystem has a waiting room of its own, DIR/NAME, and neither a host and port nor an address and port in common
with another: else two waiting rooms would spell the same label.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ibi.errors import NotOurs, SetupError
from ibi.identifier.generator import LabelGenerator
from ibi.minting.subsystem import Subsystem, granularity_of
from ibi.minting.waiting_room import WaitingRoom
from ibi.settings import SubsystemSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ibi.minting.clock import ClockLimits
    from ibi.minting.machine import Machine

_T = TypeVar("_T")

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TAKEN = frozenset({"minting", "col"})


@dataclass(frozen=True)
class Place(Generic[_T]):
    """Somebody who names items; those of some collections, or, without any, of all that nobody lists.

    `name`: what the place is called in a list.
    """

    who: _T
    collections: frozenset[str] = frozenset()
    name: str = ""


class SpatialDistributor(Generic[_T]):
    """Chooses among places, at least one."""

    def __init__(self, places: Sequence[Place[_T]]) -> None:
        self._listed = frozenset().union(*(place.collections for place in places))
        self._turn = list(places)  # who has rested longest comes first

    def choose(
        self,
        collection: str | None = None,
        waiting: Callable[[_T], float] = lambda _: 0,
        able: Callable[[Sequence[_T]], Sequence[_T]] = lambda namers: namers,
    ) -> _T:
        """Who names an item of this collection.

        `waiting` tells how much is waited for at a place. Of those who name such items `able` leaves those who can
        name this one, at least one, or raises. Raises NotOurs where nobody names such items.
        """
        listed = collection in self._listed
        namers = [
            place.who
            for place in self._turn
            if (collection in place.collections if listed else not place.collections)
        ]
        if not namers:
            if collection is None:
                raise NotOurs("every subsystem here is for certain collections; name one")
            raise NotOurs("no subsystem here names items of the collection {name}", name=collection)
        chosen = min(able(namers), key=waiting)
        self._turn.sort(key=lambda place: place.who is chosen)  # to the end; the others keep their order
        return chosen


def open_places(data: Path, machine: Machine, limits: ClockLimits) -> list[Place[Subsystem]]:
    """The subsystems that DIR/subsystems.toml lists.

    Raises SetupError, ParseError and NotOurs for names that labels are not made under.
    """
    places = []
    taken: set[str] = set()
    for name, settings in SubsystemSettings.read_all(data).items():
        if not _NAME.fullmatch(name) or name in _TAKEN:
            problem = "a subsystem is called by a word of small letters, digits and hyphens, not {name}"
            raise SetupError(problem, name=name)
        generator = LabelGenerator(
            settings.host,
            settings.port,
            settings.ip or None,
            settings.ip_port,
            for_trying=settings.for_trying,
        )
        for prefix in generator.prefixes:
            if prefix in taken:
                problem = "two subsystems would make labels that begin with {prefix}; each needs its own host and IP"
                raise SetupError(problem, prefix=prefix)
            taken.add(prefix)
        step = granularity_of(settings.granularity)
        subsystem = Subsystem(WaitingRoom(data / name, machine, limits, generator.prefixes), generator, step)
        places.append(Place(subsystem, frozenset(settings.collections), name))
    return places
