"""Archives that another resolver lists and this one asks too: they have no key here, and come and go with that list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, func, insert, select, update

from ibi.resolver.registry.rows import registered_archive
from ibi.resolver.registry.store import RegistryStore
from ibi.resolver.schema import archives

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ibi.identifier.forms import IBI

MIRRORED: Final = "mirrored"
"""The state of such an Archive."""

_NO_KEY: Final = "!"  # no argon2 hash: no key fits
_SAME = ("spelling", "address", "url_hosts", "confirmed")


@dataclass(frozen=True, slots=True)
class Listed:
    """An Archive as a resolver lists it for others; `since`: when it was included there ("2026-11-21T10:00:00Z")."""

    service_ibi: IBI
    address: str
    url_hosts: tuple[str, ...]
    confirmed: bool
    since: str


@dataclass(frozen=True, slots=True)
class Mirrored:
    """What a list has changed; `elsewhere`: Archives that are registered here, or mirrored from another resolver."""

    added: int = 0
    changed: int = 0
    gone: int = 0
    elsewhere: int = 0


class Mirroring(RegistryStore):
    """The registry's side of mirrors. `source` is always the public key of the resolver that signed the list."""

    def listed(self) -> list[Listed]:
        """The Archives that others may mirror: those that switched themselves on here, in the order of their names."""
        mine = (archives.c.state == "registered") & archives.c.included
        rows = self._read(select(archives).where(mine).order_by(archives.c.service_ibi))
        return [
            Listed(
                archive.service_ibi,
                archive.included.address,
                archive.url_hosts,
                archive.included.confirmed,
                archive.changed_at or archive.registered_at,
            )
            for archive in map(registered_archive, rows)
            if archive.included is not None
        ]

    def mirrored_at(self, source: str) -> str:
        """When the list that was taken last from a resolver was issued; "" if none was."""
        moment = func.max(archives.c.registered_at).label("moment")
        return self._read(select(moment).where(archives.c.mirrored_from == source))[0]["moment"] or ""

    def mirror(self, source: str, listed: Sequence[Listed], issued: str) -> Mirrored:
        """Include exactly these Archives of one resolver, all at once; those of before that are not among them go.

        What is registered or has applied here is left alone, and what another resolver listed first stays its own.
        """
        now, mine = self._clock(), archives.c.mirrored_from == source
        with self._writing() as connection:
            connection.execute(update(archives).where(mine).values(registered_at=issued))
            held = {row.service_ibi: row for row in connection.execute(select(archives))}
            ours = {ibi: row for ibi, row in held.items() if row.mirrored_from == source}
            new = {each.service_ibi.canonical: _values(each, source, issued, now) for each in listed}
            added = [values for ibi, values in new.items() if ibi not in held]
            changed = {ibi: _changes(row, new[ibi]) for ibi, row in ours.items() if ibi in new}
            changed = {ibi: values for ibi, values in changed.items() if values}
            gone = [{"gone": ibi} for ibi in ours if ibi not in new]
            if added:
                connection.execute(insert(archives), added)
            for ibi, values in changed.items():
                connection.execute(update(archives).where(archives.c.service_ibi == ibi).values(values))
            if gone:
                connection.execute(delete(archives).where(archives.c.service_ibi == bindparam("gone")), gone)
        return Mirrored(len(added), len(changed), len(gone), len(new.keys() & (held.keys() - ours.keys())))


def _values(each: Listed, source: str, issued: str, now: float) -> dict[str, Any]:
    return {
        "service_ibi": each.service_ibi.canonical,
        "spelling": str(each.service_ibi),
        "key_hash": _NO_KEY,
        "url_hosts": " ".join(each.url_hosts),
        "registered_at": issued,
        "included": True,
        "confirmed": each.confirmed,
        "address": each.address,
        "ip": "",
        "protocol": "HTTP",
        "platform_version": "",
        "admin_mail": "",
        "changed_at": each.since,
        "state": MIRRORED,
        "mirrored_from": source,
        "included_at": now,
    }


def _changes(row: Any, values: dict[str, Any]) -> dict[str, Any]:
    """What an entry becomes; {} where it stays. One that has confirmed here at this address stays confirmed."""
    moved = row.address != values["address"]
    if not moved:
        values |= {"confirmed": values["confirmed"] or row.confirmed, "included_at": row.included_at}
    return values if any(getattr(row, name) != values[name] for name in _SAME) else {}
