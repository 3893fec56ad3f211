"""The temporal distributor (G15 chapter 6, Algorithm 4), which chooses the date of the next label.

These are pure functions on integers; the waiting room of `minting` reads the clock, waits and stores dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slot(NamedTuple):
    """The date of one label and when it may leave; all values in ticks.

    `date`: the date in the label, to be stored as the last date. `creation`: when the label may leave.
    `previous`: the stored last date, rounded down to the granularity of this draw. `granularity`: the
    coarsest one at which `date` is still later than `previous`. `wait`: from now to `creation`.
    """

    creation: int
    previous: int
    granularity: int
    date: int
    wait: int


def distribute(last: int | None, granularity: int, now: int) -> Slot:
    """Choose the next date (GEN-37; the numbers in comments are the lines of Algorithm 4).

    `last`: the date of the previous label, None on the first run. `granularity`: one of GRANULARITIES, else
    ValueError is raised; it may differ from that of the previous draw. `now`: what the clock reads.

    The labels of one subsystem strictly increase (GEN-38: dates increase), even if the granularity grows (AMB-19: a
    coarser granularity) or the clock goes back, which makes the wait longer.
    """
    if granularity not in _GRANULARITY_SET:
        msg = f"a granularity of {granularity} ticks is outside G"
        raise ValueError(msg)
    rounded = now - now % granularity  # 1
    if last is None:  # 2
        last = rounded - granularity  # 3
    last -= last % granularity  # 4
    creation = max(last + granularity, rounded)  # 5
    # The creation date is rounded down to coarser and coarser steps, as long as it stays later than `last`.
    date = candidate = creation  # 8
    coarsest = step = granularity  # 9
    while last < candidate:  # 10
        coarsest, date = step, candidate  # 13
        if step == MINUTE:  # 14
            break
        step = MINUTE if step == TICKS else step * 10  # 11, 12
        candidate = creation - creation % step  # 15
    return Slot(creation, last, coarsest, date, max(0, creation - now))  # 6, 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Dates drawn at one moment, strictly increasing, in ticks.

    The dates in `head` are due at once; each date in `tail` is due when the clock reaches it (GEN-40: a label leaves
    when it is due).
    """

    head: tuple[int, ...]
    tail: range

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[int]:
        return chain(self.head, self.tail)

    @property
    def last(self) -> int:
        """The last date, which must be stored before any label of the batch leaves."""
        return self.tail[-1] if self.tail else self.head[-1]

    def due(self, now: int) -> int:
        """Return how many of the dates are due at this moment."""
        tail = self.tail
        reached = (now - tail.start) // tail.step + 1 if tail and now >= tail.start else 0
        return len(self.head) + min(reached, len(tail))

    def split(self, count: int) -> tuple[Batch, Batch]:
        """Split into the first `count` dates and the rest."""
        cut = max(0, count - len(self.head))
        return Batch(self.head[:count], self.tail[:cut]), Batch(self.head[count:], self.tail[cut:])


def distribute_many(last: int, granularity: int, now: int, count: int, until: int) -> Batch:
    """Choose `count` dates, the same as if `distribute` is called `count` times at this moment.

    Dates after `until` are left out, but one is always given. In ticks. Raises ValueError as `distribute`. See
    GEN-41: one request at a time.

    After a pause, the dates become finer and finer until they show the granularity itself. From then on each
    date is one granularity after the previous one, so the rest is a range.
    """
    head: list[int] = []
    while len(head) < count:
        slot = distribute(last, granularity, now)
        if slot.creation > now:  # this date and all that follow are one granularity after the previous one
            stop = min(slot.date + (count - len(head)) * granularity, until + 1)
            if not head:
                stop = max(stop, slot.date + 1)
            return Batch(tuple(head), range(slot.date, stop, granularity))
        last = slot.date
        head.append(last)
    return Batch(tuple(head), range(0))


def coarsest_for(backlog: int) -> int:
    """Return the coarsest granularity at which `backlog` labels are due within a second; at most a second.

    In ticks. Finer labels are longer, so labels are no finer than the demand requires (GEN-43: the granularity may
    change; GEN-46: one label in a step).
    """
    return next((step for step in GRANULARITIES if step * backlog <= TICKS), GRANULARITIES[-1])


_GRANULARITY_SET = frozenset(GRANULARITIES)
