"""The temporal distributor against Algorithm 4 and against its definition, both written on exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.identifier.dates import GRANULARITIES, MINUTE, TICKS
from ibi.identifier.distributor import distribute
from ibi.identifier.ibip import ibip_suffix
from ibi.identifier.repository import rep_suffix
from support.oracles.distributor import Algorithm4, by_definition, cut
from support.oracles.texts import MANY

START = 1287588115 * TICKS

# A clock that runs, stumbles, jumps a day ahead and goes back; a granularity that changes at will.
steps = st.one_of(
    st.integers(-2 * TICKS, 2 * TICKS),
    st.integers(-100_000, 100_000),
    st.integers(-86400 * TICKS, 86400 * TICKS),
    st.sampled_from([0, 1, -1, TICKS, MINUTE, -MINUTE, TICKS - 1]),
)
draws = st.lists(st.tuples(steps, st.sampled_from(GRANULARITIES)), min_size=1, max_size=12)


def exact(ticks: int) -> Fraction:
    return Fraction(ticks, TICKS)


@pytest.mark.proves(
    "GEN-31", "GEN-33", "GEN-37", "GEN-38", "GEN-43", "GEN-45", "AMB-14", "AMB-15", "AMB-17", "AMB-19"
)
@given(history=draws)
@MANY
def test_every_draw_is_that_of_algorithm_4(history: list[tuple[int, int]]) -> None:
    literal = Algorithm4()
    last, now = None, START
    for step, granularity in history:
        now += step
        expected = literal.run(exact(now), exact(granularity))
        slot = distribute(last, granularity, now)
        assert tuple(map(exact, slot)) == (
            expected.creation,
            expected.previous,
            expected.granularity,
            expected.date,
            expected.wait,
        )
        last = slot.date


@pytest.mark.proves("GEN-33", "GEN-34", "GEN-35", "GEN-36", "GEN-38")
@given(history=draws)
@MANY
def test_the_definition_and_algorithm_4_give_the_same_dates(history: list[tuple[int, int]]) -> None:
    literal, last, now = Algorithm4(), None, START
    for step, granularity in history:
        now += step
        expected = literal.run(exact(now), exact(granularity))
        defined = by_definition(last, exact(now), exact(granularity))
        assert defined == expected
        last = expected.date


@pytest.mark.proves("GEN-38", "GEN-40", "GEN-43", "AMB-18", "AMB-19")
@given(history=draws)
@MANY
def test_labels_strictly_increase_under_any_clock_and_any_change_of_granularity(
    history: list[tuple[int, int]],
) -> None:
    last, now = None, START
    for step, granularity in history:
        now += step
        slot = distribute(last, granularity, now)
        assert last is None or slot.date > last
        assert slot.previous < slot.date <= slot.creation
        assert slot.creation <= now + slot.wait
        assert slot.wait == max(0, slot.creation - now)
        assert slot.date % slot.granularity == 0
        assert slot.granularity >= granularity
        assert slot.creation % granularity == 0
        last = slot.date


@pytest.mark.proves("GEN-30", "AMB-17")
@given(granularity=st.integers(-MINUTE, 2 * MINUTE).filter(lambda ticks: ticks not in GRANULARITIES))
@MANY
def test_a_granularity_outside_g_is_refused(granularity: int) -> None:
    with pytest.raises(ValueError, match="outside G"):
        distribute(None, granularity, START)


@pytest.mark.proves("GEN-39", "AMB-15")
def test_table_6_2_is_exact() -> None:
    requests = "646.394023 8012.2930 8115.186234 8115.3462 8115.99623 8116.72 8539.788342".split()
    requests[0] = "7" + requests[0]
    table = [  # creation, previous, granularity, date (seconds after 1287580000), wait, the two suffixes
        (7646, 7645, 1, 7646, "0", "2010/10.20.15.14.06", "38ERDLB"),
        (8012, 7646, 60, 8000, "0", "2010/10.20.15.20", "38ERE6E"),
        (8115, 8000, 60, 8060, "0", "2010/10.20.15.21", "38ERE8L"),
        (8115, 8060, 1, 8115, "0", "2010/10.20.15.21.55", "38EREAM"),
        (8116, 8115, 1, 8116, "0.00377", "2010/10.20.15.21.56", "38EREAN"),
        (8117, 8116, 1, 8117, "0.28", "2010/10.20.15.21.57", "38EREAP"),
        (8539, 8117, 60, 8480, "0", "2010/10.20.15.28", "38EREQ8"),
    ]
    last = None
    for request, (*seconds, wait, rep, ibip) in zip(requests, table, strict=True):
        slot = distribute(last, TICKS, 1287580000 * TICKS + int(Fraction(request) * TICKS))
        creation, previous, granularity, date = seconds
        assert slot.creation == (1287580000 + creation) * TICKS
        assert slot.previous == (1287580000 + previous) * TICKS
        assert slot.granularity == granularity * TICKS
        assert slot.date == (1287580000 + date) * TICKS
        assert slot.wait == Fraction(wait) * TICKS
        assert rep_suffix(slot.date) == rep
        assert ibip_suffix(slot.date) == ibip
        last = slot.date


@pytest.mark.proves("GEN-42", "AMB-15")
@given(now=st.integers(START, START + 10 * MINUTE), granularity=st.sampled_from(GRANULARITIES))
@MANY
def test_the_first_label_stands_on_the_present_tick(now: int, granularity: int) -> None:
    slot = distribute(None, granularity, now)
    assert slot.date == slot.creation == now - now % granularity
    assert slot.previous == slot.creation - granularity
    assert slot.wait == 0


@pytest.mark.long
@pytest.mark.proves("GEN-02", "GEN-38", "GEN-43", "AMB-06", "AMB-07", "AMB-19")
@pytest.mark.parametrize("first", [MINUTE, TICKS, TICKS // 10, TICKS // 100, TICKS // 1000])
def test_in_a_small_world_no_sequence_of_draws_repeats_a_label(first: int) -> None:
    """Each history of four draws on a grid of clock readings around a minute, with every change of granularity once."""
    grid = [START + 4 * TICKS + offset for offset in (0, TICKS // 1000, TICKS // 100, TICKS // 2, TICKS - 1)]
    grid += [
        START + 5 * TICKS + offset for offset in (0, TICKS // 20, TICKS // 10, 2 * TICKS, MINUTE - 1, MINUTE)
    ]
    grid.append(START - TICKS)
    world = [MINUTE, TICKS, TICKS // 10, TICKS // 100, TICKS // 1000]
    suffixes: dict[int, tuple[str, str]] = {}
    for clock in product(grid, repeat=4):
        for second in world:
            last, seen = None, list[tuple[str, str]]()
            for now, granularity in zip(clock, (first, second, first, second), strict=True):
                slot = distribute(last, granularity, now)
                assert last is None or slot.date > last
                if slot.date not in suffixes:
                    suffixes[slot.date] = rep_suffix(slot.date), ibip_suffix(slot.date)
                seen.append(suffixes[slot.date])
                last = slot.date
            assert len({rep for rep, _ in seen}) == len({ibip for _, ibip in seen}) == 4
    assert (
        len({rep for rep, _ in suffixes.values()})
        == len({ibip for _, ibip in suffixes.values()})
        == len(suffixes)
    )
    for date in suffixes:
        assert exact(date) == cut(exact(date), Fraction(1, 1000))
