"""Count visits by the rules of COUNTER (Release 5.1), many in one transaction, at most a second after the first.

An investigation is a view of a page about an item, a fetch of the item, or a reader whom a resolver sent to a
linked item. A request is a fetch of the item itself. Visits of one reader to the same address within thirty
seconds count once. Crawlers, programs, HEAD, prefetching browsers and the parts of a page never count.

Nothing is stored that identifies a reader: only a keyed hash of reader and address, until the hour ends. No
answer waits for the counting; a process that is killed loses the visits of its last second.

The lists of crawlers and programs (COUNTER's, and that of crawler-user-agents) are read at the first visit.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import re
import secrets
from collections import defaultdict
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.access import day_of
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import UsageCounts
from ibi.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.url_key import AcknowledgmentCount
    from ibi.archive.store.tables.catalogue import Catalogue, SqlRunner
    from ibi.http.request import Request


_LONGEST_AGENT: Final = 500  # characters of a User-Agent that are read
_PLAIN = re.compile(r"(?:[^\\^$.|?*+()\[\]{}]|\\[^A-Za-z0-9])+")
_COUNTRY = re.compile(r"[A-Z]{2}")

_log = logging.getLogger(__name__)


@lru_cache(maxsize=10_000)
def is_program(agent: str) -> bool:
    """Return whether a User-Agent header is that of a crawler or another program, or is missing."""
    lowered = agent[:_LONGEST_AGENT].lower()
    words, patterns = _lists()
    return not lowered.strip() or any(word in lowered for word in words) or bool(patterns.search(lowered))


@cache
def _lists() -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return plain words in lower case, none containing another, and one pattern of all other entries."""
    # Most entries are plain words, and searching for words takes a tenth of the time of one large pattern.
    crawlers = json.loads((files("crawleruseragents") / "crawler-user-agents.json").read_bytes())
    listed = {crawler["pattern"] for crawler in crawlers}
    for name in ("robot.txt", "machine.txt"):
        listed.update(filter(None, (files("counter_robots") / "data" / name).read_text("utf-8").splitlines()))
    plain = {re.sub(r"\\(.)", r"\1", pattern).lower() for pattern in listed if _PLAIN.fullmatch(pattern)}
    words: list[str] = []
    for word in sorted(plain, key=lambda word: (len(word), word)):
        if not any(shorter in word for shorter in words):
            words.append(word)
    rest = sorted(pattern for pattern in listed if not _PLAIN.fullmatch(pattern))
    return tuple(words), re.compile("|".join(f"(?:{pattern})" for pattern in rest), re.IGNORECASE)


