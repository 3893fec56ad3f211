"""Counts the readers of cached answers, so that one acknowledgment stands for many of them.

What: a reader is a GET request that was answered with a redirect. Each redirect has a `RedirectCount`. The fast path
adds every reader to it; the ordinary path does so only while the queue lacks capacity. Beside that, `outcomes` counts
all resolutions of the fast path, HEAD requests too, for the metrics. See RES-12: redirect at once; note 1: reuse of
answers; note 2: acknowledgments.

When: a flush, every FLUSH_SECONDS, adds the outcomes to the metrics, and turns some of the counts into
acknowledgments in the queue, as many as it admits. The other counts stay here and go on. An acknowledgment
goes to the address that its Archive has at the flush.

Why: an acknowledgment costs as much as many answers of the fast path, and a full queue drops what comes; a
count takes any number of readers.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from ibi.protocol.messages import Acknowledgment, read_request
from ibi.resolver.acknowledgments.queue import EXPIRY_SECONDS
from ibi.resolver.metrics.metrics import REDIRECT
from ibi.resolver.resolve.resolution import MOST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
    from ibi.resolver.cache.redirects import CachedRedirect
    from ibi.resolver.metrics.metrics import ResolverMetrics
    from ibi.resolver.model.archive import Archive

FLUSH_SECONDS: Final = 0.02
"""Seconds between two flushes; each queues only so many acknowledgments that it delays no reader."""

MOST_COUNTS: Final = 200_000
"""Redirects whose readers one process counts at once; the ordinary path answers requests for further ones."""

MIN_COUNT_SECONDS: Final = 1.0
"""Seconds for which the readers of a redirect are counted at least, before their acknowledgment is queued."""

FEW_PER_FLUSH: Final = 20
"""Acknowledgments that a flush queues if there were fewer resolutions than this since the last one."""

RESOLUTIONS_PER_ACKNOWLEDGMENT: Final = 500
"""If there were more, a flush queues one acknowledgment for each 500 of them: it costs as much as 20 resolutions."""

MOST_FLUSHES: Final = 12_000
"""Flushes (four minutes) within which the acknowledgments of all counts are queued, if the queue admits them."""

HINTS: Final = ("none", "right", "wrong")
"""How the first round of a resolution is counted (`hint` of `metrics.ResolverMetrics.ended`)."""

_ROUND_NUMBERS: Final = MOST_ROUNDS + 1  # numbers of rounds, from 0 on


def outcome_number(rounds: int, hint: str) -> int:
    """Return the number under which the metrics count a resolution that was answered from the cache."""
    return HINTS.index(hint) * _ROUND_NUMBERS + min(rounds, MOST_ROUNDS)


@dataclass(slots=True, eq=False)
class RedirectCount:
    """How many `readers` one redirect had since its last acknowledgment; `first_at`: when the first one came.

    `checksum`: that of the redirect, another one when the same target leads elsewhere. `archive`: None
    where the Archive gave no URL key. `acknowledgment`: a message, or its query string, which is parsed only
    when it is queued. `addresses`: those of the first reader. `redirect`: the cached redirect that leads here.
    """

    checksum: int
    archive: Archive | None
    acknowledgment: str | Acknowledgment
    addresses: tuple[str, ...]
    first_at: float
    readers: int = 0
    redirect: CachedRedirect | None = None

    def message(self) -> Acknowledgment:
        """Return the acknowledgment for the first reader's addresses; the queue adds how many readers there were."""
        stored = self.acknowledgment
        message = cast("Acknowledgment", read_request(stored)) if isinstance(stored, str) else stored
        return replace(message, client_addresses=self.addresses)


