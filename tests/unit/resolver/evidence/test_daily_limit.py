"""How much is written about one Archive in a day."""

from __future__ import annotations

import pytest

from ibi.resolver.evidence.daily_limit import MOST_A_DAY, DailyLimit

A_DAY = 86_400.0
LIAR, HONEST = "J8LNKB5R7W/1", "J8LNKB5R7W/2"
SIGHT = {"ibi": "x", "archive": LIAR}


def full(what: str = "original", archive: str = LIAR) -> DailyLimit:
    limit = DailyLimit()
    for _ in range(MOST_A_DAY):
        assert not limit.full[what]
        limit.count(what, {"archive": archive}, A_DAY)
    return limit


@pytest.mark.parametrize(
    ("what", "facts", "refused"),
    [
        ("original", SIGHT, True),
        ("original", {"archive": HONEST}, False),
        ("deleted", SIGHT, False),
        ("included", {"archive": LIAR}, False),
        ("original", {"archives": f"{LIAR} {HONEST}"}, False),
        ("original", {"archives": f"{LIAR} {LIAR}"}, True),
        ("original", {"from": HONEST, "to": LIAR}, False),
        ("original", {"ibi": LIAR, "outcome": "held"}, True),
    ],
)
def test_of_one_kind_and_archive_so_much_is_written(what: str, facts: dict[str, str], refused: bool) -> None:
    assert full().refuses(what, facts, A_DAY) is refused


@pytest.mark.parametrize("now", [2 * A_DAY, 0.0])
def test_another_day_has_a_limit_of_its_own(now: float) -> None:
    limit = full()
    assert not limit.refuses("original", SIGHT, now)


def test_what_is_left_out_is_told_at_1_10_and_100() -> None:
    limit, reported = full(), list[dict[str, str | int]]()
    for _ in range(150):
        assert limit.refuses("original", SIGHT, A_DAY + 1)
        reported += limit.report("original", SIGHT)
    assert reported == [{"entries": "original", "archive": LIAR, "count": count} for count in (1, 10, 100)]
