"""Audits: every stored file is read again and compared with what was listed when it came (threat T35).

What is found goes into the ledger of fixity: when a file was last good, and what is wrong with it. A file that is known
to be damaged is not served as good; it is mended with the same bytes from elsewhere, or not at all.
"""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import fixity
from ibi.archive.ledgers.fixity import Fault, Found, Listed, Place
from ibi.errors import BadItem, HoldingError, IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.keeper import Keeper
    from ibi.archive.storage import Storage
    from ibi.identifier.forms import Name

COMMAND: Final = "command"
"""The walk of `ibi archive audit`, which goes on where it was."""

CHUNK: Final = 1 << 20
_PAGE: Final = 100  # files after which what was found is written down
_MUCH: Final = 256 << 20  # or bytes

SENTENCES: Final = {
    Fault.MISSING: "{file} of {name} is missing",
    Fault.SIZE: "{file} of {name} has not the size that was listed",
    Fault.DIGEST: "{file} of {name} is damaged: its SHA-256 is not the one that was listed",
    Fault.UNREADABLE: "{file} of {name} cannot be read",
}
"""The faults for people."""


def said(listed: Listed, fault: Fault) -> IbiError:
    """A fault as a sentence."""
    return IbiError(SENTENCES[fault], file=listed.file.name, name=listed.forms.main)


def known_fault(catalogue: Catalogue, holding: Holding, file: StoredFile) -> SetupError | None:
    """Why a listed file must not be served as good (it is to be raised), None if nothing is known against it."""
    with catalogue.reading() as run:
        fault = fixity.fault_of(run, holding.number, file)
    if fault is None:
        return None
    found = said(Listed(holding.number, holding.forms, file), fault)
    return SetupError("this file cannot be given out until it is repaired: {found}", found=found)


class Reading:
    """A listed file that is read piece by piece, so that others have their turn meanwhile."""

    def __init__(self, storage: Storage, listed: Listed) -> None:
        self.listed = listed
        self.size = 0
        self.fault: Fault | None = None
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None
        try:
            self._file = storage.open(listed.forms, listed.file)
        except OSError as error:
            self.fault = fault_of(error)

    def more(self) -> bool:
        """Read the next piece; False at the end, when `fault` tells what it came to."""
        if self._file is None:
            return False
        try:
            chunk = self._file.read(CHUNK)
        except OSError:
            self.fault = Fault.UNREADABLE
            chunk = b""
        if chunk:
            self._digest.update(chunk)
            self.size += len(chunk)
            return True
        self.close()
        if self.fault is None and self._digest.hexdigest() != self.listed.file.sha256:
            self.fault = Fault.DIGEST if self.size == self.listed.file.size else Fault.SIZE
        return False

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()
            self._file = None


def fault_of(error: OSError) -> Fault:
    """What it means that a listed file could not be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Fault.MISSING
    return Fault.SIZE if error.errno is None else Fault.UNREADABLE  # the first: storage itself says so


@dataclass(slots=True)
class Progress:
    """How far an audit has come: files and bytes read of those that are listed."""

    files: int = 0
    done: int = 0
    total: int = 0
    faults: int = 0


class Audit:
    """The audit of one Archive, as a command does it. `now` gives POSIX seconds."""

    def __init__(self, catalogue: Catalogue, storage: Storage, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._now = now
        self.progress = Progress()

    def all(self, *, go_on: bool = False) -> Generator[Found, None, None]:
        """Read every listed file, or with `go_on` those that an interrupted audit left; gives each as it is read.

        Whoever ends this early loses nothing of what was found: the next one can go on from there.
        """
        with self._catalogue.reading() as run:
            known = fixity.place_of(run, COMMAND)
            _, self.progress.total = fixity.total(run)
        place = known if go_on and known and not known.ended else Place(self._now())
        self.progress.done = place.done
        found: list[Found] = []
        try:
            while True:
                with self._catalogue.reading() as run:
                    page = fixity.next_files(run, place, _PAGE)
                if not page:
                    break
                for listed in page:
                    yield from self._one(listed, found)
                    place = place._replace(item=listed.item, name=listed.file.name, done=self.progress.done)
                    if sum(each.listed.file.size for each in found) > _MUCH:
                        self._write(found, place)
                self._write(found, place)
            place = place._replace(ended=True)
        finally:
            self._write(found, place)

    def item(self, holding: Holding) -> Iterator[Found]:
        """Read the files of one item."""
        self.progress.total = sum(file.size for file in holding.files)
        found: list[Found] = []
        for file in holding.files:
            yield from self._one(Listed(holding.number, holding.forms, file), found)
        self._write(found, None)

    def _one(self, listed: Listed, found: list[Found]) -> Iterator[Found]:
        before = self.progress.done
        fault = self._read(listed)
        again = still_listed(self._catalogue, listed) if fault else listed
        if fault and again:  # it may have been moved to its place while we looked
            self.progress.done = before
            fault = self._read(again)
        self.progress.files += 1
        if again:
            found.append(Found(again, fault, timestamp_text(self._now())))
            self.progress.faults += fault is not None
            yield found[-1]

    def _read(self, listed: Listed) -> Fault | None:
        reading = Reading(self._storage, listed)
        before = self.progress.done
        with closing(reading):
            while reading.more():
                self.progress.done = before + reading.size
        self.progress.done = before + listed.file.size
        return reading.fault

    def _write(self, found: list[Found], place: Place | None) -> None:
        with self._catalogue.writing() as writer:
            fixity.write(writer.run, found)
            if place is not None:
                fixity.keep_place(writer.run, COMMAND, place)
                if place.ended:
                    fixity.forget_unlisted(writer.run)
        found.clear()


def still_listed(catalogue: Catalogue, listed: Listed) -> Listed | None:
    """How a file is listed now; None if it is not, or is another one: then what was found means nothing."""
    holding = catalogue.holding(listed.forms.main)
    file = holding.file(listed.file.name) if holding else None
    if holding is None or file is None or file.sha256 != listed.file.sha256:
        return None
    return Listed(holding.number, holding.forms, file)


def repair(keeper: Keeper, name: Name, path: str, source: Path, who: str) -> StoredFile:
    """Put the bytes of a file back from elsewhere: the same ones, or nothing happens.

    `path` is the file's name in the item. The keeper must be at work. Raises NotHeld, BadItem, SetupError.
    """
    held = keeper.catalogue.holding(name)
    listed = held.file(path) if held else None
    if held is None or listed is None:
        raise HoldingError("{name} has no file {file}", name=name, file=path)
    staged = keeper.storage.stage(listed.name, source)
    if staged.sha256 != listed.sha256:
        keeper.storage.discard(staged)
        raise BadItem("{path} is not the file that was listed: its SHA-256 is another", path=source)
    staged = replace(staged, media_type=listed.media_type)
    with keeper.changing(who) as hand:
        held = hand.held(name)
        if held.file(path) != listed:
            raise HoldingError("{name} has changed meanwhile", name=name)
        hand.change(held, held, [staged], "repaired", file=listed.name)
        good = Found(Listed(held.number, held.forms, listed), None, hand.moment)
        fixity.write(hand.writer.run, [good])
    return listed