class CountryLookup:
    """Looks up the country of an address in a file of MaxMind's format; with path "", no country is known."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader: Any = None

    def of(self, address: str) -> str:
        """Return the country of an address as two letters, "" if it is not known."""
        if not self._path or not address:
            return ""
        try:
            if self._reader is None:
                # Imported only when needed, because most Archives have no such file.
                import maxminddb

                self._reader = maxminddb.open_database(self._path)
            found = self._reader.get(address)
        except Exception as error:  # noqa: BLE001 - InvalidDatabaseError, or any error of a damaged file
            # A malformed address, or one of a kind that the database lacks: other look-ups may succeed.
            if self._reader is None or not isinstance(error, OSError | ValueError):
                _log.warning("countries are not told any more: %s: %s", self._path, error)
                self._path = ""
            return ""
        code = ((found or {}).get("country") or {}).get("iso_code") if isinstance(found, dict) else None
        return code if isinstance(code, str) and _COUNTRY.fullmatch(code) else ""


COUNT_AFTER: Final = 1.0
"""Seconds between the first pending visit and the transaction that counts it, unless many are pending."""

MANY: Final = 64
"""Pending visits that are counted at once. The thread that counts them shares one interpreter with the event loop."""

DOUBLE_CLICK: Final = 30.0
"""Seconds within which visits of one reader to the same address count once."""

MOST_WAITING: Final = 100_000
"""Pending visits; more are dropped, with a line in the log."""

_HOUR: Final = 3600
_FINGERPRINT_BYTES: Final = 16  # of the fingerprint of a reader
_PARTS: Final = frozenset({"image", "style", "script", "font", "track", "manifest", "worker", "sharedworker"})
_TYPES_OF_PARTS: Final = ("text/css", "text/javascript", "font/", "application/font")


@dataclass(frozen=True, slots=True)
class ItemVisit:
    """One visit: the number of the item, whether it was fetched, the path that was visited, and when.

    `reader` returns the reader's address, "" if no trusted proxy vouches for it; `agent`: the User-Agent
    header. Both are dropped once the visit is counted. `moment`: POSIX seconds.
    """

    item: int
    fetched: bool
    url: str
    reader: Callable[[], str]
    agent: str
    moment: float


def is_part_of_a_page(request: Request, file: StoredFile) -> bool:
    """Return whether a browser fetches a file only as part of a page: a picture, style, script or font."""
    destination = request.header(b"sec-fetch-dest")
    if destination:
        return destination in _PARTS
    # Over plain http, browsers send no Sec-Fetch-Dest; and Accept shows only pictures and styles.
    if request.header(b"accept").startswith(("image/", "text/css")):
        return True
    return file.media_type.startswith(_TYPES_OF_PARTS)


def count_linked_readers(run: SqlRunner, acknowledgment: AcknowledgmentCount, moment: float) -> None:
    """Count acknowledged readers of a linked item; readers of other items are counted by their requests."""
    counts = UsageCounts(acknowledgment.readers, acknowledgment.readers)
    usage.count_linked(run, acknowledgment.number, _month(moment), counts)


class VisitCounter:
    """Counts the visits to one Archive. `now` returns POSIX seconds. Belongs to one event loop."""

    def __init__(self, catalogue: Catalogue, now: Callable[[], float], geo_database: str = "") -> None:
        self._catalogue = catalogue
        self._now = now
        self._countries = CountryLookup(geo_database)
        self._waiting: list[ItemVisit] = []
        self._counting: asyncio.Task[None] | None = None
        self._closing = False
        self._due = asyncio.Event()
        self._sweep: asyncio.TimerHandle | None = None
        self._forget_old()

    def add(self, visit: ItemVisit) -> None:
        """Add a visit to the pending ones; start the counting if it is not running."""
        if len(self._waiting) >= MOST_WAITING:
            _log.warning("a visit was not counted: too many are waiting")
            return
        self._waiting.append(visit)
        # All visits of a busy second together would take tens of milliseconds, in which every reader waits.
        if len(self._waiting) == MANY:
            self._due.set()
        if self._counting is None:
            self._counting = asyncio.create_task(self._count_all(), context=Context())  # for others, too

    async def close(self) -> None:
        """Count the pending visits."""
        self._closing = True
        self._due.set()
        if self._sweep is not None:
            self._sweep.cancel()
        if self._counting is not None:
            await self._counting

    async def _count_all(self) -> None:
        while self._waiting:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), COUNT_AFTER)
            waiting, self._waiting = self._waiting, []
            if not self._closing:
                self._due.clear()
            try:
                await asyncio.to_thread(self._count, waiting)
            except Exception as error:  # noqa: BLE001 - a fault in one visit must not end all counting
                # Only the type is logged, because the message may contain a reader's address.
                _log.error("%d visits were not counted: %s", len(waiting), type(error).__name__)
        self._counting = None
        if self._sweep is not None:
            self._sweep.cancel()
        # After an hour without visits every hash has expired, but no transaction of a visit deletes them.
        if not self._closing:
            self._sweep = asyncio.get_running_loop().call_later(_HOUR, self._forget_old)

    def _count(self, waiting: list[ItemVisit]) -> None:
        visits = [visit for visit in waiting if not is_program(visit.agent)]
        now = self._now()
        try:
            with self._catalogue.writing() as writer:
                # A new key each day: hashes of two days cannot be linked, not even with the database.
                key = usage.key_of_day(writer.run, day_of(now), secrets.token_bytes(32))
                for (item, month, country), counts in self._counts_by_month(writer.run, key, visits).items():
                    usage.count_visits(writer.run, item, month, country, counts)
                usage.delete_expired_fingerprints(writer.run, now)
        except SetupError as error:
            _log.warning("%d visits were not counted: %s", len(waiting), error)

    def _counts_by_month(
        self, run: SqlRunner, key: bytes, visits: Iterable[ItemVisit]
    ) -> dict[tuple[int, str, str], UsageCounts]:
        counted: dict[tuple[int, str, str], UsageCounts] = defaultdict(UsageCounts)
        for visit in visits:
            address = visit.reader()
            reader = _fingerprint(key, address, visit.agent)
            if _is_double_click(run, reader, visit):
                continue
            counts = UsageCounts(1, int(_is_first(run, reader, visit, "looked")))
            if visit.fetched:
                first_fetch = _is_first(run, reader, visit, "fetched")
                counts = counts._replace(requests=1, unique_requests=int(first_fetch))
            place = (visit.item, _month(visit.moment), self._countries.of(address))
            counted[place] = counted[place].plus(counts)
        return counted

    def _forget_old(self) -> None:
        """Delete the hashes whose hour has ended."""
        try:
            with self._catalogue.reading() as run:
                there = usage.has_expired_fingerprints(run, self._now())
            if there:
                with self._catalogue.writing() as writer:
                    usage.delete_expired_fingerprints(writer.run, self._now())
        except SetupError as error:
            _log.warning("visits could not be forgotten: %s", error)


def _is_double_click(run: SqlRunner, reader: bytes, visit: ItemVisit) -> bool:
    """Return whether the reader requested this address just before; each click restarts the 30 seconds."""
    fingerprint = _fingerprint(reader, visit.url)
    before = usage.fingerprint_expiry(run, fingerprint)
    usage.save_fingerprint(run, fingerprint, visit.moment + DOUBLE_CLICK)
    return visit.moment <= before


def _is_first(run: SqlRunner, reader: bytes, visit: ItemVisit, how: str) -> bool:
    """Return whether this is the reader's first such visit to the item in this hour (COUNTER's session)."""
    hour = int(visit.moment // _HOUR)
    fingerprint = _fingerprint(reader, how, str(visit.item), str(hour))
    if usage.fingerprint_expiry(run, fingerprint):
        return False
    usage.save_fingerprint(run, fingerprint, (hour + 1) * _HOUR)
    return True


def _fingerprint(key: bytes, *words: str) -> bytes:
    return hmac.digest(key, "\0".join(words).encode("utf-8", "replace"), "sha256")[:_FINGERPRINT_BYTES]


def _month(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m}"
