"""The registry: which Archives are registered, and which of them are included.

Registered means that the Archive and its key are known here; included means that it has switched itself on and is
asked for every item. Several processes may use one registry: what one of them writes, the others read with their next
look-up. `Registry` has the changes that Archives make themselves. It inherits from `Registrations` those that
administrators make, and from `MirroredArchives` those that follow another registry. See REG-01: registration; REG-02:
only registered Archives; REG-03: switching on and off.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from math import inf
from pathlib import Path
from sqlite3 import Error as SQLiteError
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, case, delete, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from ibi.errors import SetupError
from ibi.protocol.messages import NO_TITLES
from ibi.protocol.vocabulary import NEVER
from ibi.resolver.model.archive import Archive, AwayArchive, Move, away_archive, included_archive, moment_text
from ibi.resolver.registry.database import archives, moves, of_archive
from ibi.resolver.registry.mirror import MirroredArchives
from ibi.resolver.registry.registrations import Registrations, delete_move, title_columns, unrecorded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Connection, Engine

    from ibi.identifier.forms import IBI
    from ibi.protocol.messages import ArchiveTitles, InclusionRequest
    from ibi.runtime.shared.store import SharedStore


_INCLUDED = select(archives).where(archives.c.included).order_by(archives.c.service_ibi)
_AWAY = select(archives).where(
    archives.c.included.is_(False),
    archives.c.gone.is_(False),
    archives.c.state != "applied",
    archives.c.address.is_not(None),
    archives.c.changed_at.is_not(None),
)

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""The migrations of the registry's database, for `ibi.runtime.database.migrate`."""


REPORT_SECONDS: Final = 3600.0
"""Seconds until a held move that is still asked for is reported again, whatever addresses are named (T17: replayed
inclusions; T42: missing evidence).

A move that is not asked for again within this time is forgotten as soon as the Archive confirms where it is."""

POLL_SECONDS: Final = 1.0
"""Seconds after which the database is read even though the generation counter has not changed."""


