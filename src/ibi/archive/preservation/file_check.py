"""Check the files of an Archive: each listed file in its place, each sidecar, and nothing else.

A *sidecar* is the `item.json` of an item, which says beside its files what the catalogue says of it. A change in
progress is not reported: what seems wrong is looked up in the catalogue once more before it is reported. See T21:
paths out of the store; T22: colliding names; T35: faults of disks.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.preservation.audit import fault_message, opening_fault, still_listed
from ibi.archive.store import sidecars
from ibi.archive.store.file_store import SIDECAR, FileStore, relative_path
from ibi.archive.store.files import FolderFiles, exclusive_lock
from ibi.archive.store.tables import fixity, history
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import BadItem, IbiError, ParseError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.runtime.durable_files import make_folder, setup_errors
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.history import ItemEvent

_DOC: Final = b"doc"
_PLACING_SECONDS: Final = 1.0  # what is left after it waits for no process at work
# The numbers of path parts in a uniform repository name and in an IBIp.
_DEPTHS: Final = (4, 2)
LOST: Final = "lost+found"
_REPAIR: Final = "--repair"  # the option of the command that mends differences
REBUILD: Final = IbiError("stop the Archive, and run: ibi archive rebuild")
"""The remedy for a catalogue that lacks what lies beside the files; there is none such for a database."""


class Difference(NamedTuple):
    """Something that is not as it should be, its remedy, and a function that mends it, if that is safe."""

    what: IbiError
    remedy: IbiError
    mend: Callable[[], None] | None = None


def check_files(
    catalogue: Catalogue, directory: DataDirectory, progress: Callable[[int, int], None]
) -> Iterator[Difference]:
    """Yield the differences in the files of an Archive."""
    items = catalogue.count()
    file_store = _file_store(directory)
    yield from (
        _unsettled(catalogue, file_store) if file_store.is_remote else _interrupted(catalogue, directory)
    )
    reported: set[tuple[int, str]] = set()
    for number, holding in enumerate(catalogue.all(), 1):
        progress(number, items)
        yield from _listed(catalogue, file_store, holding, reported)
        yield from _sidecar(catalogue, file_store, holding)
    with catalogue.reading() as run:
        known = fixity.faults(run)
    for fault in known:
        if (fault.listed.item, fault.listed.file.name) not in reported:
            yield _recorded(fault)
    if file_store.is_remote:
        yield from _unknown_sidecars(catalogue, file_store)
    else:
        yield from _Unlisted(catalogue, directory).differences(os.fsencode(directory.path / "col"), ())


def _file_store(directory: DataDirectory) -> FileStore:
    """Return the store of the files; the folder if there are no settings, or if this machine lacks their group."""
    try:
        return directory.file_store()
    except SetupError:
        if ArchiveSettings.exists(directory.path) and directory.settings().files:
            raise
        return FolderFiles(directory.path)


def _repair(listed: ListedFile) -> IbiError:
    return IbiError(
        "put the same bytes back: ibi archive repair {name} {file} --from PATH",
        name=listed.forms.main, file=listed.file.name,
    )  # fmt: skip


def _recorded(known: KnownFault) -> Difference:
    """Return a fault that an audit has recorded, of a file that can be opened now."""
    if known.fault not in {fixity.FileFault.MISSING, fixity.FileFault.SIZE}:
        return Difference(fault_message(known.listed, known.fault), _repair(known.listed))
    problem = (
        "{file} of {name} was missing or had another size, and is not given out until an audit finds it whole"
    )
    what = IbiError(problem, file=known.listed.file.name, name=known.listed.forms.main)
    return Difference(what, IbiError("audit the files: ibi archive audit"))


def _unsettled(catalogue: Catalogue, file_store: FileStore) -> Iterator[Difference]:
    """Find files of an S3 store that wait to be put into their places, and that no process is putting there."""
    before = catalogue.staged_files()
    time.sleep(_PLACING_SECONDS if before else 0)
    with file_store.placing():
        left = set(before).intersection(catalogue.staged_files())
    if left:
        remedy = IbiError(
            "start the Archive, or check again with {repair}: it is put right then", repair=_REPAIR
        )
        what = IbiError("something was interrupted, and waits to be settled")
        yield Difference(what, remedy, lambda: file_store.place_files(catalogue))


def _interrupted(catalogue: Catalogue, directory: DataDirectory) -> Iterator[Difference]:
    """Find what an interrupted process has left; nothing is reported while a process is staging files."""
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

    def mend() -> None:
        # Opening the item store is all: it begins a staging session, and one that is alone first moves listed
        # files to their places and deletes files that were never listed.
        with directory.item_store():
            pass

    remedy = IbiError("start the Archive, or check again with {repair}: it is put right then", repair=_REPAIR)
    if waiting:
        yield Difference(IbiError("something was interrupted, and waits to be settled"), remedy, mend)
    elif left:
        problem = "unlisted files left in staging: {count}"
        yield Difference(IbiError(problem, count=len(left)), remedy, mend)


def _listed(
    catalogue: Catalogue, file_store: FileStore, holding: Holding, reported: set[tuple[int, str]]
) -> Iterator[Difference]:
    """Check that each file of an item exists, is regular, and has its size; add those that are not to `reported`."""
    for file in holding.files:
        listed = ListedFile(holding.number, holding.forms, file)
        if opening_fault(file_store, listed) is None:
            continue
        # The file may have been moved to its place, or replaced, meanwhile.
        again = still_listed(catalogue, listed)
        fault = opening_fault(file_store, again) if again else None
        if again and fault and still_listed(catalogue, again):
            reported.add((again.item, again.file.name))
            yield Difference(fault_message(again, fault), _repair(again))


def _sidecar(catalogue: Catalogue, file_store: FileStore, holding: Holding) -> Iterator[Difference]:
    """Check that the item.json of an item agrees with the catalogue."""
    with catalogue.reading() as run:
        current = sidecar_table.is_current(run, holding.number)
        if current is None:
            return
        events = history.events_of(run, holding.number)
    try:
        text = file_store.read_sidecar(holding.forms)
    except OSError:
        text = b""
    if text == sidecars.sidecar_text(holding, events):
        return
    again = catalogue.holding(holding.forms.main)
    with catalogue.reading() as run:
        if again != holding or history.events_of(run, holding.number) != events:
            return  # the item has been changed meanwhile
    problem = _contradiction(holding, events, text, current=current)
    if problem is not None:
        yield Difference(IbiError(problem, name=holding.forms.main), REBUILD)
        return
    if not current:
        # The item.json is known to be out of date, and will be written.
        return

    def mend() -> None:
        with catalogue.writing() as writer:
            sidecar_table.record_outdated(writer.run, holding.number)
        sidecars.write_outdated(catalogue, file_store)

    remedy = IbiError("check again with {repair}: it is written anew", repair=_REPAIR)
    problem = "the item.json of {name} and the catalogue differ"
    yield Difference(IbiError(problem, name=holding.forms.main), remedy, mend)


def _contradiction(holding: Holding, events: list[ItemEvent], text: bytes, *, current: bool) -> str | None:
    """Return how an undamaged item.json contradicts the catalogue; None if it does not."""
    try:
        recorded, recorded_events = sidecars.read_sidecar(text)
    except (BadItem, ParseError):
        return None
    if len(recorded_events) > len(events):
        return "the catalogue lacks changes of {name} that its item.json has"
    if current and (recorded_events != events or not sidecars.tells_the_same(recorded, holding)):
        return "the catalogue has statements about {name} that were never made: it is damaged"
    return None


def _unknown_sidecars(catalogue: Catalogue, file_store: FileStore) -> Iterator[Difference]:
    """Yield the sidecars in an S3 store whose item the catalogue does not know; other objects go after a day."""
    for path, _ in file_store.sidecars():
        try:
            known = catalogue.holding(parse_ibi(path.rpartition("/")[0]))
        except ParseError:
            continue
        if known is None:
            yield _unknown(path)


def _unknown(sidecar: str) -> Difference:
    problem = IbiError("the catalogue does not know the item of col/{path}", path=sidecar)
    return Difference(problem, REBUILD)


class _Unlisted:
    """Finds files under DIR/col that are not listed."""

    def __init__(self, catalogue: Catalogue, directory: DataDirectory) -> None:
        self._catalogue = catalogue
        self._data = directory.path
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
        if regular and parts[-1] == SIDECAR.encode() and self._item(parts[:-1]) is None:
            yield _unknown(shown)
            return
        item = _item_parts(parts)
        beside = self._data.joinpath("col", *map(os.fsdecode, item), SIDECAR)
        if self._item(item) is None and beside.is_file():
            return  # its item.json is reported instead, as the item of an unknown folder
        remedy = IbiError("check again with {repair}: it is moved to {folder}", repair=_REPAIR, folder=LOST)
        problem = "col/{path} is not listed"
        target = self._data.joinpath(LOST, self._moment, "col", *map(os.fsdecode, parts))
        yield Difference(IbiError(problem, path=shown), remedy, lambda: _move(os.fsdecode(path), target))

    def _known(self, parts: tuple[bytes, ...]) -> bool:
        """Return whether a file is listed, is the item.json of an item, or is about to be removed."""
        item, path = _item_parts(parts), b"/".join(parts)
        if path in (self._item(item) or ()):
            return True
        # The item may have changed since its paths were read from the catalogue.
        self._of = (b"", None)
        return path in (self._item(item) or ()) or path in self._catalogue.paths_to_remove()

    def _item(self, parts: tuple[bytes, ...]) -> frozenset[bytes] | None:
        """Return the paths of the item whose folder this is; None if it is not the folder of an item."""
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
        paths = {relative_path(holding.forms, file.name) for file in holding.files}
        with self._catalogue.reading() as run:
            if sidecar_table.is_current(run, holding.number) is not None:
                paths.add(folder + b"/" + SIDECAR.encode())
        return frozenset(paths)


def _item_parts(parts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the leading parts of a path that are the name of an item."""
    found = (depth for depth in _DEPTHS if len(parts) > depth and parts[depth] == _DOC)
    return parts[: next(found, len(parts) - 1)]


def _move(path: str, target: Path) -> None:
    """Move a file of any kind. Raises SetupError."""
    with setup_errors("{path} cannot be written: {reason}", path=target):
        make_folder(target.parent)
        os.rename(path, target)  # noqa: PTH104 - also for names that cannot be decoded
