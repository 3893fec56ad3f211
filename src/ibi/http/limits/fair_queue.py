"""The fair queue: when a round may ask all Archives (threats T29, T37; pure).

Such a round costs as many queries as there are Archives, so the queries in flight are limited. Rounds that
have to wait start in turn by client: a reader who follows many links at once waits for their own earlier
rounds, and does not delay a reader who follows a single link. Rounds that ask only likely holders never wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_IN_FLIGHT: Final = 1_500
"""Queries in flight in one process beyond which no further round begins; fewer than a client's slots in all."""

MANY_IN_FLIGHT: Final = 750
"""Queries in flight in one process beyond which no round queries an Archive that left the last eight unanswered."""

ROUNDS_AT_ONCE: Final = 8
"""Rounds of all Archives in flight at once; a round counts by its queries that are still in flight."""

MOST_WAITING: Final = 2_000
"""Rounds that wait; further ones are refused at once."""


@dataclass(slots=True, eq=False)
class QueuedRound:
    """A round in the queue: `start` is called when its turn has come."""

    client: str
    size: int
    start: Callable[[], None]
    waiting: bool = True


class FairQueue:
    """The queue of one process.

    `in_flight` returns how many queries are in flight, and `of_rounds` how many of them belong to rounds that
    this queue started. Only the latter count against ROUNDS_AT_ONCE: in a small network, queries to likely
    holders would otherwise use up all eight rounds. `of_rounds` leaves out most of what Archives that begin to
    hang leave unanswered, which would use them up, too (`Queries`).
    """

    def __init__(self, in_flight: Callable[[], int], of_rounds: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._of_rounds = of_rounds
        self.queues: OrderedDict[str, deque[QueuedRound]] = OrderedDict()
        """The rounds that wait, by client, the next client first; `serve` drops rounds that have left."""
        self._waiting = 0

    def enter(self, client: str, size: int, start: Callable[[], None]) -> QueuedRound | None:
        """Call `start` when `size` queries may be sent, perhaps at once; None if too many rounds wait."""
        queued = QueuedRound(client, size, start)
        if not self._waiting and self._has_capacity(size):
            queued.waiting = False
            start()
            return queued
        if self._waiting >= MOST_WAITING:
            return None
        self.queues.setdefault(client, deque()).append(queued)
        self._waiting += 1
        return queued

    def leave(self, queued: QueuedRound) -> None:
        """Take a round out, if it still waits."""
        if queued.waiting:
            queued.waiting = False
            self._waiting -= 1

    def serve(self) -> None:
        """Start the rounds for which there is capacity now; to be called whenever a query has ended."""
        while self.queues:
            client, queue = next(iter(self.queues.items()))
            while queue and not queue[0].waiting:
                queue.popleft()
            if not queue:
                del self.queues[client]
                continue
            # If small rounds could pass a large one at the head, it might never find enough capacity.
            if not self._has_capacity(queue[0].size):
                return
            queued = queue.popleft()
            self.queues.move_to_end(client)
            self.leave(queued)
            queued.start()

    def _has_capacity(self, size: int) -> bool:
        # With nothing in flight any round may start, or one larger than the limit would wait for ever.
        in_flight = self._in_flight()
        if in_flight + size > MOST_IN_FLIGHT:
            return not in_flight
        of_rounds = self._of_rounds()
        return not of_rounds or of_rounds + size <= ROUNDS_AT_ONCE * size
