"""The temporal distributor (G15 chapter 6, Algorithm 4): which date the next label carries.

Pure and exact: integers in, integers out. It neither reads a clock nor waits nor remembers; the waiting room does.
"""

from __future__ import annotations

from typing import NamedTuple

from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS


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


_GRID = frozenset(GRANULARITIES)
