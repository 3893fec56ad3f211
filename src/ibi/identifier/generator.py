"""Label generators: a subsystem and a date give both forms of one IBI (G15 chapters 5 to 7, GEN-08)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from ibi.errors import MintingNotAllowed, ParseError
from ibi.identifier import ibip as ip_form
from ibi.identifier import repository as rep_form
from ibi.identifier.dates import TICKS, fraction_digits
from ibi.identifier.forms import IBIForms
from ibi.identifier.ibip import canonical_ip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

TRIAL_DOMAINS = frozenset(
    "localhost test example invalid local internal alt arpa onion home lan corp intranet private localdomain".split()
)
"""Last words of host names that no one owns; labels under them are only for trying out."""

_LONGEST_HOST = 253  # characters of a host name


@dataclass(frozen=True, slots=True)
class LabelGenerator:
    """Spells labels for a host and port, perhaps also for an IP address and its port.

    Raises ParseError for a host, an address or a port that no label can spell, and MintingNotAllowed for host names
    and addresses that no one owns (AMB-10: names for trying), unless the labels are only for trying out. See GEN-04:
    one subsystem for a host and port.
    """

    host: str
    port: int = rep_form.DEFAULT_PORT
    ip: str | None = None
    ip_port: int = ip_form.DEFAULT_PORT
    for_trying: bool = False
    prefixes: tuple[str, ...] = field(init=False)
    """The prefix of each form; each label of this generator begins with one of them and a slash."""

    def __post_init__(self) -> None:
        if len(self.host) > _LONGEST_HOST:
            raise ParseError(
                "host name", self.host, "a host name has at most {limit} characters", limit=_LONGEST_HOST
            )
        rep = rep_form.rep_prefix(self.host, self.port)
        for port in (self.port, self.ip_port):
            if not 0 < port <= rep_form.LAST_PORT:
                raise ParseError("port", str(port), "a port is a number from 1 to 65535")
        if self.ip is not None:
            object.__setattr__(self, "ip", canonical_ip(self.ip))
        ibip = (ip_form.ibip_prefix(self.ip, self.ip_port),) if self.ip else ()
        object.__setattr__(self, "prefixes", (rep, *ibip))
        problem = self.why_not_unique
        if problem and not self.for_trying:
            raise MintingNotAllowed(problem, host=self.host, ip=self.ip)

    @property
    def why_not_unique(self) -> str | None:
        """Why labels of this generator would not be unique in the world; None if they are."""
        if self.host.lower().removesuffix(".").rpartition(".")[2] in TRIAL_DOMAINS:
            return "the host name {host} has no owner, so its labels are only for trying out"
        if self.ip is not None and not is_public_ip(self.ip):
            return "the address {ip} is not public, so its labels are only for trying out"
        return None

    def label(self, ticks: int) -> IBIForms:
        """Return both forms, or one if there is no IP address, for one date of the distributor."""
        return IBIForms.known(*next(self.spell((ticks,))))

    def spell(self, dates: Iterable[int]) -> Iterator[tuple[str, str | None]]:
        """Yield the texts of both forms for each date. Raises ParseError for moments before August 1995.

        Within a second only the fraction differs, so the rest is spelled once.
        """
        second: int | None = None
        minute = rep = ibip = ""
        for date in dates:
            seconds, rest = divmod(date, TICKS)
            if seconds != second:
                second = seconds
                minute, rep, ibip = _of_second(self.prefixes, seconds)
            if rest:
                digits = fraction_digits(rest)
                yield f"{rep}.{digits}", f"{ibip}W{ip_form.write_fraction(digits)}" if ibip else None
            else:
                yield minute, ibip or None


@lru_cache(maxsize=16)  # labels that are requested one by one share their second, too
def _of_second(prefixes: tuple[str, ...], seconds: int) -> tuple[str, str, str]:
    """Spell a second without fraction: the rep, the rep that shows the second even if it is 0, the ibip or ""."""
    rep, ibip = (*prefixes, "")[:2]
    start = seconds * TICKS
    return (
        f"{rep}/{rep_form.rep_suffix(start)}",
        f"{rep}/{rep_form.rep_suffix(start, shows_seconds=True)}",
        f"{ibip}/{ip_form.ibip_suffix(start)}" if ibip else "",
    )


def is_public_ip(ip: str) -> bool:
    """Return whether an address belongs to one machine in the whole world.

    Loopback, private, reserved, shared and multicast addresses do not, nor does IPv6 with an IPv4 inside.
    """
    address = ip_address(ip)
    if any(address in network for network in _NOT_PUBLIC):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


# Networks that the library `ipaddress` calls public although no single machine has each of their addresses.
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            # These have an IPv4 address inside: mapped, translated (NAT64), Teredo and 6to4.
            *("::/96", "::ffff:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
            # Deprecated (site-local), for documentation, for protocol assignments, anycast of 6to4 relays.
            *("fec0::/10", "3fff::/20", "192.0.0.0/24", "192.88.99.0/24"),
        ),
    )
)
