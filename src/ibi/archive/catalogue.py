"""The catalogue of one Archive: which items it holds, under which names, and all its SQL.

The hot statements are text, made once for the database at hand and handed to its driver; one transaction writes at
a time, and a reader never waits for it. A holding read twice without a write between is equal.
"""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import text

from ibi.archive import rows, schema
from ibi.archive.holding import StoredFile
from ibi.archive.rows import ITEM_COLUMNS, look_up_key
from ibi.database import check_version, transaction
from ibi.errors import AlreadyHeld, NotHeld, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Engine
    from sqlalchemy.pool import PoolProxiedConnection

    from ibi.archive.holding import Holding
    from ibi.identifier.forms import IBIForms, Name

_NAMES_UNDER = "SELECT name FROM name WHERE name > :after AND name < :end ORDER BY name LIMIT :most"
_PAGE = 500
_COLUMNS = ", ".join(f"item.{column}" for column in ITEM_COLUMNS)
_PLACES = ", ".join(f":{column}" for column in ITEM_COLUMNS)
_CHANGES = ", ".join(f"{column} = :{column}" for column in ITEM_COLUMNS)
_BY_NAME = (
    f"SELECT item.number, {_COLUMNS} FROM name JOIN item ON item.number = name.item WHERE name.name = :name"  # noqa: S608 - made of our own column names
)
_BY_KEY = f"SELECT item.number, {_COLUMNS} FROM item WHERE item.key = :key"  # noqa: S608 - made of our own column names
_PAGE_OF_NAMES = (
    f"SELECT name.name, item.number, {_COLUMNS} FROM name JOIN item ON item.number = name.item"  # noqa: S608 - made of our own column names
    " WHERE name.main AND name.name > :after ORDER BY name.name LIMIT :most"
)
_FILES = "SELECT name, size, sha256, media_type, staged FROM file WHERE item = :item ORDER BY name"
_COUNT = (  # no row ever goes and none is left out, so the last number tells how many there are
    "SELECT (SELECT coalesce(max(number), 0) FROM item) - (SELECT count(*) FROM item WHERE state = 'Deleted')"
)
_ADD_ITEM = f"INSERT INTO item ({', '.join(ITEM_COLUMNS)}) VALUES ({_PLACES}) RETURNING number"  # noqa: S608 - made of our own column names
_CHANGE_ITEM = f"UPDATE item SET {_CHANGES} WHERE number = :number"  # noqa: S608 - made of our own column names
_ADD_NAME = "INSERT INTO name (name, item, main) VALUES (:name, :item, :main)"
_ITEM_OF_NAME = "SELECT item FROM name WHERE name = :name"
_PUT_FILE = (
    "INSERT INTO file (item, name, size, sha256, media_type, staged)"
    " VALUES (:item, :name, :size, :sha256, :media_type, :staged) ON CONFLICT (item, name) DO UPDATE SET"
    " size = excluded.size, sha256 = excluded.sha256, media_type = excluded.media_type, staged = excluded.staged"
)
_DROP_FILE = "DELETE FROM file WHERE item = :item AND name = :name"
_LEAVES = "INSERT INTO leaving (path) VALUES (:path) ON CONFLICT DO NOTHING"
_STAYS = "DELETE FROM leaving WHERE path = :path"
_LEAVING = "SELECT path FROM leaving ORDER BY path LIMIT :most"
_STAGED = (
    "SELECT file.item, item.rep, item.ibip, file.name, file.size, file.sha256, file.media_type, file.staged"
    " FROM file JOIN item ON item.number = file.item WHERE file.staged IS NOT NULL LIMIT :most"
)
_PLACED = "UPDATE file SET staged = NULL WHERE item = :item AND name = :name AND staged = :staged"
_THANKS = "SELECT thanks FROM item WHERE number = :number"


