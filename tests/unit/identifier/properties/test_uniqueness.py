"""Millions of labels of one subsystem under a clock that stumbles: none is ever given twice, in either form."""

from __future__ import annotations

import random
from array import array
from typing import TYPE_CHECKING

import pytest

from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import distribute
from ibi.identifier.ibip import ibip_suffix
from ibi.identifier.repository import rep_suffix

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAWS = 1_000_000


def stumbling_clock(granularity: int) -> Iterator[int]:
    """Clock readings that crawl, stand still, go back, and leap ahead now and then."""
    chance = random.Random(20150801)
    now = 1287588115 * TICKS
    while True:
        for _ in range(chance.randrange(1, 2000)):
            now += chance.randrange(3 * granularity)
            yield now
        now += chance.choice([0, -granularity * 500, -TICKS, 61 * TICKS, TICKS // 7, TICKS - now % TICKS])


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-06", "GEN-20", "GEN-38", "GEN-71", "AMB-06", "AMB-07", "AMB-19")
@pytest.mark.parametrize("granularity", [TICKS // 1000, TICKS // 1_000_000], ids=["r=0.001", "r=0.000001"])
def test_a_million_draws_never_repeat_a_label_in_either_form(granularity: int) -> None:
    # Hashes instead of texts: eight bytes a label. A repeated label has a repeated hash, so nothing is overlooked;
    # two labels with one hash by chance would fail the test wrongly, once in some ten million runs.
    names, labels = array("q"), array("q")
    clock = stumbling_clock(granularity)
    last, waits, lengths = None, 0, set[int]()
    for _ in range(DRAWS):
        slot = distribute(last, granularity, next(clock))
        name = rep_suffix(slot.date)
        names.append(hash(name))
        labels.append(hash(ibip_suffix(slot.date)))
        lengths.add(len(name))
        waits += slot.wait > 0
        last = slot.date
    assert len(set(names)) == DRAWS
    assert len(set(labels)) == DRAWS
    assert waits > DRAWS // 100  # the clock was really behind at times
    assert len(lengths) >= 5  # and labels of all lengths were really given
