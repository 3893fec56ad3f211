"""Thanks on their way to the Archives whose URLs were chosen (RES-11, RES-12, notes 1 and 2).

The thanks for an answer that was asked for one reader leave at once, each by itself. Those for an answer that was
reused are added up first and sent together: one acknowledgment tells how many readers it stands for, and has an
id, so that the Archive counts it once however often it comes.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.resolver.thankers import Parcel, Same, Thanker

if TYPE_CHECKING:
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.inquiry import Archive
    from ibi.transport import Client

PER_ARCHIVE: Final = 3.0
"""Seconds for the whole reply of one Archive."""

GATHERING_SECONDS: Final = 1.0
"""How long thanks for reused answers of one Archive are gathered before they are sent together."""

GATHERED_AT_MOST: Final = 1_000
"""Readers whose thanks are gathered for one Archive; with so many, they are sent before the time is over."""

MOST_READERS: Final = 100_000
"""Readers whom one acknowledgment may stand for (note 1)."""

OLDEST: Final = 600.0
"""Seconds after which thanks that still wait are not worth sending: their URL key is no longer known (note 1)."""


@dataclass(slots=True, eq=False)
class _Line:
    """The thanks for one Archive: those that are gathered, those that wait for a sender, and how many senders work."""

    gathered: list[Parcel] = field(default_factory=list)
    readers: int = 0  # of those gathered
    timer: asyncio.TimerHandle | None = None
    waiting: deque[Parcel] = field(default_factory=deque)
    growing: dict[Same, Parcel] = field(default_factory=dict)  # gathered or waiting: not sent yet
    senders: int = 0

    @property
    def places(self) -> int:
        """Acknowledgments in it."""
        return len(self.gathered) + len(self.waiting)


class Thanks:
    """Acknowledgments on their way, none of them awaited by a reader (RES-12, note 2).

    Every Archive has a line of its own, so one that takes its time does not hold up the thanks of the others.
    `delivered` + `queued` + the sum of `dropped` (by reason) is the number of calls of `acknowledge`, `again` and
    `skip`: what stands for many readers counts as many.
    """

    def __init__(
        self,
        client: Client,
        *,
        most: int = 10_000,
        most_per_archive: int = 1_000,
        at_once: int = 4,
        deadline: float = PER_ARCHIVE,
    ) -> None:
        """`most`: acknowledgments that wait, for how many readers each may be; `deadline` in seconds."""
        self._client = client
        self._most = most
        self._most_per_archive = most_per_archive
        self._at_once = at_once
        self._deadline = deadline
        self._lines: dict[str, _Line] = {}
        self._held = 0
        self._thankers: set[Thanker] = set()
        self._closing = False
        self._rested = asyncio.Event()
        self.delivered = 0
        self.queued = 0
        self.dropped: Counter[str] = Counter()

    def acknowledge(self, archive: Archive, acknowledgment: Acknowledgment) -> None:
        """Send it when there is a moment; return at once. When too many wait already, it is dropped and counted."""
        line = self._lines.get(archive.address, _Line())
        parcel = self._take(line, archive, acknowledgment)
        if parcel is not None:
            line.waiting.append(parcel)
            self._set_off(archive.address, line)

    def again(
        self, archive: Archive, acknowledgment: Acknowledgment, readers: int = 1, since: float | None = None
    ) -> None:
        """Thank for an answer that other readers got before: soon, together with others (note 1); return at once.

        The answer must be one that may be reused. Those with the same URL key and URL become one acknowledgment,
        which tells the addresses and the persistent URL of the first of them. `readers` have got it, the first of
        them at the time `since` of the loop.
        """
        while readers > MOST_READERS:
            self.again(archive, acknowledgment, MOST_READERS, since)
            readers -= MOST_READERS
        line = self._lines.get(archive.address, _Line())
        same = (str(archive.service_ibi), acknowledgment.url_key, acknowledgment.url)
        parcel = line.growing.get(same)
        if parcel is not None and parcel.readers + readers <= MOST_READERS and not self._closing:
            parcel.readers += readers
            self.queued += readers
        else:
            parcel = self._take(line, archive, acknowledgment, same, readers)
            if parcel is None:
                return
            parcel.since = parcel.since if since is None else since
            line.growing[same] = parcel
            line.gathered.append(parcel)
        if not parcel.due:
            self._gather(archive.address, line, readers)

    def has_room(self, archive: Archive) -> bool:
        """Whether whoever can wait may call `again` for this Archive: half of all places are for those who cannot."""
        line = self._lines.get(archive.address)
        places = 0 if line is None else line.places
        return 2 * self._held < self._most and 2 * places < self._most_per_archive

    def skip(self, reason: str, readers: int = 1) -> None:
        """Count redirects that nobody is thanked for: nothing goes uncounted (note 2)."""
        self.dropped[reason] += readers

    async def close(self, grace: float = PER_ARCHIVE) -> None:
        """Take no more, deliver what is waiting for `grace` seconds at most, then drop the rest."""
        self._closing = True
        for address, line in list(self._lines.items()):
            self._flush(address, line)
        for thanker in list(self._thankers):
            thanker.hurry()
        if self._thankers:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._rested.wait(), grace)
        for thanker in self._thankers:
            thanker.give_up()
        self._thankers.clear()
        self.dropped["closing"] += self.queued
        self.queued = self._held = 0
        self.dropped = +self.dropped  # reasons that never occurred are no reasons
        self._lines.clear()

    # -- taking and gathering ----------------------------------------------------------------------------------

    def _take(
        self,
        line: _Line,
        archive: Archive,
        acknowledgment: Acknowledgment,
        same: Same | None = None,
        readers: int = 1,
    ) -> Parcel | None:
        """A place for an acknowledgment among those that wait; None, and counted, where there is none."""
        if self._closing:
            self.dropped["closing"] += readers
            return None
        if self._held >= self._most or line.places >= self._most_per_archive:
            self.dropped["too many waiting"] += readers
            return None
        self._lines[archive.address] = line
        self.queued += readers
        self._held += 1
        return Parcel(archive, acknowledgment, asyncio.get_running_loop().time(), same, readers)

    def _gather(self, address: str, line: _Line, readers: int) -> None:
        """More readers are thanked for: the first sets the clock, the last one of many stops it."""
        line.readers += readers
        if line.readers >= GATHERED_AT_MOST:
            self._flush(address, line)
        elif line.timer is None:
            loop = asyncio.get_running_loop()
            line.timer = loop.call_later(GATHERING_SECONDS, self._flush, address, line)

    def _flush(self, address: str, line: _Line) -> None:
        """What was gathered is due."""
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
        for parcel in line.gathered:
            parcel.due = True
        line.waiting.extend(line.gathered)
        line.gathered.clear()
        line.readers = 0
        for _ in range(min(len(line.waiting), self._at_once)):
            self._set_off(address, line)

    # -- sending -----------------------------------------------------------------------------------------------

    def _set_off(self, address: str, line: _Line) -> None:
        if line.senders < self._at_once:
            line.senders += 1
            self._rested.clear()
            take, rest = partial(self._next, line), partial(self._rest, address, line)
            self._thankers.add(Thanker(self._client, self._deadline, take, self._over, rest))

    def _next(self, line: _Line) -> Parcel | None:
        """What is to be sent next of what waits in one line."""
        oldest = asyncio.get_running_loop().time() - OLDEST
        while line.waiting:
            parcel = line.waiting.popleft()
            if parcel.same is not None and line.growing.get(parcel.same) is parcel:
                del line.growing[parcel.same]
            self._held -= 1
            if parcel.since >= oldest:
                return parcel
            self._over(parcel, "too old")
        return None

    def _over(self, parcel: Parcel, problem: str) -> None:
        """What became of one: "" when it was delivered."""
        if problem:
            self.dropped[problem] += parcel.readers
        else:
            self.delivered += parcel.readers
        self.queued -= parcel.readers

    def _rest(self, address: str, line: _Line, thanker: Thanker) -> None:
        """One who has thanked for all that waited in a line."""
        self._thankers.discard(thanker)
        line.senders -= 1
        if not line.senders and not line.places:
            self._lines.pop(address, None)
        if not self._thankers:
            self._rested.set()