class ReaderCounter:
    """Counts the readers of one process; belongs to one event loop.

    `use_queue` sets the queue. The fast path counts a reader without a call, because it answers most readers:
    it finds the redirect in `counts`, or calls `start`, and adds 1 to the `readers` of the count, to
    `unreported_readers` and to `outcomes`. For a HEAD, it adds to `outcomes` alone, and calls `wake`.
    """

    def __init__(self, metrics: ResolverMetrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._replaced: deque[RedirectCount] = deque()  # counts whose target has another answer now
        self._queue: AcknowledgmentQueue | None = None
        self._included: Callable[[], Sequence[Archive]] = tuple
        self._archives: Sequence[Archive] = ()
        self._by_name: dict[str, Archive] = {}
        self.counts: dict[bytes, RedirectCount] = {}
        """The count of each redirect, by its key in the redirect cache; `count_reader` makes other keys."""
        self.outcomes = [0] * (len(HINTS) * _ROUND_NUMBERS)
        """How many resolutions of each outcome number there were since the last flush."""
        self.unreported_readers = 0
        """Readers since the last flush; the flush adds them to `queued`."""
        self.queued = 0
        """Readers whose acknowledgment waits here, and not yet in the queue; the metrics read it."""
        self.delivered = (
            0  # stays 0, as only the queue delivers; the metrics read the same attributes of both
        )
        self.dropped = Counter[str]()

    def use_queue(self, queue: AcknowledgmentQueue, included: Callable[[], Sequence[Archive]]) -> None:
        """Use this queue from now on; `included` returns the Archives that are included now."""
        self._queue = queue
        self._included = included

    def start(
        self,
        key: bytes,
        checksum: int,
        archive: Archive | None,
        acknowledgment: str | Acknowledgment,
        addresses: tuple[str, ...],
    ) -> RedirectCount | None:
        """Start the count of a redirect; return None where there are too many counts already.

        The parameters are those of `RedirectCount`. A count of another answer under the key is replaced.
        """
        if len(self.counts) + len(self._replaced) >= MOST_COUNTS:
            return None
        replaced = self.counts.get(key)
        if replaced is not None:  # its answer had another URL key, so it needs an acknowledgment of its own
            self._replaced.append(replaced)
        self.wake()
        now = asyncio.get_running_loop().time()
        count = self.counts[key] = RedirectCount(checksum, archive, acknowledgment, addresses, now)
        return count

    def count_reader(self, archive: Archive, message: Acknowledgment) -> bool:
        """Count a reader whom the ordinary path led by a cached answer; return False if there are too many counts."""
        key = f"{archive.service_ibi} {message.url_key} {message.url}".encode()
        count = self.counts.get(key) or self.start(key, 0, archive, message, message.client_addresses)
        if count is None:
            return False
        count.readers += 1
        self.unreported_readers += 1
        return True

    def wake(self) -> None:
        """Make sure that a flush follows soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def close(self) -> None:
        """Turn all counts into acknowledgments; those that the queue does not admit count as dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._report()
        self._refresh_archives()
        for count in [*self._replaced, *self.counts.values()]:
            self._end(count, self._current_archive(count))
        self._replaced.clear()
        self.counts.clear()

    def _flush(self) -> None:
        self._timer = None
        resolutions = self._report()
        waiting = len(self._replaced) + len(self.counts)
        by_demand = (
            resolutions // RESOLUTIONS_PER_ACKNOWLEDGMENT if resolutions >= FEW_PER_FLUSH else FEW_PER_FLUSH
        )
        most = 1 + max(by_demand, waiting // MOST_FLUSHES)
        now = asyncio.get_running_loop().time()
        self._refresh_archives()
        if waiting:
            self.wake()
        for _ in range(min(most, len(self._replaced))):
            count = self._replaced.popleft()
            if not self._try_to_end(count, now):
                self._replaced.append(count)  # put back, because the queue of its Archive is full
        for key, count in list(islice(self.counts.items(), most)):
            if now - count.first_at < MIN_COUNT_SECONDS:
                break  # the counts behind it are younger, or were put back because the queue did not admit them
            del self.counts[key]
            if not self._try_to_end(count, now):
                self.counts[key] = count

    def _report(self) -> int:
        """Add the outcomes since the last flush to the metrics; return how many resolutions they were."""
        reported = [(number, times) for number, times in enumerate(self.outcomes) if times]
        now, metrics = asyncio.get_running_loop().time(), self._metrics
        for number, times in reported:
            hint, rounds = divmod(number, _ROUND_NUMBERS)
            self.outcomes[number] -= times
            metrics.started(times)
            metrics.ended(REDIRECT, 0.0, now, times, rounds=rounds, hint=HINTS[hint], cached="fresh")
        self.queued += self.unreported_readers
        self.unreported_readers = 0
        return sum(times for _, times in reported)

    def _refresh_archives(self) -> None:
        archives = self._included()
        if archives is not self._archives:
            self._archives = archives
            self._by_name = {each.service_ibi.canonical: each for each in archives}

    def _current_archive(self, count: RedirectCount) -> Archive | None:
        """Return the Archive as it is registered now; None where there is none, or it is not included."""
        return None if count.archive is None else self._by_name.get(count.archive.service_ibi.canonical)

    def _try_to_end(self, count: RedirectCount, now: float) -> bool:
        """End a count, unless its acknowledgment must wait until the queue has capacity; return whether it ended."""
        archive, queue = self._current_archive(count), self._queue
        old = now - count.first_at > EXPIRY_SECONDS
        if archive is not None and not old and not (queue is not None and queue.has_capacity(archive)):
            return False
        self._end(count, archive, "too old" if old else "")
        return True

    def _end(self, count: RedirectCount, archive: Archive | None, dropped: str = "") -> None:
        """End a count: queue its acknowledgment, or count its readers under the reason why there is none."""
        if count.redirect is not None:
            count.redirect.reader_count = None  # the next reader starts another count
        if self._queue is None or dropped:
            self.dropped[dropped or "closing"] += count.readers
        elif count.archive is None:
            self._queue.skip("no key to thank with", count.readers)
        elif archive is None:
            self._queue.skip("no longer included", count.readers)
        elif count.readers:
            self._queue.acknowledge_cached(archive, count.message(), count.readers, count.first_at)
        self.queued -= count.readers  # the queue counts them, or `dropped`
