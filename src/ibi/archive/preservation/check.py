"""Check a whole Archive: settings, minting state, catalogue, rules, and by `file_check` each file in its place.

Each difference is reported as one sentence with a remedy. Some can be mended at once (`Difference.mend`), which never
removes a listed file. The check can run while the Archive is served: a change in progress is not reported.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.archive.preservation.file_check import REBUILD, Difference, check_files
from ibi.archive.store import links
from ibi.archive.store.data_directory import catalogue_store, minting_row
from ibi.archive.store.tables import consistency
from ibi.archive.store.tables.listings import count_unsettled
from ibi.archive.store.tables.rows import names_of
from ibi.errors import HoldingError, IbiError, LostState, ParseError, SetupError
from ibi.minting.recovery import repair_command
from ibi.minting.state import FOLDER, StateFiles
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.database import is_url
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.identifier.forms import IBIForms
    from ibi.minting.machine import Machine
    from ibi.minting.state_row import StateRow

ROW_ERRORS: Final = (IbiError, ValueError, KeyError, TypeError, AttributeError)
"""The errors that reading a damaged row can raise."""

_MADE_ANEW: Final = IbiError(
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
    for difference in _differences(directory, machine, progress):
        if difference.remedy in (_MADE_ANEW, REBUILD) and is_url(catalogue_store(directory.path)):
            problem = (
                "if the database runs: stop all nodes, put it back from a backup of it (pg_restore), and run: "
                "ibi mint recover --data {data} --moved"
            )
            yield difference._replace(remedy=IbiError(problem, data=directory.path))
        else:
            yield difference


def _differences(
    directory: DataDirectory, machine: Machine, progress: Callable[[int, int], None]
) -> Iterator[Difference]:
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
        yield Difference(error, _MADE_ANEW)
    except ROW_ERRORS as error:
        problem = "the catalogue is damaged: a row of it cannot be read ({reason})"
        yield Difference(IbiError(problem, reason=type(error).__name__), _MADE_ANEW)
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
        yield Difference(IbiError("the catalogue is damaged: {reason}", reason=faults[0]), _MADE_ANEW)
        return
    for table, lacking in dangling:
        problem = "entries of {table} belong to nothing in {other}"
        yield Difference(IbiError(problem, table=table, other=lacking), _MADE_ANEW)
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
        yield Difference(IbiError(_RULES[rule], name=name), _MADE_ANEW)
    yield from _circles(catalogue, following, spelled)
    yield from _service(catalogue, service)
    yield from check_files(catalogue, directory, progress)


def _item(catalogue: Catalogue, holding: Holding) -> Iterator[Difference]:
    """Check that every name of an item leads to this item (ARC-01, ARC-17)."""
    for key, _ in names_of(holding):
        name = next(name for name in holding.names if name.canonical == key)
        found = catalogue.holding(name)
        if found is None or found.number != holding.number:
            yield Difference(IbiError("the name {name} does not lead to its item", name=name), _MADE_ANEW)


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
    """Check that the Archive service is an original that must stay (ARC-11: the service item)."""
    held = catalogue.holding(service.main) if service else None
    if service and (held is None or held.state is not ItemState.ORIGINAL or held.transferable):
        problem = "the Archive service {name} is not held as an original that must stay"
        yield Difference(IbiError(problem, name=service.main), _MADE_ANEW)


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
