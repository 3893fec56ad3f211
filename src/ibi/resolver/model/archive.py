"""Values: `Archive` as the registry knows it, and `ArchiveResponse`, its response to a query (RES-04)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from ibi.identifier.forms import IBI, parse_ibi
from ibi.protocol.messages import NO_TITLES, ArchiveTitles
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ibi.errors import IbiError


@dataclass(frozen=True, slots=True)
class Archive:
    """An included Archive, with the facts of its inclusion."""

    service_ibi: IBI
    """The IBI of its Archive service, as registered; its text is the path of the base URL."""
    address: str
    """"host[:port]"."""
    ip: str = ""
    protocol: str = ""
    platform_version: str = ""
    admin_mail: str = ""
    confirmed: bool = True
    """Whether it has confirmed at this address; until then it is probationary (T18: unconfirmed Archives)."""
    url_hosts: tuple[str, ...] = ()
    """If not empty, its URLs may lead to these hosts only (note 4: where a redirect may lead), in lower case."""
    included_at: float = 0.0
    """POSIX seconds: when it was included at this address; asking for inclusion again does not change it."""
    titles: ArchiveTitles = NO_TITLES
    """What readers call it, each one printable line from the Archive or its registration."""
    # Both names are made once, since a click uses them many times (9 calls of __str__ before).
    service: str = field(init=False, repr=False)
    """The canonical text of `service_ibi`."""
    name: str = field(init=False, repr=False)
    """The text of `service_ibi` as it is spelled."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "service", self.service_ibi.canonical)
        object.__setattr__(self, "name", str(self.service_ibi))


@dataclass(frozen=True, slots=True)
class AwayArchive:
    """An Archive that is excluded and may be back; it stays the known holder of its originals.

    `back_at`: when it expects to be back, None if not known. Both in POSIX seconds. See T04: a rogue first answer.
    """

    archive: Archive
    excluded_at: float
    back_at: float | None


@dataclass(frozen=True, slots=True)
class Members:
    """The included Archives, indexed as resolutions need them; made once per version of the registry."""

    regular: tuple[Archive, ...]
    probationary: tuple[Archive, ...]
    """The Archives that have not confirmed yet: asked like the others, but not waited for (T18: unconfirmed
    Archives)."""
    by_service: dict[str, Archive]
    by_prefix: dict[str, tuple[Archive, ...]]
    version: str
    """A digest of the included and the excluded Archives, the same in all processes."""
    away: Mapping[str, AwayArchive]
    """The excluded Archives that may be back, by service; they are not asked."""

    @classmethod
    def of(
        cls,
        archives: Iterable[Archive],
        *,
        probation: bool,
        away: Mapping[str, AwayArchive] = MappingProxyType({}),
    ) -> Members:
        """Make it of the included Archives and those that are away; without `probation`, all are regular."""
        every = tuple(archives)
        services = " ".join([*(archive.service for archive in every), "away", *sorted(away)])
        regular = tuple(archive for archive in every if archive.confirmed or not probation)
        prefixes: dict[str, list[Archive]] = defaultdict(list)
        for archive in every:
            prefixes[archive.service_ibi.prefix.lower()].append(archive)
        return cls(
            regular,
            tuple(archive for archive in every if probation and not archive.confirmed),
            {archive.service: archive for archive in every},
            {prefix: tuple(found) for prefix, found in prefixes.items()},
            sha256(services.encode()).hexdigest()[:16],
            away,
        )


@dataclass(frozen=True, slots=True)
class Move:
    """An Archive wants to answer at another address than the one where it confirmed (T17: replayed inclusions).

    `reported_at`: when its administrator was last told; `silent_since`: when the old address missed the first of
    `checks` checks in a row, None while it answers. POSIX seconds.
    """

    address: str
    ip: str
    reported_at: float
    silent_since: float | None = None
    checks: int = 0


