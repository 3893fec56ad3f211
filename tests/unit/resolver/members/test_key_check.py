"""What a key costs while it is compared: no count outlives the process, and guesses are still bounded."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from ibi.http.limits.window import FailureLimit
from ibi.identifier.forms import parse_ibi
from ibi.resolver.members import inclusion
from ibi.resolver.members.inclusion import KEY_FAILURES_PER_IBI, REFUSED, KeyCheck
from support.resolver.membership_fixture import ARCHIVE, KEY, STRANGER, member

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from ibi.identifier.forms import IBI

IBI_OF_IT = parse_ibi(ARCHIVE)
COUNTED = (
    (FailureLimit("key of", 1, 60.0), IBI_OF_IT.canonical),
    (FailureLimit("key from", 1, 60.0), STRANGER),
)
"""Limits that a single failure would exceed."""


def test_what_is_being_compared_is_in_no_file_that_outlives_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with member(tmp_path, []) as one:
            begun, go_on = threading.Event(), threading.Event()
            compare = one.registry.check_key

            def slowly(service_ibi: IBI, key: str) -> bool:
                begun.set()
                assert go_on.wait(60.0)
                return compare(service_ibi, key)

            monkeypatch.setattr(one.registry, "check_key", slowly)
            keys = KeyCheck(one.registry, one.throttle)
            for key, refusal, counted in ((KEY, None, False), (KEY[::-1], REFUSED, True)):
                begun.clear()
                go_on.clear()
                check = asyncio.create_task(keys.check_and_count(IBI_OF_IT, key, STRANGER))
                assert await asyncio.to_thread(begun.wait, 60.0)
                assert [one.throttle.wait(*each) for each in COUNTED] == [0.0, 0.0]
                go_on.set()
                assert await check == refusal
                assert [one.throttle.wait(*each) > 0 for each in COUNTED] == [counted, counted]

    asyncio.run(main())


def test_of_many_guesses_at_once_no_more_are_compared_than_may_fail(tmp_path: Path) -> None:
    async def main() -> None:
        async with member(tmp_path, []) as one:
            keys = KeyCheck(one.registry, one.throttle)
            for _ in range(2):
                guesses = (
                    keys.check_and_count(IBI_OF_IT, f"0{number}{KEY[2:]}", STRANGER) for number in range(9)
                )
                refusals = await asyncio.gather(*guesses)
                assert refusals.count(REFUSED) == KEY_FAILURES_PER_IBI
                assert all(each is not None and each.retry_after for each in refusals if each != REFUSED)
                one.clock.now += (
                    100_000  # nothing is counted any more, neither as failed nor as being compared
                )

    asyncio.run(main())


def test_a_key_is_not_taken_unseen_where_too_many_wait_to_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with member(tmp_path, []) as one:
            begun, go_on = threading.Event(), threading.Event()

            def slowly(_service_ibi: IBI, _key: str) -> bool:
                begun.set()
                return go_on.wait(60.0)

            monkeypatch.setattr(one.registry, "check_key", slowly)
            monkeypatch.setattr(inclusion, "HASHING_WAITING", 1)
            keys = KeyCheck(one.registry, one.throttle)
            first = asyncio.create_task(keys.check_and_count(IBI_OF_IT, KEY, STRANGER))
            assert await asyncio.to_thread(begun.wait, 60.0)
            refused = await keys.check_and_count(IBI_OF_IT, KEY, STRANGER)
            assert refused is not None
            assert (refused.status, refused.retry_after is not None) == (503, True)
            go_on.set()
            assert await first is None
            assert await keys.check_and_count(IBI_OF_IT, KEY, STRANGER) is None

    asyncio.run(main())
