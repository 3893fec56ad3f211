"""The temporal distributor, on the rows of the printed table and at its edges."""

import pytest

from ibi.identifier.dates import MINUTE, TICKS
from ibi.identifier.distributor import Batch, coarsest_for, distribute, distribute_many
from ibi.identifier.repository import rep_suffix

TABLE = [  # G15 Table 6.2: microseconds of the request, suffix
    (1287587646_394023, "2010/10.20.15.14.06"),
    (1287588012_293000, "2010/10.20.15.20"),
    (1287588115_186234, "2010/10.20.15.21"),
    (1287588115_346200, "2010/10.20.15.21.55"),
    (1287588115_996230, "2010/10.20.15.21.56"),
    (1287588116_720000, "2010/10.20.15.21.57"),
    (1287588539_788342, "2010/10.20.15.28"),
]


@pytest.mark.proves(
    "GEN-31",
    "GEN-32",
    "GEN-33",
    "GEN-34",
    "GEN-35",
    "GEN-36",
    "GEN-37",
    "GEN-39",
    "AMB-14",
    "AMB-15",
    "AMB-21",
)
def test_the_printed_table_comes_out() -> None:
    last, suffixes = None, []
    for microseconds, _ in TABLE:
        slot = distribute(last, TICKS, microseconds * 1000)
        last = slot.date
        suffixes.append(rep_suffix(slot.date))
    assert suffixes == [suffix for _, suffix in TABLE]


@pytest.mark.proves("GEN-40")
def test_the_wait_lasts_until_the_clock_has_reached_the_date_of_creation() -> None:
    slot = distribute(1287588115 * TICKS, TICKS, 1287588115_996230 * 1000)
    assert slot.creation == 1287588116 * TICKS
    assert slot.wait == 3_770_000


@pytest.mark.proves("GEN-42")
def test_the_first_label_shows_the_full_granularity() -> None:
    slot = distribute(None, TICKS, 1287588012_293000 * 1000)
    assert (slot.previous, slot.date) == (1287588011 * TICKS, 1287588012 * TICKS)


@pytest.mark.proves("GEN-43", "AMB-19")
def test_a_coarser_granularity_never_repeats_what_a_finer_one_gave() -> None:
    finest = 1287588115_987_000_000
    slot = distribute(finest, TICKS // 10, finest + 100_000)
    assert slot.previous == 1287588115_900_000_000
    assert slot.date == 1287588116 * TICKS > finest


@pytest.mark.proves("GEN-44")
def test_a_clock_set_back_makes_the_wait_longer_and_repeats_nothing() -> None:
    slot = distribute(1287588200 * TICKS, TICKS, 1287588100_500_000_000)
    assert (slot.date, slot.wait) == (1287588201 * TICKS, 100_500_000_000)


@pytest.mark.proves("GEN-30", "AMB-17")
@pytest.mark.parametrize("granularity", [0, -1, 2, 10 * TICKS, 600 * TICKS, TICKS // 2])
def test_a_granularity_outside_g_is_refused(granularity: int) -> None:
    with pytest.raises(ValueError, match="outside G"):
        distribute(None, granularity, 0)


@pytest.mark.proves("GEN-46")
def test_minutes_are_given_one_a_minute() -> None:
    first = distribute(None, MINUTE, 1287587646 * TICKS)
    second = distribute(first.date, MINUTE, 1287587647 * TICKS)
    assert second.date - first.date == MINUTE
    assert second.wait == 53 * TICKS


@pytest.mark.proves("GEN-41")
@pytest.mark.parametrize(("until", "given"), [(-1, 1), (0, 1), (1, 2), (2, 3), (9, 10), (10, 10)])
def test_a_date_is_given_until_its_very_tick_and_the_first_one_always(until: int, given: int) -> None:
    """Dates of the finest granularity, one tick apart, of which the first comes right after the last label."""
    last = 1287588115 * TICKS
    first = list(distribute_many(last, 1, last, 10, last + 100))
    assert first == list(range(first[0], first[0] + 10))
    assert list(distribute_many(last, 1, last, 10, first[0] + until)) == first[:given]


BATCH = Batch((3, 5), range(10, 40, 10))


@pytest.mark.parametrize(
    ("now", "due"), [(0, 2), (9, 2), (10, 3), (19, 3), (20, 4), (29, 4), (30, 5), (31, 5), (10**20, 5)]
)
def test_the_dates_of_a_batch_are_due_one_after_the_other(now: int, due: int) -> None:
    assert BATCH.due(now) == due
    assert Batch((3, 5), range(0)).due(now) == 2
    assert Batch((3, 5), range(10**21, 10**21 + 10)).due(now) == 2


@pytest.mark.parametrize(
    ("count", "first", "rest"),
    [
        (0, Batch((), range(10, 10, 10)), BATCH),
        (1, Batch((3,), range(10, 10, 10)), Batch((5,), range(10, 40, 10))),
        (2, Batch((3, 5), range(10, 10, 10)), Batch((), range(10, 40, 10))),
        (3, Batch((3, 5), range(10, 20, 10)), Batch((), range(20, 40, 10))),
        (9, BATCH, Batch((), range(40, 40, 10))),
    ],
)
def test_a_batch_is_split_after_so_many_dates(count: int, first: Batch, rest: Batch) -> None:
    assert BATCH.split(count) == (first, rest)
    assert [*first, *rest] == [3, 5, 10, 20, 30]
    assert len(first) + len(rest) == len(BATCH) == 5


def test_the_last_date_of_a_batch_is_the_one_that_is_stored() -> None:
    assert (BATCH.last, Batch((3, 5), range(0)).last, Batch((), range(7, 9)).last) == (30, 5, 8)


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_many_dates_after_a_pause_are_those_of_as_many_draws(count: int) -> None:
    last = now = 1287588539_788342 * TICKS // 10**6
    last -= 3600 * TICKS
    drawn = []
    for _ in range(count):
        last = distribute(last, TICKS // 1000, now).date
        drawn.append(last)
    batch = distribute_many(now - 3600 * TICKS, TICKS // 1000, now, count, now + TICKS)
    assert [*batch] == drawn


def test_a_date_that_is_reached_just_now_is_due_at_once() -> None:
    assert distribute_many(999, 1, 1000, 3, 2000) == Batch((1000,), range(1001, 1003))
    assert distribute_many(1000, 1, 1000, 3, 1002) == Batch((), range(1001, 1003))
    assert distribute_many(1000, 1, 1000, 3, 0) == Batch((), range(1001, 1002))


@pytest.mark.parametrize(
    ("backlog", "step"),
    [
        (0, 60 * TICKS),
        (1, TICKS),
        (10, TICKS // 10),
        (11, TICKS // 100),
        (100, TICKS // 100),
        (TICKS, 1),
        (TICKS + 1, 1),
    ],
)
def test_labels_are_as_coarse_as_so_many_within_a_second_can_be(backlog: int, step: int) -> None:
    assert coarsest_for(backlog) == step
