"""An Archive put back from a backup, in a directory of its own (threat T35).

Every byte is compared with its digest on the way. The settings come last: before them there is no Archive, so what is
interrupted can only be thrown away. The minting state comes back as a copy, and is refused until `ibi mint recover`:
labels may have been given since the backup.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ibi.archive.care import sidecars
from ibi.archive.care.backup_store import CATALOGUE, DATA, copy, digest_of, unusable
from ibi.archive.catalogue import Catalogue
from ibi.archive.ledgers import history
from ibi.archive.ledgers import sidecars as ledger
from ibi.archive.schema import MIGRATIONS
from ibi.archive.storage import Storage
from ibi.database import open_engine, upgrade
from ibi.durable import flush_folder
from ibi.errors import IbiError, SetupError
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.care.backup_store import About, Store
    from ibi.archive.holding import Holding, StoredFile

_SETTINGS: Final = ArchiveSettings.FILE


def verify(store: Store, name: str, progress: Callable[[int], None] = lambda _: None) -> list[IbiError]:
    """Read all of a backup again; returns what is wrong with it. Raises SetupError where it cannot be read at all."""
    about = store.about(name)
    problems = [
        IbiError("{path} is missing from the backup, or damaged", path=path)
        for path, digest in about.sums.items()
        if not (store.folder / name / path).is_file() or digest_of(store.folder / name / path) != digest
    ]
    done = 0
    for sha256, size in store.listed(name) if not problems else ():
        path = store.path_of(sha256)
        if not store.has(sha256, size) or digest_of(path) != sha256:
            problems.append(IbiError("{path} is missing from the backup, or damaged", path=path.name))
        done += size
        progress(done)
    return problems


class Restoring:
    """Puts one backup back. `progress` is told how many bytes have been dealt with."""

    def __init__(
        self, store: Store, name: str, data: Path, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        self._store = store
        self._from = store.folder / name
        self._about: About = store.about(name)
        self._data = data
        self._progress = progress

    def run(self) -> list[IbiError]:
        """Put it back; returns the files that could not be. Raises SetupError, and then there is no Archive yet."""
        self._check_whole()
        self._begin()
        self._put(DATA, {_SETTINGS})
        with unusable(self._data):
            shutil.copyfile(self._from / CATALOGUE, self._data / CATALOGUE)
            (self._data / CATALOGUE).chmod(0o600)
        engine = open_engine(self._data / CATALOGUE)
        try:
            upgrade(engine, MIGRATIONS)
            with closing(Catalogue(engine)) as catalogue:
                problems = list(self._put_files(catalogue))
        finally:
            engine.dispose()
        os.sync()
        self._put(DATA, set(), only=_SETTINGS)
        with unusable(self._data):
            flush_folder(self._data)
        return problems

    def _check_whole(self) -> None:
        for path, digest in self._about.sums.items():
            if digest_of(self._from / path) != digest:
                raise SetupError("{path} is missing from the backup, or damaged", path=path)

    def _begin(self) -> None:
        with unusable(self._data):
            self._data.mkdir(parents=True, exist_ok=True)
            if any(self._data.iterdir()):
                raise SetupError(
                    "{path} is not empty: an Archive is put back into a new directory", path=self._data
                )
        Storage(self._data).make()

    def _put(self, folder: str, without: set[str], only: str = "") -> None:
        """Copy what lies in a folder of the backup into the data directory."""
        root = self._from / folder
        with unusable(self._data):
            for path in sorted(each for each in root.rglob("*") if each.is_file()):
                name = path.relative_to(root).as_posix()
                if name in without or (only and name != only):
                    continue
                target = self._data / name
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copy2(path, target)
                with target.open("rb") as file:
                    os.fsync(file.fileno())

    def _put_files(self, catalogue: Catalogue) -> Iterator[IbiError]:
        """Every file to its place, with the item.json beside it; flushed all at once by whoever calls."""
        storage, done = Storage(self._data), 0
        for holding in catalogue.all():
            for file in holding.files:
                yield from self._put_file(storage, holding, file)
                done += file.size
                self._progress(done)
            with catalogue.reading() as run:
                wanted = ledger.has_sidecar(run, holding.number) is not None
                events = history.events_of(run, holding.number)
            if wanted:
                path = sidecars.path_of(storage, holding)
                with unusable(path):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(sidecars.sidecar(holding, events))

    def _put_file(self, storage: Storage, holding: Holding, file: StoredFile) -> Iterator[IbiError]:
        target = storage.path_of(holding.forms, file)
        problem = IbiError("{file} of {name} is not in the backup", file=file.name, name=holding.forms.main)
        try:
            reader = self._store.path_of(file.sha256).open("rb")
        except OSError:
            yield problem
            return
        with reader, unusable(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as writer:
                right = copy(reader, writer) == file.sha256
            if not right:
                target.unlink()
                yield problem
