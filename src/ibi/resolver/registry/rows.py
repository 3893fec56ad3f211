"""What the registry knows of an Archive, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ibi.identifier.forms import IBI, parse_ibi

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


@dataclass(frozen=True, slots=True)
class IncludedArchive:
    """An Archive that is asked: where it said it answers, when it last switched itself on."""

    service_ibi: IBI
    address: str
    ip: str
    protocol: str
    platform_version: str
    admin_mail: str
    confirmed: bool
    """Whether it has confirmed at this address; until then it is on probation (threat T18)."""
    url_hosts: tuple[str, ...] = ()
    """If not empty, its URLs may lead to these hosts only (note 4)."""
    since: float = 0.0
    """POSIX seconds: since when it is included at this address; renewals do not change it."""


@dataclass(frozen=True, slots=True)
class Move:
    """An Archive wants to answer at another address than the one where it confirmed (threat T17).

    `since`: when it first asked; `silent_since`: when the old address missed the first of `checks` checks in a row,
    None while it answers. POSIX seconds.
    """

    address: str
    ip: str
    since: float
    silent_since: float | None = None
    checks: int = 0


@dataclass(frozen=True, slots=True)
class RegisteredArchive:
    """An Archive known here; `included` is None while it is switched off. Moments as in "2026-11-21T10:00:00Z"."""

    service_ibi: IBI
    url_hosts: tuple[str, ...]
    registered_at: str
    changed_at: str | None
    included: IncludedArchive | None
    applied: bool = False
    """Whether it only wants to be registered: nobody has approved it yet."""
    contact: str = ""
    """The mail address of its administrator as registered, "" where none is known."""
    contact_name: str = ""
    address: str = ""
    """Where it is, or was last, or will be once approved."""
    admin_mail: str = ""
    """What the Archive itself said last."""
    source: str = ""
    """The address that its last accepted request came from."""
    heard_at: str | None = None
    """When it was last heard, to the minute."""
    confirmed_address: str | None = None
    """Where it confirmed last."""
    confirmed_at: str | None = None
    move_allowed: bool = False
    """Whether the administrator lets it move once, whatever its old address says."""
    move: Move | None = None
    change: int = 0
    """The number of the last change of its membership."""
    mirrored_from: str = ""
    """The public key of the resolver that lists it, where it was not registered here; it has no key here."""

    @property
    def mail(self) -> str:
        """Whom to write to about it: as registered, else as it said itself; "" where nobody is known."""
        return self.contact or self.admin_mail


def included_archive(row: Mapping[str, Any]) -> IncludedArchive:
    """A row of the table of Archives that is included."""
    return IncludedArchive(
        service_ibi=parse_ibi(row["spelling"]),
        address=row["address"],
        ip=row["ip"],
        protocol=row["protocol"],
        platform_version=row["platform_version"],
        admin_mail=row["admin_mail"],
        confirmed=bool(row["confirmed"]),
        url_hosts=tuple(row["url_hosts"].split()),
        since=row["included_at"] or 0.0,
    )


def registered_archive(row: Mapping[str, Any], move: Move | None = None) -> RegisteredArchive:
    """A row of the table of Archives, with the move that is held."""
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
        confirmed_at=row["confirmed_at"],
        move_allowed=bool(row["move_allowed"]),
        move=move,
        change=row["change"],
        mirrored_from=row["mirrored_from"],
    )
