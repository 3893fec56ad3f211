"""The label batcher: requests that wait for labels at the same moment share durable writes.

    requests   queue up while an earlier reservation is in flight
    reserve    dates for all that wait, in the thread of the commit worker, with one sync
    share      the batch, in the order of arrival: later requests get later dates
    release    each request once the clock has reached its last date (GEN-40: a label leaves when it is due)

A date is given only from a batch that is on disk (T31: a label given twice). Dates that no request waits for any
more, because its client has gone away, are burned: they are never given. A request that cannot be served soon is
refused at once, which keeps queues short (T37: overload).

See GEN-41: one request at a time; GEN-44: the last date is on disk first.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

from ibi.errors import MintingError
from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import coarsest_for
from ibi.minting.clock import behind
from ibi.minting.waiting_room import AHEAD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ibi.identifier.distributor import Batch
    from ibi.identifier.generator import LabelGenerator
    from ibi.minting.waiting_room import WaitingRoom

LONGEST_WAIT: Final = 10
"""Seconds that a request may wait for its labels; a request that would wait longer is refused at once."""
STALL_SECONDS: Final = 2
"""Seconds without any new label (a standing clock, a slow disk) after which overdue requests are refused (note 9:
when a label leaves)."""
MOST_WAITING: Final = 200_000
"""Labels that all requests at one batcher may wait for; more could not be written in time."""

_LONGEST_SLEEP = 1.0  # seconds; then the clock is read again, in case it was set


class Busy(Exception):
    """Labels cannot be given in time, but perhaps after `seconds`; `why` is the error for people."""

    def __init__(self, why: MintingError, seconds: int) -> None:
        super().__init__(str(why))
        self.why = why
        self.seconds = seconds


@dataclass(eq=False, slots=True)
class _Request:
    """A waiting request: `missing` labels, no coarser than `step`; `received_at` on the loop's clock."""

    missing: int
    step: int
    received_at: float
    answer: asyncio.Future[list[Batch]]
    batches: list[Batch] = field(default_factory=list)


