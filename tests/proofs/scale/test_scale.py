"""The parts of the model of scale: each approximation against a small world that is really played."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import replace
from pathlib import Path

import pytest

from proofs.scale.__main__ import pages
from proofs.scale.constants import AS_SHIPPED, LARGE, NARROW, World
from proofs.scale.limits import breaking_points, limits
from proofs.scale.model import changes_requests, hints_kept, load, nodes_needed
from proofs.scale.popularity import distinct, hits, stay, zipf

PAGE = Path(__file__).parents[3] / "docs/reference/proofs.md"
NAMES, CLICKS = 5_000, 100_000


def clicks_on(names: int, count: int, seed: int) -> list[int]:
    """Ranks that are asked for, one a second."""
    weights = [1 / rank for rank in range(1, names + 1)]
    return random.Random(seed).choices(range(names), weights, k=count)


def played_hits(capacity: int, lifetime: float, seed: int) -> float:
    """Play a cache that drops what was not used for the longest time, and what was put `lifetime` seconds ago."""
    cache: OrderedDict[int, int] = OrderedDict()
    found = 0
    for second, name in enumerate(clicks_on(NAMES, CLICKS, seed)):
        if name in cache and second - cache[name] < lifetime:
            found += second >= CLICKS // 2
        else:
            cache[name] = second
        cache.move_to_end(name)
        if len(cache) > capacity:
            cache.popitem(last=False)
    return found / (CLICKS - CLICKS // 2)


@pytest.mark.parametrize("names", [1, 100, 101, 5_000, 10**9])
def test_the_shares_of_all_names_add_up_to_all_clicks(names: int) -> None:
    groups = zipf(names)
    assert sum(group.names for group in groups) == names
    assert sum(group.names * group.share for group in groups) == pytest.approx(1, abs=1e-4)
    assert groups[0].share / groups[min(9, names - 1)].share == pytest.approx(min(10, names))


@pytest.mark.parametrize(
    ("capacity", "lifetime"), [(50, 1e9), (500, 1e9), (2_000, 1e9), (5_000, 3_000.0), (500, 400.0)]
)
def test_hits_of_a_cache_are_those_of_one_that_is_played(capacity: int, lifetime: float) -> None:
    reckoned = hits(zipf(NAMES), 1.0, capacity, lifetime)
    assert reckoned == pytest.approx(played_hits(capacity, lifetime, seed=1), abs=0.05)


def test_names_stay_for_ever_in_a_cache_that_holds_all() -> None:
    assert stay(zipf(NAMES), 1.0, NAMES) == float("inf")
    assert stay(zipf(NAMES), 1.0, 10) < stay(zipf(NAMES), 1.0, 100)


def test_distinct_names_are_those_of_clicks_that_are_played() -> None:
    assert distinct(zipf(NAMES), 1.0, 20_000) == pytest.approx(
        len(set(clicks_on(NAMES, 20_000, seed=2))), rel=0.03
    )


@pytest.mark.parametrize("clicks", [0.0, 0.0005, 0.02, 0.2, 5.0])
def test_requests_for_changes_are_those_of_leases_that_are_played(clicks: float) -> None:
    chance, now, end, requests, last = random.Random(3), 0.0, 2_000_000.0, 0, -1e9
    while now < end:
        now += chance.expovariate(clicks) if clicks else end
        while now - last >= 900 and last + 900 < end:  # none was used for so long
            last, requests = max(last + 900, 0.0), requests + 1
        if now - last >= 45:
            last, requests = now, requests + 1
    # Both causes of a request count on their own, so the model says a little less where they meet.
    assert changes_requests(clicks) == pytest.approx(requests / end, rel=0.45 if clicks == 0.0005 else 0.1)


def test_more_nodes_share_the_clicks_and_find_fewer_of_them_in_their_caches() -> None:
    one, four = load(World(), AS_SHIPPED, 1), load(World(), AS_SHIPPED, 4)
    assert four.clicks == one.clicks / 4
    assert four.seconds_without_fan_outs < one.seconds_without_fan_outs
    assert four.repeated < one.repeated
    assert 4 * four.changes > one.changes
    assert four.memory == one.memory


def test_larger_caches_ask_less_and_fan_outs_end_where_nothing_is_down_or_lost() -> None:
    shipped, large, narrow = (load(World(), node, 2) for node in (AS_SHIPPED, LARGE, NARROW))
    assert large.queries < shipped.queries
    assert large.lost == narrow.lost == narrow.silent == 0
    assert narrow.questions == narrow.queries
    well = load(World(down=0.0, moved_a_year=0.0), AS_SHIPPED, 2)
    assert well.questions == well.queries
    assert hints_kept(World(), AS_SHIPPED, zipf(10**9)) < 0.1


def test_as_many_nodes_are_needed_as_there_are_clicks() -> None:
    assert nodes_needed(World(clicks=100), AS_SHIPPED) == 1
    assert nodes_needed(World(clicks=40_000), AS_SHIPPED) > nodes_needed(World(), AS_SHIPPED)


def test_limits_hold_in_a_small_world_and_are_exceeded_in_their_order_as_it_grows() -> None:
    small = World(archives=10, names=1_000, clicks=0.01)
    assert all(limit.times <= 1 for limit in limits(small, AS_SHIPPED, 1))
    points = breaking_points(replace(World(), archives=30_000, names=300_000_000, clicks=3_000), AS_SHIPPED)
    exceeded = [archives for archives in points.values() if archives]
    assert exceeded == sorted(exceeded)
    assert points["leases of Archives"] == 0
    assert 10_000 < points["Archives in a published list"] < 13_000


def test_the_page_has_the_tables_that_the_command_prints() -> None:
    printed = "\n".join(pages(World()))
    assert printed in PAGE.read_text("utf-8"), "put what `python -m proofs.scale` prints into the page"
