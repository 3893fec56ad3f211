"""The desk: many ask for labels at once, and one durable write serves them all (GEN-41, GEN-44, threat T31).

    requests   line up; while one reservation is under way, the next ones gather
    reserve    dates for all who wait, in a thread of the desk, with one sync
    share      the batch, in the order of arrival: later requests get later dates
    release    each request once the clock has reached its last date (GEN-40)

A date leaves only from a batch that is on disk. Those of a client that has gone away are burned, as are those that
come when nobody waits any more. What cannot be served soon is refused at once, so that lines stay short (threat T37).
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
"""Seconds that a request may have to wait for its labels; if it would be more, it is refused at once."""
PATIENCE: Final = 2
"""Seconds without any new label after which those who wait are refused (note 9), where their turn comes sooner."""
MOST_WAITING: Final = 200_000
"""Labels that may be waited for at one desk: more cannot be spelled in time."""

_LONGEST_SLEEP = 1.0  # seconds; then the clock is read again, in case it was set


class Busy(Exception):
    """No label in time, but perhaps in `seconds`; `why` says it."""

    def __init__(self, why: MintingError, seconds: int) -> None:
        super().__init__(str(why))
        self.why = why
        self.seconds = seconds


@dataclass(eq=False, slots=True)
class _Request:
    """One who waits: for `missing` labels more, no coarser than `step`, since `asked` on the clock of the loop."""

    missing: int
    step: int
    asked: float
    answer: asyncio.Future[list[Batch]]
    batches: list[Batch] = field(default_factory=list)

    def refuse(self, why: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(why)


class Desk:
    """Where the labels of one subsystem are asked for; all of it happens in one event loop.

    `granularity` in ticks, one of GRANULARITIES; None: the coarsest that keeps up with those who wait. `sharers`: how
    many desks, this one included, draw from this waiting room; each takes its demand for that of the others too.
    """

    def __init__(
        self,
        room: WaitingRoom,
        generator: LabelGenerator,
        granularity: int | None = None,
        sharers: int = 1,
    ) -> None:
        self.generator = generator
        self.granularity = granularity
        self._room = room
        self._sharers = sharers
        self._turn = sharers * (granularity or 1)  # ticks between two of our labels, if all desks have work
        self._patience = max(PATIENCE, math.ceil(2 * self._turn / TICKS))
        self._line: deque[_Request] = deque()
        self._reserved: deque[_Request] = deque()  # in the order of their dates
        self._waiting = 0
        self._moved = -math.inf
        self._serving: asyncio.Task[None] | None = None
        self._release: asyncio.TimerHandle | None = None
        self._stopping = False
        self._clerk = _Clerk()

    @property
    def waiting(self) -> int:
        """How many labels are waited for that have no date yet."""
        return self._waiting

    @property
    def most(self) -> int:
        """How many labels can ever be given to one request within LONGEST_WAIT."""
        return LONGEST_WAIT * TICKS // self._turn

    def delay(self, count: int) -> float:
        """About how many seconds `count` labels more would take."""
        demand = self._waiting + count
        return demand * self._sharers * self._step(demand) / TICKS

    async def draw(self, count: int) -> list[Batch]:
        """`count` dates in increasing order that nobody else has, all of them on disk and due.

        Raises Busy where they cannot be given soon; ClockError, LostState and SetupError as the waiting room does.
        """
        self._refuse_early(count)
        loop = asyncio.get_running_loop()
        self._waiting += count
        request = _Request(count, self._step(self._waiting), loop.time(), loop.create_future())
        self._line.append(request)
        if self._serving is None or self._serving.done():
            self._serving = loop.create_task(self._serve())
        try:
            return await request.answer
        finally:
            if request.missing and request in self._line:  # nobody waits for the answer any more
                self._line.remove(request)
                self._waiting -= request.missing

    def stop(self) -> None:
        """Take no more requests. What is reserved, or is being reserved now, is still handed out."""
        self._stopping = True

    def _step(self, demand: int) -> int:
        return self.granularity or coarsest_for(demand * self._sharers)

    def _refuse_early(self, count: int) -> None:
        if self._stopping:
            raise _stopping()
        if self.delay(count) > LONGEST_WAIT or self._waiting + count > MOST_WAITING:
            why = MintingError(
                "more labels are waited for than can be given in {seconds} seconds; ask again later",
                seconds=LONGEST_WAIT,
            )
            raise Busy(why, min(LONGEST_WAIT, max(1, math.ceil(self.delay(0)))))

    async def _serve(self) -> None:
        """Reserve for all in the line, again and again until it is empty."""
        while self._line:
            try:
                self._share(await self._reserve())
            except Exception as error:  # noqa: BLE001 - raised again by each request; the desk serves the next ones
                self._refuse(self._line, error)
            if self._stopping:
                self._refuse(self._line, _stopping())

    async def _reserve(self) -> Batch:
        """Dates for those in the line, of whom some may lose their patience meanwhile."""
        loop = asyncio.get_running_loop()
        step = min(request.step for request in self._line)  # not of what is left: that would never end
        reserving = self._clerk.do(partial(self._room.reserve, step, self._waiting))
        while not reserving.done():
            soonest = self._deadline(self._line[0]) if self._line else loop.time() + PATIENCE
            await asyncio.wait({reserving}, timeout=max(0, soonest - loop.time()))
            self._refuse_impatient(loop.time())
        self._moved = loop.time()
        return reserving.result()

    def _deadline(self, request: _Request) -> float:
        """When the patience of a request ends: long after its turn should have come, and always in the end."""
        moved = max(request.asked, self._moved)
        return min(moved + self._patience, request.asked + LONGEST_WAIT + PATIENCE)

    def _share(self, batch: Batch) -> None:
        """Give the dates to those who wait, first come, first served; what is left over is burned."""
        while self._line and len(batch):
            request = self._line[0]
            part, batch = batch.split(request.missing)
            request.batches.append(part)
            request.missing -= len(part)
            self._waiting -= len(part)
            if not request.missing:
                self._reserved.append(self._line.popleft())
        if self._release is None:
            self._release_due()

    def _release_due(self) -> None:
        """Let go whose last date the clock has reached, and come back for the next one."""
        self._release = None
        while self._reserved:
            left = self._reserved[0].batches[-1].last - self._room.now()
            if left > self._room.furthest:  # the clock has gone back
                self._refuse(self._reserved, behind(left - AHEAD))
            elif left > 0:
                loop = asyncio.get_running_loop()
                self._release = loop.call_later(min(left / TICKS, _LONGEST_SLEEP), self._release_due)
                return
            else:
                request = self._reserved.popleft()
                if not request.answer.done():
                    request.answer.set_result(request.batches)

    def _refuse_impatient(self, now: float) -> None:
        impatient = []
        while self._line and self._deadline(self._line[0]) <= now:
            impatient.append(self._line.popleft())
        why = MintingError("no label came in time; ask again later")
        self._refuse(impatient, Busy(why, PATIENCE))

    def _refuse(self, requests: Iterable[_Request], why: Exception) -> None:
        """Send so many away, whatever they had got so far: it is burned."""
        for request in list(requests):
            self._waiting -= request.missing
            request.missing = 0
            request.refuse(why)
        if isinstance(requests, deque):
            requests.clear()


def _stopping() -> Busy:
    return Busy(MintingError("this service is stopping; ask again later"), PATIENCE)


class _Clerk:
    """A thread for what may block for long. The program may end meanwhile: the thread holds nothing but a lock."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def do(self, work: Callable[[], Batch]) -> asyncio.Future[Batch]:
        """Do something after all that was asked for before. Raises RuntimeError if the thread cannot be started."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="reserving labels", daemon=True)
            thread.start()
            self._thread = thread
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[Batch] = loop.create_future()

        def task() -> None:
            try:
                settle = partial(outcome.set_result, work())
            except BaseException as error:  # noqa: BLE001 - it is raised again where the outcome is asked for
                settle = partial(outcome.set_exception, error)
            with suppress(RuntimeError):  # the loop has ended: nobody asks any more
                loop.call_soon_threadsafe(settle)

        self._tasks.put(task)
        return outcome

    def _run(self) -> None:
        while True:
            self._tasks.get()()
