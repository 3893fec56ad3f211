"""Stores in a real PostgreSQL: every fault is one sentence without a password, and nothing waits for ever."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from sqlalchemy import Connection, Engine

from ibi.archive.store import schema
from ibi.errors import SetupError
from ibi.runtime.database import (
    check_version,
    has_version,
    migrate,
    open_engine,
    place,
    transaction,
    upgrade,
)
from support.engines.postgresql import PostgreSQL

SECRET = "kein-geheimnis"


@pytest.fixture
def own() -> Iterator[PostgreSQL]:
    """A PostgreSQL that one test may stop and kill."""
    cluster = PostgreSQL(durable=True)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.remove()


@contextmanager
def _writing(store: str) -> Iterator[Connection]:
    """A transaction in a store, of which no connection is left."""
    engine = open_engine(store)
    try:
        with transaction(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def _refusal(store: str) -> str:
    with pytest.raises(SetupError) as refused, _writing(store):
        pass
    sentence = str(refused.value)
    assert SECRET not in sentence
    assert "\n" not in sentence
    return sentence


def test_a_store_that_cannot_be_used_is_refused_in_one_sentence_without_its_password(
    postgresql: PostgreSQL,
) -> None:
    at = f"127.0.0.1:{postgresql.port}"
    assert "does not exist" in _refusal(f"postgresql://ibi:{SECRET}@{at}/nowhere")
    assert 'role "nobody" does not exist' in _refusal(f"postgresql://nobody:{SECRET}@{at}/postgres")
    assert _refusal(f"postgresql://ibi:{SECRET}@127.0.0.1:9/x") == (
        "the database postgresql://127.0.0.1:9/x cannot be used: Connection refused"
    )
    for wrong in (
        f"mysql://ibi:{SECRET}@{at}/x",
        f"postgresql://ibi:{SECRET}@h:port/x",
        f"postgresql://{SECRET}",
    ):
        assert "and this is not" in _refusal(wrong)


def test_an_engine_tells_neither_user_nor_password(postgresql: PostgreSQL) -> None:
    store = postgresql.new_database().replace("ibi@", f"ibi:{SECRET}@")
    engine = open_engine(store)
    with closing(engine.raw_connection()):
        assert SECRET not in f"{engine!r} {engine.url!r} {engine.url.render_as_string(hide_password=False)}"
        assert place(engine) == store.replace(f"ibi:{SECRET}@", "")
    engine.dispose()


def test_a_commit_is_on_the_disk_whatever_the_role_says(postgresql: PostgreSQL) -> None:
    store = postgresql.new_database()
    postgresql.execute("ALTER ROLE ibi SET synchronous_commit = off")
    try:
        with _writing(f"{store}?options=-c%20synchronous_commit%3Doff") as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
            assert connection.exec_driver_sql("SHOW transaction_isolation").scalar() == "read committed"
    finally:
        postgresql.execute("ALTER ROLE ibi RESET synchronous_commit")


def test_no_other_transaction_writes_under_the_same_lock(postgresql: PostgreSQL) -> None:
    engine = open_engine(postgresql.new_database())
    order: list[str] = []

    def second() -> None:
        with transaction(engine, "catalogue"):
            order.append("second")

    with transaction(engine, "catalogue"):
        other = threading.Thread(target=second)
        other.start()
        with transaction(engine, "another"), transaction(engine):
            time.sleep(0.2)
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    engine.dispose()


def test_a_new_database_has_the_newest_version_and_another_one_is_refused(postgresql: PostgreSQL) -> None:
    engine = open_engine(postgresql.new_database())
    assert not has_version(engine, schema.MIGRATIONS)
    with pytest.raises(SetupError, match="is not a database of ours"):
        check_version(engine, schema.MIGRATIONS)
    migrate(engine, schema.MIGRATIONS)
    migrate(engine, schema.MIGRATIONS)
    upgrade(engine, schema.MIGRATIONS)
    check_version(engine, schema.MIGRATIONS)
    with transaction(engine) as connection:
        connection.exec_driver_sql("DROP TABLE audit")
    with pytest.raises(SetupError, match="its table audit is missing"):
        check_version(engine, schema.MIGRATIONS)
    with transaction(engine) as connection:
        connection.exec_driver_sql("UPDATE catalogue_version SET version_num = 'catalogue_9999'")
    with pytest.raises(SetupError, match="has version catalogue_9999, but this program needs"):
        check_version(engine, schema.MIGRATIONS)
    engine.dispose()


def test_a_server_that_was_started_again_is_used_at_once(own: PostgreSQL) -> None:
    engine = open_engine(own.new_database())
    with transaction(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE kept (number INTEGER)")
        connection.exec_driver_sql("INSERT INTO kept VALUES (1)")
    own.restart()
    with transaction(engine) as connection:
        connection.exec_driver_sql("INSERT INTO kept VALUES (2)")
    own.kill()
    own.start()
    with transaction(engine) as connection:
        assert connection.exec_driver_sql("SELECT number FROM kept ORDER BY number").scalars().all() == [1, 2]
    engine.dispose()


def test_a_server_that_hangs_is_waited_for_once_and_used_again_when_it_goes_on(
    own: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ibi.runtime.database.postgresql.TIMEOUT", 2.0)
    engine = open_engine(f"{own.new_database()}?connect_timeout=2")
    with transaction(engine), transaction(engine):
        pass  # two connections lie idle
    own.suspend()
    try:
        reason = "the server has not answered for 2 s"
        assert reason in _refused(engine)
        with monkeypatch.context() as patch:
            patch.setattr("ibi.runtime.database.postgresql._Connection.connect", _refuse_to_connect)
            for _ in range(20):
                assert reason in _refused(engine)
    finally:
        own.resume()
    end = time.monotonic() + 30
    while True:
        try:
            with transaction(engine) as connection:
                assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        except SetupError:
            assert time.monotonic() < end
            time.sleep(0.05)
        else:
            break
    engine.dispose()


def test_a_server_that_hangs_when_it_is_first_asked_is_waited_for_once(own: PostgreSQL) -> None:
    engine = open_engine(f"{own.new_database()}?connect_timeout=2")
    own.suspend()
    try:
        for _ in range(100):  # with two seconds each, it would take longer than a test may
            assert "timeout" in _refused(engine)
    finally:
        own.resume()
    engine.dispose()


def _refused(engine: Engine) -> str:
    with pytest.raises(SetupError) as refused, transaction(engine) as connection:
        connection.exec_driver_sql("SELECT 1")
    return str(refused.value)


def _refuse_to_connect(**_: object) -> object:
    raise AssertionError("waits for a server that is known to hang")


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "ibi.runtime.database.postgresql", raising=False)
    monkeypatch.delattr("ibi.runtime.database.postgresql", raising=False)
    with pytest.raises(SetupError, match=r"pip install 'ibi\[postgres\]'"):
        open_engine("postgresql://ibi@127.0.0.1/x")
