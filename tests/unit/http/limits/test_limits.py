"""How much one reader may have, and its neighbours: budgets that fill with time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.http.limits import token_bucket
from ibi.http.limits.token_bucket import NEIGHBOURS, RateLimit, TokenBuckets, client_key


def test_a_burst_is_let_through_and_then_so_many_a_second() -> None:
    tokens = TokenBuckets(rate=2.0, burst=3)
    for _ in range(3):
        assert tokens.wait("a", 10.0) == 0
        tokens.spend("a", 10.0)
    assert tokens.wait("a", 10.0) == pytest.approx(0.5)
    assert tokens.wait("b", 10.0) == 0
    assert tokens.wait("a", 10.5) == 0


def test_what_was_not_spent_costs_nothing() -> None:
    tokens = TokenBuckets(rate=1.0, burst=1)
    assert all(tokens.wait("a", float(n)) == 0 for n in range(100))


def test_without_a_rate_no_client_is_limited() -> None:
    tokens = TokenBuckets(rate=0.0, burst=0)
    for _ in range(1000):
        tokens.spend("a", 1.0)
    assert tokens.wait("a", 1.0) == 0


def test_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_bucket, "MOST_CLIENTS", 2)
    tokens = TokenBuckets(rate=0.001, burst=1)
    for reader in ("a", "b", "c"):
        tokens.spend(reader, 1.0)
    assert [reader for reader in "abc" if tokens.wait(reader, 1.0) == 0] == ["a"]


def test_who_spent_a_token_lately_is_kept_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_bucket, "MOST_CLIENTS", 2)
    tokens = TokenBuckets(rate=0.001, burst=1)
    for reader in ("a", "b", "a", "c"):
        tokens.spend(reader, 1.0)
    assert [reader for reader in "abc" if not tokens.wait(reader, 1.0)] == ["b"]


@pytest.mark.parametrize(
    ("spent", "cost", "now", "wait"),
    [
        (0, 1.0, 0.0, 0.0),
        (2, 1.0, 0.0, 0.0),
        (3, 1.0, 0.0, 4.0),
        (3, 1.0, 1.0, 3.0),
        (3, 1.0, 4.0, 0.0),
        (1, 2.5, 0.0, 2.0),  # half a token is left
        (1, 2.0, 0.0, 0.0),  # just one
        (1, 9.0, 0.0, 28.0),
    ],
)
def test_a_client_waits_until_it_has_a_token_again(spent: int, cost: float, now: float, wait: float) -> None:
    tokens = TokenBuckets(rate=0.25, burst=3)
    for _ in range(spent):
        tokens.spend("a", 0.0, cost)
    assert tokens.wait("a", now) == wait
    assert tokens.left("a", now) == min(3.0, 3 - spent * cost + now / 4)
    assert tokens.left("a", 1_000.0) == 3.0, "a bucket holds no more than the burst"


@pytest.mark.parametrize(
    ("burst", "spender", "client", "known"),
    [
        (1, "", "192.0.2.7", False),
        (1, "192.0.2.7", "192.0.2.7", True),
        (1, "192.0.2.7", "192.0.2.8", True),
        (1, "192.0.2.7", "192.0.3.7", False),
        (1, "2001:0db8:0007:ffff", "2001:0db8:0007:0000", True),
        (1, "2001:0db8:0007:ffff", "2001:0db8:0008:ffff", False),
        (1, "no address", "no address", True),
        (1, "no address", "another", False),
        (0, "", "192.0.2.7", True),
    ],
)
def test_only_who_or_whose_neighbour_spent_tokens_may_have_to_wait(
    burst: int, spender: str, client: str, known: bool
) -> None:
    tokens = TokenBuckets(rate=1.0, burst=burst)
    if spender:
        tokens.spend(spender, 1.0)
    assert tokens.knows(client) is known


@pytest.mark.parametrize(
    ("rate", "burst", "policy", "later"), [(0.25, 3, "q=3;w=12", 4), (2.0, 5, "q=5;w=3", 1), (0.4, 1, "q=1;w=3", 3)]
)  # fmt: skip
def test_a_limit_says_when_a_token_comes_back(rate: float, burst: int, policy: str, later: int) -> None:
    limit, seen = RateLimit("pages", rate, burst), list[tuple[float, tuple[tuple[str, str], ...]]]()
    for _ in range(burst + 1):
        decision = limit.admit("a", 10.0)
        assert decision is not None
        seen.append((decision.wait, decision.headers))
    policy_header = ("ratelimit-policy", f'"pages";{policy}')
    for left, (wait, headers) in zip(reversed(range(burst)), seen, strict=False):
        assert (wait, headers) == (0.0, (policy_header, ("ratelimit", f'"pages";r={left};t={later}')))
    empty = ("ratelimit", f'"pages";r=0;t={later}')
    assert seen[-1] == (1 / rate, (policy_header, empty, ("retry-after", str(later))))


@given(st.lists(st.floats(0, 3), max_size=200))
def test_no_client_gets_more_than_the_burst_and_the_rate(pauses: list[float]) -> None:
    tokens, now, served = TokenBuckets(rate=2.0, burst=5), 0.0, 0
    for pause in pauses:
        now += pause
        if tokens.wait("a", now) == 0:
            tokens.spend("a", now)
            served += 1
    assert served <= 5 + 2.0 * now + 1


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.77", "192.0.2.77"), ("::ffff:192.0.2.1", "192.0.2.1"), ("127.0.0.1", "127.0.0.1"),
        ("2001:db8:7:ffff::1", "2001:0db8:0007:ffff"), ("2001:db8:7:ffff:1:2:3:4", "2001:0db8:0007:ffff"),
        ("2001:db8:7::9", "2001:0db8:0007:0000"), ("", ""), ("no address", "no address"),
    ],
)  # fmt: skip
def test_a_source_is_an_address_or_what_one_customer_has_of_the_long_ones(address: str, source: str) -> None:
    assert client_key(address) == source


@pytest.mark.parametrize("network", ["192.0.2.{}", "2001:db8:7:{:x}::1"])
def test_neighbours_have_some_times_as_much_as_one_and_no_more(network: str) -> None:
    sources = [client_key(network.format(number)) for number in range(200)]
    budget = TokenBuckets(rate=1.0, burst=2)
    for now, most in ((0.0, 2 * NEIGHBOURS), (1.0, NEIGHBOURS)):
        served = 0
        for source in sources:
            while budget.wait(source, now) == 0:
                budget.spend(source, now)
                served += 1
        assert served == most
    assert budget.wait(sources[-1], 1.0) == pytest.approx(1 / NEIGHBOURS)
    assert budget.wait(client_key("198.51.100.1"), 1.0) == budget.wait(client_key("2001:db8:8::1"), 1.0) == 0


def test_a_limit_tells_how_its_reader_stands_and_when_to_come_back() -> None:
    limit = RateLimit("pages", rate=2.0, burst=3)
    passed = [limit.admit("a", 10.0) for _ in range(3)]
    assert [verdict.wait for verdict in passed if verdict] == [0, 0, 0]
    assert passed[0] is not None
    assert passed[0].headers == (("ratelimit-policy", '"pages";q=3;w=2'), ("ratelimit", '"pages";r=2;t=1'))
    refused = limit.admit("a", 10.0)
    assert refused is not None
    assert refused.wait == pytest.approx(0.5)
    assert ("retry-after", "1") in refused.headers
    assert ("ratelimit", '"pages";r=0;t=1') in refused.headers
    other = limit.admit("b", 10.0)
    assert other is not None
    assert other.wait == 0


def test_what_costs_more_is_paid_for_afterwards() -> None:
    limit = RateLimit("costly", rate=1.0, burst=2)
    first = limit.admit("a", 0.0, cost=5)
    later = limit.admit("a", 0.0)
    assert first is not None
    assert later is not None
    assert first.wait == 0
    assert later.wait == pytest.approx(4)


def test_a_limit_without_a_rate_says_nothing() -> None:
    assert RateLimit("pages", rate=0.0, burst=0).admit("a", 0.0) is None
