"""Who may answer: the registered Archives, and which of them are included (floor 4; all SQL of the registry).

Registered means that the Archive and its key are known here; included means that it has switched itself on and is
asked for every item (REG-02, REG-03). Several processes may use one registry at once: what one writes, the others
see at their next look.

    rows.py          what is known of an Archive, as values
    store.py         how the database is read and written
    registering.py   the administrator's side
    mirroring.py     the Archives that another resolver lists
    (here)           the Archives' side, and the set that the resolver asks
"""

from __future__ import annotations

from pathlib import Path
from sqlite3 import Error as SQLiteError
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from ibi.resolver.registry.mirroring import Mirroring
from ibi.resolver.registry.registering import MOST_APPLICATIONS, Registering
from ibi.resolver.registry.rows import IncludedArchive, Move, RegisteredArchive, included_archive
from ibi.resolver.schema import archives, moves

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Engine

    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import InclusionRequest

__all__ = ["MIGRATIONS", "MOST_APPLICATIONS", "IncludedArchive", "Move", "RegisteredArchive", "Registry"]

MIGRATIONS: Final = Path(__file__).parent.parent / "migrations"
"""What `ibi.database.migrate` brings the registry's database up to date with."""


LOOK_EVERY: Final = 1.0
"""Seconds after which the database is looked at whatever the sign says: somebody may not know of the sign."""


class Registry(Registering, Mirroring):
    """The registered Archives in one database. Its methods may be called from any thread.

    `engine` is a database made ready by `ibi.database`; `clock` gives POSIX seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        super().__init__(engine, clock)
        self._included: tuple[IncludedArchive, ...] = ()
        self._shown: int | None = None  # the sign when the database was looked at last, and when that was
        self._looked = 0.0

    # -- the Archives' side ------------------------------------------------------------------------------------

    def open_change(self, service_ibi: IBI, after: int | None = None) -> int:
        """The number of a new change of an Archive's membership: of several open ones, only the last may end.

        0 if the Archive is not registered (any more), or if the last change was not `after`.
        """
        mine = archives.c.service_ibi == service_ibi.canonical
        still = mine if after is None else mine & (archives.c.change == after)
        with self._writing() as connection:
            opened = connection.execute(update(archives).where(still).values(change=archives.c.change + 1))
            number = connection.execute(select(archives.c.change).where(mine)).scalar() or 0
        return number if opened.rowcount else 0

    def include(self, request: InclusionRequest, change: int, *, confirmed: bool, source: str = "") -> bool:
        """Enter an Archive into the set that is asked, or renew its entry (REG-05, REG-08).

        `source` is the address that the request came from. A move to this address is carried out by this. False,
        and nothing done, if a later change was opened meanwhile or the Archive was unregistered.
        """
        mine = archives.c.service_ibi == request.service_ibi.canonical
        current = (mine, archives.c.state == "registered", archives.c.change == change)
        now, moment = self._now(), self._clock()
        with self._writing() as connection:
            row = connection.execute(
                select(archives.c.included, archives.c.address, archives.c.included_at).where(*current)
            ).first()
            if row is None:
                return False
            stays = row.included and row.address == request.address
            values: dict[str, object] = {
                "included": True,
                "confirmed": confirmed,
                "address": request.address,
                "ip": request.ip,
                "protocol": request.protocol,
                "platform_version": request.platform_version,
                "admin_mail": request.admin_mail,
                "changed_at": now,
                "heard_at": now,
                "source": source,
                "included_at": row.included_at if stays else moment,
                "move_allowed": archives.c.move_allowed if row.address == request.address else False,
            }
            if confirmed:
                values |= {"confirmed_address": request.address, "confirmed_at": now}
            connection.execute(update(archives).where(mine).values(values))
            waiting = (
                moves.c.service_ibi == request.service_ibi.canonical,
                moves.c.address == request.address,
            )
            connection.execute(delete(moves).where(*waiting))
        return True

    def exclude(self, service_ibi: IBI, change: int, source: str = "") -> bool:
        """Withdraw an Archive from the set that is asked; it stays registered (REG-02, REG-07)."""
        now = self._now()
        return self._update(
            service_ibi, change, included=False, confirmed=False, changed_at=now, heard_at=now, source=source
        )

    def confirm(self, archive: IncludedArchive) -> bool:
        """Note that an included Archive has confirmed after all, at the address where it is.

        False, and nothing done, if it is no longer included there.
        """
        mine = (
            archives.c.service_ibi == archive.service_ibi.canonical,
            archives.c.address == archive.address,
            archives.c.included,
        )
        values = {
            "confirmed": True,
            "confirmed_address": archive.address,
            "confirmed_at": self._now(),
        }
        with self._writing() as connection:
            return connection.execute(update(archives).where(*mine).values(values)).rowcount == 1

    def heard(self, moments: Mapping[str, float]) -> None:
        """Note when Archives were last heard: POSIX seconds by canonical service IBI, all in one transaction."""
        rows = [{"ibi": ibi, "moment": self._text(moment)} for ibi, moment in moments.items()]
        if rows:
            statement = update(archives).where(archives.c.service_ibi == bindparam("ibi"))
            with self._writing() as connection:
                connection.execute(statement.values(heard_at=bindparam("moment")), rows)

    def hold_move(self, service_ibi: IBI, move: Move) -> None:
        """Keep a move that is not carried out yet, in the place of another one of this Archive."""
        values = {
            "service_ibi": service_ibi.canonical,
            "address": move.address,
            "ip": move.ip,
            "since": move.since,
            "silent_since": move.silent_since,
            "checks": move.checks,
        }
        with self._writing() as connection:
            connection.execute(delete(moves).where(moves.c.service_ibi == service_ibi.canonical))
            connection.execute(insert(moves).values(values))

    # -- the resolver's side -----------------------------------------------------------------------------------

    def archives(self) -> tuple[IncludedArchive, ...]:
        """The included Archives as they are now, by whatever process they came in.

        Cheap: the database is looked at only if the sign tells that somebody changed it, or was not looked at for a
        second; it is read again only if it has changed, and where that changed nothing here, it is the same tuple.
        While it cannot be read, the last known set holds.
        """
        shown, now = None if self.sign is None else self.sign.shown, self._clock()
        if shown is not None and shown == self._shown and 0 <= now - self._looked < LOOK_EVERY:
            return self._included
        with self._lock:
            try:
                version = self._fetch("PRAGMA data_version")[0][0]
                if version != self._version:
                    statement = select(archives).where(archives.c.included).order_by(archives.c.service_ibi)
                    found = tuple(included_archive(row) for row in self._select(statement))
                    self._included = self._included if found == self._included else found
                    self._version = version
                self._shown, self._looked = shown, now
            except (SQLAlchemyError, SQLiteError):
                self._drop_reader()
            return self._included
