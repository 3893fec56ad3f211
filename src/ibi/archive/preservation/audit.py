"""Audits: read every stored file again, and compare it with the digest listed at its ingest (T35: faults of disks).

The results are recorded in the fixity table. A file that is known to be damaged is not served, and can be
repaired only with the same bytes from elsewhere. `Audit` is the audit by a command. `AuditDuty` is the task
of a served Archive, which reads all files within a number of days, a little at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.store.sidecars import write_outdated
from ibi.archive.store.tables import fixity
from ibi.archive.store.tables.fixity import AuditPosition, AuditResult, FileFault
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
    from typing import BinaryIO

    from ibi.archive.model.item import Holding, StoredFile
    from ibi.archive.store.file_store import FileStore
    from ibi.archive.store.tables.catalogue import Catalogue


COMMAND_AUDIT: Final = "command"
"""The name of the audit by `ibi archive audit`; by it, its position is stored, from which it can continue."""

CHUNK: Final = 1 << 20
# Results are recorded after so many files or bytes, so that an interrupted audit loses little.
_PAGE: Final = 100
_MUCH: Final = 256 << 20

SENTENCES: Final = {
    FileFault.MISSING: "{file} of {name} is missing",
    FileFault.SIZE: "{file} of {name} does not have the size that was listed",
    FileFault.DIGEST: "{file} of {name} is damaged: its SHA-256 is not the one that was listed",
    FileFault.UNREADABLE: "{file} of {name} cannot be read",
}
"""The sentence for each fault."""


def fault_message(listed: ListedFile, fault: FileFault) -> IbiError:
    """Return the sentence for a fault of a file."""
    return IbiError(SENTENCES[fault], file=listed.file.name, name=listed.forms.main)


def known_fault(catalogue: Catalogue, holding: Holding, file: StoredFile) -> SetupError | None:
    """Return the error to raise instead of serving a damaged file; None if no fault of the file is known."""
    with catalogue.reading() as run:
        fault = fixity.fault_of(run, holding.number, file)
    if fault is None:
        return None
    found = fault_message(ListedFile(holding.number, holding.forms, file), fault)
    return SetupError("this file cannot be given out until it is repaired: {found}", found=found)


class FileReading:
    """A listed file that is read piece by piece, so that requests are served in between."""

    def __init__(self, file_store: FileStore, listed: ListedFile) -> None:
        self.listed = listed
        self.size = 0
        self.fault: FileFault | None = None
        self._digest = hashlib.sha256()
        self._file: BinaryIO | None = None
        try:
            self._file = file_store.open(listed.forms, listed.file)
        except (FileNotFoundError, NotADirectoryError):
            self.fault = FileFault.MISSING
        except OSError as error:
            # An error without a number comes from FileStore.open itself: the size is not the listed one.
            self.fault = FileFault.SIZE if error.errno is None else FileFault.UNREADABLE

    def more(self) -> bool:
        """Read the next piece; return False at the end. Then `fault` is final."""
        if self._file is None:
            return False
        try:
            chunk = self._file.read(CHUNK)
        except OSError:
            self.fault = FileFault.UNREADABLE
            chunk = b""
        if chunk:
            self._digest.update(chunk)
            self.size += len(chunk)
            return True
        self.close()
        if self.fault is None and self._digest.hexdigest() != self.listed.file.sha256:
            self.fault = FileFault.DIGEST if self.size == self.listed.file.size else FileFault.SIZE
        return False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def opening_fault(file_store: FileStore, listed: ListedFile) -> FileFault | None:
    """Return the fault that opening a listed file shows, without reading it; None if there is none."""
    reading = FileReading(file_store, listed)
    reading.close()
    return reading.fault


@dataclass(slots=True)
class AuditProgress:
    """How far an audit has come: `files` read, `done` of `total` bytes, and `faults` found."""

    files: int = 0
    done: int = 0
    total: int = 0
    faults: int = 0


@dataclass(eq=False, slots=True)
class Audit:
    """The audit of one Archive by a command. `now` returns POSIX seconds."""

    catalogue: Catalogue
    file_store: FileStore
    now: Callable[[], float]
    progress: AuditProgress = field(default_factory=AuditProgress)

    def all(self, *, go_on: bool = False) -> Generator[AuditResult, None, None]:
        """Read every listed file, or with `go_on` those that an interrupted audit missed; yield each result.

        If the generator is closed early, the results so far are recorded, and the next audit can continue.
        """
        with self.catalogue.reading() as run:
            known = fixity.position_of(run, COMMAND_AUDIT)
            _, self.progress.total = fixity.total(run)
        place = known if go_on and known and not known.ended else AuditPosition(self.now())
        self.progress.done = place.done
        found: list[AuditResult] = []
        try:
            while True:
                with self.catalogue.reading() as run:
                    page = fixity.next_files(run, place, _PAGE)
                if not page:
                    break
                for listed in page:
                    yield from self._one(listed, found)
                    place = place._replace(item=listed.item, name=listed.file.name, done=self.progress.done)
                    if sum(each.listed.file.size for each in found) > _MUCH:
                        _record(self.catalogue, COMMAND_AUDIT, found, place)
                        found.clear()
                _record(self.catalogue, COMMAND_AUDIT, found, place)
                found.clear()
            place = place._replace(ended=True)
        finally:
            _record(self.catalogue, COMMAND_AUDIT, found, place)

    def item(self, holding: Holding) -> Iterator[AuditResult]:
        """Read the files of one item."""
        self.progress.total = sum(file.size for file in holding.files)
        found: list[AuditResult] = []
        for file in holding.files:
            yield from self._one(ListedFile(holding.number, holding.forms, file), found)
        _record(self.catalogue, COMMAND_AUDIT, found)

    def _one(self, listed: ListedFile, found: list[AuditResult]) -> Iterator[AuditResult]:
        before = self.progress.done
        fault = self._read(listed)
        again = still_listed(self.catalogue, listed) if fault else listed
        if fault and again:
            # The file may have been moved to its place during the read.
            self.progress.done = before
            fault = self._read(again)
        self.progress.files += 1
        if again:
            found.append(AuditResult(again, fault, timestamp_text(self.now())))
            self.progress.faults += fault is not None
            yield found[-1]

    def _read(self, listed: ListedFile) -> FileFault | None:
        reading = FileReading(self.file_store, listed)
        before = self.progress.done
        while reading.more():
            self.progress.done = before + reading.size
        self.progress.done = before + listed.file.size
        return reading.fault


def _record(
    catalogue: Catalogue, audit: str, found: Sequence[AuditResult], place: AuditPosition | None = None
) -> None:
    """Record results, and in the same transaction the position of the audit with this name."""
    with catalogue.writing() as writer:
        fixity.record_results(writer.run, found)
        if place is not None:
            fixity.save_position(writer.run, audit, place)
            if place.ended:
                fixity.forget_unlisted(writer.run)


def still_listed(catalogue: Catalogue, listed: ListedFile) -> ListedFile | None:
    """Return how a file is listed now; None if it was removed or replaced, which makes a result void."""
    holding = catalogue.holding(listed.forms.main)
    file = holding.file(listed.file.name) if holding else None
    if holding is None or file is None or file.sha256 != listed.file.sha256:
        return None
    return ListedFile(holding.number, holding.forms, file)


SERVED_AUDIT: Final = "duty"
"""The name of the audit that a served Archive makes by itself."""

EVERY: Final = 5.0
"""Seconds between two portions."""

PORTION: Final = 64 << 20
"""The most bytes that are read in one portion."""

RATE: Final = 8 << 20
"""The most bytes that are read in a second."""

_DAY: Final = 86_400
# All is read within this share of the days; the rest is a reserve for times when the Archive is not served.
_EARLY: Final = 0.9
# Opening a file counts as reading so many bytes.
_OPENING: Final = 4096

_log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class AuditDuty:
    """Reads all stored files of an Archive within `days`; `portion` is called every `EVERY` seconds.

    A file that is longer than a portion is read in several portions; after a restart it is read from its
    beginning. `now` returns POSIX seconds; `sleep` takes seconds.
    """

    catalogue: Catalogue
    file_store: FileStore
    now: Callable[[], float]
    days: int
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _reading: FileReading | None = None

    async def portion(self) -> None:
        """Write the sidecars that are out of date, then read as many bytes as are due now, at most a portion.

        Raises SetupError if the database or the disk refuses.
        """
        await asyncio.to_thread(write_outdated, self.catalogue, self.file_store)
        with self.catalogue.reading() as run:
            place = fixity.position_of(run, SERVED_AUDIT)
            files, size = fixity.total(run)
        now, seconds = self.now(), self.days * _DAY
        if place is None or (place.ended and now >= place.begun + seconds):
            place = self._keep(AuditPosition(now), [])
        elif place.begun > now:
            # The clock was ahead when this audit started, which must not delay it.
            place = self._keep(place._replace(begun=now), [])
        share = (now - place.begun) / (seconds * _EARLY)
        due = (size + files * _OPENING) * share if share < 1 else math.inf
        left = PORTION
        while left > 0 and not place.ended and place.done < due:
            read, place = await self._file(place, left)
            left -= read

    def close(self) -> None:
        """Close the file that is being read; the next time, it is read from its beginning."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    async def _file(self, place: AuditPosition, most: int) -> tuple[int, AuditPosition]:
        """Read up to `most` bytes of the next file; return how many bytes that cost, and the new position."""
        reading = self._reading
        if reading is None:
            with self.catalogue.reading() as run:
                listed = fixity.next_files(run, place, 1)
            if not listed:
                return 0, self._keep(place._replace(ended=True), [])
            reading = self._reading = await asyncio.to_thread(FileReading, self.file_store, listed[0])
        read = 0
        while read < most:
            if not await asyncio.to_thread(reading.more):
                self._reading = None
                return read + _OPENING, await asyncio.to_thread(self._judge, place, reading)
            read += CHUNK
            await self.sleep(CHUNK / RATE)
        return read, place

    def _judge(self, place: AuditPosition, reading: FileReading) -> AuditPosition:
        listed: ListedFile | None = reading.listed
        if reading.fault:
            listed = still_listed(self.catalogue, reading.listed)
            # A file that could not be opened may have been moved meanwhile; then the next audit reads it.
            unopened = not reading.size and reading.fault in {FileFault.MISSING, FileFault.SIZE}
            if listed and unopened and opening_fault(self.file_store, listed) != reading.fault:
                listed = None
        found = [AuditResult(listed, reading.fault, timestamp_text(self.now()))] if listed else []
        if listed and reading.fault:
            _log.error("%s", fault_message(listed, reading.fault))
        last = reading.listed
        cost = last.file.size + _OPENING
        after = place._replace(item=last.item, name=last.file.name, done=place.done + cost)
        return self._keep(after, found)

    def _keep(self, place: AuditPosition, found: list[AuditResult]) -> AuditPosition:
        _record(self.catalogue, SERVED_AUDIT, found, place)
        return place
