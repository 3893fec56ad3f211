"""Resolvers on both stores: the files of a data directory, and PostgreSQL, which several nodes share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ibi.resolver.registry.registry import MIGRATIONS, Registry
from ibi.resolver.shared.tables import make_tables
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.shared.store import close_store, store_of
from support.engines.postgresql import PostgreSQL


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


def on_both_stores(metafunc: pytest.Metafunc, *, but: bool = False) -> None:
    """Run a test that uses `data` once with files and once with a shared store, `but` one that is about the files."""
    if "data" in metafunc.fixturenames:
        metafunc.parametrize("data", ["files"] if but else ["files", "store"], indirect=True)


@pytest.fixture
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A data directory, with everything in it or with a shared store (`on_both_stores`)."""
    if request.param == "store":
        share(tmp_path, new_store(request.getfixturevalue("postgresql")))
    yield tmp_path
    close_store(tmp_path)


def opened_registry(data: Path, clock: Callable[[], float]) -> Registry:
    """The registry of a data directory, made if it is a file."""
    store = store_of(data)
    if store is not None:
        return Registry(store.engine, clock, store, data / "registry.sqlite-sign")
    engine = open_engine(data / "registry.sqlite")
    migrate(engine, MIGRATIONS)
    return Registry(engine, clock)
