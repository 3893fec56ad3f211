"""What is said of a store that cannot be used: where it is, without user and password, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError

if TYPE_CHECKING:
    from sqlalchemy import Engine

_SHOWN: Final = 300  # characters of the reason that a driver gives
_FULL: Final = "53100"  # the code of PostgreSQL's disk_full


def is_postgresql(engine: Engine) -> bool:
    """Whether an engine leads to PostgreSQL, and not to a SQLite file."""
    return engine.dialect.name == "postgresql"


def place(engine: Engine) -> str:
    """Return where a store is, for people: the path of its file, or host and name of its database."""
    # The URL of an engine of PostgreSQL has neither user nor password (`postgresql.open_engine`).
    return engine.url.render_as_string().replace("+psycopg", "") if is_postgresql(engine) else str(
        engine.url.database
    )  # fmt: skip


def unusable(engine: Engine, error: Exception) -> SetupError:
    """Make the error for a store that cannot be used, of an error of SQLAlchemy, of the driver or of the system."""
    # The driver's message says what is wrong; that of SQLAlchemy would contain the statement, too.
    cause = error.orig if isinstance(error, DatabaseError) else error
    return SetupError(
        "the database {path} cannot be used: {reason}", path=place(engine), reason=_reason(cause or error)
    )


def _reason(error: BaseException) -> object:
    if not hasattr(error, "sqlstate"):
        return getattr(error, "strerror", None) or error
    if error.sqlstate == _FULL:
        return "the disk of the database is full"
    # PostgreSQL's own words: its driver says before them which address it has tried, and gives hints in further lines.
    words = getattr(getattr(error, "diag", None), "message_primary", None) or str(error)
    return words.partition("\n")[0].rpartition(" failed: ")[2].removeprefix("FATAL:").strip()[:_SHOWN]
