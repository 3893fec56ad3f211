"""Who may answer: the registered Archives, and which of them are included (floor 4; all SQL of the registry).

Registered means that the Archive and its key are known here; included means that it has switched itself on and is
asked for every item (REG-02, REG-03). Several processes may use one registry at once: what one writes, the others
see at their next look.
"""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from sqlite3 import Error as SQLiteError
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from ibi.errors import ParseError, SetupError
from ibi.identifier.forms import IBI, parse_ibi
from ibi.protocol.messages import is_key
from ibi.resolver.keys import decoy_hash, hash_key, is_hash_of, strong_key
from ibi.resolver.schema import archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from sqlalchemy import Connection, Engine, Select

    from ibi.protocol.messages import InclusionRequest

MIGRATIONS: Final = Path(__file__).parent / "migrations"
"""What `ibi.database.migrate` brings the registry's database up to date with."""

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")


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
    url_hosts: tuple[str, ...] = ()
    """If not empty, its URLs may lead to these hosts only (note 4)."""


@dataclass(frozen=True, slots=True)
class RegisteredArchive:
    """An Archive known here; `included` is None while it is switched off."""

    service_ibi: IBI
    url_hosts: tuple[str, ...]
    registered_at: str
    changed_at: str | None
    included: IncludedArchive | None


