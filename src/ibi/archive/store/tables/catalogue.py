"""The catalogue of one Archive: which items it holds, under which names, and with which files.

One transaction writes at a time; reads never wait for it. Two reads of an unchanged item give equal holdings.
"""

from __future__ import annotations

import re
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from ibi.archive.store import schema
from ibi.archive.store.tables import rows
from ibi.archive.store.tables.rows import FILE, ITEM, ITEM_COLUMNS, LISTED_FILE, POSITION
from ibi.errors import AlreadyHeld, NotHeld, SetupError
from ibi.runtime.database import check_version, is_postgresql, transaction, unusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Engine
    from sqlalchemy.engine.interfaces import DBAPICursor
    from sqlalchemy.pool import PoolProxiedConnection

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.tables.rows import ListedFile
    from ibi.identifier.forms import Name

_NAMES_UNDER = "SELECT name FROM name WHERE name > :after AND name < :end ORDER BY name LIMIT :most"
_PAGE = 500
# Seconds for which PostgreSQL may hold up the event loop, which itself reads only items of a bounded size.
_ANSWER = 5.0
_PLACES = ", ".join(f":{column}" for column in ITEM_COLUMNS)
_CHANGES = ", ".join(f"{column} = :{column}" for column in ITEM_COLUMNS)
_BY_NAME = f"SELECT {ITEM} FROM name JOIN item ON item.number = name.item WHERE name.name = :name"  # noqa: S608 - made of our own column names
_BY_KEY = f"SELECT {ITEM} FROM item WHERE item.key = :key"  # noqa: S608 - made of our own column names
_PAGE_OF_NAMES = (
    f"SELECT name.name, {ITEM} FROM name JOIN item ON item.number = name.item"  # noqa: S608 - made of our own column names
    " WHERE name.main AND name.name > :after ORDER BY name.name LIMIT :most"
)
_FILES = f"SELECT {FILE} FROM file WHERE item = :item ORDER BY name"  # noqa: S608 - made of our own column names
# Rows are never deleted, numbers never skipped: the last number is the count. count(*) would read the table.
_COUNT = (
    "SELECT (SELECT coalesce(max(number), 0) FROM item) - (SELECT count(*) FROM item WHERE state = 'Deleted')"
)
_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM item"
_ADD_ITEM = f"INSERT INTO item ({', '.join(ITEM_COLUMNS)}) VALUES ({_PLACES}) RETURNING number"  # noqa: S608 - made of our own column names
_CHANGE_ITEM = f"UPDATE item SET {_CHANGES} WHERE number = :number"  # noqa: S608 - made of our own column names
_ADD_NAME = "INSERT INTO name (name, item, main) VALUES (:name, :item, :main)"
_ITEM_OF_NAME = "SELECT item FROM name WHERE name = :name"
_PUT_FILE = rows.upsert("file", "item, name", "item, name, size, sha256, media_type, staged")
_DROP_FILE = "DELETE FROM file WHERE item = :item AND name = :name"
_LEAVES = "INSERT INTO leaving (path) VALUES (:path) ON CONFLICT DO NOTHING"
_STAYS = "DELETE FROM leaving WHERE path = :path"
_LEAVING = "SELECT path FROM leaving ORDER BY path LIMIT :most"
_STAGED = (
    f"SELECT {LISTED_FILE} FROM file JOIN item ON item.number = file.item"  # noqa: S608 - made of our own column names
    " WHERE file.staged IS NOT NULL LIMIT :most"
)
_STAGED_NAMES = "SELECT staged FROM file WHERE staged IS NOT NULL"
_PLACED = "UPDATE file SET staged = NULL WHERE item = :item AND name = :name AND staged = :staged"
_ACKNOWLEDGMENTS = "SELECT thanks FROM item WHERE number = :number"


class TooLarge(Exception):
    """An item is so large that it must be read in a thread, because reading it would block the event loop."""


