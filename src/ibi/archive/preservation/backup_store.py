"""The store of backups: each file once for all backups, under its SHA-256, and a folder for each backup.

    FOLDER/files/ab/ab12…            a file that any number of backups share, never changed
    FOLDER/20261121T235300Z/         one backup; appears when it is complete
        catalogue.sqlite             the catalogue of that moment
        data/…                       settings, minting state, tokens, keys
        files.txt                    a line for each stored file: SHA-256, blank, size
        backup.json                  when, of which Archive, and the SHA-256 of all the above

An interrupted backup does not change earlier ones. The folder has secrets in it: only its owner may read it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ibi.archive.store.files import exclusive_lock
from ibi.archive.store.schema import MIGRATIONS
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import SetupError
from ibi.runtime.database import migrate, open_engine, upgrade
from ibi.runtime.durable_files import flush_folder, make_folder, setup_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CATALOGUE: Final = "catalogue.sqlite"
DATA: Final = "data"
FILES: Final = "files.txt"
ABOUT: Final = "backup.json"
VERSION: Final = 1

_CHUNK: Final = 1 << 20
_MOMENT = re.compile(r"[0-9]{8}T[0-9]{6}Z(?:-[0-9]+)?")
_LINE = re.compile(r"([0-9a-f]{64}) ([0-9]{1,16})")


@dataclass(frozen=True, slots=True)
class BackupInfo:
    """The content of backup.json. `sums`: path -> SHA-256 of all its files; `missing`: files not saved."""

    version: int
    moment: str
    service: str
    address: str
    items: int
    files: int
    bytes: int
    missing: list[str]
    sums: dict[str, str]


class BackupStore:
    """A folder of backups. Every method raises SetupError if the folder cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = folder / "files"

    @contextmanager
    def exclusive_lock(self) -> Iterator[None]:
        """Hold the lock for writing; first remove what an interrupted backup or removal has left."""
        with disk_errors(self.folder):
            make_folder(self.folder)
        with exclusive_lock(
            self.folder / "backup.lock", SetupError("another backup is at work in {path}", path=self.folder)
        ):
            with disk_errors(self.folder):
                make_folder(self._files)
                for left in self.folder.iterdir():
                    # The removal of a backup deletes its backup.json first.
                    half_gone = _MOMENT.fullmatch(left.name) and not (left / ABOUT).exists()
                    if left.is_dir() and (left.suffix == ".part" or half_gone):
                        shutil.rmtree(left)
                    elif left.suffix == ".part":
                        left.unlink()
            yield

    def backups(self) -> list[str]:
        """Return the names of the backups, oldest first."""
        with disk_errors(self.folder):
            found = [path.name for path in self.folder.iterdir() if (path / ABOUT).is_file()]
        return sorted(name for name in found if _MOMENT.fullmatch(name))

    def about(self, name: str) -> BackupInfo:
        """Read the backup.json of a backup."""
        path = self.folder / name / ABOUT
        with (
            setup_errors("{path} cannot be read: {reason}", path=path),
            suppress(ValueError, TypeError, AttributeError, RecursionError),
        ):
            about = BackupInfo(**json.loads(path.read_bytes()))
            if about.version == VERSION and all(isinstance(each, str) for each in about.sums.values()):
                return about
        raise SetupError("{path} is not a backup of ours, or is damaged", path=path)

    def path_of(self, sha256: str) -> Path:
        """Return the path of the file with this digest."""
        return self._files / sha256[:2] / sha256

    def has(self, sha256: str, size: int) -> bool:
        """Return whether there is a file of this digest and size."""
        try:
            return self.path_of(sha256).stat().st_size == size
        except OSError:
            return False

    def take(self, opened: BinaryIO, sha256: str) -> bool:
        """Store a file under this digest; return False if its digest differs. Reading may raise OSError."""
        path = self.path_of(sha256)
        temporary = self.folder / f".{sha256}.part"
        with disk_errors(self.folder):
            make_folder(path.parent)
            writer = temporary.open("wb")
        try:
            right = copy_hashed(opened, writer) == sha256
            with disk_errors(self.folder):
                writer.flush()
                os.fsync(writer.fileno())
            if right:
                with disk_errors(self.folder):
                    temporary.replace(path)
                    flush_folder(path.parent)
        finally:
            with suppress(OSError):
                # If writing failed, its error is raised already; an error of closing must not replace it.
                writer.close()
            temporary.unlink(missing_ok=True)
        return right

    def listed(self, name: str) -> Iterator[tuple[str, int]]:
        """Yield the digests and sizes of the files of a backup."""
        path = self.folder / name / FILES
        with disk_errors(self.folder), path.open(encoding="ascii", errors="replace") as lines:
            for line in lines:
                match = _LINE.fullmatch(line.rstrip("\n"))
                if match is None:
                    raise SetupError("{path} is not a backup of ours, or is damaged", path=path)
                yield match[1], int(match[2])

    def finish(self, part: Path, about: dict[str, Any], moment: str) -> str:
        """Complete a backup by renaming its folder `part`; return its name."""
        with disk_errors(self.folder):
            files = [path for path in sorted(part.rglob("*")) if path.is_file()]
        sums = {path.relative_to(part).as_posix(): digest_of(path) for path in files}
        whole = BackupInfo(**about, version=VERSION, moment=moment, sums=sums)
        with disk_errors(self.folder):
            with (part / ABOUT).open("x", encoding="utf-8") as file:
                json.dump(asdict(whole), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            for folder in [part, *(path for path in part.rglob("*") if path.is_dir())]:
                flush_folder(folder)
            name = plain = re.sub("[-:]", "", moment)
            count = 1
            while (self.folder / name).exists():
                count += 1
                name = f"{plain}-{count}"
            part.rename(self.folder / name)
            flush_folder(self.folder)
        return name

    def forget_all_but(self, keep: int) -> int:
        """Remove all but the newest `keep` backups and the files that no other needs; return their number."""
        names = self.backups()
        gone = names[:-keep]
        for name in gone:
            with disk_errors(self.folder):
                # Deleted first: a folder without backup.json is no backup.
                (self.folder / name / ABOUT).unlink()
                shutil.rmtree(self.folder / name)
        if gone:
            needed = {sha256 for name in names[-keep:] for sha256, _ in self.listed(name)}
            with disk_errors(self.folder):
                for path in self._files.glob("??/*"):
                    if path.name not in needed:
                        path.unlink()
        return len(gone)


def disk_errors(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError at or below a path into SetupError."""
    return setup_errors("{path} cannot be used: {reason}", under=path)


def copy_hashed(reader: BinaryIO, writer: BinaryIO) -> str:
    """Copy bytes; return their SHA-256. Raises OSError if reading fails, SetupError if writing fails."""
    digest = hashlib.sha256()
    while chunk := reader.read(_CHUNK):
        digest.update(chunk)
        with setup_errors("no file can be kept in {path}: {reason}", path=writer.name):
            writer.write(chunk)
    return digest.hexdigest()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file of the store. Raises SetupError."""
    with disk_errors(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def catalogue_at(path: Path, *, new: bool = False) -> Iterator[Catalogue]:
    """Open the catalogue in a file after migrating it to the present version, or make it if it is `new`."""
    engine = open_engine(path)
    try:
        if new:
            migrate(engine, MIGRATIONS)
        else:
            upgrade(engine, MIGRATIONS)
        with closing(Catalogue(engine)) as catalogue:
            yield catalogue
    finally:
        engine.dispose()
