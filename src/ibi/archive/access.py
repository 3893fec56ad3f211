"""Who may have the data of an item now, and whose word for a reader's address is believed (SVC-10, AMB-54; pure).

Metadata are everybody's. An address counts only as far as somebody trusted vouches for it: a forged list of
addresses, or a forged X-Forwarded-For, gives nobody a licence (threat T24).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, Protocol

from ibi.archive.holding import Access
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.holding import Holding

    Withheld = Callable[[Holding], bool]
    """Whether a reader may not have the data of an item."""


_WITH_PORT: Final = re.compile(
    r"\[([0-9A-Fa-f:.]{2,45})\](?::[0-9]{1,5})?|([0-9.]{7,15}):[0-9]{1,5}", re.ASCII
)
"""An address as some proxies write it: with the port of the connection, or in brackets."""


class Licence(Protocol):
    """What must be known of an Archive: the networks whose readers may have what is restricted."""

    @property
    def networks(self) -> tuple[str, ...]:
        """Such as "10.0.0.0/8"."""


def day_of(now: float) -> str:
    """The day (UTC) of a moment in POSIX seconds: "2026-11-21"."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def may_read(holding: Holding, licence: Licence, address: str | None, day: str) -> Access:
    """OPEN if a reader may have the data of an item on a day ("2026-11-21", UTC); otherwise what keeps him from it.

    `address`: the reader's, as far as it is vouched for; a reader whose address is None has no licence.
    """
    access = holding.access_on(day)
    return Access.OPEN if access is Access.RESTRICTED and within(address, licence.networks) else access


def withheld(licence: Licence, reader: Callable[[], str | None], now: Callable[[], float]) -> Withheld:
    """Whether a reader may not have the data of an item now.

    `reader` tells the address as `may_read` wants it, `now` POSIX seconds; for an open item neither is asked.
    """

    def is_withheld(holding: Holding) -> bool:
        if holding.access is Access.OPEN:
            return False
        return may_read(holding, licence, reader(), day_of(now())) is not Access.OPEN

    return is_withheld


def nothing_withheld(_holding: Holding) -> bool:
    """Everybody may have everything."""
    return False


def reuse_seconds(holdings: Iterable[Holding | None], most: int, now: float) -> int:
    """For how long an answer that rests on these items will be right for every reader; 0 where it is for one alone.

    `most` and the result are in seconds. What is embargoed is the same for all until the embargo ends.
    """
    seconds = most
    for holding in holdings:
        if holding is None or holding.access is Access.OPEN:
            continue
        if holding.access is not Access.EMBARGOED:
            return 0
        if holding.access_on(day_of(now)) is not Access.OPEN:
            seconds = min(seconds, int(_begin(holding.embargo) - now))
    return max(seconds, 0)


def _begin(day: str) -> float:
    """The first moment of a day (UTC), in POSIX seconds."""
    return datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()


def vouched(peer: str, forwarded: str, proxies: tuple[str, ...]) -> str | None:
    """The address that a request came from, as far as it is vouched for; None if nobody does.

    `peer`: the address of the connection. If that is a trusted proxy's, the header X-Forwarded-For is read from the
    right until somebody stands there who is none: what is further left anybody may have written. Some proxies write
    a port behind the address ("192.0.2.7:4711", "[2001:db8::7]:4711"), which tells nothing and is taken off.
    """
    for text in (peer, *reversed(forwarded.split(","))):
        address = _address(_without_port(text.strip()))
        if address is None or not _in(address, proxies):
            return str(address) if address else None
    return None


def reader_of(asker: str | None, addresses: tuple[str, ...], resolvers: tuple[str, ...]) -> str | None:
    """The reader for whom a resolver asks (AMB-54); None if nobody who is trusted says who that is.

    `asker`: who asks, as far as it is vouched for; `addresses`: the list in the request, of which the last is the
    one that the resolver saw itself.
    """
    if not addresses or not within(asker, resolvers):
        return None
    address = _address(addresses[-1])
    return str(address) if address else None


def checked(networks: Iterable[str]) -> tuple[str, ...]:
    """Networks such as "10.0.0.0/8" or "::1". Raises SetupError for what is none."""
    texts = tuple(networks)
    for text in texts:
        try:
            ip_network(text, strict=False)
        except ValueError as error:
            raise SetupError("{text} is no address or network: {reason}", text=text, reason=error) from None
    return texts


def within(address: str | None, networks: tuple[str, ...]) -> bool:
    """Whether an address lies in one of some networks; what is no address lies in none."""
    if not networks or address is None:
        return False
    found = _address(address)
    return found is not None and _in(found, networks)


def _without_port(text: str) -> str:
    """An address without the port and the brackets that a proxy wrote; anything else as it is."""
    found = _WITH_PORT.fullmatch(text)
    return (found[1] or found[2]) if found else text


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """An address; one of IPv4 that came in the clothes of IPv6 is itself again."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id is not None else address.ipv4_mapped or address
    return address


def _in(address: IPv4Address | IPv6Address, networks: tuple[str, ...]) -> bool:
    return any(address in network for network in _networks(networks))


@lru_cache(maxsize=64)
def _networks(texts: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(ip_network(text, strict=False) for text in texts)