class Catalogue:
    """The items of one Archive, in a database that `ibi.runtime.database` has opened and migrated.

    Several threads may read; no fork between two uses. Raises SetupError for another version of the schema.
    """

    def __init__(self, engine: Engine) -> None:
        check_version(engine, schema.MIGRATIONS)
        self.engine = engine
        """The database, for further connections to it."""
        # Reentrant, because a caller of `reading` may look up items before it has read all its rows.
        self._lock = threading.RLock()
        self._reader: PoolProxiedConnection | None = None
        self._snapshots: DBAPICursor | None = None  # on the connection of `_reader`
        self._largest = 0
        self._is_postgresql = is_postgresql(engine)

    def close(self) -> None:
        """Close the connections; the next use opens new ones."""
        self._close_reader()
        self.engine.dispose()

    def _close_reader(self) -> None:
        with self._lock:
            self._snapshots = None
            if self._reader is not None:
                self._reader.close()
                self._reader = None

    def holding(self, name: Name) -> Holding | None:
        """Return the item of a name, with all its facts; None if no such item is held (ARC-17)."""
        with self.reading() as run:
            return run.item(_BY_NAME, name=name.canonical)

    def held(self, name: Name) -> Holding:
        """Return the item of a name. Raises NotHeld."""
        holding = self.holding(name)
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        return holding

    def settled(self, name: Name) -> Holding:
        """Return the item of a name, which may be shown. Raises NotHeld, and Unsettled (decision 0039)."""
        holding = self.held(name)
        holding.check_settled()
        return holding

    def holding_by_key(self, key: str) -> Holding | None:
        """Return the item that was deposited under this key of its depositor; None if there is none."""
        with self.reading() as run:
            return run.item(_BY_KEY, key=key)

    def count(self) -> int:
        """Count the items that are held, without the removed ones."""
        with self.reading() as run:
            return int(run(_COUNT).fetchone()[0])

    def acknowledgments(self, number: int) -> int:
        """Return how many acknowledgments were counted for an item."""
        with self.reading() as run:
            row = run(_ACKNOWLEDGMENTS, number=number).fetchone()
            return int(row[0]) if row else 0

    def all(self, after: str = "") -> Iterator[Holding]:
        """Yield the items in the order of their canonical main names, from the first name after `after`.

        They are read page by page, without a lock between pages, so concurrent changes may be seen or not.
        """
        after = after.partition("\0")[0]  # the same place: no name has NUL, which PostgreSQL does not take
        while True:
            with self.reading() as run:
                page = run(_PAGE_OF_NAMES, after=after, most=_PAGE).fetchall()
                holdings = [run.item_of_row(row[1:]) for row in page]
            yield from holdings
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def names_under(self, prefix: str) -> Iterator[str]:
        """Yield the canonical names that begin with this canonical prefix and "/", of removed items, too."""
        # "0" is the character after "/", so a single range of the index of names is read.
        after, end = f"{prefix}/", f"{prefix}0"
        while True:
            with self.reading() as run:
                page = [row[0] for row in run(_NAMES_UNDER, after=after, end=end, most=_PAGE).fetchall()]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]

    @contextmanager
    def writing(self) -> Iterator[CatalogueWriter]:
        """Open a writing transaction: at the end of the block all of it is durable, or nothing has changed.

        Raises SetupError if the database cannot be written, as on a full disk.
        """
        with (
            transaction(self.engine, "catalogue") as connection,
            closing(_cursor(connection.connection)) as cursor,
        ):
            yield CatalogueWriter(SqlRunner(cursor), self.engine.dialect.loaded_dbapi.IntegrityError)

    def put(self, holding: Holding) -> Holding:
        """Add an item in a transaction of its own; returns it with its number. Raises AlreadyHeld."""
        with self.writing() as writer:
            return replace(holding, number=writer.add(holding))

    def staged_files(self) -> list[ListedFile]:
        """Return listed files that are still in staging, at most a page of them; [] if there are none."""
        with self.reading() as run:
            return [rows.listed_file(row) for row in run(_STAGED, most=_PAGE).fetchall()]

    def lists(self, listed: ListedFile) -> bool:
        """Return whether an item lists a file now, in staging or not."""
        holding = self.holding(listed.forms.main)
        file = holding.file(listed.file.name) if holding else None
        return file is not None and file.sha256 == listed.file.sha256

    def staged_names(self) -> set[str]:
        """Return the names in staging of all listed files that are still there."""
        with self.reading() as run:
            return {row[0] for row in run(_STAGED_NAMES).fetchall()}

    def paths_to_remove(self) -> list[bytes]:
        """Return paths below DIR/col that are to be removed, at most a page of them; [] if there are none."""
        with self.reading() as run:
            return [row[0] for row in run(_LEAVING, most=_PAGE).fetchall()]

    @contextmanager
    def reading(self) -> Iterator[SqlRunner]:
        """Yield a runner on the reading connection; each statement reads a snapshot. Raises SetupError."""
        try:
            with self._lock, closing(_cursor(self._open_reader())) as cursor:
                yield SqlRunner(cursor, self._largest)
        except self._errors() as error:
            raise self._unusable(error) from None

    def snapshot(self) -> Snapshot:
        """As `reading`, but all statements of the block read one snapshot. Only one may be open in a thread."""
        return Snapshot(self, self._largest)

    def begin(self) -> DBAPICursor:
        """Begin the transaction of a `Snapshot`; other threads wait until its `end`. Raises SetupError."""
        self._lock.acquire()
        begun = False
        try:
            if self._snapshots is None:
                self._snapshots = _cursor(self._open_reader())
            try:
                self._snapshots.execute("BEGIN")
            except self._errors():
                # PostgreSQL was started again since the last snapshot: nothing is lost yet.
                if not self._drop_lost():
                    raise
                self._snapshots = _cursor(self._open_reader())
                self._snapshots.execute("BEGIN")
            begun = True
        except self._errors() as error:
            raise self._unusable(error) from None
        finally:
            if not begun:
                self._lock.release()
        return self._snapshots

    def end(self, cursor: DBAPICursor, error: BaseException | None) -> None:
        """End the transaction; `error`: what ended its block. Raises SetupError if that is one of the database."""
        try:
            # By the same cursor, so that no statement of the block is left that would keep its snapshot.
            cursor.execute("COMMIT")
        except self._errors() as failure:
            raise self._unusable(failure) from None
        finally:
            self._lock.release()
        if error is not None and isinstance(error, self._errors()):
            raise self._unusable(error) from None

    def _open_reader(self) -> PoolProxiedConnection:
        """Return the reading connection, after opening it if there is none, or if PostgreSQL has closed it."""
        if self._reader is None or (self._is_postgresql and self._drop_lost()):
            self._reader = self.engine.raw_connection()
            if self._is_postgresql:
                # No longer of the pool, which would give it to a writer: each statement is a snapshot of its own.
                self._reader.detach()
                driver: Any = self._reader.dbapi_connection
                driver.autocommit = True
                driver.limit = _ANSWER if self._largest else None
        return self._reader

    def _drop_lost(self) -> bool:
        """Close the reading connection if PostgreSQL has; return whether there is none now."""
        if self._reader is not None and self._is_postgresql:
            from ibi.runtime.database.postgresql import is_lost

            if is_lost(self._reader.dbapi_connection):
                self._close_reader()
        return self._reader is None

    def _errors(self) -> type[Exception]:
        errors: type[Exception] = self.engine.dialect.loaded_dbapi.Error
        return errors

    def _unusable(self, error: Exception) -> SetupError:
        return unusable(self.engine, error)


