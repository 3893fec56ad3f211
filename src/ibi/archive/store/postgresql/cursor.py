"""How statements of the catalogue are said to PostgreSQL: as they are, but for `_FORMS` and the style of parameters.

Imported only for a catalogue in PostgreSQL, because the driver is an extra.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

import psycopg

from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NUMBERS: Final = (
    "(SELECT CAST(value AS BIGINT) AS value FROM json_array_elements_text(CAST(:numbers AS JSON))) AS wanted"
)


def _json(column: str, path: str) -> str:
    """Return what stands at a place of a column with JSON; NULL if it has a NUL, which PostgreSQL cannot read."""
    return f"CASE WHEN strpos({column}, '\\u0000') = 0 THEN CAST({column} AS JSON) #>> '{path}' END"


_FORMS: Final = {
    "BEGIN": "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    # Lists of values. The order in which a join is read is PostgreSQL's own choice.
    "json_each(:numbers) AS wanted": _NUMBERS,
    "json_each(:names) AS wanted": "json_array_elements_text(CAST(:names AS JSON)) AS wanted (value)",
    "json_each(:keys) AS wanted": "json_array_elements_text(CAST(:keys AS JSON)) AS wanted (value)",
    "CROSS JOIN": "JOIN",
    "json_extract(metadata, '$.title[0][0]')": _json("metadata", "{title,0,0}"),
    "json_extract(metadata, '$.date')": _json("metadata", "{date}"),
    "json_extract(event.detail, '$.archive')": _json("event.detail", "{archive}"),
    "json_extract(before.detail, '$.archive')": _json("before.detail", "{archive}"),
    "SELECT max(coalesce(": "SELECT greatest(coalesce(",
    "CAST(strftime('%s', 'now') AS INTEGER)": "CAST(extract(epoch FROM clock_timestamp()) AS BIGINT)",
    "julianday('now')": "extract(epoch FROM clock_timestamp())::FLOAT8",
    # What only SQLite has to be told, or asked: PostgreSQL has a cache for all, and keeps its own rules.
    "PRAGMA cache_size = -32768": "SELECT 1",
    "PRAGMA wal_autocheckpoint = 8000": "SELECT 1",
    "PRAGMA integrity_check(20)": "SELECT 'ok'",
    "PRAGMA foreign_key_check": "SELECT '', 0, '' WHERE false",
}
"""What only SQLite understands, and what is said to PostgreSQL in its place.

Each is replaced wherever it stands, so a new statement that has one of them must mean what stands here: `CROSS JOIN`
orders a join with a condition ("JOIN … ON"), and `julianday('now')` is a number that grows with time, not a date (days
in SQLite, seconds here). A colon before a word is a parameter, even in a text between quotes.
"""

_INSERT: Final = re.compile(r"INSERT INTO (\w+) \(([a-z_0-9, ]+)\) VALUES \(\?(?:, \?)*\)")
_COPIED: Final = 20  # rows from which on they are copied: fewer are inserted as fast


class NamedCursor(psycopg.Cursor[Any]):
    """A cursor that takes the statements of the catalogue, with parameters `:name`, or `?` for many rows."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        """Run a statement with values by name. Raises BadItem for a text with NUL, which no text of PostgreSQL has."""
        try:
            return super().execute(named(query), params or None, **options)
        except psycopg.DataError as error:
            raise BadItem("the database cannot keep this: {reason}", reason=error) from None

    def executemany(self, query: Any, params_seq: Iterable[Any], **options: Any) -> None:
        """Run a statement once for each row of values."""
        rows: Sequence[Any] = list(params_seq)
        found = _INSERT.fullmatch(query)
        try:
            if found is None or len(rows) < _COPIED:
                super().executemany(query.replace("?", "%s"), rows, **options)
                return
            with self.copy(f"COPY {found[1]} ({found[2]}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        except psycopg.DataError as error:
            raise BadItem("the database cannot keep this: {reason}", reason=error) from None


@cache
def named(statement: str) -> str:
    """Return a statement of the catalogue as PostgreSQL takes it, with parameters `%(name)s`."""
    for of_sqlite, form in _FORMS.items():
        # "BEGIN" is a whole statement.
        if of_sqlite != "BEGIN" or statement == of_sqlite:
            statement = statement.replace(of_sqlite, form)
    return re.sub(
        r"(?<!:):([a-z_0-9]+)", r"%(\1)s", statement.replace("%", "%%") if ":" in statement else statement
    )
