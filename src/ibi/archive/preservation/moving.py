"""Move the files of an Archive from its folder to an S3 store, from there to another place, or back (decision 0056).

Every listed file is copied, and read again at its new place. What was compared is noted in DIR/moving-files.txt, so
that a move which was interrupted goes on. The Archive may be served meanwhile. At the end it must not be: then the rest
is copied, and the setting `files` names the new place. The old place keeps its files.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from ibi.archive.preservation.audit import CHUNK, fault_message
from ibi.archive.preservation.backup import all_files
from ibi.archive.store import sidecars
from ibi.archive.store.data_directory import file_store_of
from ibi.archive.store.files import exclusive_lock
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.fixity import FileFault
from ibi.errors import IbiError, SetupError
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import TextIO

    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.rows import ListedFile

AT_ONCE: Final = 8
"""Files that are copied at the same time."""

_JOURNAL: Final = "moving-files.txt"
_SERVED: Final = SetupError(
    "all files are copied, but the Archive is being served: stop it, and run the same command again"
)


@dataclass(slots=True)
class MoveResult:
    """The result of a move: `files` at the new place, `copied` of them now, and the files that could not be copied."""

    files: int = 0
    copied: int = 0
    problems: list[IbiError] = field(default_factory=list)


def move_files(
    directory: DataDirectory, place: str, progress: Callable[[int], None] = lambda _: None
) -> MoveResult:
    """Move all files to `place`, "s3://BUCKET/PREFIX" or "" for the folder; `progress`: files that are there.

    With `problems`, nothing is switched. Raises SetupError, after which the same call goes on.
    """
    settings = directory.settings()
    if place == settings.files:
        raise SetupError("the files are there already")
    # The new settings are checked before anything is copied.
    after = replace(settings, files=place, files_redirect=settings.files_redirect and bool(place))
    after.check_environment()
    old, new = file_store_of(directory.path, settings), file_store_of(directory.path, after)
    with setup_errors("no file can be kept in {path}: {reason}", path=new.where):
        new.create_folders()
    with directory.catalogue() as catalogue, _Move(directory.path, old, new, progress) as move:
        result = move.copy_all(catalogue)
        if result.problems:
            return result
        with ExitStack() as alone:
            alone.enter_context(exclusive_lock(directory.path / "serve.lock", _SERVED))
            if (store := store_of(directory.path)) is not None:
                alone.enter_context(store.alone())
            busy = SetupError(
                "all files are copied, but another command is at work in this Archive; try again"
            )
            alone.enter_context(exclusive_lock(directory.path / "ingest.lock", busy))
            old.place_files(catalogue)
            copied = result.copied
            result = move.copy_all(catalogue)
            result.copied += copied
            if result.problems:
                return result
            os.sync()
            with catalogue.writing() as writer:
                sidecar_table.record_all_outdated(writer.run)
            after.write(directory.path)
        move.forget()
        sidecars.write_outdated(catalogue, new)
    return result


class _Move:
    """One move, with its journal of files that were compared at the new place."""

    def __init__(self, data: Path, old: FileStore, new: FileStore, progress: Callable[[int], None]) -> None:
        self._path = data / _JOURNAL
        self._old, self._new, self._progress = old, new, progress
        self._done = set[str]()

    def __enter__(self) -> Self:
        """Open the journal; that of another move is dropped. Raises SetupError."""
        with self._errors():
            lines = self._path.read_text("utf-8").splitlines() if self._path.exists() else []
            if lines[:1] == [self._new.where]:
                self._done.update(lines[1:])
            # Written anew, because the last line may be cut off.
            self._journal: TextIO = self._path.open("w", encoding="utf-8")
            self._journal.writelines(f"{line}\n" for line in (self._new.where, *sorted(self._done)))
            self._journal.flush()
        return self

    def __exit__(self, *_: object) -> None:
        with self._errors():  # after a full disk, closing writes once more what is buffered
            self._journal.close()

    def forget(self) -> None:
        """Delete the journal."""
        self._path.unlink(missing_ok=True)

    def copy_all(self, catalogue: Catalogue) -> MoveResult:
        """Copy and compare all listed files that were not compared before."""
        result = MoveResult()
        with ThreadPoolExecutor(AT_ONCE) as threads:
            for page in all_files(catalogue):
                wanted = [each for each in page if _line(each) not in self._done]
                for each, problem in zip(wanted, threads.map(self._copy, wanted), strict=True):
                    if problem is None:
                        self._done.add(_line(each))
                        result.copied += 1
                        with self._errors():
                            self._journal.write(f"{_line(each)}\n")
                    elif catalogue.lists(each):
                        result.problems.append(problem)
                with self._errors():
                    self._journal.flush()
                result.files += len(page)
                self._progress(result.files)
        return result

    def _copy(self, listed: ListedFile) -> IbiError | None:
        forms, file = listed.forms, listed.file
        try:
            with self._old.open(forms, file) as source:
                if not self._new.put(forms, file, source):
                    return fault_message(listed, FileFault.DIGEST)
            digest = hashlib.sha256()
            with self._new.open(forms, replace(file, staged="")) as copied:
                while chunk := copied.read(CHUNK):
                    digest.update(chunk)
        except FileNotFoundError:
            return fault_message(listed, FileFault.MISSING)
        except OSError as error:
            return fault_message(listed, FileFault.SIZE if error.errno is None else FileFault.UNREADABLE)
        return None if digest.hexdigest() == file.sha256 else fault_message(listed, FileFault.DIGEST)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with setup_errors("{path} cannot be written: {reason}", path=self._path):
            yield


def _line(listed: ListedFile) -> str:
    return f"{listed.file.sha256} {listed.forms.main.canonical}/doc/{listed.file.name}"