class LabelBatcher:
    """Gives the labels of one subsystem, in one event loop.

    `granularity` in ticks, one of GRANULARITIES; None: the coarsest that satisfies the demand. `sharers`: how
    many batchers, with this one, draw from this waiting room; each assumes that the others have the same
    demand. `longest_wait`: seconds; a request that would wait longer is refused. `stall`: seconds without any label
    here, because others draw, too, after which overdue requests are refused.
    """

    def __init__(
        self,
        waiting_room: WaitingRoom,
        generator: LabelGenerator,
        granularity: int | None = None,
        sharers: int = 1,
        longest_wait: int = LONGEST_WAIT,
        stall: int = STALL_SECONDS,
    ) -> None:
        self.generator = generator
        self.granularity = granularity
        self._waiting_room = waiting_room
        self._sharers = sharers
        self._longest_wait = longest_wait
        # Ticks between two labels of this batcher, if all of them have work.
        self._interval = sharers * (granularity or 1)
        self._stall_seconds = max(stall, math.ceil(2 * self._interval / TICKS))
        self._queue: deque[_Request] = deque()
        self._reserved: deque[_Request] = deque()  # in the order of their dates
        self.waiting = 0
        """How many of the requested labels have no date yet."""
        self._last_batch_at = -math.inf
        self._serving: asyncio.Task[None] | None = None
        self._release: asyncio.TimerHandle | None = None
        self._stopping = False
        self._worker = _CommitWorker()

    @property
    def most_labels(self) -> int:
        """The most labels that one request can get within the longest wait."""
        return self._longest_wait * TICKS // self._interval

    def delay(self, count: int) -> float:
        """Return about how many seconds `count` further labels would take."""
        demand = self.waiting + count
        return demand * self._sharers * self._step(demand) / TICKS

    async def draw(self, count: int) -> list[Batch]:
        """Return `count` dates in increasing order that no other request gets, all of them on disk and due.

        Raises Busy if they cannot be given soon, and the waiting room's ClockError, LostState and SetupError.
        """
        if self._stopping:
            raise _stopping()
        if self.delay(count) > self._longest_wait or self.waiting + count > MOST_WAITING:
            problem = "more labels are requested than can be given in {seconds} seconds; ask again later"
            seconds = min(self._longest_wait, max(1, math.ceil(self.delay(0))))
            raise Busy(MintingError(problem, seconds=self._longest_wait), seconds)
        loop = asyncio.get_running_loop()
        self.waiting += count
        request = _Request(count, self._step(self.waiting), loop.time(), loop.create_future())
        self._queue.append(request)
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        try:
            return await request.answer
        finally:
            # If labels are still missing, the client has gone away, and its request must not draw any more.
            if request.missing:
                self._queue.remove(request)
                self.waiting -= request.missing

    def stop(self) -> None:
        """Accept no more requests. Labels that are reserved, or are being reserved now, are still given."""
        self._stopping = True

    def _step(self, demand: int) -> int:
        return self.granularity or coarsest_for(demand * self._sharers)

    async def _serve(self) -> None:
        """Reserve dates for the queue, again and again until it is empty."""
        while self._queue:
            try:
                self._share(await self._reserve())
            except Exception as error:  # noqa: BLE001 - raised again by each request; later ones are served
                self._refuse(self._queue, error)
            if self._stopping:
                self._refuse(self._queue, _stopping())

    async def _reserve(self) -> Batch:
        """Reserve dates for the queue; requests whose time runs out meanwhile are refused."""
        loop = asyncio.get_running_loop()
        # The step as of each request's arrival; from the remaining demand it would grow coarser and coarser.
        step = min(request.step for request in self._queue)
        reserving = self._worker.do(partial(self._waiting_room.reserve, step, self.waiting))
        while not reserving.done():
            soonest = self._deadline(self._queue[0]) if self._queue else loop.time() + STALL_SECONDS
            await asyncio.wait({reserving}, timeout=max(0, soonest - loop.time()))
            self._refuse_stalled(loop.time())
        self._last_batch_at = loop.time()
        return reserving.result()

    def _deadline(self, request: _Request) -> float:
        """Return when a request is refused: when there is no progress, and at the latest after its wait."""
        progress = max(request.received_at, self._last_batch_at)
        return min(progress + self._stall_seconds, request.received_at + self._longest_wait + STALL_SECONDS)

    def _share(self, batch: Batch) -> None:
        """Give the dates to the queue, first come, first served; dates that are left over are burned."""
        while self._queue and len(batch):
            request = self._queue.popleft()
            part, batch = batch.split(request.missing)
            request.batches.append(part)
            request.missing -= len(part)
            self.waiting -= len(part)
            if request.missing:
                self._queue.appendleft(request)
            else:
                self._reserved.append(request)
        if self._release is None:
            self._release_due()

    def _release_due(self) -> None:
        """Answer the requests whose last date the clock has reached, and schedule a call for the next one."""
        self._release = None
        while self._reserved:
            left = self._reserved[0].batches[-1].last - self._waiting_room.now()
            if left > self._waiting_room.furthest:  # the clock has gone back
                self._refuse(self._reserved, behind(left - AHEAD))
            elif left > 0:
                loop = asyncio.get_running_loop()
                self._release = loop.call_later(min(left / TICKS, _LONGEST_SLEEP), self._release_due)
                return
            else:
                request = self._reserved.popleft()
                if not request.answer.done():
                    request.answer.set_result(request.batches)

    def _refuse_stalled(self, now: float) -> None:
        stalled = []
        while self._queue and self._deadline(self._queue[0]) <= now:
            stalled.append(self._queue.popleft())
        why = MintingError("no label came in time; ask again later")
        self._refuse(stalled, Busy(why, STALL_SECONDS))

    def _refuse(self, requests: Iterable[_Request], why: Exception) -> None:
        """Refuse these requests; the dates that they already have are burned."""
        for request in list(requests):
            self.waiting -= request.missing
            request.missing = 0
            if not request.answer.done():
                request.answer.set_exception(why)
        if isinstance(requests, deque):
            requests.clear()


def _stopping() -> Busy:
    return Busy(MintingError("this service is stopping; ask again later"), STALL_SECONDS)


class _CommitWorker:
    """A thread for commits, which may block for long."""

    # A daemon thread, not a pool: a pool is waited for at exit, but this thread holds only a lock.

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def do(self, work: Callable[[], Batch]) -> asyncio.Future[Batch]:
        """Do some work after all earlier work. Raises RuntimeError if the thread cannot be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="reserving labels", daemon=True)
            thread.start()
            self._thread = thread
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Batch] = loop.create_future()

        def task() -> None:
            try:
                settle = partial(outcome.set_result, work())
            except BaseException as error:  # noqa: BLE001 - it is raised again where the outcome is awaited
                settle = partial(outcome.set_exception, error)
            with suppress(RuntimeError):  # the event loop has ended
                loop.call_soon_threadsafe(settle)

        self._tasks.put(task)
        return outcome

    def _run(self) -> None:
        while True:
            self._tasks.get()()