@dataclass(frozen=True, slots=True)
class RegisteredArchive:
    """A row of the registry; `included` is None while switched off. Moments as in "2026-11-21T10:00:00Z"."""

    service_ibi: IBI
    url_hosts: tuple[str, ...]
    registered_at: str
    changed_at: str | None
    included: Archive | None
    applied: bool = False
    """Whether its registration still waits for approval."""
    contact: str = ""
    """The mail address of its administrator as registered, "" where none is known."""
    contact_name: str = ""
    address: str = ""
    """Its address: now, or when it was last included, or once it is approved."""
    admin_mail: str = ""
    """The mail address of its administrator that the Archive itself sent last."""
    source: str = ""
    """The address that its last accepted request came from."""
    heard_at: str | None = None
    """When it was last heard, to the minute."""
    confirmed_address: str | None = None
    """The address at which it confirmed last."""
    move_allowed: bool = False
    """Whether the administrator lets it move once, even if its old address still answers."""
    back_at: float | None = None
    """When it expects to be back, as its exclusion request says: POSIX seconds, None if it says no moment."""
    move: Move | None = None
    change: int = 0
    """The number of the last change of its membership."""
    key_hash: str = field(default="", repr=False)
    """The salted hash of its key, which changes with each new key."""
    mirrored_from: str = ""
    """The public key of the resolver whose list it comes from, "" if registered here; it has no key here."""
    titles: ArchiveTitles = NO_TITLES
    """What readers call it."""

    @property
    def mail(self) -> str:
        """The mail address of its administrator: as registered, else as it sent itself, else ""."""
        return self.contact or self.admin_mail


def moment_text(seconds: float) -> str:
    """Write POSIX seconds as "2026-11-21T10:00:00Z"."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def included_archive(row: Mapping[str, Any]) -> Archive:
    """Read a row of the table of Archives, which is included."""
    return Archive(
        service_ibi=parse_ibi(row["spelling"]),
        address=row["address"],
        ip=row["ip"],
        protocol=row["protocol"],
        platform_version=row["platform_version"],
        admin_mail=row["admin_mail"],
        confirmed=bool(row["confirmed"]),
        url_hosts=tuple(row["url_hosts"].split()),
        included_at=row["included_at"] or 0.0,
        titles=ArchiveTitles(row["title"], row["title_pt"]),
    )


def away_archive(row: Mapping[str, Any]) -> AwayArchive:
    """Read a row of the table of Archives, which was included once, and is not now."""
    return AwayArchive(
        included_archive(row), datetime.fromisoformat(row["changed_at"]).timestamp(), row["back_at"]
    )


def registered_archive(row: Mapping[str, Any], move: Move | None = None) -> RegisteredArchive:
    """Read a row of the table of Archives; `move`: the one that waits for a decision."""
    return RegisteredArchive(
        service_ibi=parse_ibi(row["spelling"]),
        url_hosts=tuple(row["url_hosts"].split()),
        registered_at=row["registered_at"],
        changed_at=row["changed_at"],
        included=included_archive(row) if row["included"] else None,
        applied=row["state"] == "applied",
        contact=row["contact"],
        contact_name=row["contact_name"],
        address=row["address"] or "",
        admin_mail=row["admin_mail"] or "",
        source=row["source"],
        heard_at=row["heard_at"],
        confirmed_address=row["confirmed_address"],
        move_allowed=bool(row["move_allowed"]),
        back_at=row["back_at"],
        move=move,
        change=row["change"],
        key_hash=row["key_hash"] or "",
        mirrored_from=row["mirrored_from"],
        titles=ArchiveTitles(row["title"], row["title_pt"]),
    )


ResponseSource = Literal["network", "shared", "cache", "stale", "breaker"]
"""The source of a response: just received; received for another reader, and reusable; from the answer cache;
from the cache although expired (its Archive is silent); from the circuit breaker, which stopped the query."""

NOT_KNOWN: Final = UrlList({})
"""The empty answer. 99 of 100 Archives give it, so all share this value, and it is compared by `is`."""


class ArchiveResponse(Struct, eq=False):
    """The response of one Archive in one round.

    `answer`: its URL list, None where it gave none. `error`: why it gave none, or why its answer is not believed
    (T08: false answers). `at`: time of the event loop, in seconds.
    """

    # A Struct, because a round may make thousands: one is made in 0.05 us, a frozen dataclass in 0.64.
    archive: Archive
    answer: UrlList | None
    error: IbiError | None = None
    at: float = 0.0
    source: ResponseSource = "network"

    @property
    def counts(self) -> bool:
        """Whether it has an answer, and the answer is believed."""
        return self.answer is not None and self.error is None
