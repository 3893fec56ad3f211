"""Backups of a whole Archive, made while it runs, and the way back (threat T35).

First the catalogue is copied as it is at one moment; then every file that this copy lists and the store has not yet.
Files are never changed in place, so what is copied is what was listed; where one was removed or replaced meanwhile, the
catalogue is copied once more. So a backup holds all that was acknowledged before it began, and is consistent.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.care.audit import said, still_listed
from ibi.archive.care.backup_store import CATALOGUE, DATA, FILES, Store, unusable
from ibi.archive.catalogue import Catalogue
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import fixity
from ibi.archive.ledgers.fixity import Fault, Place
from ibi.archive.ledgers.snapshot import copy_database, settle_copy
from ibi.database import open_engine
from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.ledgers.fixity import Listed
    from ibi.archive.storage import Storage

_PAGE: Final = 500
_ROUNDS: Final = 10
_LEFT_OUT: Final = frozenset(
    {"col", "staging", "uploads", "lost+found", "nonce", "ingest.lock", "settle.lock", "serve.lock",
     "accounts.lock", "tokens.lock"}
)  # fmt: skip
"""What is copied in another way, or means nothing elsewhere."""

_BEGINNINGS: Final = ("catalogue.", "finding.", "sessions.")
"""With what the names of databases begin: copied in another way, made anew, or over by then."""


@dataclass(slots=True)
class Saved:
    """What a backup came to. `name`: of its folder; `copied` counts the files that were new, in number and bytes."""

    name: str = ""
    items: int = 0
    files: int = 0
    bytes: int = 0
    copied: int = 0
    copied_bytes: int = 0
    removed: int = 0
    problems: list[IbiError] = field(default_factory=list)


class Backup:
    """Makes one backup. `progress` is told how many bytes have been dealt with."""

    def __init__(
        self,
        directory: ArchiveDirectory,
        store: Store,
        progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._directory = directory
        self._store = store
        self._storage: Storage = directory.storage()
        self._progress = progress
        self._saved = Saved()

    def run(self, keep: int) -> Saved:
        """Make it, and remove all but the newest `keep`. Raises SetupError; then no earlier backup has changed.

        Files that are damaged here, and were in no earlier backup, are `problems`; then nothing is removed.
        """
        settings = self._directory.settings()
        service = str(settings.service.main)
        if self._store.folder.resolve().is_relative_to(self._directory.path.resolve()):
            raise SetupError("{path} is inside of what shall be saved", path=self._store.folder)
        with self._directory.catalogue() as live, self._store.alone():
            self._check_owner(service)
            moment = timestamp_text(self._directory.now())
            part = self._store.folder / ".new.part"
            with unusable(self._store.folder):
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
                self._saved.name = self._store.finish(part, about, moment)
            finally:
                shutil.rmtree(part, ignore_errors=True)
            if not self._saved.problems:
                self._saved.removed = self._store.forget_all_but(keep)
        return self._saved

    def _check_owner(self, service: str) -> None:
        for name in self._store.backups()[-1:]:
            if self._store.about(name).service != service:
                raise SetupError("{path} holds the backups of another Archive", path=self._store.folder)

    def _copy(self, live: Catalogue, part: Path) -> None:
        """The catalogue and the files that it lists, at one moment."""
        for _ in range(_ROUNDS):
            self._saved = Saved()
            with unusable(part):
                (part / CATALOGUE).unlink(missing_ok=True)
            copy_database(self._directory.path / CATALOGUE, part / CATALOGUE)
            if self._copy_files(live, part):
                settle_copy(part / CATALOGUE)
                return
        raise SetupError("files went faster than they could be copied; try again at a quieter time")

    def _copy_files(self, live: Catalogue, part: Path) -> bool:
        """Copy what is listed; False if something of it is listed no longer."""
        saved = self._saved
        engine = open_engine(part / CATALOGUE)
        try:
            with closing(Catalogue(engine)) as copied, unusable(part), (part / FILES).open("w") as lines:
                saved.items = copied.count()
                for listed in _all_files(copied):
                    if not self._take(live, listed):
                        return False
                    lines.write(f"{listed.file.sha256} {listed.file.size}\n")
                    saved.files += 1
                    saved.bytes += listed.file.size
                    self._progress(saved.bytes)
                lines.flush()
                os.fsync(lines.fileno())
        finally:
            engine.dispose()
        return True

    def _take(self, live: Catalogue, listed: Listed) -> bool:
        """Have a file in the store; False if it is listed no longer."""
        file = listed.file
        if self._store.has(file.sha256, file.size):
            return True
        again: Listed | None = listed
        fault = Fault.MISSING
        for _ in range(2):
            if again is None:
                return False
            try:
                with self._storage.open(again.forms, again.file) as opened:
                    if self._store.take(opened, file.sha256):
                        self._saved.copied += 1
                        self._saved.copied_bytes += file.size
                        return True
                fault = Fault.DIGEST
            except OSError as error:
                fault = Fault.MISSING if isinstance(error, FileNotFoundError) else Fault.UNREADABLE
            again = still_listed(live, listed)
        if again is None:
            return False
        self._saved.problems.append(said(again, fault))
        return True

    def _copy_data(self, target: Path) -> None:
        """Settings, minting state, tokens, keys: whatever else lies in the data directory, byte for byte."""
        root = self._directory.path
        with unusable(target):
            target.mkdir(mode=0o700)
            for path in _others(root):
                to = target / path.relative_to(root)
                to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copy2(path, to, follow_symlinks=False)
                with to.open("rb") as file:
                    os.fsync(file.fileno())


def _all_files(catalogue: Catalogue) -> Iterator[Listed]:
    place = Place(0.0)
    while True:
        with catalogue.reading() as run:
            page = fixity.next_files(run, place, _PAGE)
        if not page:
            return
        yield from page
        place = place._replace(item=page[-1].item, name=page[-1].file.name)


def _others(root: Path) -> Iterator[Path]:
    for path in sorted(root.iterdir()):
        if path.name in _LEFT_OUT or path.name.startswith(_BEGINNINGS) or path.name.endswith(".new"):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
        elif path.is_file() and not path.is_symlink():
            yield path
