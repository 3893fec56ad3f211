"""The administrator's side of the registry: who is registered, who has applied, which keys hold (REG-01, MSG-21)."""

from __future__ import annotations

import hmac
import re
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from ibi.errors import ParseError, SetupError
from ibi.protocol.messages import is_key
from ibi.resolver.keys import decoy_hash, hash_key, is_hash_of, seal_of, strong_key
from ibi.resolver.registry.store import RegistryStore
from ibi.resolver.schema import archives, moves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.identifier.forms import IBI

MOST_APPLICATIONS: Final = 200
"""Applications that wait at once; further ones are not taken (docs/threats.md)."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")
_UNKNOWN = "{ibi} is not registered here"


def _untold() -> None:
    """Nobody writes it down."""


class Registering(RegistryStore):
    """What administrators change, on the command line and by approving what was applied for.

    `tell` writes a change down before it counts: if it raises, nothing is changed.
    """

    def register(
        self,
        service_ibi: IBI,
        key: str | None = None,
        url_hosts: Iterable[str] = (),
        contact: str = "",
        contact_name: str = "",
        tell: Callable[[], None] = _untold,
    ) -> str:
        """Register an Archive and return its key, a strong new one if none is given (REG-01, MSG-21).

        `contact` and `contact_name` are the mail address and the name of its administrator. Registering again with
        the same key changes the hosts, and the administrator if one is given; `tell` is for new ones only. An
        application for it is settled by this. Raises ParseError for a text that is no key or no host, SetupError if
        the Archive is registered with another key.
        """
        if key is not None and not is_key(key):
            problem = "a key is ten or more digits, perhaps a hyphen and ten or more digits again"
            raise ParseError("registration key", "", problem)
        hosts, chosen = _hosts(url_hosts), key or strong_key()
        row = self._row(service_ibi, chosen, hosts)
        row |= {"contact": contact, "contact_name": contact_name}
        applied = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state != "registered")
        try:
            with self._writing() as connection:
                connection.execute(delete(archives).where(applied))
                connection.execute(insert(archives).values(row))
                tell()
        except IntegrityError:
            if key is None or not self.check_key(service_ibi, key):
                problem = "{ibi} is registered already; unregister it first to give it another key"
                raise SetupError(problem, ibi=service_ibi) from None
            self._update(
                service_ibi,
                None,
                url_hosts=hosts,
                contact=contact or archives.c.contact,
                contact_name=contact_name or archives.c.contact_name,
            )
        return chosen

    def unregister(self, service_ibi: IBI, tell: Callable[[], None] = _untold) -> None:
        """Forget an Archive, included or not. Raises SetupError if it is not registered."""
        if not self._delete(service_ibi, "registered", tell):
            raise SetupError(_UNKNOWN, ibi=service_ibi)

    # -- applications ------------------------------------------------------------------------------------------

    def apply(
        self,
        service_ibi: IBI,
        address: str,
        contact: str,
        contact_name: str = "",
        url_hosts: Iterable[str] = (),
        tell: Callable[[], None] = _untold,
    ) -> str | None:
        """Keep an application until somebody approves it; returns the key of the Archive, if it is approved.

        The Archive must have confirmed at `address` just now. None, and nothing kept, where it is registered or has
        applied already, or too many wait. Raises ParseError for a host that is none.
        """
        chosen = strong_key()
        row = self._row(service_ibi, chosen, _hosts(url_hosts)) | {
            "state": "applied",
            "contact": contact,
            "contact_name": contact_name,
            "address": address,
            "confirmed_address": address,
            "confirmed_at": self._now(),
        }
        waiting = select(func.count()).select_from(archives).where(archives.c.state == "applied")
        try:
            with self._writing() as connection:
                if (connection.execute(waiting).scalar() or 0) >= MOST_APPLICATIONS:
                    return None
                connection.execute(insert(archives).values(row))
                tell()
        except IntegrityError:
            return None
        return chosen

    def approve(self, service_ibi: IBI, tell: Callable[[], None] = _untold) -> None:
        """Register an Archive that has applied; its next request is accepted. Raises SetupError if it has not."""
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state == "applied")
        with self._writing() as connection:
            done = connection.execute(
                update(archives).where(mine).values(state="registered", registered_at=self._now())
            )
            if done.rowcount:
                tell()
        if not done.rowcount:
            raise SetupError("{ibi} has not applied for registration", ibi=service_ibi)

    def refuse(self, service_ibi: IBI, tell: Callable[[], None] = _untold) -> None:
        """Forget an application. Raises SetupError if there is none."""
        if not self._delete(service_ibi, "applied", tell):
            raise SetupError("{ibi} has not applied for registration", ibi=service_ibi)

    # -- keys and moves ----------------------------------------------------------------------------------------

    def check_key(self, service_ibi: IBI, key: str) -> bool:
        """Whether the Archive is registered with this key (REG-05).

        Slow on purpose (argon2), and equally slow for an unknown Archive: whoever asks learns nothing from the time.
        """
        kept = self._key_hash(service_ibi)
        return is_hash_of(kept or decoy_hash(), key) and kept is not None

    def rotate(self, service_ibi: IBI, seal: str | None = None, tell: Callable[[], None] = _untold) -> str:
        """Give an Archive a strong new key; the old one is void. It stays included.

        With `seal`, only if the key is still the one that the seal was made of. Raises SetupError otherwise, and
        for an Archive that is not registered.
        """
        kept, chosen = self._key_hash(service_ibi), strong_key()
        if kept is None or (seal is not None and not hmac.compare_digest(seal_of(kept), seal)):
            raise SetupError(_UNKNOWN, ibi=service_ibi)
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.key_hash == kept)
        hashed = hash_key(chosen)
        with self._writing() as connection:
            done = connection.execute(update(archives).where(mine).values(key_hash=hashed))
            if done.rowcount:
                tell()
        if not done.rowcount:
            raise SetupError("the registry cannot be written now")
        return chosen

    def seal(self, service_ibi: IBI) -> str:
        """A secret that changes with the key of an Archive; for an unknown one, the seal of a key nobody has."""
        return seal_of(self._key_hash(service_ibi) or decoy_hash())

    def allow_move(self, service_ibi: IBI, tell: Callable[[], None] = _untold) -> None:
        """Let an Archive move once, whatever its old address says. Raises SetupError if it is not registered."""
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state == "registered")
        with self._writing() as connection:
            done = connection.execute(update(archives).where(mine).values(move_allowed=True))
            if done.rowcount:
                tell()
        if not done.rowcount:
            raise SetupError(_UNKNOWN, ibi=service_ibi)

    def _key_hash(self, service_ibi: IBI) -> str | None:
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state == "registered")
        found = self._read(select(archives.c.key_hash).where(mine))
        return found[0]["key_hash"] if found else None

    def _row(self, service_ibi: IBI, key: str, hosts: str) -> dict[str, object]:
        return {
            "service_ibi": service_ibi.canonical,
            "spelling": str(service_ibi),
            "key_hash": hash_key(key),
            "url_hosts": hosts,
            "registered_at": self._now(),
        }

    def _delete(self, service_ibi: IBI, state: str, tell: Callable[[], None]) -> bool:
        mine = (archives.c.service_ibi == service_ibi.canonical) & (archives.c.state == state)
        with self._writing() as connection:
            gone = connection.execute(delete(archives).where(mine)).rowcount == 1
            if gone:
                connection.execute(delete(moves).where(moves.c.service_ibi == service_ibi.canonical))
                tell()
        return gone


def _hosts(texts: Iterable[str]) -> str:
    return " ".join(sorted({_host(text) for text in texts}))


def _host(text: str) -> str:
    host = text.lower()
    if not (host.isascii() and _HOST.fullmatch(host)):
        raise ParseError("host", text, "this is not the name or the address of a host")
    return host
