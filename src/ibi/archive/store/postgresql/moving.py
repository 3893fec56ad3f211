"""Moves the catalogue of an Archive from its file into a database of PostgreSQL, and back.

All rows are copied in one transaction and compared one by one. Then the minting of labels stops in the old place and
begins in the new one (between two databases by way of files), accounts and the like are copied, and at last the
settings lead there. The old rows are kept: a file goes to lost+found, a database is not touched. A move that was cut
off can be made again.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.store import schema
from ibi.archive.store.data_directory import has_items
from ibi.archive.store.files import exclusive_lock
from ibi.archive.store.postgresql import nodes
from ibi.archive.store.postgresql.copying import compare_rows, copy_rows
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import SetupError
from ibi.minting.moving import MOVED_AWAY, to_files, to_row
from ibi.minting.state_row import StateRow
from ibi.runtime.database import has_version, migrate, open_engine, transaction, upgrade
from ibi.runtime.durable_files import flush_folder, make_folder, setup_errors
from ibi.runtime.settings import settings_lock
from ibi.runtime.settings.rules import ARCHIVE_RULES
from ibi.runtime.shared.documents import documents_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from ibi.archive.store.data_directory import DataDirectory

_NEW: Final = "catalogue.new.sqlite"
_FILE: Final = "catalogue.sqlite"
_PARTS: Final = ("", "-wal", "-shm")
_CANNOT_WRITE: Final = "{path} cannot be written: {reason}"


def move_store(directory: DataDirectory, to: str, progress: Callable[[int], None] = lambda _: None) -> int:
    """Move the catalogue of an Archive that no node serves; return how many rows it has.

    `to`: the URL of a database, or "" for a file of the data directory. Raises SetupError; then the Archive is where it
    was.
    """
    data = directory.path
    ARCHIVE_RULES["store"]("store", to)
    busy = SetupError("another command is at work in {path}", path=data)
    documents = documents_of(data)
    # A node keeps no transaction open for so long: it keeps all nodes from serving.
    others = settings_lock(data) if documents is None else documents.store.alone()
    with directory.serve_lock(), exclusive_lock(data / "ingest.lock", busy), others:
        settings = directory.settings()
        replace(settings, store=to).check_environment()
        if to == settings.store:
            raise SetupError("the catalogue is there already")
        texts, kept = nodes.texts_of(data), data / "lost+found" / f"{directory.now():.3f}"
        # Until the settings lead to the new store, none may write into the old one.
        with directory.catalogue() as catalogue, transaction(catalogue.engine, "catalogue") as connection:
            if settings.store:
                connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            count = _copy(catalogue.engine, to or data / _NEW, progress)
            if to:
                if settings.store and not _is_begun(_row(to)):
                    to_files(_row(settings.store), data, directory.machine)
                to_row(data, directory.machine, _row(to))
                nodes.take_in(data, to, texts, kept)
            else:
                to_files(_row(settings.store), data, directory.machine)
                with setup_errors(_CANNOT_WRITE, path=kept):
                    _keep_old(data, kept)  # what an earlier move has left
                    _take_new(data)
                nodes.take_out(data, texts)
        if to:
            with setup_errors(_CANNOT_WRITE, path=kept):
                _keep_old(data, kept)
        if documents is not None:
            nodes.end(documents)
    return count


def _row(store: str) -> StateRow:
    return StateRow(open_engine(store), has_items)


def _is_begun(row: StateRow) -> bool:
    """Whether labels are minted from a row, because a move that was cut off has begun it."""
    with closing(row):
        row.prepare()
        with row.alone() as locked:
            return locked.record is not None and locked.record.machine != MOVED_AWAY


def _copy(source: Engine, store: Path | str, progress: Callable[[int], None]) -> int:
    """Copy a catalogue to another store, unless a move that was cut off has done so; compare them; return the rows."""
    if isinstance(store, Path):
        for part in _PARTS:
            store.with_name(f"{store.name}{part}").unlink(missing_ok=True)
    target = open_engine(store)
    try:
        if not isinstance(store, Path):
            nodes.check_usable(target)
        if not has_version(target, schema.MIGRATIONS):
            migrate(target, schema.MIGRATIONS)
        upgrade(target, schema.MIGRATIONS)
        with closing(Catalogue(target)) as catalogue, catalogue.writing() as writer:
            is_new = not writer.last_number()
        if is_new:
            copy_rows(source, target, progress)
        return compare_rows(source, target)
    finally:
        target.dispose()


def _keep_old(data: Path, kept: Path) -> None:
    """Move the file of a catalogue, if there is one, to lost+found."""
    for part in _PARTS:
        if (old := data / f"{_FILE}{part}").exists():
            make_folder(kept)
            old.rename(kept / old.name)
    flush_folder(data)


def _take_new(data: Path) -> None:
    """Give the new file the name of a catalogue."""
    for part in _PARTS:
        if (new := data / f"{_NEW}{part}").exists():
            new.rename(data / f"{_FILE}{part}")
    flush_folder(data)
