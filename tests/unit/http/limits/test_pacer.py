"""Many queries go out a few at a time, in order, and what else is due comes between."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

from ibi.http.limits.pacer import A_TURN, REST, Pacer


def numbers(count: int) -> Any:
    """They stand for queries."""
    return range(count)


def test_only_a_few_go_at_a_time_and_all_in_order() -> None:
    async def main() -> None:
        gone, seen = list[Any](), [A_TURN]
        pacer = Pacer(gone.extend, lambda: True)
        pacer.add(numbers(5 * A_TURN))
        assert len(gone) == A_TURN
        while len(gone) < 5 * A_TURN:
            await asyncio.sleep(0)  # another turn of the loop
            seen.append(len(gone))
        assert gone == list(range(5 * A_TURN))
        assert all(later - earlier <= A_TURN for earlier, later in pairwise(seen))

    asyncio.run(main())


def test_without_other_requests_nothing_is_held_back() -> None:
    async def main() -> None:
        gone = list[Any]()
        pacer = Pacer(gone.extend, lambda: False)
        pacer.add(numbers(5 * A_TURN))
        for turn in range(2, 6):
            await asyncio.sleep(0)
            assert len(gone) == turn * A_TURN

    asyncio.run(main())


def test_who_comes_alone_goes_at_once() -> None:
    async def main() -> None:
        gone = list[Any]()
        pacer = Pacer(gone.extend, lambda: True)
        for number in range(3 * A_TURN):
            pacer.add(numbers(number + 1)[number:])
            assert gone[-1] == number
            await asyncio.sleep(3 * REST)

    asyncio.run(main())
