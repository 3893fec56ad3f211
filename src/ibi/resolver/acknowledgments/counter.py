"""Counts the clicks that the fast path answers, and queues one acknowledgment for many readers (RES-12, notes 1, 2).

Each cached redirect has one counter here, and a click adds one to it. Every EVERY seconds, the counts go to the
metrics, and some of the counters become acknowledgments in the queue, as many as it admits. The others wait here and
go on counting, so that no click is lost because of high demand. Each acknowledgment goes to the address that its
Archive has then.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, cast

from ibi.protocol.messages import Acknowledgment, read_request
from ibi.resolver.acknowledgments.queue import OLDEST
from ibi.resolver.metrics.metrics import REDIRECT
from ibi.resolver.resolve.resolution import MOST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
    from ibi.resolver.metrics.metrics import Metrics
    from ibi.resolver.model.archive import Archive

EVERY: Final = 0.02
"""Seconds between two flushes; each queues only so many acknowledgments that it delays no reader."""

MOST_GATHERED: Final = 200_000
"""Redirects that one process counts at once; further ones are answered by the ordinary path."""

MIN_SECONDS: Final = 1.0
"""Seconds for which a redirect is counted at least, before its acknowledgment is queued."""

FEW_PER_FLUSH: Final = 20
"""Acknowledgments that a flush queues after little demand: fewer clicks than this since the last one."""

CLICKS_PER_ACKNOWLEDGMENT: Final = 500
"""With more demand, a flush queues one acknowledgment for so many clicks; to send one costs as much as 20 clicks."""

MOST_FLUSHES: Final = 12_000
"""Flushes (four minutes) within which everything that waits is queued, if the queue admits it."""

HINTS: Final = ("none", "right", "wrong")
"""How the first round of a resolution is counted (`hint` of `metrics.Metrics.ended`)."""

_COUNTED: Final = MOST_ROUNDS + 1  # numbers of rounds, from 0 on


def outcome_number(rounds: int, hint: str) -> int:
    """Return the number under which the metrics count a resolution that was answered from the cache."""
    return HINTS.index(hint) * _COUNTED + min(rounds, MOST_ROUNDS)


@dataclass(slots=True, eq=False)
class CountedRedirect:
    """A redirect, and how many `readers` got it since its last acknowledgment.

    `archive` is None where the Archive gave no URL key. `addresses` are those of the first reader.
    """

    check: int
    archive: Archive | None
    acknowledgment: str | Acknowledgment
    addresses: tuple[str, ...]
    first_at: float
    readers: int = 0

    def message(self) -> Acknowledgment:
        """The acknowledgment to be sent."""
        sent = self.acknowledgment
        message = cast("Acknowledgment", read_request(sent)) if isinstance(sent, str) else sent
        return replace(message, client_addresses=self.addresses)


class AcknowledgmentCounter:
    """Counts the redirects of one process; belongs to one event loop.

    `follow` sets the queue. To count a redirect, call `begin` if it is not in `counted`, and add to its
    `readers`, to `redirects` and to `outcomes`; who adds to `outcomes` alone must call `wake`.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: deque[CountedRedirect] = deque()
        self._queue: AcknowledgmentQueue | None = None
        self._included: Callable[[], Sequence[Archive]] = tuple
        self._archives: Sequence[Archive] = ()
        self._by_name: dict[str, Archive] = {}
        self.counted: dict[bytes, CountedRedirect] = {}
        self.outcomes = [0] * (len(HINTS) * _COUNTED)
        """How many resolutions there were of each outcome number."""
        self.redirects = 0
        """Redirects of GET requests since the last flush."""
        self.queued = 0
        self.delivered = 0
        self.dropped = Counter[str]()

    def follow(self, queue: AcknowledgmentQueue, included: Callable[[], Sequence[Archive]]) -> None:
        """Use this queue from now on; `included` returns the Archives that are included now."""
        self._queue = queue
        self._included = included

    def begin(
        self,
        key: bytes,
        check: int,
        archive: Archive | None,
        acknowledgment: str | Acknowledgment,
        addresses: tuple[str, ...],
    ) -> CountedRedirect | None:
        """Count a redirect from now on; return None where too many are counted already.

        `check` distinguishes it from others under its key; `acknowledgment`: a message, or its query string.
        """
        if len(self.counted) + len(self._leaving) >= MOST_GATHERED:
            return None
        before = self.counted.get(key)
        if before is not None:  # the same target, another answer with another URL key
            self._leaving.append(before)
        self.wake()
        now = asyncio.get_running_loop().time()
        given = self.counted[key] = CountedRedirect(check, archive, acknowledgment, addresses, now)
        return given

    def count_cached(self, archive: Archive, message: Acknowledgment) -> bool:
        """Count one more reader of a cached answer; return False if too many redirects are counted."""
        key = f"{archive.service_ibi} {message.url_key} {message.url}".encode()
        given = self.counted.get(key) or self.begin(key, 0, archive, message, message.client_addresses)
        if given is None:
            return False
        given.readers += 1
        self.redirects += 1
        return True

    def wake(self) -> None:
        """Flush soon."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._flush)

    def close(self) -> None:
        """Queue all acknowledgments; those that the queue does not admit count as dropped."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._report()
        self._refresh_archives()
        for given in [*self._leaving, *self.counted.values()]:
            self._enqueue(given, self._current_archive(given))
        self._leaving.clear()
        self.counted.clear()

    def _flush(self) -> None:
        self._timer = None
        lately = self._report()
        waiting = len(self._leaving) + len(self.counted)
        for_demand = FEW_PER_FLUSH if lately < FEW_PER_FLUSH else lately // CLICKS_PER_ACKNOWLEDGMENT
        most = 1 + max(for_demand, waiting // MOST_FLUSHES)
        now = asyncio.get_running_loop().time()
        self._refresh_archives()
        if waiting:
            self.wake()
        for _ in range(min(most, len(self._leaving))):
            given = self._leaving.popleft()
            if not self._try_queue(given, now):
                self._leaving.append(given)  # to the end, because the queue of its Archive is full
        for key, given in list(islice(self.counted.items(), most)):
            if now - given.first_at < MIN_SECONDS:
                break  # those behind it came later, or were put back there since the queue did not admit them
            del self.counted[key]
            if not self._try_queue(given, now):
                self.counted[key] = given

    def _report(self) -> int:
        """Add the counts since the last flush to the metrics; return how many redirects they were."""
        reported = [(number, count) for number, count in enumerate(self.outcomes) if count]
        now, metrics = asyncio.get_running_loop().time(), self._metrics
        for number, count in reported:
            hint, rounds = divmod(number, _COUNTED)
            self.outcomes[number] -= count
            metrics.started(count)
            metrics.ended(REDIRECT, 0.0, now, count, rounds=rounds, hint=HINTS[hint], cached="fresh")
        self.queued += self.redirects
        self.redirects = 0
        return sum(count for _, count in reported)

    def _refresh_archives(self) -> None:
        archives = self._included()
        if archives is not self._archives:
            self._archives = archives
            self._by_name = {each.service_ibi.canonical: each for each in archives}

    def _current_archive(self, given: CountedRedirect) -> Archive | None:
        """Return the Archive as it is registered now; None where there is none, or it is not included."""
        return None if given.archive is None else self._by_name.get(given.archive.service_ibi.canonical)

    def _try_queue(self, given: CountedRedirect, now: float) -> bool:
        """Queue an acknowledgment, or drop it if too old; return False while the queue lacks capacity."""
        archive, queue = self._current_archive(given), self._queue
        old = now - given.first_at > OLDEST
        if archive is not None and not old and not (queue is not None and queue.has_capacity(archive)):
            return False
        self._enqueue(given, archive, "too old" if old else "")
        return True

    def _enqueue(self, given: CountedRedirect, archive: Archive | None, dropped: str = "") -> None:
        if self._queue is None or dropped:
            self.dropped[dropped or "closing"] += given.readers
        elif given.archive is None:
            self._queue.skip("no key to thank with", given.readers)
        elif archive is None:
            self._queue.skip("no longer included", given.readers)
        elif given.readers:
            self._queue.acknowledge_cached(archive, given.message(), given.readers, given.first_at)
        self.queued -= given.readers  # from now on, the queue counts them
