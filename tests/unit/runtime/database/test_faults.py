"""What is said of a store that cannot be used, whole, and what a URL of PostgreSQL means; no server is asked."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DatabaseError

from ibi.errors import SetupError
from ibi.runtime.database import is_postgresql, is_url, open_engine, place, quick_check, unusable
from ibi.runtime.database.postgresql import connection_options

STORE = "postgresql://maria:secret@db.example:5433/archive"
AT = "postgresql://db.example:5433/archive"
FAILED = 'connection to server at "127.0.0.1", port 5432 failed: FATAL:  role "maria" does not exist'


class Coded(psycopg.Error):
    """An error with PostgreSQL's own words beside those of the driver."""

    sqlstate = "42P01"

    class diag:  # noqa: N801 - as the driver names it
        message_primary = "relation does not exist"


@pytest.mark.parametrize(
    ("store", "url"),
    [("postgresql://x", True), ("s3://x", True), ("a/b", False), ("", False), (Path("a://b"), False)],
)
def test_a_store_is_a_url_or_a_path(store: Path | str, url: bool) -> None:
    assert is_url(store) is url


def test_an_engine_of_either_kind_shows_its_place_and_no_values() -> None:
    for store, shown, of_server in (
        (Path("/x/y.sqlite"), "/x/y.sqlite", False),
        ("/x/y.sqlite", "/x/y.sqlite", False),
        (STORE, AT, True),
        ("postgresql://maria@/archive?host=/run/pg", "postgresql:///run/pg/archive", True),
        ("postgresql://maria:secret@/archive", "postgresql://localhost/archive", True),
    ):
        engine = open_engine(store)
        assert (is_postgresql(engine), engine.hide_parameters) == (of_server, True)
        assert place(engine) == shown


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (psycopg.errors.DiskFull("could not extend file"), "the disk of the database is full"),
        (psycopg.OperationalError(f"{FAILED}\nIs it running?"), 'role "maria" does not exist'),
        (psycopg.OperationalError("FATAL:  the server ends"), "the server ends"),
        (psycopg.OperationalError("x" * 301), "x" * 300),
        (Coded("of the driver"), "relation does not exist"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (sqlite3.OperationalError("database is locked"), "database is locked"),
        (DatabaseError("SELECT secret", {}, sqlite3.DatabaseError("malformed")), "malformed"),
        (DatabaseError("SELECT secret", {}, psycopg.OperationalError("FATAL: x\ny")), "x"),
    ],
    ids=repr,
)
def test_why_a_store_cannot_be_used_is_one_sentence(error: Exception, reason: str) -> None:
    found = unusable(open_engine(STORE), error)
    assert isinstance(found, SetupError)
    assert str(found) == f"the database {AT} cannot be used: {reason}"


def test_an_error_without_a_cause_is_shown_itself() -> None:
    error = DatabaseError("SELECT 1", {}, None)  # type: ignore[arg-type]  # as some pools raise it
    shown = str(unusable(open_engine(Path("/x")), error))
    assert shown == f"the database /x cannot be used: {error}"


REACHING = {
    "connect_timeout": 5, "keepalives": 1, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "ibi", "client_encoding": "UTF8",
}  # fmt: skip
LIMITS = "-c statement_timeout=20s -c lock_timeout=10s -c idle_in_transaction_session_timeout=10s"
ALWAYS = r"-c synchronous_commit=on -c default_transaction_isolation=read\ committed"


def test_a_connection_is_given_up_after_a_while_and_commits_to_the_disk() -> None:
    whole = {"host": "db.example", "port": 5433, "user": "maria", "password": "secret", "dbname": "archive"}
    assert connection_options(STORE) == REACHING | whole | {"options": f"{LIMITS} {ALWAYS}"}
    more = f"{STORE}?sslmode=verify-full&connect_timeout=9&connect_timeout=2&options=-c%20work_mem%3D1"
    session = {"lock_timeout": "1s", "idle_session_timeout": "30s"}
    limits = "-c statement_timeout=20s -c lock_timeout=1s -c idle_in_transaction_session_timeout=10s"
    assert connection_options(more, session) == REACHING | whole | {
        "sslmode": "verify-full",
        "connect_timeout": "2",
        "options": f"{limits} -c idle_session_timeout=30s -c work_mem=1 {ALWAYS}",
    }


@pytest.mark.parametrize(
    "store",
    [
        "postgresql://maria:secret@host/",
        "mysql://maria:secret@host/x",
        "postgresql://maria:secret@host:x/y",
        "://secret",
    ],
)
def test_what_is_no_url_of_postgresql_is_refused_without_being_shown(store: str) -> None:
    sentence = "a store is a URL such as postgresql://user:password@host/database, and this is not"
    for act in (open_engine, connection_options):
        with pytest.raises(SetupError) as refused:
            act(store)
        assert str(refused.value) == sentence
    assert connection_options("postgres://maria@host/x")["user"] == "maria"


def test_a_database_of_a_server_is_not_checked_from_here() -> None:
    assert quick_check(open_engine(STORE), 0) == []
