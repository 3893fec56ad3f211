"""The fair queue: when a round may ask all Archives (T29: costly requests; T37: overload; pure).

Such a round costs as many queries as there are Archives, so the queries in flight are limited. Rounds that
have to wait start in turn by client: a reader who follows many links at once does not delay a reader who
follows a single link. Rounds that ask only likely holders never wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_IN_FLIGHT: Final = 1_500
"""Queries in flight in one process beyond which no further round begins; fewer than `http.client` may send at once."""

MANY_IN_FLIGHT: Final = 750
"""Queries in flight in one process beyond which a round of all Archives sends none to an Archive that hangs."""

HANGS_AFTER: Final = 8
"""Queries that were sent to an Archive since its last answer; with so many, it counts as hanging."""

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


class QueriesInFlight(Protocol):
    """How many queries of a process are in flight, and how many of them belong to rounds that the queue started.

    `of_rounds` leaves out most queries to Archives that hang (`InFlight` of `resolver.resolve.queries`).
    """

    @property
    def total(self) -> int:
        """Queries of all kinds."""
        ...

    @property
    def of_rounds(self) -> int:
        """Those that count against ROUNDS_AT_ONCE."""
        ...


class FairQueue:
    """The queue of one process.

    Only the queries of rounds that it started count against ROUNDS_AT_ONCE: in a small network, queries to likely
    holders would otherwise use up all eight rounds.
    """

    def __init__(self, in_flight: QueriesInFlight) -> None:
        self._in_flight = in_flight
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
        """Whether a round of `size` queries may start now (README.md here, "A click, at a resolver", step 6)."""
        total, of_rounds = self._in_flight.total, self._in_flight.of_rounds
        if total + size > MOST_IN_FLIGHT:
            return not total  # a round larger than the limit starts alone: else it would wait for ever
        return not of_rounds or of_rounds + size <= ROUNDS_AT_ONCE * size
