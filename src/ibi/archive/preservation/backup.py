"""Back up a whole Archive while it is served, and restore it (T35: faults of disks).

A backup first copies the catalogue as it is at one moment, and then every file that this copy lists and the
store of backups does not have yet. Files are never changed in place, so the copied bytes are the listed ones.
If a file was removed or replaced meanwhile, the catalogue is copied again. Therefore a backup is consistent,
and has everything that was acknowledged before it started.

An Archive is restored into a new directory, and every file is compared with its digest. The settings are
written last: without them the directory is no Archive, so an interrupted restoration can only be deleted. The
minting state is restored as a copy, and refused until `ibi mint recover --moved`, because labels may have been
minted since. Originals may have moved or been removed since, so each is unsettled until peers, resolvers or a person
have said what became of it (decision 0039).
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.preservation.audit import fault_message, still_listed
from ibi.archive.preservation.backup_store import (
    CATALOGUE,
    DATA,
    FILES,
    BackupStore,
    catalogue_at,
    digest_of,
    disk_errors,
)
from ibi.archive.store import sidecars
from ibi.archive.store.data_directory import minting_row
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.postgresql.nodes import texts_of
from ibi.archive.store.tables import change_log, fixity, history, listings
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.consistency import settle_copy
from ibi.archive.store.tables.fixity import AuditPosition, FileFault
from ibi.errors import IbiError, SetupError
from ibi.minting.state import FOLDER
from ibi.runtime.durable_files import flush_folder, replace_file
from ibi.runtime.settings import ArchiveSettings
from ibi.runtime.shared.store import store_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.archive.model.item import StoredFile
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.rows import ListedFile
    from ibi.identifier.forms import IBIForms
    from ibi.minting.state_row import StateRow


FILES_PER_PAGE: Final = 500
"""Listed files that are read at once."""
_ROUNDS: Final = 10
_LEFT_OUT: Final = frozenset(
    {"col", "staging", "uploads", "jobs", "replies", "lost+found", "nonce", "metrics", "ingest.lock", "settle.lock",
     "serve.lock", "accounts.lock", "tokens.lock", "operations.lock", "moving-files.txt"}
)  # fmt: skip
"""Files and folders of the data directory that are copied in another way, or mean nothing in a backup."""

_BEGINNINGS: Final = ("catalogue.", "finding.", "sessions.")
"""Beginnings of the names of databases that are copied in another way, rebuilt, or expired when restored."""


@dataclass(slots=True)
class BackupResult:
    """The result of a backup. `name`: its folder; `copied`: files new in the store; `removed`: backups."""

    name: str = ""
    items: int = 0
    files: int = 0
    bytes: int = 0
    copied: int = 0
    copied_bytes: int = 0
    removed: int = 0
    problems: list[IbiError] = field(default_factory=list)


@dataclass(slots=True)
class Backup:
    """Makes one backup. `progress` is called with the number of bytes done."""

    directory: DataDirectory
    store: BackupStore
    progress: Callable[[int], None] = lambda _: None
    _saved: BackupResult = field(default_factory=BackupResult)

    def run(self, keep: int) -> BackupResult:
        """Make the backup, and remove all but the newest `keep` backups.

        Damaged files that are in no earlier backup become `problems`; then no backup is removed. Raises
        SetupError; then no earlier backup has changed.
        """
        settings = self.directory.settings()
        service = str(settings.service.main)
        if self.store.folder.resolve().is_relative_to(self.directory.path.resolve()):
            raise SetupError("{path} is inside the directory that is to be saved", path=self.store.folder)
        with self.directory.catalogue() as live, self.store.exclusive_lock():
            for name in self.store.backups()[-1:]:
                if self.store.about(name).service != service:
                    raise SetupError("{path} holds the backups of another Archive", path=self.store.folder)
            moment = timestamp_text(self.directory.now())
            part = self.store.folder / ".new.part"
            with disk_errors(self.store.folder):
                part.mkdir(mode=0o700)
            try:
                self._copy(live, part)
                self._copy_data(part / DATA)
                about = {
                    "service": service,
                    "address": settings.address,
                    "items": self._saved.items,
                    "files": self._saved.files,
                    "bytes": self._saved.bytes,
                    "missing": [str(problem) for problem in self._saved.problems],
                }
                self._saved.name = self.store.finish(part, about, moment)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            if not self._saved.problems:
                self._saved.removed = self.store.forget_all_but(keep)
        return self._saved

    def _copy(self, live: Catalogue, part: Path) -> None:
        """Copy the catalogue and the files that it lists, as of one moment."""
        for _ in range(_ROUNDS):
            self._saved = BackupResult()
            with disk_errors(part):
                (part / CATALOGUE).unlink(missing_ok=True)
            self.directory.copy_catalogue(part / CATALOGUE)
            if self._copy_files(live, part):
                settle_copy(part / CATALOGUE)
                return
        raise SetupError("files were removed faster than they could be copied; try again at a quieter time")

    def _copy_files(self, live: Catalogue, part: Path) -> bool:
        """Copy the listed files; return False if one of them is listed no longer."""
        saved = self._saved
        with (
            catalogue_at(part / CATALOGUE) as copied,
            disk_errors(part),
            (part / FILES).open("w") as lines,
        ):
            saved.items = copied.count()
            for listed in chain.from_iterable(all_files(copied)):
                if not self._take(live, listed):
                    return False
                lines.write(f"{listed.file.sha256} {listed.file.size}\n")
                saved.files += 1
                saved.bytes += listed.file.size
                self.progress(saved.bytes)
            lines.flush()
            os.fsync(lines.fileno())
        return True

    def _take(self, live: Catalogue, listed: ListedFile) -> bool:
        """Copy a file into the store unless it is there; return False if it is listed no longer."""
        file = listed.file
        if self.store.has(file.sha256, file.size):
            return True
        again: ListedFile | None = listed
        fault = FileFault.MISSING
        for _ in range(2):
            if again is None:
                return False
            try:
                with self.directory.file_store().open(again.forms, again.file) as opened:
                    if self.store.take(opened, file.sha256):
                        self._saved.copied += 1
                        self._saved.copied_bytes += file.size
                        return True
                fault = FileFault.DIGEST
            except OSError as error:
                fault = FileFault.MISSING if isinstance(error, FileNotFoundError) else FileFault.UNREADABLE
            again = still_listed(live, listed)
        if again is None:
            return False
        self._saved.problems.append(fault_message(again, fault))
        return True

    def _copy_data(self, target: Path) -> None:
        """Copy settings, minting state, tokens, keys, and the other files of the data directory."""
        root = self.directory.path
        with disk_errors(target):
            target.mkdir(mode=0o700)
            for path in _others(root):
                _copy_flushed(path, target / path.relative_to(root), follow_links=False)
            if store_url(root):
                # Each document as the file that it stands for: a backup is that of an Archive without nodes.
                for name, text in texts_of(root).items():
                    replace_file(target / name, text.encode())
            if (row := minting_row(root)) is not None:
                _copy_minting(row, target / FOLDER)


def _copy_minting(row: StateRow, target: Path) -> None:
    """Write the minting state of a store as a file, which a restored Archive takes for that of another machine."""
    with closing(row):
        row.prepare()
        with row.alone() as locked:
            record = locked.record
    if record is not None:
        target.mkdir(mode=0o700, exist_ok=True)
        replace_file(target / "state", record.line())


def _copy_flushed(path: Path, target: Path, *, follow_links: bool = True) -> None:
    """Copy a file with its permissions, durably. Raises OSError."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copy2(path, target, follow_symlinks=follow_links)
    with target.open("rb") as file:
        os.fsync(file.fileno())


