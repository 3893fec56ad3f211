"""The catalogue made anew from what lies beside the files (`sidecars`), where it was lost, damaged or put back (T35).

What is sound of the catalogue at hand stays; without one, or with a damaged one, a new one begins. Each item.json
that knows more than the catalogue is taken over, with its history. What has no item.json (linked items, counters,
memberships) comes from a backup alone. The old catalogue is kept in lost+found, so nothing is made worse.
"""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ibi.archive import schema
from ibi.archive.care import sidecars
from ibi.archive.care.check import ODD
from ibi.archive.care.check_files import LOST
from ibi.archive.catalogue import Catalogue
from ibi.archive.holding import Holding
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import history, soundness
from ibi.archive.ledgers import sidecars as ledger
from ibi.archive.ledgers.snapshot import copy_database
from ibi.database import migrate, open_engine, upgrade
from ibi.durable import flush_folder
from ibi.errors import AlreadyHeld, IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.archive.catalogue import Writer
    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.ledgers.history import Event

CATALOGUE = "catalogue.sqlite"
_NEW = "catalogue.new.sqlite"
_PARTS = ("", "-wal", "-shm")


@dataclass(slots=True)
class Rebuilt:
    """What a rebuild came to. `kept`: whether the catalogue at hand was sound; `problems`: what could not be read."""

    kept: bool
    added: int = 0
    brought_on: int = 0
    problems: list[IbiError] = field(default_factory=list)


def rebuild(directory: ArchiveDirectory) -> Rebuilt:
    """Make the catalogue of an Archive anew; nobody may serve it meanwhile. Raises SetupError."""
    settings = directory.settings()
    new, aside = directory.path / _NEW, directory.path / LOST / f"{directory.now():.3f}"
    with directory.serving():
        _remove(new)
        rebuilt = Rebuilt(kept=_copy_sound(directory.path / CATALOGUE, new))
        engine = open_engine(new)
        try:
            (upgrade if rebuilt.kept else migrate)(engine, schema.MIGRATIONS)
            catalogue = Catalogue(engine)
            with closing(catalogue):
                if catalogue.holding(settings.service.main) is None:
                    moment = timestamp_text(directory.now())
                    catalogue.put(Holding(forms=settings.service, timestamp=moment, transferable=False))
                _take_all(catalogue, directory.path / "col", rebuilt)
        finally:
            engine.dispose()
        _exchange(directory.path, new, aside)
        with directory.catalogue() as catalogue:
            directory.storage().settle(catalogue)
            sidecars.write_owed(catalogue, directory.storage())
        _set_aside(directory.path, "staging", aside)  # the old catalogue may have listed it
    return rebuilt


def _copy_sound(old: Path, new: Path) -> bool:
    """Copy the catalogue at hand if it is sound; else tell that it is not."""
    if not old.exists():
        return False
    engine = open_engine(old)
    try:
        upgrade(engine, schema.MIGRATIONS)
        with closing(Catalogue(engine)) as catalogue, catalogue.reading() as run:
            sound = not soundness.integrity(run) and not soundness.dangling(run)
        if sound:
            copy_database(old, new)
            _read_all(new)
    except ODD:
        _remove(new)
        return False
    finally:
        engine.dispose()
    return sound


def _read_all(path: Path) -> None:
    """Raise what comes of it if a row of a catalogue cannot be read."""
    engine = open_engine(path)
    try:
        with closing(Catalogue(engine)) as catalogue:
            for _ in catalogue.all():
                pass
    finally:
        engine.dispose()


def _take_all(catalogue: Catalogue, root: Path, rebuilt: Rebuilt) -> None:
    for path in _sidecars(root):
        try:
            holding, events = sidecars.read_sidecar(sidecars.read_file(path))
            with catalogue.writing() as writer:
                _take(writer, holding, events, rebuilt)
        except SetupError:
            raise
        except (IbiError, OSError) as error:
            why = error if isinstance(error, IbiError) else error.strerror or error
            problem = "{path} is left out: {reason}"
            rebuilt.problems.append(IbiError(problem, path=path.relative_to(root), reason=why))


def _take(writer: Writer, told: Holding, events: list[Event], rebuilt: Rebuilt) -> None:
    """Bring one item to what its item.json tells. Raises AlreadyHeld where its names belong to several."""
    found = {held.number: held for name in told.names if (held := writer.holding(name))}
    if len(found) > 1:
        names = ", ".join(str(held.forms.main) for held in found.values())
        raise AlreadyHeld("its names and its key are those of several items: {names}", names=names)
    if not found:
        number, known = writer.add(told), 0
        rebuilt.added += 1
    else:
        held = next(iter(found.values()))
        number, known = held.number, len(history.events_of(writer.run, held.number))
        if known > len(events) or (known == len(events) and sidecars.same(told, held)):
            return
        writer.change(held, replace(told, number=number))
        rebuilt.brought_on += 1
    for event in events[known:]:
        history.add(writer.run, number, event)
    ledger.owe(writer.run, number)


def _sidecars(folder: Path) -> Iterator[Path]:
    """Every item.json, where items are: two or four folders deep; never through a link."""
    for above, folders, files in os.walk(folder):
        here = folder / above
        folders.sort()
        depth = len(here.relative_to(folder).parts)
        if sidecars.FILE in files and depth in {2, 4}:
            yield here / sidecars.FILE
        if depth >= 4:  # noqa: PLR2004 - the parts of a repository name
            folders.clear()


def _exchange(data: Path, new: Path, aside: Path) -> None:
    """Put the new catalogue into the place of the old one, which is kept aside."""
    for part in reversed(_PARTS):
        _set_aside(data, f"{CATALOGUE}{part}", aside)
    try:
        for part in _PARTS:
            made = new.with_name(f"{new.name}{part}")
            if made.exists():
                made.rename(data / f"{CATALOGUE}{part}")
        flush_folder(data)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("{path} cannot be written: {reason}", path=data, reason=reason) from None


def _set_aside(data: Path, name: str, aside: Path) -> None:
    """Move a file, or what is in a folder, to lost+found."""
    old = data / name
    try:
        for each in old.iterdir() if old.is_dir() else [old]:
            if each.exists():
                target = aside / each.relative_to(data)
                target.parent.mkdir(parents=True, exist_ok=True)
                each.rename(target)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("{path} cannot be written: {reason}", path=aside, reason=reason) from None


def _remove(path: Path) -> None:
    for part in _PARTS:
        path.with_name(f"{path.name}{part}").unlink(missing_ok=True)