class BoundedCatalogue(Catalogue):
    """Reads the database of another catalogue over its own connection; raises TooLarge above `largest`.

    Reading a large item, and making a page of it, takes up to seconds, which would block the event loop.
    """

    def __init__(self, beside: Catalogue, largest: int) -> None:
        # No super().__init__: the version is checked already, and `close` must not close other connections.
        self.engine = beside.engine
        self._lock = threading.RLock()
        self._reader = self._snapshots = None
        self._largest = largest
        self._is_postgresql = is_postgresql(beside.engine)

    def close(self) -> None:
        """Close the connection. Call it before the other catalogue is closed, which closes the database."""
        self._close_reader()


class CatalogueWriter:
    """The operations inside one writing transaction; no other process writes meanwhile."""

    def __init__(self, run: SqlRunner, taken: type[Exception]) -> None:
        self.run = run
        """The runner for the functions of the other table modules, which write within this transaction."""
        self._taken = taken

    def holding(self, name: Name) -> Holding | None:
        """As `Catalogue.holding`, within the transaction."""
        return self.run.item(_BY_NAME, name=name.canonical)

    def holding_by_key(self, key: str) -> Holding | None:
        """As `Catalogue.holding_by_key`, within the transaction."""
        return self.run.item(_BY_KEY, key=key)

    def last_number(self) -> int:
        """Return the number of the last item; 0 if there is none."""
        return int(self.run(_LAST_NUMBER).fetchone()[0])

    def add(self, holding: Holding) -> int:
        """Add an item; returns its number.

        Raises AlreadyHeld if one of its names or its key is in use; the transaction must then be rolled back.
        """
        try:
            number = int(self.run(_ADD_ITEM, **rows.item_values(holding)).fetchone()[0])
            for key, main in rows.names_of(holding):
                self.run(_ADD_NAME, name=key, item=number, main=main)
        except self._taken:
            raise AlreadyHeld("{name}, or its key, is already held", name=holding.forms.main) from None
        for file in holding.files:
            self._put_file(number, file)
        return number

    def change(self, old: Holding, new: Holding) -> None:
        """Replace the facts of an item; names are only added. Raises NotHeld, AlreadyHeld (name in use)."""
        number = old.number
        try:
            if self.run(_CHANGE_ITEM, number=number, **rows.item_values(new)).rowcount != 1:
                raise NotHeld("{name} is not held here", name=new.forms.main)
            for key, main in rows.names_of(new):
                found = self.run(_ITEM_OF_NAME, name=key).fetchone()
                if found is None:
                    self.run(_ADD_NAME, name=key, item=number, main=main)
                elif found[0] != number:
                    raise AlreadyHeld("a name of {name} is already held", name=new.forms.main)
        except self._taken:
            raise AlreadyHeld("{name}, or its key, is already held", name=new.forms.main) from None
        for file in set(new.files) - set(old.files):
            self._put_file(number, file)
        for name in {file.name for file in old.files} - {file.name for file in new.files}:
            self.run(_DROP_FILE, item=number, name=name)

    def schedule_removal(self, path: bytes) -> None:
        """Schedule the removal of a path below DIR/col; it is removed once this transaction is durable."""
        self.run(_LEAVES, path=path)

    def cancel_removal(self, path: bytes) -> None:
        """Cancel the removal of a path: it is in use again, or has been removed."""
        self.run(_STAYS, path=path)

    def record_placed(self, staged: ListedFile) -> None:
        """Record that a file is in its place, unless another file was listed under its name meanwhile."""
        self.run(_PLACED, item=staged.item, name=staged.file.name, staged=staged.file.staged)

    def _put_file(self, number: int, file: StoredFile) -> None:
        self.run(_PUT_FILE, item=number, **rows.write_record(file) | {"staged": file.staged or None})


