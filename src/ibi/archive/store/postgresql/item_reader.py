"""Reads the items of many requests with one statement, and waits for the database without holding up the event loop.

While a statement is under way, further requests come, and the next statement looks up all their items. So a database
on another machine costs each request a share of a round trip, not several ones during which no other one is answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from psycopg import AsyncConnection

from ibi.archive.store.tables import rows
from ibi.archive.store.tables.catalogue import TooLarge
from ibi.archive.store.tables.rows import FILE, ITEM, POSITION
from ibi.runtime.database.postgresql import connection_options

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from ibi.archive.model.item import Holding
    from ibi.identifier.forms import IBIForms, Name

    Found = Callable[["ReadItems | None"], None]
    Reading = tuple[Collection[str], Found]

LINES: Final = 2
"""Connections: while answers are made of what one of them has read, the other one waits for the database."""
MOST: Final = 64
"""Requests whose items one statement reads: the event loop answers all of them before it turns to others."""
TIMEOUT: Final = 5.0
"""Seconds for a statement, with the connecting before it."""
PAUSE: Final = 1.0
"""Seconds after a failure in which nothing is read here."""

# One statement reads one snapshot: the position, and for each name its item (or NULLs), with the rows of its files.
_READ: Final = (
    "SELECT last.number, last.word, last.rules, wanted.name,"  # noqa: S608 - made of our own column names
    " CASE WHEN item.file_count BETWEEN 1 AND {most} THEN (SELECT"
    f" json_agg(json_build_array({FILE}) ORDER BY name)"
    f" FROM file WHERE file.item = item.number) END, {ITEM}"
    f" FROM ({POSITION}) AS last"
    " CROSS JOIN unnest(%s::text[]) AS wanted (name)"
    " LEFT JOIN name ON name.name = wanted.name LEFT JOIN item ON item.number = name.item"
)
_SESSION: Final = {
    # Planning would take longer than reading, and the plan is the same for all names.
    "plan_cache_mode": "force_generic_plan",
    "default_transaction_read_only": "on",
}
_log = logging.getLogger(__name__)


class NotRead(Exception):
    """An item was asked for that its `ReadItems` have not read; `name`: its canonical name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class ReadItems:
    """Items as they were in one snapshot of the catalogue, and the position of that; as `catalogue.Snapshot`."""

    def __init__(self, found: Sequence[Sequence[Any]], largest: int) -> None:
        number, word, self.rules = found[0][:3]
        self.position = f"{number}.{word}"
        self._rows = {row[3]: row[4:] for row in found}
        self._largest = largest

    def holding(self, name: Name) -> Holding | None:
        """Return the item of a name; None if it is not held. Raises NotRead, TooLarge."""
        try:
            files, *row = self._rows[name.canonical]
        except KeyError:
            raise NotRead(name.canonical) from None
        if row[0] is None:
            return None
        if rows.size_of_row(row) > self._largest:
            raise TooLarge
        return rows.read_item_row(row, files or ())

    def linked(self, names: Iterable[str]) -> set[str]:
        """Return the names to which the items of some names lead, as far as they were read."""
        forms: list[IBIForms] = []
        for name in names:
            files, *row = self._rows.get(name, (None, None))
            if row[0] is not None:
                item = rows.read_item_row(row, files or ())
                forms += filter(None, (item.next_edition, item.metadata_item, *item.translations.values()))
        return {name for each in forms for name in each.canonicals}


class ItemReader:
    """Reads items for the requests of one event loop. `largest`: as of `BoundedCatalogue`."""

    def __init__(self, store: str, largest: int) -> None:
        self._options = connection_options(store, _SESSION)
        self._largest = largest
        self._statement = _READ.format(most=largest // rows.FILE_CHARACTERS)
        self._waiting: list[Reading] = []
        self._free: list[asyncio.Future[None]] = []
        self._lines: list[asyncio.Task[None]] = []
        self._failed_until = 0.0
        self._closed = False

    def read(self, names: Collection[str], found: Found) -> bool:
        """Begin to read the items of these names; return False if the database could not be read a moment ago.

        `found` is called in a later turn of the loop, with None if they cannot be read.
        """
        if self._closed or (self._failed_until and time.monotonic() < self._failed_until):
            return False
        self._waiting.append((names, found))
        if self._free:
            self._free.pop().set_result(None)
        elif len(self._lines) < LINES:
            self._lines.append(asyncio.get_running_loop().create_task(self._work()))
        return True

    async def close(self) -> None:
        """End the connections; `found` is called with None for all that waits."""
        self._closed = True
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)
        _tell(self._waiting, None)

    async def _work(self) -> None:
        """Read what waits, again and again, on a connection of its own."""
        connection: AsyncConnection[Any] | None = None
        batch: list[Reading] = []
        try:
            while True:
                batch, items = await self._next(), None
                try:
                    async with asyncio.timeout(TIMEOUT):
                        if connection is None:
                            connection = await AsyncConnection.connect(
                                **self._options, autocommit=True, prepare_threshold=0
                            )
                        items = await self._read(connection, batch)
                except Exception as error:  # noqa: BLE001 - whatever it is, the ordinary path answers, and this line goes on
                    _log.warning("answers wait for the database: %s", error)
                    self._failed_until = time.monotonic() + PAUSE
                    if connection is not None:
                        await connection.close()
                    connection = None
                _tell(batch, items)
                batch = []
        finally:
            _tell(batch, None)
            if connection is not None:
                await connection.close()

    async def _next(self) -> list[Reading]:
        """Wait until something is to be read, and return it."""
        while not self._waiting:
            free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._free.append(free)
            await free
        batch = self._waiting[:MOST]
        del self._waiting[:MOST]
        return batch

    async def _read(self, connection: AsyncConnection[Any], batch: Sequence[Reading]) -> ReadItems | None:
        names = list({name for each, _ in batch for name in each})
        cursor = await connection.execute(self._statement, (names,))
        found = await cursor.fetchall()
        return ReadItems(found, self._largest) if found else None


def _tell(batch: Iterable[Reading], items: ReadItems | None) -> None:
    for _, found in batch:
        try:
            found(items)
        except Exception:  # noqa: BLE001 - a fault of ours, which must not keep others from their answers
            _log.exception("a request could not be answered")
