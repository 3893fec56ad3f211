"""Resolvers on both stores: the files of a data directory, and PostgreSQL, which several nodes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.shared.tables import make_tables
from ibi.runtime.database import migrate, open_engine, transaction
from ibi.runtime.shared.store import STORE_FILES, close_store, store_of
from support.engines.postgresql import PostgreSQL
from support.engines.wanted_store import wanted_store

# The cluster of the tests that run now, if new resolvers are to be in PostgreSQL.
_given: list[PostgreSQL] = []
_made: list[tuple[Path, str]] = []  # the data directories that were given a database there, and its URL


def _make_tables(url: str) -> None:
    engine = open_engine(url)
    make_tables(engine)
    engine.dispose()


def new_store(postgresql: PostgreSQL) -> str:
    """Make a database with the tables of a resolver; return its URL."""
    return postgresql.new_database(postgresql.template("resolver", _make_tables))


def share(folder: Path, url: str) -> Path:
    """Let a data directory name a shared store; return it."""
    folder.mkdir(exist_ok=True)
    (folder / "resolver.toml").write_text(f'store = "{url}"\n')
    return folder


def in_wanted_store(data: Path) -> Path:
    """Let the data directory of a new resolver name a new store, where `stored_in` says so; return it."""
    if _given and not any((data / name).exists() for name in STORE_FILES):
        _made.append((data, new_store(_given[-1])))
        share(*_made[-1])
    return data


@contextmanager
def _dropping() -> Iterator[None]:
    """Remove at the end what databases were made meanwhile: they may lie in memory."""
    before = len(_made)
    yield
    while len(_made) > before:
        folder, url = _made.pop()
        close_store(folder)
        _given[-1].drop(url)


@pytest.fixture(scope="module", autouse=True)
def stored_in(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where new resolvers have what nodes can share: "sqlite", in files, or "postgresql", a new database for each."""
    kind = getattr(request, "param", wanted_store() or "sqlite")
    if kind == "sqlite":
        yield kind
        return
    _given.append(request.getfixturevalue("postgresql"))
    with _dropping():
        yield kind
    _given.pop()


@pytest.fixture(autouse=True)
def stores_are_dropped(stored_in: str) -> Iterator[None]:  # noqa: ARG001 - begun after it, and ended before it
    """Remove the databases of a test at its end."""
    with _dropping():
        yield


def on_both_stores(metafunc: pytest.Metafunc, *, but: bool = False) -> None:
    """Run a test that uses `data` once with files and once with a shared store, `but` one that is about the files.

    With IBI_TEST_STORE it runs once.
    """
    if "data" in metafunc.fixturenames:
        stores = {"sqlite": ["files"], "postgresql": ["store"]}.get(wanted_store(), ["files", "store"])
        metafunc.parametrize("data", ["files"] if but else stores, indirect=True)


@pytest.fixture
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A data directory, with everything in it or with a shared store (`on_both_stores`)."""
    if request.param == "store":
        share(tmp_path, new_store(request.getfixturevalue("postgresql")))
    yield tmp_path
    close_store(tmp_path)


def run_in_registry(data: Path, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement in the registry of a data directory, past the program; return its rows."""
    store = store_of(data)
    engine = open_engine(data / "registry.sqlite") if store is None else store.engine
    try:
        with transaction(engine) as run:
            found = run.exec_driver_sql(statement)
            return [tuple(row) for row in found] if found.returns_rows else []
    finally:
        if store is None:
            engine.dispose()


def opened_registry(data: Path, clock: Callable[[], float]) -> Registry:
    """The registry of a data directory, made if it is a file."""
    store = store_of(data)
    if store is not None:
        return Registry(store.engine, clock, store, data / "registry.sqlite-sign")
    engine = open_engine(data / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    return Registry(engine, clock)
