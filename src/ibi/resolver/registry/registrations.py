"""Registrations: which Archives are registered, under which key; the changes that administrators make.

An Archive is registered by an administrator, or applies and is approved. Its key is stored as a hash. `registry` has
the changes that Archives make themselves. See REG-01: registration; MSG-21: the form of a key.
"""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ibi.errors import NotHeld, ParseError, SetupError
from ibi.protocol.messages import NO_TITLES, is_key
from ibi.resolver.registry.database import RegistryDatabase, archives, moves, of_archive
from ibi.resolver.registry.keys import challenge_secret, decoy_hash, hash_key, matches_hash, strong_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Delete, Update

    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import ArchiveTitles


MOST_APPLICATIONS: Final = 200
"""Applications that wait at once; further ones are refused (docs/reference/threats.md)."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")
_UNKNOWN = "{ibi} is not registered here"
_NOT_APPLIED = "{ibi} has not applied for registration"


def unrecorded() -> None:
    """Record nothing: the default of `record`."""


class Registrations(RegistryDatabase):
    """The changes that administrators make, on the command line, on pages and over the JSON interface.

    `record` is called inside the transaction of a change: if it raises, nothing is changed.
    """

    def register(
        self,
        service_ibi: IBI,
        key: str | None = None,
        url_hosts: Iterable[str] = (),
        contact: str = "",
        contact_name: str = "",
        record: Callable[[], None] = unrecorded,
        *,
        titles: ArchiveTitles = NO_TITLES,
    ) -> str:
        """Register an Archive and return its key, a strong new one if none is given.

        `contact` and `contact_name` are the mail address and the name of its administrator, `titles` are what readers
        call the Archive. Registering again with the same key changes the hosts, and the administrator and the titles
        if they are given, without calling `record`. The row of an Archive that has applied, or is mirrored, is
        replaced. Raises ParseError for a text that is no key or no host, SetupError if the Archive is registered with
        another key. See REG-01: registration; MSG-21: the form of a key.
        """
        if key is not None and not is_key(key):
            problem = "a key is ten or more digits, perhaps a hyphen and ten or more digits again"
            raise ParseError("registration key", "", problem)
        hosts, chosen = _hosts(url_hosts), key or strong_key()
        names = {"contact": contact, "contact_name": contact_name} | title_columns(titles)
        row = self._row(service_ibi, chosen, hosts) | names
        applied = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state != "registered")
        try:
            with self._transaction() as connection:
                connection.execute(delete(archives).where(applied))
                connection.execute(insert(archives).values(row))
                record()
        except IntegrityError:
            if key is None or not self.check_key(service_ibi, key):
                problem = "{ibi} is registered already; unregister it first to give it another key"
                raise SetupError(problem, ibi=service_ibi) from None
            given = {name: value for name, value in names.items() if value}
            self._update(service_ibi, None, url_hosts=hosts, **given)
        return chosen

    def unregister(self, service_ibi: IBI, record: Callable[[], None] = unrecorded) -> None:
        """Forget an Archive, included or not. Raises NotHeld if it is not registered."""
        if not self._decided(
            delete(archives).where(of_archive(service_ibi)), record, delete_move(service_ibi)
        ):
            raise NotHeld(_UNKNOWN, ibi=service_ibi)

    # Applications

    def apply(
        self,
        service_ibi: IBI,
        address: str,
        contact: str,
        contact_name: str = "",
        url_hosts: Iterable[str] = (),
        record: Callable[[], None] = unrecorded,
        *,
        titles: ArchiveTitles = NO_TITLES,
    ) -> str | None:
        """Store an application until it is decided; return the key that is valid once it is approved.

        The Archive must have confirmed at `address` just now. Returns None, and stores nothing, if the
        Archive is known already, or if too many applications wait. Raises ParseError for a text that is no
        host.
        """
        chosen = strong_key()
        row = self._row(service_ibi, chosen, _hosts(url_hosts)) | {
            "state": "applied",
            "contact": contact,
            "contact_name": contact_name,
            **title_columns(titles),
            "address": address,
            "confirmed_address": address,
            "confirmed_at": self._now(),
        }
        waiting = select(func.count()).select_from(archives).where(archives.c.state == "applied")
        try:
            with self._transaction() as connection:
                # Each application takes 19 MiB to hash its key, and a person to read it (docs/reference/threats.md).
                if (connection.execute(waiting).scalar() or 0) >= MOST_APPLICATIONS:
                    return None
                connection.execute(insert(archives).values(row))
                record()
        except IntegrityError:
            return None
        return chosen

    def approve(self, service_ibi: IBI, record: Callable[[], None] = unrecorded) -> None:
        """Register an Archive that has applied; its next request is accepted. Raises SetupError if it has not."""
        applied = update(archives).where(of_archive(service_ibi, "applied"))
        if not self._decided(applied.values(state="registered", registered_at=self._now()), record):
            raise SetupError(_NOT_APPLIED, ibi=service_ibi)

    def refuse(self, service_ibi: IBI, record: Callable[[], None] = unrecorded) -> None:
        """Forget an application. Raises SetupError if there is none."""
        applied = delete(archives).where(of_archive(service_ibi, "applied"))
        if not self._decided(applied, record, delete_move(service_ibi)):
            raise SetupError(_NOT_APPLIED, ibi=service_ibi)

    # Keys and moves

    def check_key(self, service_ibi: IBI, key: str) -> bool:
        """Whether the Archive is registered with this key (REG-05: what inclusion needs); slow on purpose."""
        key_hash = self._key_hash(service_ibi)
        # An unknown Archive costs one hash, too, so that the time of the answer shows no registrations (T16: guessed
        # keys).
        return matches_hash(key_hash or decoy_hash(), key) and key_hash is not None

    def rotate(
        self, service_ibi: IBI, secret: str | None = None, record: Callable[[], None] = unrecorded
    ) -> str:
        """Give an Archive a strong new key and return it; the old one is void. The Archive stays included.

        A change of its membership that was requested with the old key and is still under way fails.

        With `secret`, only if the key is still the one that this challenge secret was derived from. Raises SetupError
        otherwise, and for an Archive that is not registered.
        """
        key_hash, chosen = self._key_hash(service_ibi), strong_key()
        if key_hash is None or (
            secret is not None and not hmac.compare_digest(challenge_secret(key_hash), secret)
        ):
            raise SetupError(_UNKNOWN, ibi=service_ibi)
        # The old hash is a condition: of two calls at a time, one gets a valid key, the other an error.
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.key_hash == key_hash)
        values = {"key_hash": hash_key(chosen), "change": archives.c.change + 1}
        if not self._decided(update(archives).where(mine).values(values), record):
            raise SetupError("another new key was given to this Archive at the same time")
        return chosen

    def challenge_secret(self, service_ibi: IBI) -> str:
        """Derive the secret of an Archive's challenges from its key; for an unknown Archive, from a decoy."""
        return challenge_secret(self._key_hash(service_ibi) or decoy_hash())

    def allow_move(self, service_ibi: IBI, record: Callable[[], None] = unrecorded) -> None:
        """Let an Archive move once, even if its old address answers. Raises NotHeld if unregistered."""
        if not self._decided(
            update(archives).where(of_archive(service_ibi)).values(move_allowed=True), record
        ):
            raise NotHeld(_UNKNOWN, ibi=service_ibi)

    def _key_hash(self, service_ibi: IBI) -> str | None:
        rows = self._read(select(archives.c.key_hash).where(of_archive(service_ibi)))
        return rows[0]["key_hash"] if rows else None

    def _row(self, service_ibi: IBI, key: str, hosts: str) -> dict[str, object]:
        return {
            "service_ibi": service_ibi.canonical,
            "spelling": str(service_ibi),
            "key_hash": hash_key(key),
            "url_hosts": hosts,
            "registered_at": self._now(),
        }

    def _decided(
        self, decision: Update | Delete, record: Callable[[], None], *further: Update | Delete
    ) -> bool:
        """Run `decision` on the row of an Archive, then `further`, and `record`; False if there is no row."""
        with self._transaction() as connection:
            changed = connection.execute(decision).rowcount == 1
            if changed:
                for statement in further:
                    connection.execute(statement)
                # Last: only the commit follows the record.
                record()
        return changed


def title_columns(titles: ArchiveTitles) -> dict[str, str]:
    """Return the columns of the titles of an Archive."""
    return {"title": titles.usual, "title_pt": titles.portuguese}


def delete_move(service_ibi: IBI) -> Delete:
    """Return the statement that deletes the held move of an Archive."""
    return delete(moves).where(moves.c.service_ibi == service_ibi.canonical)


def _hosts(texts: Iterable[str]) -> str:
    """Write hosts as the database has them. Raises ParseError for a text that is no host."""
    hosts = set()
    for text in texts:
        host = text.lower()
        if not (host.isascii() and _HOST.fullmatch(host)):
            raise ParseError("host", text, "this is not the name or the address of a host")
        hosts.add(host)
    return " ".join(sorted(hosts))