class Catalogue:
    """The items of one Archive. `engine` is a database that `ibi.database` opened and migrated.

    Reads may come from several threads; a process must not fork between two uses.
    Raises SetupError if the database has another version than this program.
    """

    def __init__(self, engine: Engine) -> None:
        check_version(engine, schema.MIGRATIONS)
        self.engine = engine
        """The database, for further connections to it."""
        self._lock = threading.RLock()  # whoever reads may look items up meanwhile
        self._reader: PoolProxiedConnection | None = None
        self._for_driver = _Statements(engine)

    def close(self) -> None:
        """Give up the connections; the next use opens new ones."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        self.engine.dispose()

    def holding(self, name: Name) -> Holding | None:
        """All facts of the item of a name, None if no such item is held (ARC-17)."""
        with self.reading() as run:
            return run.one(_BY_NAME, look_up_key(name))

    def holding_of_key(self, key: str) -> Holding | None:
        """All facts of the item that came under a key of its depositor's own."""
        with self.reading() as run:
            return run.one(_BY_KEY, key)

    def count(self) -> int:
        """How many items are held, those removed left out."""
        with self.reading() as run:
            return int(run(_COUNT).fetchone()[0])

    def thanks(self, number: int) -> int:
        """How many acknowledgments were counted for an item."""
        with self.reading() as run:
            row = run(_THANKS, number).fetchone()
            return int(row[0]) if row else 0

    def all(self, after: str = "") -> Iterator[Holding]:
        """The items in the order of their canonical main names, from the first one after `after`.

        Read page by page: what is written meanwhile may be seen or not, and nothing is held for long.
        """
        while True:
            with self.reading() as run:
                page = run(_PAGE_OF_NAMES, after, _PAGE).fetchall()
                holdings = [run.whole(row[1:]) for row in page]
            yield from holdings
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def names_under(self, prefix: str) -> Iterator[str]:
        """The canonical names, removed items' too, that begin with this canonical prefix and a slash."""
        after, end = f"{prefix}/", f"{prefix}0"  # "0" is the character after the slash
        while True:
            with self.reading() as run:
                page = [row[0] for row in run(_NAMES_UNDER, after, end, _PAGE).fetchall()]
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1]

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """One transaction: all of it is durable when this ends, or none of it ever happened.

        Raises SetupError if the database refuses, as on a full disk.
        """
        with transaction(self.engine) as connection, closing(connection.connection.cursor()) as cursor:
            yield Writer(Run(cursor, self._for_driver), self.engine.dialect.loaded_dbapi.IntegrityError)

    def put(self, holding: Holding) -> Holding:
        """Add an item; returns it with its number. Raises AlreadyHeld if one of its names or its key is taken."""
        with self.writing() as writer:
            return replace(holding, number=writer.add(holding))

    def staged(self) -> list[Staged]:
        """Some of the files that still lie in staging although they are listed; [] when all are in their places."""
        with self.reading() as run:
            return [
                Staged(row[0], rows.forms_of(row[1], row[2]), StoredFile(*row[3:]))
                for row in run(_STAGED, _PAGE).fetchall()
            ]

    def leaving(self) -> list[bytes]:
        """Some of the paths below DIR/col that are to be removed; [] when none is."""
        with self.reading() as run:
            return [row[0] for row in run(_LEAVING, _PAGE).fetchall()]

    def overtake(self) -> None:
        """Have another transaction take the place of one whose flush failed: it would count after a crash."""
        with self.writing() as writer:
            writer.leaves(b"")
            writer.stays(b"")

    @contextmanager
    def reading(self) -> Iterator[Run]:
        """Statements that only read, seen at one moment each. Raises SetupError if the database refuses."""
        try:
            with self._lock:
                if self._reader is None:
                    self._reader = self.engine.raw_connection()
                with closing(self._reader.cursor()) as cursor:
                    yield self._run(cursor)
        except self.engine.dialect.loaded_dbapi.Error as error:
            problem = "the database {path} cannot be used: {reason}"
            raise SetupError(problem, path=self.engine.url.database, reason=error) from None

    def _run(self, cursor: Any) -> Run:
        return Run(cursor, self._for_driver)


class Staged(NamedTuple):
    """A listed file that lies in staging, and the item that it belongs to."""

    item: int
    forms: IBIForms
    file: StoredFile


