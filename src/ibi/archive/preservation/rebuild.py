"""Rebuild a catalogue that was lost, damaged or set back, from the item.json beside the files (T35: faults of disks).

A rebuild starts from the old catalogue if it is sound, else from an empty one. Each item.json with more
changes than the catalogue is copied into it, with its history. What has no item.json (linked items, counters,
memberships) can come only from a backup. The old catalogue is kept in lost+found, so nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.preservation.backup_store import CATALOGUE, catalogue_at
from ibi.archive.preservation.check import ROW_ERRORS
from ibi.archive.preservation.file_check import LOST
from ibi.archive.store import sidecars
from ibi.archive.store.tables import change_log, consistency, history
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.consistency import copy_database
from ibi.errors import AlreadyHeld, IbiError, SetupError
from ibi.runtime.durable_files import flush_folder, make_folder, setup_errors

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue, CatalogueWriter
    from ibi.archive.store.tables.history import ItemEvent

_NEW = "catalogue.new.sqlite"
_PARTS = ("", "-wal", "-shm")


@dataclass(slots=True)
class RebuildResult:
    """The result: whether the old catalogue was sound (`kept`), items added and updated, unreadable files."""

    kept: bool
    added: int = 0
    brought_on: int = 0
    problems: list[IbiError] = field(default_factory=list)


def rebuild(directory: DataDirectory, progress: Callable[[int], None] = lambda _: None) -> RebuildResult:
    """Rebuild the catalogue of an Archive that is not being served. Raises SetupError.

    `progress` is called with the number of items that have been read.
    """
    settings = directory.settings()
    if settings.store:
        problem = "the catalogue is in a database, and not made anew by this: put back a backup of it"
        raise SetupError(problem)
    new, lost_found = directory.path / _NEW, directory.path / LOST / f"{directory.now():.3f}"
    with directory.serve_lock():
        _remove(new)
        rebuilt = RebuildResult(kept=_copy_sound(directory.path / CATALOGUE, new))
        with catalogue_at(new, new=not rebuilt.kept) as catalogue:
            if catalogue.holding(settings.service.main) is None:
                moment = timestamp_text(directory.now())
                catalogue.put(Holding(forms=settings.service, timestamp=moment, transferable=False))
            _take_all(catalogue, directory.file_store(), rebuilt, progress)
            with catalogue.writing() as writer:
                change_log.begin_again(writer.run)
        for part in reversed(_PARTS):
            _move_to_lost_found(directory.path, f"{CATALOGUE}{part}", lost_found)
        with setup_errors("{path} cannot be written: {reason}", path=directory.path):
            for part in _PARTS:
                made = new.with_name(f"{new.name}{part}")
                if made.exists():
                    made.rename(directory.path / f"{CATALOGUE}{part}")
            flush_folder(directory.path)
        with directory.catalogue() as catalogue:
            directory.file_store().place_files(catalogue)
            sidecars.write_outdated(catalogue, directory.file_store())
        # Moved and not deleted, because the old catalogue may have listed these files.
        _move_to_lost_found(directory.path, "staging", lost_found)
    return rebuilt


def _copy_sound(old: Path, new: Path) -> bool:
    """Copy the old catalogue if it is sound; return whether it is."""
    if not old.exists():
        return False
    try:
        with catalogue_at(old) as catalogue, catalogue.reading() as run:
            sound = not consistency.integrity_errors(run) and not consistency.dangling_references(run)
        if sound:
            copy_database(old, new)
            with catalogue_at(new) as catalogue:
                # Every row is read, because a damaged row raises an error only when it is read.
                for _ in catalogue.all():
                    pass
    except ROW_ERRORS:
        _remove(new)
        return False
    return sound


def _take_all(
    catalogue: Catalogue, file_store: FileStore, rebuilt: RebuildResult, progress: Callable[[int], None]
) -> None:
    for number, (path, content) in enumerate(file_store.sidecars(), 1):
        progress(number)
        try:
            if isinstance(content, OSError):
                raise content
            holding, events = sidecars.read_sidecar(content)
            with catalogue.writing() as writer:
                _take(writer, holding, events, rebuilt)
        except SetupError:
            raise
        except (IbiError, OSError) as error:
            why = error if isinstance(error, IbiError) else error.strerror or error
            problem = "{path} is left out: {reason}"
            rebuilt.problems.append(IbiError(problem, path=path, reason=why))


def _take(
    writer: CatalogueWriter, recorded: Holding, events: list[ItemEvent], rebuilt: RebuildResult
) -> None:
    """Add or update one item from its item.json. Raises AlreadyHeld if its names belong to several items."""
    found = {held.number: held for name in recorded.names if (held := writer.holding(name))}
    if len(found) > 1:
        names = ", ".join(str(held.forms.main) for held in found.values())
        raise AlreadyHeld("its names and its key are those of several items: {names}", names=names)
    if not found:
        number, known = writer.add(recorded), 0
        rebuilt.added += 1
    else:
        held = next(iter(found.values()))
        number, known = held.number, len(history.events_of(writer.run, held.number))
        if known > len(events) or (known == len(events) and sidecars.tells_the_same(recorded, held)):
            return
        writer.change(held, replace(recorded, number=number))
        rebuilt.brought_on += 1
    for event in events[known:]:
        history.add_event(writer.run, number, event)
    sidecar_table.record_outdated(writer.run, number)


def _move_to_lost_found(data: Path, name: str, lost_found: Path) -> None:
    """Move a file, or the content of a folder, to lost+found."""
    old = data / name
    with setup_errors("{path} cannot be written: {reason}", path=lost_found):
        for each in old.iterdir() if old.is_dir() else [old]:
            if each.exists():
                target = lost_found / each.relative_to(data)
                make_folder(target.parent)
                each.rename(target)


def _remove(path: Path) -> None:
    with setup_errors("{path} cannot be written: {reason}", path=path):
        for part in _PARTS:
            path.with_name(f"{path.name}{part}").unlink(missing_ok=True)
