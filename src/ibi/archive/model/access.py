"""Which readers may have an item's data; which resolvers may state a reader's address (pure).

Metadata are open to all readers. Only an address that is vouched for counts (`http.client_address`), so that a forged
list of addresses gives no access (T24: forged addresses). See SVC-10: URLs by reader; AMB-54: which address counts.
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


def access_for(holding: Holding, networks: tuple[str, ...], address: str | None, day: str) -> Access:
    """Return OPEN if a reader may have an item's data on a day ("2026-11-21", UTC), else what forbids it.

    `networks`: the networks with access to restricted items, such as "10.0.0.0/8". `address`: the vouched
    address of the reader; a reader without one (None) has no access to restricted items.
    """
    access = holding.access_on(day)
    return Access.OPEN if access is Access.RESTRICTED and in_networks(address, networks) else access


def withheld_from(
    networks: tuple[str, ...], reader: Callable[[], str | None], now: Callable[[], float]
) -> Withheld:
    """Return a function that tests whether the data of an item are withheld from the reader now.

    `networks`: as in `access_for`. `reader` returns the reader's address as in `access_for`, `now` returns POSIX
    seconds; neither is called for an open item.
    """

    def is_withheld(holding: Holding) -> bool:
        if holding.access is Access.OPEN:
            return False
        return access_for(holding, networks, reader(), day_of(now())) is not Access.OPEN

    return is_withheld


def nothing_withheld(_holding: Holding) -> bool:
    """Withhold nothing from any reader."""
    return False


def reuse_seconds(holdings: Iterable[Holding | None], most: int, now: float) -> int:
    """Return for how many seconds, at most `most`, an answer about these items is right for every reader.

    0 if the answer depends on the reader.
    """
    # For restricted items the reader matters; embargoed items are closed to all until the embargo ends.
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
    """Return the address of the reader for whom a resolver asks; None for an untrusted resolver.

    `client_address`: the vouched address of the resolver. `addresses`: the list in the request; its last entry is the
    address that the resolver itself saw. See AMB-54: which address counts.
    """
    if not addresses or not in_networks(client_address, resolvers):
        return None
    return canonical_address(addresses[-1])