class Writer:
    """What can be done inside one writing transaction; what it reads cannot change under it."""

    def __init__(self, run: Run, taken: type[Exception]) -> None:
        self.run = run
        """For the ledgers, whose entries belong to this transaction."""
        self._taken = taken

    def holding(self, name: Name) -> Holding | None:
        """As `Catalogue.holding`, within the transaction."""
        return self.run.one(_BY_NAME, look_up_key(name))

    def holding_of_key(self, key: str) -> Holding | None:
        """As `Catalogue.holding_of_key`, within the transaction."""
        return self.run.one(_BY_KEY, key)

    def add(self, holding: Holding) -> int:
        """Add an item; returns its number. Raises AlreadyHeld, after which the transaction must end."""
        try:
            number = int(self.run(_ADD_ITEM, *rows.write(holding)).fetchone()[0])
            for key, main in rows.names_of(holding):
                self.run(_ADD_NAME, key, number, main)
        except self._taken:
            raise AlreadyHeld("{name}, or its key, is already held", name=holding.forms.main) from None
        for file in holding.files:
            self._put_file(number, file)
        return number

    def change(self, old: Holding, new: Holding) -> None:
        """Replace the facts of an item; names are only added. Raises NotHeld, or AlreadyHeld for names of others."""
        number = old.number
        try:
            if self.run(_CHANGE_ITEM, *rows.write(new), number).rowcount != 1:
                raise NotHeld("{name} is not held here", name=new.forms.main)
            for key, main in rows.names_of(new):
                found = self.run(_ITEM_OF_NAME, key).fetchone()
                if found is None:
                    self.run(_ADD_NAME, key, number, main)
                elif found[0] != number:
                    raise AlreadyHeld("a name of {name} is already held", name=new.forms.main)
        except self._taken:
            raise AlreadyHeld("{name}, or its key, is already held", name=new.forms.main) from None
        for file in set(new.files) - set(old.files):
            self._put_file(number, file)
        for name in {file.name for file in old.files} - {file.name for file in new.files}:
            self.run(_DROP_FILE, number, name)

    def leaves(self, path: bytes) -> None:
        """Have a path below DIR/col removed once this transaction is durable."""
        self.run(_LEAVES, path)

    def stays(self, path: bytes) -> None:
        """A path is in use again, or has been removed."""
        self.run(_STAYS, path)

    def placed(self, staged: Staged) -> None:
        """A listed file lies in its place now, unless another one has been listed there meanwhile."""
        self.run(_PLACED, staged.item, staged.file.name, staged.file.staged)

    def _put_file(self, number: int, file: StoredFile) -> None:
        self.run(_PUT_FILE, number, file.name, file.size, file.sha256, file.media_type, file.staged or None)


class _Statements(dict[str, str]):
    """A statement with named places, as the driver of this database writes it; worked out once."""

    def __init__(self, engine: Engine) -> None:
        self._dialect = engine.dialect

    def __missing__(self, statement: str) -> str:
        compiled = str(text(statement).compile(dialect=self._dialect))
        self[statement] = compiled
        return compiled


class Run:
    """Runs statements on one cursor: `run(statement, *values)`, the values in the order of its :places."""

    __slots__ = ("_cursor", "_for_driver")

    def __init__(self, cursor: Any, for_driver: _Statements) -> None:
        self._cursor = cursor
        self._for_driver = for_driver

    def __call__(self, statement: str, *values: Any) -> Any:
        """Run a statement; returns the driver's cursor."""
        self._cursor.execute(self._for_driver[statement], values)
        return self._cursor

    def many(self, statement: str, values: Iterable[Sequence[Any]]) -> None:
        """Run a statement that changes something once for each of the values."""
        self._cursor.executemany(self._for_driver[statement], values)

    def one(self, statement: str, value: str) -> Holding | None:
        """The item that a statement finds, None if there is none."""
        row = self(statement, value).fetchone()
        return self.whole(row) if row else None

    def whole(self, row: Sequence[Any]) -> Holding:
        """The item of a row, with its files."""
        try:
            return rows.read(row, self(_FILES, row[0]) if row[rows.FILE_COUNT] else ())
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            problem = "the catalogue is damaged: a row of it cannot be read ({reason})"
            raise SetupError(problem, reason=type(error).__name__) from None
