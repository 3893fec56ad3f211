"""Whom to ask first (note 7); pure. A plan changes who is asked when, never whose answers count.

In the hardened policy the likely holders are asked first, everybody else when these do not settle it. Who is likely:

    1. who showed the original of the item first, and who held it when somebody last asked (hints)
    2. whoever's own filter says that it may hold the item
    3. whose Archive service has the prefix of the item (GEN-05: a prefix is no location, but may be a hint)

Nobody likely, an original required, or the strict policy: everybody is asked at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.identifier.forms import IBI, Name

MOST_LIKELY: Final = 4
"""Archives that are asked before everybody is."""

Why = Literal["hint", "filter", "prefix", "everybody"]
"""What made the first ones likely."""


class Archive(Protocol):
    """What must be known of an Archive in order to plan."""

    @property
    def service_ibi(self) -> IBI:
        """The IBI of its Archive service, as registered."""

    @property
    def confirmed(self) -> bool:
        """Whether it has confirmed that it wants to be asked."""


_Asked = TypeVar("_Asked", bound=Archive)


@dataclass(frozen=True, slots=True)
class Members(Generic[_Asked]):
    """The included Archives, in the order in which a look-up needs them; made once while nobody comes or goes."""

    regular: tuple[_Asked, ...]
    aside: tuple[_Asked, ...]
    """On probation: asked like the others, but nobody waits for them (threat T18)."""
    by_service: dict[str, _Asked]
    by_prefix: dict[str, tuple[_Asked, ...]]
    mark: str
    """Stands for these Archives and no others, whatever process they are known to."""
    spelled: tuple[str, ...]
    """The regular ones, as their services are spelled."""

    @classmethod
    def of(cls, archives: Iterable[_Asked], *, probation: bool) -> Members[_Asked]:
        """From the included Archives; without `probation`, all are regular."""
        every = tuple(archives)
        regular = tuple(archive for archive in every if archive.confirmed or not probation)
        prefixes: dict[str, list[_Asked]] = defaultdict(list)
        for archive in every:
            prefixes[_prefix(archive.service_ibi)].append(archive)
        return cls(
            regular,
            tuple(archive for archive in every if probation and not archive.confirmed),
            {archive.service_ibi.canonical: archive for archive in every},
            {prefix: tuple(found) for prefix, found in prefixes.items()},
            sha256(" ".join(archive.service_ibi.canonical for archive in every).encode()).hexdigest()[:16],
            tuple(str(archive.service_ibi) for archive in regular),
        )


class Plan(NamedTuple, Generic[_Asked]):
    """Who is asked at once, and why these. When they do not settle it, all others are asked."""

    first: tuple[_Asked, ...]
    why: Why = "everybody"


class Filters(Protocol):
    """What Archives publish about what they hold, so that they need not be asked for what they do not."""

    def may_hold(self, canonical: str) -> Sequence[str]:
        """The canonical service IBIs of those whose own filter says that they may hold the item of this name."""


def everybody(members: Members[_Asked]) -> Plan[_Asked]:
    """The plan of the standard: all at once (RES-04)."""
    return Plan(members.regular)


def likely_first(
    members: Members[_Asked], name: Name, hinted: Sequence[str], filters: Filters | None
) -> Plan[_Asked]:
    """The likely holders of an item first. `hinted`: canonical service IBIs."""
    found = _known(members, hinted)
    if found:
        return Plan(found, "hint")
    if filters is not None:
        found = _known(members, filters.may_hold(name.canonical))
        if 0 < len(found) <= MOST_LIKELY:
            return Plan(found, "filter")
    found = members.by_prefix.get(_prefix(name), ())
    if 0 < len(found) <= MOST_LIKELY:
        return Plan(found, "prefix")
    return everybody(members)


def _known(members: Members[_Asked], services: Iterable[str]) -> tuple[_Asked, ...]:
    return tuple(members.by_service[service] for service in services if service in members.by_service)


def _prefix(name: Name) -> str:
    return name.prefix.lower()
