"""Whether every listed file is in its place, and nothing else is (threats T21, T22 and T35)."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.care import sidecars
from ibi.archive.care.audit import fault_of, said, still_listed
from ibi.archive.ledgers import fixity, history
from ibi.archive.ledgers import sidecars as ledger
from ibi.archive.ledgers.fixity import Listed
from ibi.archive.storage import alone
from ibi.errors import BadItem, IbiError, ParseError, SetupError
from ibi.identifier.forms import parse_ibi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.directory import ArchiveDirectory
    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.history import Event
    from ibi.archive.storage import Storage

_DOC: Final = b"doc"
_DEPTHS: Final = (4, 2)  # parts of a repository name, and of an IBIp
LOST: Final = "lost+found"


class Difference(NamedTuple):
    """Something that is not as it should be, what to do, and what settles it here if that is safe."""

    what: IbiError
    advice: IbiError
    settle: Callable[[], None] | None = None


def check_files(catalogue: Catalogue, directory: ArchiveDirectory) -> Iterator[Difference]:
    """What is wrong with the files of an Archive."""
    storage = directory.storage()
    yield from _unsettled(catalogue, directory)
    for holding in catalogue.all():
        yield from _listed(catalogue, storage, holding)
        yield from _sidecar(catalogue, storage, holding)
    with catalogue.reading() as run:
        known = fixity.faults(run)
    for fault in known:
        if fault.fault not in {fixity.Fault.MISSING, fixity.Fault.SIZE}:  # those were seen above
            yield Difference(said(fault.listed, fault.fault), _repair(fault.listed))
    yield from _Unlisted(catalogue, directory).differences()


def _repair(listed: Listed) -> IbiError:
    return IbiError(
        "put the same bytes back: ibi archive repair {name} {file} --from PATH",
        name=listed.forms.main, file=listed.file.name,
    )  # fmt: skip


def _unsettled(catalogue: Catalogue, directory: ArchiveDirectory) -> Iterator[Difference]:
    """What an interrupted process has left. While somebody is at work nobody can tell, and it is no difference."""
    taken = SetupError("somebody is at work in this Archive")
    try:
        with alone(directory.path / "ingest.lock", taken):
            waiting = bool(catalogue.staged() or catalogue.leaving())
            left = sorted(path.name for path in (directory.path / "staging").iterdir())
    except SetupError as error:
        if error is not taken:
            raise
        return
    except FileNotFoundError:
        left, waiting = [], False

    def settle() -> None:
        with directory.keeper():
            pass  # whoever begins to work while nobody else does puts right what was left

    advice = IbiError("start the Archive, or run this with --repair: it is put right then")
    if waiting:
        yield Difference(IbiError("something was interrupted, and waits to be settled"), advice, settle)
    elif left:
        problem = "files were left in staging, which nobody has listed: {count}"
        yield Difference(IbiError(problem, count=len(left)), advice, settle)


def _listed(catalogue: Catalogue, storage: Storage, holding: Holding) -> Iterator[Difference]:
    """Whether each file of an item is there, a regular one of its size."""
    for file in holding.files:
        listed: Listed | None = Listed(holding.number, holding.forms, file)
        fault = fixity.Fault.MISSING
        for _ in range(2):  # it may have been moved to its place, or been replaced, while we looked
            if listed is None:
                break
            try:
                storage.open(listed.forms, listed.file).close()
                break
            except OSError as error:
                fault = fault_of(error)
            listed = still_listed(catalogue, listed)
        else:
            if listed is not None:
                yield Difference(said(listed, fault), _repair(listed))


def _sidecar(catalogue: Catalogue, storage: Storage, holding: Holding) -> Iterator[Difference]:
    """Whether the item.json of an item says what the catalogue says."""
    with catalogue.reading() as run:
        current = ledger.has_sidecar(run, holding.number)
        if current is None:
            return
        events = history.events_of(run, holding.number)
    path = sidecars.path_of(storage, holding)
    try:
        text = sidecars.read_file(path)
    except OSError:
        text = b""
    if text == sidecars.sidecar(holding, events):
        return
    again = catalogue.holding(holding.forms.main)
    with catalogue.reading() as run:
        if again != holding or history.events_of(run, holding.number) != events:
            return  # it has been changed meanwhile
    problem = _contradiction(holding, events, text, current=current)
    if problem is not None:
        advice = IbiError("stop the Archive, and run: ibi archive rebuild")
        yield Difference(IbiError(problem, name=holding.forms.main), advice)
        return
    if not current:
        return  # it is known to be out of date, and will be written

    def settle() -> None:
        with catalogue.writing() as writer:
            ledger.owe(writer.run, holding.number)
        sidecars.write_owed(catalogue, storage)

    advice = IbiError("run this with --repair: it is written anew")
    problem = "the item.json of {name} does not tell what the catalogue says"
    yield Difference(IbiError(problem, name=holding.forms.main), advice, settle)


def _contradiction(holding: Holding, events: list[Event], text: bytes, *, current: bool) -> str | None:
    """What an undamaged item.json has against the catalogue, None if nothing."""
    try:
        held, told = sidecars.read_sidecar(text)
    except (BadItem, ParseError):
        return None
    if len(told) > len(events):
        return "the catalogue has forgotten changes of {name} that its item.json tells"
    if current and (told != events or not sidecars.same(held, holding)):
        return "the catalogue says of {name} what was never said: it is damaged"
    return None


class _Unlisted:
    """Looks for what lies under DIR/col without being listed."""

    def __init__(self, catalogue: Catalogue, directory: ArchiveDirectory) -> None:
        self._catalogue = catalogue
        self._data = directory.path
        self._storage = directory.storage()
        self._moment = f"{directory.now():.0f}"
        self._of: tuple[bytes, frozenset[bytes] | None] = (b"", None)

    def differences(self) -> Iterator[Difference]:
        """Everything that is not listed."""
        yield from self._below(os.fsencode(self._data / "col"), ())

    def _below(self, folder: bytes, above: tuple[bytes, ...]) -> Iterator[Difference]:
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except FileNotFoundError:  # removed meanwhile
            return
        for entry in entries:
            parts = (*above, entry.name)
            if entry.is_dir(follow_symlinks=False):
                yield from self._below(entry.path, parts)
            elif not self._known(parts, again=False) and not self._known(parts, again=True):
                yield from self._unlisted(entry.path, parts)

    def _unlisted(self, path: bytes, parts: tuple[bytes, ...]) -> Iterator[Difference]:
        try:
            regular = stat.S_ISREG(os.lstat(path).st_mode)
        except FileNotFoundError:
            return
        shown = os.fsdecode(b"/".join(parts)).encode("utf-8", "replace").decode()
        if regular and parts[-1] == sidecars.FILE.encode() and self._item(parts[:-1]) is None:
            problem = "the catalogue does not know the item of col/{path}"
            advice = IbiError("stop the Archive, and run: ibi archive rebuild")
            yield Difference(IbiError(problem, path=shown), advice)
            return
        if self._forgotten(parts):
            return  # its item.json is told above
        advice = IbiError("run this with --repair: it is moved to {folder}", folder=LOST)
        problem = "col/{path} is not listed"
        yield Difference(IbiError(problem, path=shown), advice, lambda: self._set_aside(path, parts))

    def _known(self, parts: tuple[bytes, ...], *, again: bool) -> bool:
        """Whether a file is listed, is the item.json of an item, or is about to be removed."""
        if again:  # something may have changed since the catalogue was asked
            self._of = (b"", None)
        names = self._item(parts[: self._depth(parts)])
        path = b"/".join(parts)
        if names is not None and path in names:
            return True
        return again and path in self._catalogue.leaving()

    def _forgotten(self, parts: tuple[bytes, ...]) -> bool:
        """Whether a file belongs to an item that only its item.json tells of."""
        item = parts[: self._depth(parts)]
        beside = self._data.joinpath("col", *(os.fsdecode(part) for part in item), sidecars.FILE)
        return self._item(item) is None and beside.is_file()

    @staticmethod
    def _depth(parts: tuple[bytes, ...]) -> int:
        """How many parts of a path are the name of an item."""
        found = (depth for depth in _DEPTHS if len(parts) > depth and parts[depth] == _DOC)
        return next(found, len(parts) - 1)

    def _item(self, parts: tuple[bytes, ...]) -> frozenset[bytes] | None:
        """The paths that belong to the item in a folder; None if no item does."""
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
        paths = {self._storage.relative(holding.forms, file.name) for file in holding.files}
        with self._catalogue.reading() as run:
            if ledger.has_sidecar(run, holding.number) is not None:
                paths.add(folder + b"/" + sidecars.FILE.encode())
        return frozenset(paths)

    def _set_aside(self, path: bytes, parts: tuple[bytes, ...]) -> None:
        target = self._data.joinpath(LOST, self._moment, "col", *(os.fsdecode(part) for part in parts))
        _move(os.fsdecode(path), target)


def _move(path: str, target: Path) -> None:
    """Move what lies at a path, whatever it is. Raises SetupError."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        os.rename(path, target)  # noqa: PTH104 - also for names that are no text
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("{path} cannot be written: {reason}", path=target, reason=reason) from None
