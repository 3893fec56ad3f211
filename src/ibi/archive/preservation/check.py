"""The check of a whole Archive: settings, minting, database, rules, and every file in its place (threat T35).

Each difference is one sentence, with a remedy. Some can be settled at once; that never removes anything that is listed.
It can run beside a served Archive: a change that is being made is no difference.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final

from ibi.archive.preservation.check_files import Difference, check_files
from ibi.archive.store.tables import consistency
from ibi.archive.store.tables.rows import names_of
from ibi.errors import HoldingError, IbiError, LostState, ParseError, SetupError
from ibi.minting.state import FOLDER, StateFiles
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import ArchiveSettings, JoinedResolver, Peer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.archive.model.item import Holding
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.identifier.forms import IBIForms
    from ibi.minting.machine import Machine

ROW_ERRORS: Final = (IbiError, ValueError, KeyError, TypeError, AttributeError)
"""The errors that reading a damaged row can raise."""

_REBUILD: Final = IbiError(
    "stop the Archive; then put back a backup (ibi archive restore), or make the catalogue anew from what lies beside "
    "the files (ibi archive rebuild)"
)
_RULES: Final = {
    "files": "{name} has not as many files as its entry says",
    "names": "{name} has no main name, or several",
    "removed": "{name} is removed, and has files or a url still",
}


def check(directory: DataDirectory, machine: Machine) -> Iterator[Difference]:
    """Yield all differences between an Archive and a sound one; changes nothing."""
    settings = None
    try:
        settings = ArchiveSettings.read(directory.path)
        JoinedResolver.read_tables(directory.path)
        Peer.read_tables(directory.path)
    except IbiError as error:
        remedy = IbiError("mend {path}, or put it back from a backup", path=directory.path)
        yield Difference(error, remedy)
    yield from _minting(directory, machine, expected=bool(settings and settings.mint_host))
    try:
        with directory.catalogue() as catalogue:
            yield from _catalogue(catalogue, settings.service if settings else None, directory)
    except (SetupError, HoldingError, ParseError) as error:
        yield Difference(error, _REBUILD)
    except ROW_ERRORS as error:
        problem = "the catalogue is damaged: a row of it cannot be read ({reason})"
        yield Difference(IbiError(problem, reason=type(error).__name__), _REBUILD)


def _minting(directory: DataDirectory, machine: Machine, *, expected: bool) -> Iterator[Difference]:
    folder = directory.path / FOLDER
    remedy = IbiError("labels wait until it is repaired: ibi mint recover --data {data}", data=directory.path)
    if not (folder / "lock").exists() and not (folder / "state").exists():
        if expected:
            problem = "the minting state in {directory} is missing, so the next label might be a second one"
            yield Difference(LostState(problem, directory=folder), remedy)
        return
    files = StateFiles(directory.path, machine.identity, machine.running)
    try:
        with closing(files), files.locked() as state:
            if not state.new:
                state.trusted()
    except LostState as error:
        yield Difference(error, remedy)
    except OSError as error:
        reason = error.strerror or error
        problem = "{path} cannot be read: {reason}"
        yield Difference(IbiError(problem, path=folder, reason=reason), remedy)


def _catalogue(
    catalogue: Catalogue, service: IBIForms | None, directory: DataDirectory
) -> Iterator[Difference]:
    with catalogue.reading() as run:
        faults = consistency.integrity_errors(run)
        dangling = [] if faults else consistency.dangling_references(run)
        broken = [] if faults else list(consistency.broken_rules(run))
    if faults:
        yield Difference(IbiError("the catalogue is damaged: {reason}", reason=faults[0]), _REBUILD)
        return
    for table, lacking in dangling:
        problem = "entries of {table} belong to nothing in {other}"
        yield Difference(IbiError(problem, table=table, other=lacking), _REBUILD)
    numbers = {number for _, number in broken}
    following: dict[int, IBIForms] = {}
    spelled: dict[int, IBIForms] = {}
    for holding in catalogue.all():
        yield from _item(catalogue, holding)
        if holding.next_edition is not None:
            following[holding.number] = holding.next_edition
        if holding.next_edition is not None or holding.number in numbers:
            spelled[holding.number] = holding.forms
    for rule, number in broken:
        name = spelled[number].main if number in spelled else number
        yield Difference(IbiError(_RULES[rule], name=name), _REBUILD)
    yield from _circles(catalogue, following, spelled)
    yield from _service(catalogue, service)
    yield from check_files(catalogue, directory)


def _item(catalogue: Catalogue, holding: Holding) -> Iterator[Difference]:
    """Check that every name of an item leads to it, and to nothing else (ARC-01, ARC-17)."""
    for key, _ in names_of(holding):
        name = next(name for name in holding.names if name.canonical == key)
        found = catalogue.holding(name)
        if found is None or found.number != holding.number:
            yield Difference(IbiError("the name {name} does not lead to its item", name=name), _REBUILD)


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
