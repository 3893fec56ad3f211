"""The temporal distributor (G15 chapter 6, Algorithm 4): which date the next label carries.

Pure and exact: integers in, integers out. It neither reads a clock nor waits nor remembers; the waiting room does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Slot(NamedTuple):
    """One draw; all values in ticks.

    `date` is what the label carries, and what must be remembered as the last date. `creation`: the label may be
    handed out once the clock has reached it. `previous`: the remembered date as seen on the present grid.
    `granularity`: the coarsest grid on which `date` is still later than `previous`. `wait`: from now to `creation`.
    """

    creation: int
    previous: int
    granularity: int
    date: int
    wait: int


def distribute(last: int | None, granularity: int, now: int) -> Slot:
    """Give the next date (GEN-37; the numbers are the lines of Algorithm 4).

    `last`: the date of the label before, None on the first run. `granularity`: one of GRANULARITIES; it may differ
    from the one of the draw before. `now`: the present clock. Raises ValueError for a granularity outside G.

    Labels of one subsystem strictly increase (GEN-38), also when the granularity grows (AMB-19) or the clock goes
    back (the wait gets longer).
    """
    if granularity not in _GRID:
        msg = f"a granularity of {granularity} ticks is outside G"
        raise ValueError(msg)
    rounded = now - now % granularity  # 1
    if last is None:  # 2
        last = rounded - granularity  # 3
    last -= last % granularity  # 4
    creation = max(last + granularity, rounded)  # 5
    coarser = date = creation  # 8
    chosen = grid = granularity  # 9
    while last < coarser:  # 10
        chosen, date = grid, coarser  # 13
        if grid == MINUTE:  # 14
            break
        grid = MINUTE if grid == TICKS else grid * 10  # 11, 12
        coarser = creation - creation % grid  # 15
    return Slot(creation, last, chosen, date, max(0, creation - now))  # 6, 16


@dataclass(frozen=True, slots=True)
class Batch:
    """Dates drawn at one moment, strictly increasing, in ticks.

    Those in `head` are due at once; each in `tail` is due when the clock has reached that very date (GEN-40).
    """

    head: tuple[int, ...]
    tail: range

    def __len__(self) -> int:
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[int]:
        return chain(self.head, self.tail)

    @property
    def last(self) -> int:
        """The last date, which must be remembered before any of them leaves."""
        return self.tail[-1] if self.tail else self.head[-1]

    def due(self, now: int) -> int:
        """How many of the dates may leave at this moment."""
        tail = self.tail
        reached = (now - tail.start) // tail.step + 1 if tail and now >= tail.start else 0
        return len(self.head) + min(reached, len(tail))

    def split(self, count: int) -> tuple[Batch, Batch]:
        """The first `count` dates, and the rest."""
        cut = max(0, count - len(self.head))
        return Batch(self.head[:count], self.tail[:cut]), Batch(self.head[count:], self.tail[cut:])


def distribute_many(last: int, granularity: int, now: int, count: int, until: int) -> Batch:
    """Give `count` dates in a row: what `distribute` gives when all are drawn at one moment (GEN-41).

    Dates after `until` are left out, but one is always given. Ticks throughout. Raises ValueError as `distribute`.

    After a pause the dates become finer and finer until they show the granularity itself; from then on each is one
    step after the one before, so the rest is a range.
    """
    head: list[int] = []
    while len(head) < count:
        slot = distribute(last, granularity, now)
        if slot.creation > now:  # then it is one step after the last, and so are all that follow
            stop = min(slot.date + (count - len(head)) * granularity, until + 1)
            if not head:
                stop = max(stop, slot.date + 1)
            return Batch(tuple(head), range(slot.date, stop, granularity))
        last = slot.date
        head.append(last)
    return Batch(tuple(head), range(0))


def coarsest_for(backlog: int) -> int:
    """The coarsest granularity, in ticks, at which `backlog` labels are due within a second: at most a second itself.

    The longer the labels, the finer they are; so none is finer than the demand asks for (GEN-43, GEN-46).
    """
    return next((step for step in GRANULARITIES if step * backlog <= TICKS), GRANULARITIES[-1])


_GRID = frozenset(GRANULARITIES)
