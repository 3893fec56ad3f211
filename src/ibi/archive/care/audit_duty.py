"""The audit as a duty of the running Archive: all files within so many days, a little at a time (threat T35)."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from ibi.archive.care.audit import CHUNK, Reading, said, still_listed
from ibi.archive.care.sidecars import write_owed
from ibi.archive.item_lines import timestamp_text
from ibi.archive.ledgers import fixity
from ibi.archive.ledgers.fixity import Fault, Found, Listed, Place

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.storage import Storage

WALK: Final = "duty"
EVERY: Final = 5.0
"""Seconds between two portions."""

PORTION: Final = 64 << 20
"""Bytes that are read in one portion at most."""

RATE: Final = 8 << 20
"""Bytes a second that are read at most."""

_DAY: Final = 86_400
_EARLY: Final = 0.9  # of the days: what is left over is for the times when the Archive is off
_OPENING: Final = 4096  # what a file costs however small it is, in bytes

_log = logging.getLogger(__name__)


class AuditDuty:
    """Reads all stored files of an Archive within `days`; `portion` is called every `EVERY` seconds.

    A file that is longer than a portion is read over several; after a restart it begins anew. `now` gives POSIX
    seconds; `sleep` takes seconds.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        storage: Storage,
        now: Callable[[], float],
        days: int,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._catalogue = catalogue
        self._storage = storage
        self._now = now
        self._seconds = days * _DAY
        self._sleep = sleep
        self._reading: Reading | None = None

    async def portion(self) -> None:
        """Read as much as is due by now, and no more than a portion; first write the sidecars that are owed.

        Raises SetupError if the database or the disk refuses.
        """
        await asyncio.to_thread(write_owed, self._catalogue, self._storage)
        with self._catalogue.reading() as run:
            place = fixity.place_of(run, WALK)
            files, size = fixity.total(run)
        now = self._now()
        if place is None or (place.ended and now >= place.begun + self._seconds):
            place = self._keep(Place(now), [])
        elif place.begun > now:  # a clock that was far ahead delays nothing
            place = self._keep(place._replace(begun=now), [])
        share = (now - place.begun) / (self._seconds * _EARLY)
        due = (size + files * _OPENING) * share if share < 1 else math.inf
        left = PORTION
        while left > 0 and not place.ended and place.done < due:
            read, place = await self._file(place, left)
            left -= read

    def close(self) -> None:
        """Leave the file in hand; after this it is read from its beginning."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    async def _file(self, place: Place, most: int) -> tuple[int, Place]:
        """Read on in the next file, up to so many bytes; returns how many it was, and the place then."""
        reading = self._reading
        if reading is None:
            with self._catalogue.reading() as run:
                listed = fixity.next_files(run, place, 1)
            if not listed:
                return 0, self._keep(place._replace(ended=True), [])
            reading = self._reading = Reading(self._storage, listed[0])
        read = 0
        while read < most:
            if not await asyncio.to_thread(reading.more):
                self._reading = None
                return read + _OPENING, self._judge(place, reading)
            read += CHUNK
            await self._sleep(CHUNK / RATE)
        return read, place

    def _judge(self, place: Place, reading: Reading) -> Place:
        """Write down what a file came to."""
        listed: Listed | None = reading.listed
        if reading.fault:
            listed = still_listed(self._catalogue, reading.listed)
            if listed and not _is_so(self._storage, listed, reading):
                listed = None  # it was moved while we looked, and comes again in the next round
        found = [Found(listed, reading.fault, timestamp_text(self._now()))] if listed else []
        for each, fault, _ in found:
            if fault:
                _log.error("%s", said(each, fault))
        last = reading.listed
        cost = last.file.size + _OPENING
        after = place._replace(item=last.item, name=last.file.name, done=place.done + cost)
        return self._keep(after, found)

    def _keep(self, place: Place, found: list[Found]) -> Place:
        with self._catalogue.writing() as writer:
            fixity.write(writer.run, found)
            fixity.keep_place(writer.run, WALK, place)
            if place.ended:
                fixity.forget_unlisted(writer.run)
        return place


def _is_so(storage: Storage, listed: Listed, reading: Reading) -> bool:
    """Whether a file that was not found, or not as it should be, still is so."""
    if reading.size or reading.fault not in {Fault.MISSING, Fault.SIZE}:
        return True
    again = Reading(storage, listed)
    again.close()
    return again.fault == reading.fault
