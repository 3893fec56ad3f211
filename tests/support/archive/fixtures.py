"""New Archives in new folders, and one that is served."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.store import data_directory, schema
from ibi.archive.store.data_directory import DataDirectory
from ibi.runtime.database import migrate, open_engine
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.shared.store import MIGRATIONS, close_stores, opened_stores
from support.archive import archive_fixture
from support.archive.archive_fixture import NewArchive, Served, fill, listener, make_archive, serving
from support.engines.postgresql import PostgreSQL
from support.engines.seaweedfs import BUCKET, SeaweedFS
from support.engines.wanted_store import wanted_store

IN_A_FOLDER = pytest.mark.parametrize("files_place", ["folder"], indirect=True)
"""Marks a test of a module with `files_place` that is about the folder alone."""


@pytest.fixture(params=["folder", "s3"])
def files_place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the Archives of a test keep their files in their folders, then in an S3 store; returns "" or the place."""
    if request.param == "folder":
        return ""
    server: SeaweedFS = request.getfixturevalue("seaweedfs")
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    place = f"s3://{BUCKET}/{secrets.token_hex(6)}"
    monkeypatch.setattr(archive_fixture, "PLACE", place)
    return place


def let_clocks_differ(patch: pytest.MonkeyPatch) -> None:
    """Let the false clocks of tests differ from that of a real database by years; else no label would be given."""
    patch.setattr("ibi.minting.state_row.MOST_SKEW", 1 << 60)


def _make_tables(url: str) -> None:
    engine = open_engine(url)
    for chain in (schema.MIGRATIONS, MIGRATIONS):
        migrate(engine, chain)
    engine.dispose()


_made: list[str] = []  # the databases of the Archives of this process that are there still


def _create_in(cluster: PostgreSQL) -> Callable[[DataDirectory, ArchiveSettings], None]:
    """Return what makes an Archive whose catalogue is in a new database, unless its settings name a store."""
    create = DataDirectory.create

    def create_there(directory: DataDirectory, settings: ArchiveSettings) -> None:
        if settings.store:
            create(directory, settings)
            return
        _made.append(cluster.new_database(cluster.template("archive", _make_tables)))
        with pytest.MonkeyPatch.context() as patch:
            # Its tables are those of the template: half of the time goes into making them.
            patch.setattr(data_directory, "has_version", lambda *_: False)
            patch.setattr(data_directory, "migrate", lambda *_: None)
            create(directory, replace(settings, store=_made[-1]))

    return create_there


@contextmanager
def _dropping(cluster: PostgreSQL) -> Iterator[None]:
    """Remove at the end what databases were made meanwhile, where all tests make some: they may lie in memory."""
    before = len(_made)
    yield
    while wanted_store() and len(_made) > before:
        cluster.drop(_made.pop())


@pytest.fixture(scope="module", autouse=True)
def stored_in(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where the catalogues of new Archives are: "sqlite", or "postgresql", a new database for each."""
    kind = getattr(request, "param", wanted_store() or "sqlite")
    if kind == "sqlite":
        yield kind
        return
    cluster = request.getfixturevalue("postgresql")
    with _dropping(cluster), pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataDirectory, "create", _create_in(cluster))
        let_clocks_differ(patch)
        yield kind


@pytest.fixture(autouse=True)
def databases_are_dropped(stored_in: str, request: pytest.FixtureRequest) -> Iterator[None]:
    if stored_in == "sqlite":
        yield
        return
    with _dropping(request.getfixturevalue("postgresql")):
        yield


@pytest.fixture(autouse=True)
def stores_are_closed(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the stores that a test has opened in this process: what their Archives share beside the catalogue."""
    request.getfixturevalue("databases_are_dropped")  # begun before this one, so that it ends after it
    before = opened_stores()
    yield
    close_stores(before)


@pytest.fixture
def new_archive(tmp_path: Path) -> Iterator[Callable[..., NewArchive]]:
    """Makes an Archive: (address, settings that differ) -> NewArchive."""
    made: list[NewArchive] = []

    def make(address: str = "archive.example", **more: object) -> NewArchive:
        made.append(make_archive(tmp_path / f"archive{len(made)}", address, more))
        return made[-1]

    yield make
    for archive in made:
        archive.catalogue.close()


@pytest.fixture
def archive(new_archive: Callable[..., NewArchive]) -> NewArchive:
    """One new Archive."""
    return new_archive()


@contextmanager
def _served(folder: Path, **more: object) -> Iterator[Served]:
    made = listener()
    archive = make_archive(folder / "archive", f"127.0.0.1:{made.getsockname()[1]}", more)
    fill(archive)
    with serving(archive, made) as served:
        yield served


@pytest.fixture(scope="module")
def full(
    stored_in: str,  # noqa: ARG001 - made anew for each store
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """An Archive with items, served at its own address; shared by tests that only read."""
    with _served(tmp_path_factory.mktemp("full")) as served:
        yield served


@pytest.fixture(scope="module")
def joined(
    stored_in: str,  # noqa: ARG001 - made anew for each store
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    """The same, taking part at a resolver."""
    with _served(tmp_path_factory.mktemp("joined"), resolver="http://resolver.example") as served:
        yield served


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Served]:
    """The same as `full`, for one test alone."""
    with _served(tmp_path) as served:
        yield served
