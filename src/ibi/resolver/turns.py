"""Who may have everybody asked next (threats T29, T37).

A round that asks everybody costs as many questions as there are Archives, so only so many questions are under way at
once. Who has to wait is served in turn by origin: a reader who follows many links at once waits for those, while one
who follows a single link is next. Rounds that ask only likely holders never wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_QUESTIONS: Final = 1_500
"""Questions to Archives that are under way when nobody more is let in; a few less than a client may have."""

ROUNDS_AT_ONCE: Final = 8
"""Rounds of everybody that may be under way while all Archives answer; slow ones hold only their own questions."""

MOST_WAITING: Final = 2_000
"""Rounds that wait; whoever comes then is sent away at once."""


@dataclass(slots=True, eq=False)
class Ticket:
    """A place in the queue: `go` is called when its turn has come."""

    origin: str
    size: int
    go: Callable[[], None]
    waiting: bool = True


class Turns:
    """The queue of one process. `under_way` tells how many questions are."""

    def __init__(self, under_way: Callable[[], int]) -> None:
        self._under_way = under_way
        self.queues: OrderedDict[str, deque[Ticket]] = OrderedDict()
        """Those who wait, by origin; whose turn it is, `look` sees."""
        self._waiting = 0

    def take(self, origin: str, size: int, go: Callable[[], None]) -> Ticket | None:
        """Call `go` when so many questions may be asked, perhaps at once; None where too many wait already."""
        ticket = Ticket(origin, size, go)
        if not self._waiting and self._has_room(size):
            ticket.waiting = False
            go()
            return ticket
        if self._waiting >= MOST_WAITING:
            return None
        self.queues.setdefault(origin, deque()).append(ticket)
        self._waiting += 1
        return ticket

    def give_back(self, ticket: Ticket) -> None:
        """Whoever has this place needs it no longer."""
        if ticket.waiting:
            ticket.waiting = False
            self._waiting -= 1

    def look(self) -> None:
        """A question has come to an end: perhaps somebody's turn has come."""
        while self.queues:
            origin, queue = next(iter(self.queues.items()))
            while queue and not queue[0].waiting:
                queue.popleft()
            if not queue:
                del self.queues[origin]
                continue
            if not self._has_room(queue[0].size):
                return
            ticket = queue.popleft()
            self.queues.move_to_end(origin)
            self.give_back(ticket)
            ticket.go()

    def _has_room(self, size: int) -> bool:
        """Whoever comes when nothing is under way is let in, however many there are to be asked."""
        busy = self._under_way()
        return not busy or busy + size <= min(MOST_QUESTIONS, max(1, ROUNDS_AT_ONCE) * size)