class SqlRunner:
    """Runs SQL on one cursor: `run(statement, name=value)` for a statement with the parameter `:name`.

    Only this class passes SQL of the tables to a driver, so it alone adapts to another style of parameters.
    """

    __slots__ = ("_cursor", "_largest")

    def __init__(self, cursor: Any, largest: int = 0) -> None:
        self._cursor = cursor
        self._largest = largest
        """Characters of the largest item that is read; 0: no limit."""

    def __call__(self, statement: str, **values: Any) -> Any:
        """Run a statement; returns the driver's cursor."""
        self._cursor.execute(statement, values)
        return self._cursor

    def many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of values, which are in the order of its parameters."""
        # By position a row of 24 columns takes 1.6 us to bind, by name from a dictionary it takes 4.2 us.
        self._cursor.executemany(by_position(statement), rows)

    def item(self, statement: str, **values: Any) -> Holding | None:
        """Return the item that a statement finds; None if there is none."""
        row = self(statement, **values).fetchone()
        return self.item_of_row(row) if row else None

    def item_of_row(self, row: Sequence[Any]) -> Holding:
        """Make an item of its row, and read its files.

        Raises TooLarge before anything is parsed, and SetupError for a damaged row.
        """
        if self._largest and rows.size_of_row(row) > self._largest:
            raise TooLarge
        try:
            return rows.read_item_row(row, self(_FILES, item=row[0]) if row[rows.FILE_COUNT] else ())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = "the catalogue is damaged: a row of it cannot be read ({reason})"
            raise SetupError(problem, reason=type(error).__name__) from None


class Snapshot(SqlRunner):
    """Runs SQL in one snapshot, which its block begins and ends.

    `position` stands for its last change, `rules` for the settings of answers since.
    """

    # A context manager of its own, on a cursor that is kept, because each answer needs one: a generator and a new
    # cursor take a twentieth of the instructions of an answer.
    __slots__ = ("_catalogue", "position", "rules")

    def __init__(self, catalogue: Catalogue, largest: int) -> None:
        self._catalogue, self._largest = catalogue, largest
        self.position: str
        self.rules: int

    def __enter__(self) -> Self:
        self._cursor = cursor = self._catalogue.begin()
        try:
            number, word, self.rules = cursor.execute(POSITION).fetchone() or (0, "", 0)
        except BaseException as error:
            self._catalogue.end(cursor, error)
            raise
        self.position = f"{number}.{word}"
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._catalogue.end(self._cursor, error)

    def holding(self, name: Name) -> Holding | None:
        """As `Catalogue.holding`."""
        return self.item(_BY_NAME, name=name.canonical)


@cache
def by_position(statement: str) -> str:
    """Replace the named parameters of a statement by "?"; each may occur only once in it."""
    return re.sub(r":[a-z_0-9]+", "?", statement)


def _cursor(connection: PoolProxiedConnection) -> Any:
    """Return a cursor that takes the statements of the tables."""
    driver: Any = connection.dbapi_connection
    if not hasattr(driver, "pgconn"):
        return driver.cursor()
    from ibi.archive.store.postgresql.cursor import NamedCursor

    return NamedCursor(driver)