class Registry(Registrations, MirroredArchives):
    """The registered Archives in one database. Its methods may be called from any thread.

    `engine` is a database opened by `ibi.runtime.database`; `clock` returns POSIX seconds; `store` and
    `generation_file` as in RegistryDatabase.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Callable[[], float],
        store: SharedStore | None = None,
        generation_file: Path | None = None,
    ) -> None:
        super().__init__(engine, clock, store, generation_file)
        self._included: tuple[Archive, ...] = ()
        self._away: dict[str, AwayArchive] = {}
        self._generation_read: int | None = None
        self._read_at = 0.0

    # Changes that Archives make

    def open_change(self, service_ibi: IBI, after: int | None = None, *, key_hash: str | None = None) -> int:
        """Open a change of an Archive's membership; return its number. Only the last one opened may end.

        0 if the Archive is not registered (any more), has another key, or if the last change is not `after`.
        """
        # An inclusion waits up to five seconds for the confirmation. An exclusion may come in meanwhile, and an old
        # request may be replayed: a change that ends late must not overwrite a later one (T17: replayed inclusions).
        still = mine = archives.c.service_ibi == service_ibi.canonical
        if key_hash is not None:
            still &= archives.c.key_hash == key_hash
        if after is not None:
            still &= archives.c.change == after
        with self._transaction() as connection:
            opened = connection.execute(update(archives).where(still).values(change=archives.c.change + 1))
            number = connection.execute(select(archives.c.change).where(mine)).scalar() or 0
        return number if opened.rowcount else 0

    def include(
        self,
        request: InclusionRequest,
        change: int,
        *,
        confirmed: bool,
        source: str = "",
        titles: ArchiveTitles = NO_TITLES,
        record: Callable[[], None] = unrecorded,
    ) -> bool:
        """Enter an Archive into the set that is asked, or renew its entry.

        `source` is the address that the request came from; `titles`: what readers call the Archive, if it says so.
        This also carries out a held move to the address of the request. `record` writes the evidence before the
        commit. Returns False, and does nothing, if a later change was opened or the Archive unregistered. See REG-05:
        what inclusion needs; REG-08: repeating is harmless.
        """
        current = of_archive(request.service_ibi) & (archives.c.change == change)
        now, moment = self._now(), self._clock()
        names = ("address", "ip", "protocol", "platform_version", "admin_mail")
        with self._transaction() as connection:
            row = connection.execute(select(archives).where(current)).first()
            if row is None:
                return False
            stays = row.included and row.address == request.address
            values: dict[str, object] = {name: getattr(request, name) for name in names} | {
                "included": True,
                "confirmed": confirmed,
                **(title_columns(titles) if any(titles) else {}),
                "changed_at": now,
                "heard_at": now,
                "source": source,
                "included_at": row.included_at if stays else moment,
                "back_at": None,
                "gone": False,
                "move_allowed": archives.c.move_allowed if row.address == request.address else False,
            }
            if confirmed:
                values |= {"confirmed_address": request.address, "confirmed_at": now}
            connection.execute(update(archives).where(current).values(values))
            connection.execute(delete_move(request.service_ibi).where(moves.c.address == request.address))
            if confirmed:
                self._end_silence(connection, request.service_ibi)
            record()
        return True

    def exclude(
        self,
        service_ibi: IBI,
        change: int,
        source: str = "",
        end: str = "",
        record: Callable[[], None] = unrecorded,
    ) -> bool:
        """Withdraw an Archive from the set that is asked; it stays registered.

        `end`: when the Archive expects to be back, as its request says; the exclusion ends only with a new inclusion.
        The Archive stays the known holder of its originals, unless it goes for good. `record` writes the evidence
        before the commit. Returns False, and does nothing, if a later change was opened meanwhile or the Archive was
        unregistered. See REG-02: only registered Archives; REG-07: exclusion.
        """
        now = self._now()
        back_at = datetime.fromisoformat(end).timestamp() if end not in {"", NEVER} else None
        # A repeated request is no new exclusion: the first moment counts, so that replays delay no end.
        again = archives.c.included.is_(False) & archives.c.changed_at.is_not(None)
        values: dict[str, object] = {
            "included": False,
            "confirmed": False,
            "changed_at": case((again, archives.c.changed_at), else_=now),
            "heard_at": now,
            "source": source,
            "back_at": back_at,
            "gone": True if end == NEVER else archives.c.gone,
        }
        mine = of_archive(service_ibi) & (archives.c.change == change)
        return self._decided(update(archives).where(mine).values(values), record)

    def confirm(self, archive: Archive) -> bool:
        """Store that an included Archive has confirmed after all, at the address where it is.

        False, and nothing stored, if it is no longer included there.
        """
        mine = (
            archives.c.service_ibi == archive.service_ibi.canonical,
            archives.c.address == archive.address,
            archives.c.included,
        )
        values = {"confirmed": True, "confirmed_address": archive.address, "confirmed_at": self._now()}
        with self._transaction() as connection:
            confirmed = connection.execute(update(archives).where(*mine).values(values)).rowcount == 1
            if confirmed:
                self._end_silence(connection, archive.service_ibi)
        return confirmed

    def confirm_again(self, service_ibi: IBI) -> None:
        """Store that an Archive has confirmed again where it is, while a move to another address is held."""
        with self._transaction() as connection:
            self._end_silence(connection, service_ibi)

    def _end_silence(self, connection: Connection, service_ibi: IBI) -> None:
        """Let the checks of a held move begin anew; forget a move that is no longer asked for."""
        connection.execute(
            delete_move(service_ibi).where(moves.c.reported_at <= self._clock() - REPORT_SECONDS)
        )
        mine = moves.c.service_ibi == service_ibi.canonical
        connection.execute(update(moves).where(mine).values(silent_since=None, checks=0))

    def heard(self, moments: Mapping[str, float]) -> None:
        """Store when Archives were last heard: POSIX seconds by canonical service IBI, all in one transaction."""
        rows = [{"ibi": ibi, "moment": moment_text(moment)} for ibi, moment in moments.items()]
        if rows:
            statement = update(archives).where(archives.c.service_ibi == bindparam("ibi"))
            with self._transaction() as connection:
                connection.execute(statement.values(heard_at=bindparam("moment")), rows)

    def hold_move(self, service_ibi: IBI, move: Move) -> None:
        """Store a move that is not carried out yet; it replaces the one held before for this Archive."""
        values = {"service_ibi": service_ibi.canonical, **asdict(move)}
        with self._transaction() as connection:
            connection.execute(delete(moves).where(moves.c.service_ibi == service_ibi.canonical))
            connection.execute(insert(moves).values(values))

    # The Archives that are asked

    def away(self, seconds: float = inf) -> dict[str, AwayArchive]:
        """Return the Archives that may be back and were excluded less than `seconds` ago, by service.

        The last call of `archives` has read them.
        """
        latest = self._clock() - seconds
        return {service: each for service, each in self._away.items() if each.excluded_at > latest}

    def archives(self) -> tuple[Archive, ...]:
        """Return the included Archives as they are now, whatever process included them.

        It is the same tuple as before if nothing has changed, and while the database cannot be read.
        """
        # Called for each resolution. The generation counter is in shared memory, so nearly every call costs
        # one read of it and no system call. Once a second the database is checked all the same, because a
        # process of an older version, or a person with `sqlite3`, changes it without the counter.
        if self._store is not None:
            return self._archives_of(self._store)
        generation, now = None if self.generation is None else self.generation.current, self._clock()
        unchanged = generation is not None and generation == self._generation_read
        if unchanged and 0 <= now - self._read_at < POLL_SECONDS:
            return self._included
        with self._lock:
            try:
                version = self._fetch("PRAGMA data_version")[0][0]
                if version != self._version:
                    self._read_included()
                    self._version = version
                self._generation_read, self._read_at = generation, now
            except (SQLAlchemyError, SQLiteError):
                self._drop_reader()
            return self._included

    def _read_included(self) -> bool:
        """Read the Archives that are included, and those that may be back; return whether anything is new."""
        included = tuple(included_archive(row) for row in self._select(_INCLUDED))
        away = {each.archive.service: each for each in map(away_archive, self._select(_AWAY))}
        is_new = included != self._included or away != self._away
        # The same tuple if nothing is new: callers compare it by `is`, and cache their results.
        self._included = self._included if included == self._included else included
        self._away = away
        return is_new

    # A registry that several nodes share

    def refresh(self) -> None:
        """Read the Archives again, and let cached redirects be looked at again. Raises SetupError."""
        try:
            # Read and put in place under one lock: what was read earlier never replaces what was read later.
            with self._lock:
                is_new = self._read_included()
        except SQLAlchemyError as error:
            raise SetupError("the registry cannot be read now") from error
        if is_new and self.generation is not None:
            self.generation.change()

    def _changed(self) -> None:
        if self._store is not None and self._store.is_watched:
            with suppress(SetupError):  # it was changed all the same, and the watching thread reads it soon
                self.refresh()

    def _archives_of(self, store: SharedStore) -> tuple[Archive, ...]:
        """Return the included Archives of a shared store, as the watching thread has read them, at no cost."""
        if not store.is_watched:
            with suppress(SetupError):
                self.refresh()
        return self._included