class Registry:
    """The registered Archives in one database. Its methods may be called from any thread.

    `engine` is a database made ready by `ibi.database`; `clock` gives POSIX seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock
        self._lock = threading.Lock()
        self._reader: Any = None
        self._version: int | None = None
        self._included: tuple[IncludedArchive, ...] = ()

    # -- the administrator's side ------------------------------------------------------------------------------

    def register(self, service_ibi: IBI, key: str | None = None, url_hosts: Iterable[str] = ()) -> str:
        """Register an Archive and return its key, a strong new one if none is given (REG-01, MSG-21).

        Registering again with the same key changes the hosts only. Raises ParseError for a text that is no key or
        no host, SetupError if the Archive is registered with another key.
        """
        if key is not None and not is_key(key):
            problem = "a key is ten or more digits, perhaps a hyphen and ten or more digits again"
            raise ParseError("registration key", "", problem)
        hosts = " ".join(sorted({_host(host) for host in url_hosts}))
        chosen = key or strong_key()
        row = {
            "service_ibi": service_ibi.canonical,
            "spelling": str(service_ibi),
            "key_hash": hash_key(chosen),
            "url_hosts": hosts,
            "registered_at": self._now(),
        }
        try:
            with self._writing() as connection:
                connection.execute(insert(archives).values(row))
        except IntegrityError:
            if key is None or not self.check_key(service_ibi, key):
                problem = "{ibi} is registered already; unregister it first to give it another key"
                raise SetupError(problem, ibi=service_ibi) from None
            self._update(service_ibi, url_hosts=hosts)
        return chosen

    def unregister(self, service_ibi: IBI) -> None:
        """Forget an Archive, included or not. Raises SetupError if it is not registered."""
        with self._writing() as connection:
            gone = connection.execute(delete(archives).where(archives.c.service_ibi == service_ibi.canonical))
        if not gone.rowcount:
            raise SetupError("{ibi} is not registered here", ibi=service_ibi)

    def registered(self) -> list[RegisteredArchive]:
        """All Archives known here, in order of registration."""
        rows = self._read(select(archives).order_by(archives.c.registered_at, archives.c.service_ibi))
        return [_registered(row) for row in rows]

    # -- the Archives' side ------------------------------------------------------------------------------------

    def check_key(self, service_ibi: IBI, key: str) -> bool:
        """Whether the Archive is registered with this key (REG-05).

        Slow on purpose (argon2), and equally slow for an unknown Archive: whoever asks learns nothing from the time.
        """
        found = self._read(select(archives.c.key_hash).where(archives.c.service_ibi == service_ibi.canonical))
        return is_hash_of(found[0]["key_hash"] if found else decoy_hash(), key) and bool(found)

    def open_change(self, service_ibi: IBI) -> int:
        """The number of a new change of an Archive's membership: of several open ones, only the last may end.

        0 if the Archive is not registered (any more).
        """
        mine = archives.c.service_ibi == service_ibi.canonical
        with self._writing() as connection:
            connection.execute(update(archives).where(mine).values(change=archives.c.change + 1))
            return connection.execute(select(archives.c.change).where(mine)).scalar() or 0

    def include(self, request: InclusionRequest, change: int, *, confirmed: bool) -> bool:
        """Enter an Archive into the set that is asked, or renew its entry (REG-05, REG-08).

        False, and nothing done, if a later change was opened meanwhile or the Archive was unregistered.
        """
        return self._update(
            request.service_ibi,
            change,
            included=True,
            confirmed=confirmed,
            address=request.address,
            ip=request.ip,
            protocol=request.protocol,
            platform_version=request.platform_version,
            admin_mail=request.admin_mail,
            changed_at=self._now(),
        )

    def exclude(self, service_ibi: IBI, change: int) -> bool:
        """Withdraw an Archive from the set that is asked; it stays registered (REG-02, REG-07)."""
        return self._update(service_ibi, change, included=False, confirmed=False, changed_at=self._now())

    # -- the resolver's side -----------------------------------------------------------------------------------

    def archives(self) -> tuple[IncludedArchive, ...]:
        """The included Archives as they are now, by whatever process they came in.

        Cheap: the database is read again only if it has changed. While it cannot be read, the last known set holds.
        """
        with self._lock:
            try:
                version = self._fetch("PRAGMA data_version")[0][0]
                if version != self._version:
                    statement = select(archives).where(archives.c.included).order_by(archives.c.service_ibi)
                    self._included = tuple(_included(row) for row in self._select(statement))
                    self._version = version
            except (SQLAlchemyError, SQLiteError):
                self._drop_reader()
            return self._included

    def ready(self) -> bool:
        """Whether the database can be read at this moment."""
        try:
            self._read(select(archives.c.service_ibi).limit(1))
        except SetupError:
            return False
        return True

    def close(self) -> None:
        """Give back the connections."""
        with self._lock:
            self._drop_reader()
        self._engine.dispose()

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        """A write transaction. Raises SetupError where the database cannot be written."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            raise SetupError("the registry cannot be written now") from error

    def _read(self, statement: Select[Any]) -> list[dict[str, Any]]:
        try:
            with self._lock:
                return self._select(statement)
        except (SQLAlchemyError, SQLiteError) as error:
            self._drop_reader()
            raise SetupError("the registry cannot be read now") from error

    def _select(self, statement: Select[Any]) -> list[dict[str, Any]]:
        """Rows read outside any transaction: readers never wait for writers, nor writers for them."""
        compiled = statement.compile(self._engine)
        rows = self._fetch(str(compiled), [compiled.params[name] for name in compiled.positiontup or ()])
        return [dict(zip(statement.selected_columns.keys(), row, strict=True)) for row in rows]

    def _fetch(self, sql: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if self._reader is None:
            self._reader = self._engine.raw_connection()
            self._version = None
        cursor = self._reader.cursor()
        try:
            rows: list[tuple[Any, ...]] = cursor.execute(sql, values).fetchall()
        finally:
            cursor.close()
        return rows

    def _drop_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.invalidate()

    def _update(self, service_ibi: IBI, change: int | None = None, **values: object) -> bool:
        statement = update(archives).where(archives.c.service_ibi == service_ibi.canonical)
        if change is not None:
            statement = statement.where(archives.c.change == change)
        with self._writing() as connection:
            return connection.execute(statement.values(values)).rowcount == 1

    def _now(self) -> str:
        return datetime.fromtimestamp(int(self._clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _host(text: str) -> str:
    host = text.lower()
    if not (host.isascii() and _HOST.fullmatch(host)):
        raise ParseError("host", text, "this is not the name or the address of a host")
    return host


def _registered(row: Mapping[str, Any]) -> RegisteredArchive:
    return RegisteredArchive(
        service_ibi=parse_ibi(row["spelling"]),
        url_hosts=tuple(row["url_hosts"].split()),
        registered_at=row["registered_at"],
        changed_at=row["changed_at"],
        included=_included(row) if row["included"] else None,
    )


def _included(row: Mapping[str, Any]) -> IncludedArchive:
    return IncludedArchive(
        service_ibi=parse_ibi(row["spelling"]),
        address=row["address"],
        ip=row["ip"],
        protocol=row["protocol"],
        platform_version=row["platform_version"],
        admin_mail=row["admin_mail"],
        confirmed=bool(row["confirmed"]),
        url_hosts=tuple(row["url_hosts"].split()),
    )
