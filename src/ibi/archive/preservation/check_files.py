"""The check of the files: every listed file is in its place, and nothing else is there (threats T21, T22 and T35)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.preservation.audit import fault_message, opening_fault, still_listed
from ibi.archive.preservation.backup_store import write_errors
from ibi.archive.store import sidecars
from ibi.archive.store.files import exclusive_lock
from ibi.archive.store.tables import fixity, history
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import BadItem, IbiError, ParseError, SetupError
from ibi.identifier.forms import parse_ibi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.files import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent

_DOC: Final = b"doc"
# Parts of a repository name, and of an IBIp.
_DEPTHS: Final = (4, 2)
LOST: Final = "lost+found"


class Difference(NamedTuple):
    """Something that is not as it should be, the remedy, and a function that settles it here if that is safe."""

    what: IbiError
    remedy: IbiError
    settle: Callable[[], None] | None = None


def check_files(catalogue: Catalogue, directory: DataDirectory) -> Iterator[Difference]:
    """Yield what is wrong with the files of an Archive."""
    file_store = directory.file_store()
    yield from _unsettled(catalogue, directory)
    for holding in catalogue.all():
        yield from _listed(catalogue, file_store, holding)
        yield from _sidecar(catalogue, file_store, holding)
    with catalogue.reading() as run:
        known = fixity.faults(run)
    for fault in known:
        if fault.fault not in {fixity.FileFault.MISSING, fixity.FileFault.SIZE}:  # those were seen above
            yield Difference(fault_message(fault.listed, fault.fault), _repair(fault.listed))
    yield from _Unlisted(catalogue, directory).differences(os.fsencode(directory.path / "col"), ())


def _repair(listed: ListedFile) -> IbiError:
    return IbiError(
        "put the same bytes back: ibi archive repair {name} {file} --from PATH",
        name=listed.forms.main, file=listed.file.name,
    )  # fmt: skip


def _unsettled(catalogue: Catalogue, directory: DataDirectory) -> Iterator[Difference]:
    """Find what an interrupted process has left; while a process is staging files nothing can be concluded."""
    taken = SetupError("somebody is at work in this Archive")
    try:
        with exclusive_lock(directory.path / "ingest.lock", taken):
            waiting = bool(catalogue.staged_files() or catalogue.paths_to_remove())
            left = sorted(path.name for path in (directory.path / "staging").iterdir())
    except SetupError as error:
        if error is not taken:
            raise
        return
    except FileNotFoundError:
        left, waiting = [], False

    def settle() -> None:
        with directory.item_store():
            # A staging session that is the only one cleans up at its start.
            pass

    remedy = IbiError("start the Archive, or run this with --repair: it is put right then")
    if waiting:
        yield Difference(IbiError("something was interrupted, and waits to be settled"), remedy, settle)
    elif left:
        problem = "files were left in staging, which nobody has listed: {count}"
        yield Difference(IbiError(problem, count=len(left)), remedy, settle)


def _listed(catalogue: Catalogue, file_store: FileStore, holding: Holding) -> Iterator[Difference]:
    """Check that each file of an item exists, is regular, and has its size."""
    for file in holding.files:
        listed = ListedFile(holding.number, holding.forms, file)
        if opening_fault(file_store, listed) is None:
            continue
        # It may have been moved to its place, or replaced, meanwhile.
        again = still_listed(catalogue, listed)
        fault = opening_fault(file_store, again) if again else None
        if again and fault and still_listed(catalogue, again):
            yield Difference(fault_message(again, fault), _repair(again))


def _sidecar(catalogue: Catalogue, file_store: FileStore, holding: Holding) -> Iterator[Difference]:
    """Check that the item.json of an item agrees with the catalogue."""
    with catalogue.reading() as run:
        current = sidecar_table.is_current(run, holding.number)
        if current is None:
            return
        events = history.events_of(run, holding.number)
    path = sidecars.path_of(file_store, holding)
    try:
        text = sidecars.read_file(path)
    except OSError:
        text = b""
    if text == sidecars.sidecar_text(holding, events):
        return
    again = catalogue.holding(holding.forms.main)
    with catalogue.reading() as run:
        if again != holding or history.events_of(run, holding.number) != events:
            return  # it has been changed meanwhile
    problem = _contradiction(holding, events, text, current=current)
    if problem is not None:
        remedy = IbiError("stop the Archive, and run: ibi archive rebuild")
        yield Difference(IbiError(problem, name=holding.forms.main), remedy)
        return
    if not current:
        # It is known to be out of date, and will be written.
        return

    def settle() -> None:
        with catalogue.writing() as writer:
            sidecar_table.record_outdated(writer.run, holding.number)
        sidecars.write_outdated(catalogue, file_store)

    remedy = IbiError("run this with --repair: it is written anew")
    problem = "the item.json of {name} does not tell what the catalogue says"
    yield Difference(IbiError(problem, name=holding.forms.main), remedy, settle)


def _contradiction(holding: Holding, events: list[ItemEvent], text: bytes, *, current: bool) -> str | None:
    """Return how an undamaged item.json contradicts the catalogue; None if it does not."""
    try:
        recorded, recorded_events = sidecars.read_sidecar(text)
    except (BadItem, ParseError):
        return None
    if len(recorded_events) > len(events):
        return "the catalogue has forgotten changes of {name} that its item.json tells"
    if current and (recorded_events != events or not sidecars.tells_the_same(recorded, holding)):
        return "the catalogue says of {name} what was never said: it is damaged"
    return None


class _Unlisted:
    """Finds files under DIR/col that are not listed."""

    def __init__(self, catalogue: Catalogue, directory: DataDirectory) -> None:
        self._catalogue = catalogue
        self._data = directory.path
        self._file_store = directory.file_store()
        self._moment = f"{directory.now():.0f}"
        self._of: tuple[bytes, frozenset[bytes] | None] = (b"", None)

    def differences(self, folder: bytes, above: tuple[bytes, ...]) -> Iterator[Difference]:
        """Yield every file below a folder that is not listed; `above`: the parts of its path below DIR/col."""
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:  # removed meanwhile
            return
        for entry in entries:
            parts = (*above, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from self.differences(entry.path, parts)
            elif not self._known(parts):
                yield from self._unlisted(entry.path, parts)

    def _unlisted(self, path: bytes, parts: tuple[bytes, ...]) -> Iterator[Difference]:
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except FileNotFoundError:
            return
        shown = os.fsdecode(b"/".join(parts)).encode("utf-8", "replace").decode()
        if regular and parts[-1] == sidecars.FILE.encode() and self._item(parts[:-1]) is None:
            problem = "the catalogue does not know the item of col/{path}"
            remedy = IbiError("stop the Archive, and run: ibi archive rebuild")
            yield Difference(IbiError(problem, path=shown), remedy)
            return
        item = _item_parts(parts)
        beside = self._data.joinpath("col", *map(os.fsdecode, item), sidecars.FILE)
        if self._item(item) is None and beside.is_file():
            return  # its item.json is told above
        remedy = IbiError("run this with --repair: it is moved to {folder}", folder=LOST)
        problem = "col/{path} is not listed"
        target = self._data.joinpath(LOST, self._moment, "col", *map(os.fsdecode, parts))
        yield Difference(IbiError(problem, path=shown), remedy, lambda: _move(os.fsdecode(path), target))

    def _known(self, parts: tuple[bytes, ...]) -> bool:
        """Return whether a file is listed, is the item.json of an item, or is about to be removed."""
        item, path = _item_parts(parts), b"/".join(parts)
        if path in (self._item(item) or ()):
            return True
        # It may have changed since the catalogue was read.
        self._of = (b"", None)
        return path in (self._item(item) or ()) or path in self._catalogue.paths_to_remove()

    def _item(self, parts: tuple[bytes, ...]) -> frozenset[bytes] | None:
        """Return the paths of the item whose folder this is; None if it is no item's."""
        folder = b"/".join(parts)
        if folder != self._of[0]:
            self._of = (folder, self._paths(folder))
        return self._of[1]

    def _paths(self, folder: bytes) -> frozenset[bytes] | None:
        try:
            holding = self._catalogue.holding(parse_ibi(folder.decode()))
        except (ParseError, UnicodeDecodeError):
            return None
        if holding is None or holding.forms.main.canonical.encode() != folder:
            return None
        paths = {self._file_store.relative_path(holding.forms, file.name) for file in holding.files}
        with self._catalogue.reading() as run:
            if sidecar_table.is_current(run, holding.number) is not None:
                paths.add(folder + b"/" + sidecars.FILE.encode())
        return frozenset(paths)


def _item_parts(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the parts of a path that are the name of an item."""
    found = (depth for depth in _DEPTHS if len(parts) > depth and parts[depth] == _DOC)
    return parts[: next(found, len(parts) - 1)]


def _move(path: str, target: Path) -> None:
    """Move a file of any kind. Raises SetupError."""
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)  # noqa: PTH104 - also for names that are no text
