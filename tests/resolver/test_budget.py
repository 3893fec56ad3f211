"""How many resolutions that make Archives work one reader may have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.resolver import budget
from ibi.resolver.budget import Budget


def test_a_burst_is_let_through_and_then_so_many_a_second() -> None:
    tokens = Budget(rate=2.0, burst=3)
    for _ in range(3):
        assert tokens.wait("a", 10.0) == 0
        tokens.spend("a", 10.0)
    assert tokens.wait("a", 10.0) == pytest.approx(0.5)
    assert tokens.wait("b", 10.0) == 0
    assert tokens.wait("a", 10.5) == 0


def test_what_was_not_spent_costs_nothing() -> None:
    tokens = Budget(rate=1.0, burst=1)
    assert all(tokens.wait("a", float(n)) == 0 for n in range(100))


def test_without_a_rate_nobody_is_limited() -> None:
    tokens = Budget(rate=0.0, burst=0)
    for _ in range(1000):
        tokens.spend("a", 1.0)
    assert tokens.wait("a", 1.0) == 0


def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MOST_READERS", 2)
    tokens = Budget(rate=0.001, burst=1)
    for reader in ("a", "b", "c"):
        tokens.spend(reader, 1.0)
    assert [reader for reader in "abc" if tokens.wait(reader, 1.0) == 0] == ["a"]


@given(st.lists(st.floats(0, 3), max_size=200))
def test_nobody_gets_more_than_the_burst_and_the_rate(pauses: list[float]) -> None:
    tokens, now, served = Budget(rate=2.0, burst=5), 0.0, 0
    for pause in pauses:
        now += pause
        if tokens.wait("a", now) == 0:
            tokens.spend("a", now)
            served += 1
    assert served <= 5 + 2.0 * now + 1
