"""How long an Archive waits for a resolver, and when it asks again, in the time of a false clock."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from ibi.archive.membership.key_rotation import rotate_key
from ibi.http.client import AddressPolicy
from ibi.http.client.download import Downloads
from ibi.runtime.nonce import Nonce
from support.archive.archive_fixture import SERVICE
from support.archive.membership_fixture import INCLUDED, Here, ScriptedResolver, request_of, until
from support.clock import run_with_false_clock
from support.concurrency.slow_server import seconds_of


def times(count: int, *, answers: bool) -> tuple[list[float], float]:
    """The seconds between so many requests, and how long the Archive takes to stop then."""

    async def run() -> tuple[list[float], float]:
        clock = asyncio.get_running_loop().time
        async with ScriptedResolver(INCLUDED) as resolver:
            resolver.tells_only_where = not answers
            async with Here({resolver.url: request_of()}):
                requests = [await resolver.request_times.get() for _ in range(count)]
                began = clock()
            return [later - earlier for earlier, later in pairwise(requests)], clock() - began

    return run_with_false_clock(run())


def test_an_included_archive_asks_again_every_minute_or_a_little_sooner() -> None:
    (first, second), _ = times(3, answers=True)
    assert 54 <= first <= 60.1
    assert 54 <= second <= 60.1


def test_a_resolver_that_says_nothing_is_asked_again_later_and_later() -> None:
    gaps, stopping = times(12, answers=False)
    pauses = [min(0.5 * 2**number, 60) for number in range(11)]
    for gap, pause in zip(gaps, pauses, strict=True):
        assert 10 + pause / 2 <= gap <= 10 + pause + 0.1
    assert stopping == pytest.approx(1.5, abs=0.05)


def test_a_resolver_that_is_left_and_says_nothing_is_told_later_and_later() -> None:
    async def run() -> list[float]:
        async with ScriptedResolver(INCLUDED) as resolver:
            async with Here({resolver.url: request_of()}) as here:
                await resolver.request_times.get()
                await until(lambda: resolver.url in here.records)
                resolver.tells_only_where = True
                here.requests.clear()
                requests = [await resolver.request_times.get() for _ in range(10)]
                resolver.tells_only_where = False
            return [later - earlier for earlier, later in pairwise(requests)]

    gaps = run_with_false_clock(run())
    for number, gap in enumerate(gaps):
        pause = min(0.5 * 2**number, 60)
        assert 1.5 + pause / 2 <= gap <= 1.5 + pause + 0.1


def test_a_new_key_is_waited_for(tmp_path: Path) -> None:
    async def rotate(root: str) -> None:
        async with Downloads(AddressPolicy(allow_private=True)) as downloads:
            await rotate_key(downloads, root, SERVICE.main, Nonce(tmp_path, lambda: 0.0))

    assert seconds_of(rotate) == pytest.approx(15, abs=0.1)
