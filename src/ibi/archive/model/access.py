"""Which readers may have the data of an item, and which resolvers are trusted about a reader (SVC-10, AMB-54; pure).

Metadata are open to all readers. An address counts only as far as it is trusted (`http.client_address`): a forged list
of addresses gives access to nothing (threat T24).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ibi.archive.model.item import Access
from ibi.http.client_address import canonical_address, in_networks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.model.item import Holding

    Withheld = Callable[[Holding], bool]
    """Whether a reader may not have the data of an item."""


def day_of(now: float) -> str:
    """Return the day (UTC) of a moment in POSIX seconds: "2026-11-21"."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def may_read(holding: Holding, networks: tuple[str, ...], address: str | None, day: str) -> Access:
    """Return OPEN if a reader may have the data of an item on a day ("2026-11-21", UTC), else what forbids it.

    `networks`: those with access to restricted items, such as "10.0.0.0/8"; `address`: the reader's, as far as it is
    trusted; without one there is no access to restricted items.
    """
    access = holding.access_on(day)
    return Access.OPEN if access is Access.RESTRICTED and in_networks(address, networks) else access


def withheld_from(
    networks: tuple[str, ...], reader: Callable[[], str | None], now: Callable[[], float]
) -> Withheld:
    """Return a function that tests whether the reader may not have the data of an item now.

    `networks` and the address that `reader` returns are those of `may_read`; `now` returns POSIX seconds. Neither is
    called for an open item.
    """

    def is_withheld(holding: Holding) -> bool:
        if holding.access is Access.OPEN:
            return False
        return may_read(holding, networks, reader(), day_of(now())) is not Access.OPEN

    return is_withheld


def nothing_withheld(_holding: Holding) -> bool:
    """Withhold nothing from any reader."""
    return False


def reuse_seconds(holdings: Iterable[Holding | None], most: int, now: float) -> int:
    """Return for how many seconds, at most `most`, an answer about these items is right for every reader.

    0 if it holds for one reader only.
    """
    # Restricted items differ by reader; embargoed ones are the same for all until the embargo ends.
    seconds = most
    for holding in holdings:
        if holding is None or holding.access is Access.OPEN:
            continue
        if holding.access is not Access.EMBARGOED:
            return 0
        if holding.access_on(day_of(now)) is not Access.OPEN:
            opens = datetime.fromisoformat(holding.embargo).replace(tzinfo=UTC).timestamp()
            seconds = min(seconds, int(opens - now))
    return max(seconds, 0)


def reader_address(
    client_address: str | None, addresses: tuple[str, ...], resolvers: tuple[str, ...]
) -> str | None:
    """Return the address of the reader for whom a resolver asks (AMB-54); None if it is not a trusted resolver.

    `client_address`: that of the resolver, as far as it is trusted; `addresses`: the list in the request, of which the
    last is the one that the resolver saw itself.
    """
    if not addresses or not in_networks(client_address, resolvers):
        return None
    return canonical_address(addresses[-1])