def all_files(catalogue: Catalogue) -> Iterator[list[ListedFile]]:
    """Yield all listed files, page by page."""
    place = AuditPosition(0.0)
    while True:
        with catalogue.reading() as run:
            page = fixity.next_files(run, place, FILES_PER_PAGE)
        if not page:
            return
        yield page
        place = place._replace(item=page[-1].item, name=page[-1].file.name)


def _others(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT or path.name.startswith(_BEGINNINGS) or path.name.endswith(".new"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
        elif path.is_file() and not path.is_symlink():
            yield path


def verify(store: BackupStore, name: str, progress: Callable[[int], None] = lambda _: None) -> list[IbiError]:
    """Read a whole backup again; return what is missing or damaged. Raises SetupError if it is unreadable."""
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


def restore(
    store: BackupStore, name: str, data: Path, progress: Callable[[int], None] = lambda _: None
) -> list[IbiError]:
    """Restore a backup into a new directory; return a message for each file that could not be restored.

    `progress` is called with the number of bytes done. Raises SetupError; then the directory is no Archive.
    """
    source = store.folder / name
    for path, digest in store.about(name).sums.items():
        if digest_of(source / path) != digest:
            raise SetupError("{path} is missing from the backup, or damaged", path=path)
    with disk_errors(data):
        data.mkdir(parents=True, exist_ok=True)
        if any(data.iterdir()):
            raise SetupError("{path} is not empty: an Archive is put back into a new directory", path=data)
    settings = source / DATA / ArchiveSettings.FILE
    kept = ArchiveSettings.read(source / DATA)
    file_store = _folder(data, kept)
    with disk_errors(data):
        file_store.create_folders()
        for file in sorted((source / DATA).rglob("*")):
            if file.is_file() and file != settings:
                _copy_flushed(file, data / file.relative_to(source / DATA))
        shutil.copyfile(source / CATALOGUE, data / CATALOGUE)
        (data / CATALOGUE).chmod(0o600)
    with catalogue_at(data / CATALOGUE) as catalogue:
        own = catalogue.holding(kept.service.main)
        with catalogue.writing() as writer:
            listings.unsettle_originals(writer.run, store.about(name).moment, own.number if own else 0)
            change_log.begin_again(writer.run)
        problems = list(_put_files(store, catalogue, file_store, progress))
    os.sync()
    # Written last: a directory without settings is no Archive, so an interrupted restoration is never served.
    try:
        with disk_errors(data):
            _copy_flushed(settings, data / ArchiveSettings.FILE)
            _use_the_directory(data)
            flush_folder(data)
    except SetupError:
        (data / ArchiveSettings.FILE).unlink(missing_ok=True)
        raise
    return problems


def _use_the_directory(data: Path) -> None:
    """Let a restored Archive have its catalogue and its files where they were put back, and not where they were before.

    A trial of a backup must change nothing of the Archive that is served.
    """
    settings = ArchiveSettings.read(data)
    if settings.store or settings.files:
        replace(settings, store="", files="", files_redirect=False).write(data)


def _put_files(
    store: BackupStore, catalogue: Catalogue, file_store: FolderFiles, progress: Callable[[int], None]
) -> Iterator[IbiError]:
    """Write every file to its place, with the item.json beside it; the caller flushes them all at once."""
    done = 0
    for holding in catalogue.all():
        for file in holding.files:
            if not _put_file(store, file_store, holding.forms, file):
                problem = "{file} of {name} is not in the backup"
                yield IbiError(problem, file=file.name, name=holding.forms.main)
            done += file.size
            progress(done)
        with catalogue.reading() as run:
            wanted = sidecar_table.is_current(run, holding.number) is not None
            events = history.events_of(run, holding.number)
        if wanted:
            path = file_store.sidecar_path(holding.forms)
            with disk_errors(path):
                file_store.make_folder_of(path)
                path.write_bytes(sidecars.sidecar_text(holding, events))
                path.chmod(0o600)


def _folder(data: Path, settings: ArchiveSettings) -> FolderFiles:
    """Return the folder of the restored files; without a group if this machine lacks that of the settings."""
    try:
        return FolderFiles(data, settings.files_group)
    except SetupError:
        return FolderFiles(data)


def _put_file(store: BackupStore, file_store: FolderFiles, forms: IBIForms, file: StoredFile) -> bool:
    try:
        reader = store.path_of(file.sha256).open("rb")
    except OSError:
        return False
    with reader, disk_errors(Path(file_store.where)):
        return file_store.put(forms, file, reader)
