"""Visits, counted by the rules of COUNTER (Release 5.1): heard at once, counted a moment later, many at a time.

An investigation is a look at the pages about an item, a fetch of it, or a reader whom a resolver sent to a linked
item; a request is a fetch of the item itself. Of the same address of ours by the same reader only one within thirty
seconds counts; what crawlers, programs, HEAD, prefetching browsers and the parts of a page fetch never does.

Nothing is kept that tells who a reader was: while an hour lasts, a keyed hash of what was visited, by whom. A process
that is killed loses the visits of its last second; nothing else waits for them.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from ibi.archive.access import day_of
from ibi.archive.ledgers import visits as ledger
from ibi.archive.ledgers.visits import Counts
from ibi.archive.website.visitors import Countries, is_program
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.catalogue import Catalogue, Run
    from ibi.archive.holding import StoredFile
    from ibi.archive.url_key import Thanks
    from ibi.exchange import Asked

COUNT_AFTER: Final = 1.0
"""Seconds between hearing the first visit and counting it."""

DOUBLE_CLICK: Final = 30.0
"""Seconds within which a reader means the same address once."""

MOST_WAITING: Final = 100_000
"""Visits that wait to be counted; more are lost, and the log says so."""

_HOUR: Final = 3600
_MARK_BYTES: Final = 16
_PARTS: Final = frozenset({"image", "style", "script", "font", "track", "manifest", "worker", "sharedworker"})
_TYPES_OF_PARTS: Final = ("text/css", "text/javascript", "font/", "application/font")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit: of which item (its number), whether it was fetched, at which address of ours, and when.

    `reader` tells the address that it came from, "" if nobody vouches for one; `agent`: the header User-Agent. Both
    are forgotten once it is counted. `moment`: POSIX seconds.
    """

    item: int
    fetched: bool
    url: str
    reader: Callable[[], str]
    agent: str
    moment: float


def is_meant(asked: Asked) -> bool:
    """Whether somebody asked for this on purpose."""
    return asked.method == "GET" and not asked.only_prefetched


def is_part_of_a_page(asked: Asked, file: StoredFile) -> bool:
    """Whether a browser fetches a file only to show a page with it: pictures, styles, scripts, fonts."""
    said = asked.header(b"sec-fetch-dest")
    if said:
        return said in _PARTS
    if asked.header(b"accept").startswith(
        ("image/", "text/css")
    ):  # browsers on plain http say no more than this
        return True
    return file.media_type.startswith(_TYPES_OF_PARTS)


def count_sent(run: Run, thanks: Thanks, moment: float) -> None:
    """Count the readers of a linked item, for whom a resolver thanks; those of all others are seen here anyway."""
    ledger.count_linked(run, thanks.number, _month(moment), Counts(thanks.readers, thanks.readers))


class Visits:
    """Counts the visits to one Archive. `now` gives POSIX seconds. Belongs to one event loop."""

    def __init__(self, catalogue: Catalogue, now: Callable[[], float], geo_database: str = "") -> None:
        self._catalogue = catalogue
        self._now = now
        self._countries = Countries(geo_database)
        self._waiting: list[Visit] = []
        self._counting: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None
        self._forget_old()

    def hear(self, visit: Visit) -> None:
        """Take a visit."""
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("a visit was not counted: too many are waiting")
            return
        self._waiting.append(visit)
        if self._counting is None:
            self._counting = asyncio.create_task(self._count_all())

    async def close(self) -> None:
        """Count what waits."""
        self._closing.set()
        if self._sweep is not None:
            self._sweep.cancel()
        if self._counting is not None:
            await self._counting

    async def _count_all(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), COUNT_AFTER)
            waiting, self._waiting = self._waiting, []
            await asyncio.to_thread(self._count, waiting)
        self._counting = None
        if self._sweep is not None:
            self._sweep.cancel()
        if not self._closing.is_set():  # then every mark has had its hour
            self._sweep = asyncio.get_running_loop().call_later(_HOUR, self._forget_old)

    def _count(self, waiting: list[Visit]) -> None:
        visits = [visit for visit in waiting if not is_program(visit.agent)]
        now = self._now()
        try:
            with self._catalogue.writing() as writer:
                key = ledger.key_of(writer.run, day_of(now), secrets.token_bytes(32))
                for (item, month, country), counts in self._tally(writer.run, key, visits).items():
                    ledger.count(writer.run, item, month, country, counts)
                ledger.forget(writer.run, now)
        except SetupError as error:
            _log.warning("%d visits were not counted: %s", len(waiting), error)

    def _tally(self, run: Run, key: bytes, visits: Iterable[Visit]) -> dict[tuple[int, str, str], Counts]:
        tally: dict[tuple[int, str, str], Counts] = defaultdict(Counts)
        for visit in visits:
            address = visit.reader()
            reader = _mark(key, address, visit.agent)
            if _is_double_click(run, reader, visit):
                continue
            looked = _is_first(run, reader, visit, "looked")
            counts = Counts(1, int(looked))
            if visit.fetched:
                counts = Counts(1, int(looked), 1, int(_is_first(run, reader, visit, "fetched")))
            place = (visit.item, _month(visit.moment), self._countries.of(address))
            tally[place] = tally[place].plus(counts)
        return tally

    def _forget_old(self) -> None:
        """Forget the marks whose time is over, also if nobody visits any more."""
        try:
            with self._catalogue.reading() as run:
                there = ledger.has_old(run, self._now())
            if there:
                with self._catalogue.writing() as writer:
                    ledger.forget(writer.run, self._now())
        except SetupError as error:
            _log.warning("visits could not be forgotten: %s", error)


def _is_double_click(run: Run, reader: bytes, visit: Visit) -> bool:
    """Whether the same reader asked for the same address just before; each click begins the time anew."""
    mark = _mark(reader, visit.url)
    before = ledger.until(run, mark)
    ledger.remember(run, mark, visit.moment + DOUBLE_CLICK)
    return visit.moment <= before


def _is_first(run: Run, reader: bytes, visit: Visit, how: str) -> bool:
    """Whether this is the first such visit of a reader to an item in an hour of the day, which is a session."""
    hour = int(visit.moment // _HOUR)
    mark = _mark(reader, how, str(visit.item), str(hour))
    if ledger.until(run, mark):
        return False
    ledger.remember(run, mark, (hour + 1) * _HOUR)
    return True


def _mark(key: bytes, *words: str) -> bytes:
    return hmac.digest(key, "\0".join(words).encode("utf-8", "replace"), "sha256")[:_MARK_BYTES]


def _month(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m}"
