"""Check a whole Archive: settings, minting, database, rules, and each file in its place (T21, T22, T35).

Each difference is reported as one sentence with a remedy. Some can be settled at once, which never removes a
listed file. The check can run while the Archive is served: a change in progress is not reported.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.preservation.audit import fault_message, opening_fault, still_listed
from ibi.archive.store import links, sidecars
from ibi.archive.store.data_directory import minting_row
from ibi.archive.store.file_store import SIDECAR, FileStore, relative_path
from ibi.archive.store.files import FolderFiles, exclusive_lock
from ibi.archive.store.tables import consistency, fixity, history
from ibi.archive.store.tables import sidecars as sidecar_table
from ibi.archive.store.tables.listings import count_unsettled
from ibi.archive.store.tables.rows import ListedFile, names_of
from ibi.errors import BadItem, HoldingError, IbiError, LostState, ParseError, SetupError
from ibi.identifier.forms import parse_ibi
from ibi.minting.recovery import repair_command
from ibi.minting.state import FOLDER, StateFiles
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.durable_files import make_folder, setup_errors
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.fixity import KnownFault
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.identifier.forms import IBIForms
    from ibi.minting.machine import Machine
    from ibi.minting.state_row import StateRow

ROW_ERRORS: Final = (IbiError, ValueError, KeyError, TypeError, AttributeError)
"""The errors that reading a damaged row can raise."""

_REBUILD: Final = IbiError(
    "stop the Archive; then put back a backup (ibi archive restore), or make the catalogue anew from what lies beside "
    "the files (ibi archive rebuild)"
)
_RULES: Final = {
    "files": "{name} does not have as many files as its entry says",
    "names": "{name} has no main name, or several",
    "removed": "{name} is removed, and has files or a url still",
}


def check(
    directory: DataDirectory, machine: Machine, progress: Callable[[int, int], None] = lambda *_: None
) -> Iterator[Difference]:
    """Yield everything in an Archive that is not as it should be; changes nothing.

    `progress` is called with the number of items whose files were looked at, and that of all items.
    """
    settings = None
    try:
        settings = ArchiveSettings.read(directory.path)
        JoinedResolver.read_tables(directory.path)
        Peer.read_tables(directory.path)
    except IbiError as error:
        remedy = IbiError("mend {path}, or put it back from a backup", path=directory.path)
        yield Difference(error, remedy)
    if settings is None and ArchiveSettings.exists(directory.path):
        return  # only the settings tell where the catalogue, the labels and the files are
    yield from _minting(directory, machine, expected=bool(settings and settings.mint_host))
    try:
        with directory.catalogue() as catalogue:
            yield from _catalogue(catalogue, settings.service if settings else None, directory, progress)
    except (SetupError, HoldingError, ParseError) as error:
        yield Difference(error, _REBUILD)
    except ROW_ERRORS as error:
        problem = "the catalogue is damaged: a row of it cannot be read ({reason})"
        yield Difference(IbiError(problem, reason=type(error).__name__), _REBUILD)
    except OSError as error:
        yield _unreadable(error, os.fsdecode(error.filename or directory.path))


def _minting(directory: DataDirectory, machine: Machine, *, expected: bool) -> Iterator[Difference]:
    row, folder = minting_row(directory.path), directory.path / FOLDER
    if row is not None:
        yield from _minting_row(row, directory, expected=expected)
        return
    if not (folder / "lock").exists() and not (folder / "state").exists():
        if expected:
            problem = "the minting state in {directory} is missing, so the next label might be a second one"
            lost = LostState(problem, directory=folder)
            yield Difference(lost, repair_command(lost, directory.path))
        return
    files = StateFiles(directory.path, machine.identity, machine.running)
    try:
        with closing(files), files.locked() as state:
            if not state.new:
                state.trusted()
    except LostState as error:
        yield Difference(error, repair_command(error, directory.path))
    except OSError as error:
        yield _unreadable(error, folder)


def _minting_row(row: StateRow, directory: DataDirectory, *, expected: bool) -> Iterator[Difference]:
    try:
        with closing(row), row.alone() as state:
            if expected or not state.new:
                state.trusted()
    except LostState as error:
        yield Difference(error, repair_command(error, directory.path))
    except SetupError as error:
        yield Difference(error, IbiError("see that the database runs"))


def _unreadable(error: OSError, path: Path | str) -> Difference:
    problem = IbiError("{path} cannot be read: {reason}", path=path, reason=error.strerror or error)
    return Difference(problem, IbiError("run this as the user of the service"))


def _catalogue(
    catalogue: Catalogue,
    service: IBIForms | None,
    directory: DataDirectory,
    progress: Callable[[int, int], None],
) -> Iterator[Difference]:
    with catalogue.reading() as run:
        faults = consistency.integrity_errors(run)
        dangling = [] if faults else consistency.dangling_references(run)
        broken = [] if faults else list(consistency.broken_rules(run))
        unsettled = 0 if faults else count_unsettled(run)
    if faults:
        yield Difference(IbiError("the catalogue is damaged: {reason}", reason=faults[0]), _REBUILD)
        return
    for table, lacking in dangling:
        problem = "entries of {table} belong to nothing in {other}"
        yield Difference(IbiError(problem, table=table, other=lacking), _REBUILD)
    if unsettled:
        problem = "answers leave out originals that came back from a backup and are not settled: {count}"
        remedy = IbiError("settle them: ibi archive settle --data {data}", data=directory.path)
        yield Difference(IbiError(problem, count=unsettled), remedy)
    numbers = {number for _, number in broken}
    following: dict[int, IBIForms] = {}
    spelled: dict[int, IBIForms] = {}
    for holding in catalogue.all():
        yield from _item(catalogue, holding)
        yield from _languages(catalogue, holding, directory)
        if holding.next_edition is not None:
            following[holding.number] = holding.next_edition
        if holding.next_edition is not None or holding.number in numbers:
            spelled[holding.number] = holding.forms
    for rule, number in broken:
        name = spelled[number].main if number in spelled else number
        yield Difference(IbiError(_RULES[rule], name=name), _REBUILD)
    yield from _circles(catalogue, following, spelled)
    yield from _service(catalogue, service)
    yield from check_files(catalogue, directory, progress)


def _item(catalogue: Catalogue, holding: Holding) -> Iterator[Difference]:
    """Check that every name of an item leads to this item (ARC-01, ARC-17)."""
    for key, _ in names_of(holding):
        name = next(name for name in holding.names if name.canonical == key)
        found = catalogue.holding(name)
        if found is None or found.number != holding.number:
            yield Difference(IbiError("the name {name} does not lead to its item", name=name), _REBUILD)


def _languages(catalogue: Catalogue, holding: Holding, directory: DataDirectory) -> Iterator[Difference]:
    """Check that each link to a translation states the language of that translation (URL-11)."""
    if holding.state is not ItemState.ORIGINAL:
        return  # a copy is compared with its original

    for language, target in links.misstated_links(holding, catalogue.holding):
        problem = "{name} names {translation} as its translation into {language}, but that is in {other}"
        names = {"name": holding.forms.main, "translation": target.forms.main}
        what = IbiError(problem, **names, language=language or "-", other=target.language)
        if links.is_free(holding, target):
            remedy = IbiError("run this with --repair: the link then states the language of the translation")
            yield Difference(what, remedy, partial(_restate, directory, holding, target))
        else:
            yield Difference(what, IbiError("give it its right translations: ibi archive edit"))


def _restate(directory: DataDirectory, holding: Holding, target: Holding) -> None:
    with directory.item_store() as item_store, item_store.unit_of_work("check") as work:
        links.restate_link(work, holding.forms.main, target.forms.main)


def _service(catalogue: Catalogue, service: IBIForms | None) -> Iterator[Difference]:
    """Check that the Archive service is an original that must stay (ARC-11)."""
    held = catalogue.holding(service.main) if service else None
    if service and (held is None or held.state is not ItemState.ORIGINAL or held.transferable):
        problem = "the Archive service {name} is not held as an original that must stay"
        yield Difference(IbiError(problem, name=service.main), _REBUILD)


def _circles(
    catalogue: Catalogue, following: dict[int, IBIForms], spelled: dict[int, IBIForms]
) -> Iterator[Difference]:
    """Find editions that follow each other in a circle; each circle is reported once."""
    after: dict[int, int] = {}
    for number, forms in following.items():
        found = catalogue.holding(forms.main)
        if found is not None:
            after[number] = found.number
    done: set[int] = set()
    remedy = IbiError("give one of them its right next edition: ibi archive edit")
    for start in after:
        way: dict[int, None] = {}
        at: int | None = start
        while at is not None and at not in done and at not in way:
            way[at] = None
            at = after.get(at)
        if at is not None and at in way:
            problem = "the editions of {name} go in a circle"
            yield Difference(IbiError(problem, name=spelled[at].main), remedy)
        done.update(way)


_DOC: Final = b"doc"
_SETTLING_SECONDS: Final = 1.0  # what is left after it waits for no process at work
# The numbers of path parts in a uniform repository name and in an IBIp.
_DEPTHS: Final = (4, 2)
LOST: Final = "lost+found"
_REPAIR: Final = "--repair"  # the option of the command that mends differences


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
    time.sleep(_SETTLING_SECONDS if before else 0)
    with file_store.settling():
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
        remedy = IbiError("stop the Archive, and run: ibi archive rebuild")
        yield Difference(IbiError(problem, name=holding.forms.main), remedy)
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
    return Difference(problem, IbiError("stop the Archive, and run: ibi archive rebuild"))


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
