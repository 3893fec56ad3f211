"""The batcher to the second, over a waiting room with a script: who is served, who is refused and when.

That each date comes once and in order from real files is in `tests/service/minting/test_batcher.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.errors import ClockError, IbiError, SetupError
from ibi.identifier.dates import MINUTE, TICKS
from ibi.identifier.distributor import Batch
from ibi.identifier.generator import LabelGenerator
from ibi.minting.batcher import LONGEST_WAIT, MOST_WAITING, STALL_SECONDS, Busy, LabelBatcher
from ibi.minting.waiting_room import AHEAD
from support.clock import run_with_false_clock
from support.machine import START
from support.minting.scripted import ScriptedWaitingRoom, batch_of, happened

GENERATOR = LabelGenerator("mint.example.org")
NO_LABEL = "no label came in time; ask again later"
STOPPING = "this service is stopping; ask again later"
TOO_MANY = "more labels are requested than can be given in {} seconds; ask again later"


def batcher_of(granularity: int | None = 1, **more: int) -> tuple[LabelBatcher, ScriptedWaitingRoom]:
    waiting_room = ScriptedWaitingRoom()
    return LabelBatcher(waiting_room, GENERATOR, granularity, **more), waiting_room


Outcome = tuple[object, float]
"""The dates, or an error as its sentence and, where the service is busy, the seconds; when, in seconds of the loop."""


async def outcome(batcher: LabelBatcher, count: int = 1) -> Outcome:
    loop = asyncio.get_running_loop()
    what: object
    try:
        what = [date for batch in await batcher.draw(count) for date in batch]
    except Busy as busy:
        what = str(busy), busy.seconds
    except IbiError as error:
        what = str(error)
    return what, round(loop.time() - 1_000, 6)


async def give(batcher: LabelBatcher, waiting_room: ScriptedWaitingRoom, batch: Batch) -> None:
    """Give a batch that no request leaves a date of, and wait until it is shared."""
    left = batcher.waiting - len(batch)
    waiting_room.script.put(batch)
    await happened(lambda: batcher.waiting == left)


async def give_all(batcher: LabelBatcher, waiting_room: ScriptedWaitingRoom, what: Batch | Exception) -> None:
    """Give what no request waits after, and wait for that; meanwhile the false clock stands still."""
    waiting_room.script.put(what)
    await happened(lambda: not batcher.waiting)


def refused(at: float) -> Outcome:
    return (NO_LABEL, STALL_SECONDS), at


OFTEN = tuple(second + 0.5 for second in range(20))


# --- who waits ------------------------------------------------------------------------------------------------------


def test_each_request_is_refused_when_its_own_time_ends() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        asking = []
        for count in (1, 2, 3):
            asking.append(asyncio.ensure_future(outcome(batcher, count)))
            await asyncio.sleep(0.25)
        assert batcher.waiting == 6
        return await asyncio.gather(*asking)

    assert run_with_false_clock(play()) == [refused(2), refused(2.25), refused(2.5)]
    assert (batcher.waiting, waiting_room.requested) == (0, [(1, 1)])


@pytest.mark.parametrize(
    ("given", "more", "over"),
    [
        ((), {}, 2),
        ((), {"stall": 5}, 5),
        ((1.5,), {}, 3.5),
        ((1.5,), {"stall": 4}, 5.5),
        (OFTEN, {}, LONGEST_WAIT + STALL_SECONDS),
        (OFTEN, {"longest_wait": 4}, 4 + STALL_SECONDS),
    ],
)
def test_while_labels_come_a_request_waits_on_but_not_for_ever(
    given: tuple[float, ...], more: dict[str, int], over: float
) -> None:
    batcher, waiting_room = batcher_of(**more)

    async def play() -> Outcome:
        loop = asyncio.get_running_loop()
        asking = asyncio.ensure_future(outcome(batcher, 100))
        for number, moment in enumerate(given):
            await asyncio.sleep(1_000 + moment - loop.time())
            if asking.done():
                break
            await give(batcher, waiting_room, batch_of(1, START - 1000 + number))
        return await asking

    assert run_with_false_clock(play()) == refused(over)
    assert batcher.waiting == 0


@pytest.mark.parametrize(
    ("granularity", "more", "over"),
    [
        (MINUTE, {}, 120),
        (MINUTE, {"sharers": 3}, 360),
        (MINUTE, {"stall": 121}, 121),
        (TICKS, {"sharers": 3}, 6),
        (TICKS // 10, {"sharers": 11}, 3),  # 2.2 seconds
    ],
)
def test_a_request_waits_for_as_long_as_two_labels_take(
    granularity: int, more: dict[str, int], over: float
) -> None:
    batcher, _ = batcher_of(granularity, longest_wait=1_000, **more)
    assert run_with_false_clock(outcome(batcher)) == refused(over)


def test_labels_that_came_before_a_request_do_not_shorten_its_time() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        first = asyncio.ensure_future(outcome(batcher, 2))
        await asyncio.sleep(1)
        await give(batcher, waiting_room, batch_of(1))
        await asyncio.sleep(0.5)
        return [*await asyncio.gather(first, outcome(batcher))]

    assert run_with_false_clock(play()) == [refused(3), refused(3.5)]


def test_one_reservation_serves_all_who_wait_at_the_finest_granularity_that_one_of_them_needs() -> None:
    batcher, waiting_room = batcher_of(None)

    async def play() -> list[Outcome]:
        asking = [asyncio.ensure_future(outcome(batcher, count)) for count in (1, 20, 3)]
        await happened(lambda: waiting_room.requested)
        await give(batcher, waiting_room, batch_of(22))
        await happened(lambda: len(waiting_room.requested) > 1)
        # One date too many: it is burned.
        await give_all(batcher, waiting_room, batch_of(3, START - 900))
        return await asyncio.gather(*asking)

    first = START - 1000
    assert run_with_false_clock(play()) == [
        ([first], 0),
        ([*range(first + 1, first + 21)], 0),
        ([first + 21, START - 900, START - 899], 0),
    ]
    assert waiting_room.requested == [(TICKS // 100, 24), (TICKS // 100, 2)]
    assert batcher.waiting == 0


def test_who_goes_away_while_dates_are_reserved_leaves_them_to_the_others() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        leaving, staying = (asyncio.ensure_future(outcome(batcher, count)) for count in (3, 2))
        await happened(lambda: waiting_room.requested)
        leaving.cancel()
        await asyncio.wait([leaving])
        assert batcher.waiting == 2
        await give_all(batcher, waiting_room, batch_of(5))
        return [await staying]

    assert run_with_false_clock(play()) == [([START - 1000, START - 999], 0)]
    assert batcher.waiting == 0


@pytest.mark.parametrize(
    ("granularity", "sharers", "waits", "more", "seconds"),
    [
        (TICKS, 1, 0, 11, 1),
        (TICKS, 1, 3, 8, 3),
        (TICKS, 2, 3, 3, 6),
        (TICKS // 10, 1, 25, 76, 3),
        (TICKS // 10, 1, 31, 70, 4),
        (TICKS // 100, 1, 50, 951, 1),
        (None, 1, 30, MOST_WAITING - 29, 1),
        (1, 1, 0, MOST_WAITING + 1, 1),
        (1, 1, 1, MOST_WAITING, 1),
    ],
)
def test_who_would_have_to_wait_too_long_is_told_when_those_before_will_be_served(
    granularity: int | None, sharers: int, waits: int, more: int, seconds: int
) -> None:
    batcher, _ = batcher_of(granularity, sharers=sharers)

    async def play() -> Outcome:
        asking = [asyncio.ensure_future(outcome(batcher, waits))] if waits else []
        await asyncio.sleep(0)
        assert batcher.waiting == waits
        least = await outcome(batcher, more)
        one_less = asyncio.ensure_future(outcome(batcher, more - 1))
        await asyncio.sleep(0)
        assert batcher.waiting == waits + more - 1
        for one in (*asking, one_less):
            one.cancel()
        return least

    assert run_with_false_clock(play()) == ((TOO_MANY.format(10), seconds), 0)


@pytest.mark.parametrize(
    ("granularity", "sharers", "count", "seconds"),
    [
        (TICKS, 1, 3, 3.0),
        (TICKS, 4, 3, 12.0),
        (TICKS // 10, 1, 5, 0.5),
        (None, 1, 10, 1.0),
        (None, 2, 10, 0.2),
    ],
)
def test_the_wait_for_labels_is_that_of_all_who_share(
    granularity: int | None, sharers: int, count: int, seconds: float
) -> None:
    batcher, _ = batcher_of(granularity, sharers=sharers)
    assert batcher.delay(count) == seconds


# --- when labels leave ----------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-40")
def test_each_request_is_answered_when_the_clock_has_reached_its_last_date() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        waiting_room.time = asyncio.get_running_loop().time
        asking = [asyncio.ensure_future(outcome(batcher)) for _ in range(4)]
        await happened(lambda: waiting_room.requested)
        dates = range(START + TICKS // 2, START + 2 * TICKS, TICKS // 2)
        await give_all(batcher, waiting_room, Batch((START,), dates))
        return await asyncio.gather(*asking)

    dates = [START + half * TICKS // 2 for half in range(4)]
    assert run_with_false_clock(play()) == [([date], number / 2) for number, date in enumerate(dates)]


@pytest.mark.proves("GEN-40")
def test_while_a_label_is_not_due_the_clock_is_read_each_second() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> Outcome:
        asking = asyncio.ensure_future(outcome(batcher))
        await happened(lambda: waiting_room.requested)
        await give(batcher, waiting_room, batch_of(1, START + 2 * TICKS))
        await asyncio.sleep(0.5)
        waiting_room.clock.at += 2 * TICKS
        return await asking

    assert run_with_false_clock(play()) == ([START + 2 * TICKS], 1)


@pytest.mark.proves("GEN-40")
def test_no_label_leaves_one_tick_before_its_moment() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> object:
        asking = asyncio.ensure_future(outcome(batcher))
        await happened(lambda: waiting_room.requested)
        await give(batcher, waiting_room, batch_of(1, START + 1))
        for _ in range(20):
            await asyncio.sleep(0)
        assert not asking.done()
        waiting_room.clock.at += 1
        return (await asking)[0]

    assert run_with_false_clock(play()) == [START + 1]


@pytest.mark.proves("GEN-40", "GEN-44")
@pytest.mark.parametrize("too_far", [0, 1])
def test_a_date_further_ahead_than_a_right_clock_allows_is_refused_to_all_who_wait(too_far: int) -> None:
    batcher, waiting_room = batcher_of()
    last = START + waiting_room.furthest + too_far

    async def play() -> list[Outcome]:
        waiting_room.time = asyncio.get_running_loop().time
        asking = [asyncio.ensure_future(outcome(batcher)) for _ in range(2)]
        await happened(lambda: waiting_room.requested)
        await give_all(batcher, waiting_room, batch_of(2, last))
        return await asyncio.gather(*asking)

    seconds = (waiting_room.furthest - AHEAD) // TICKS
    behind = f"the clock is {seconds} seconds behind the moment of the last label; no label is given until it is right"
    given, later = run_with_false_clock(play())
    if too_far:
        assert (given, later) == ((behind, 0), (behind, 0))
    else:
        assert (given[0], later[0]) == ([last], [last + 1])


@pytest.mark.parametrize("is_wrong", [False, True])
def test_who_goes_away_before_the_moment_has_come_hinders_no_other(is_wrong: bool) -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> Outcome:
        leaving, staying = (asyncio.ensure_future(outcome(batcher)) for _ in range(2))
        await happened(lambda: waiting_room.requested)
        await give(batcher, waiting_room, batch_of(2, START + TICKS // 2))
        leaving.cancel()
        await asyncio.wait([leaving])
        waiting_room.clock.at += -60 * TICKS if is_wrong else TICKS
        return await staying

    what, moment = run_with_false_clock(play())
    if is_wrong:
        assert str(what).startswith("the clock is 60 seconds behind")
    else:
        assert what == [START + TICKS // 2 + 1]
    assert moment == 0.5


# --- faults, and the end --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [SetupError("the disk is full"), ClockError("the clock is wrong")])
def test_what_goes_wrong_is_told_to_all_who_wait_and_later_requests_are_served(fault: IbiError) -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        asking = [asyncio.ensure_future(outcome(batcher, count)) for count in (1, 2)]
        await happened(lambda: waiting_room.requested)
        await give_all(batcher, waiting_room, fault)
        failed = await asyncio.gather(*asking)
        assert batcher.waiting == 0
        again = asyncio.ensure_future(outcome(batcher))
        await happened(lambda: batcher.waiting)
        await give_all(batcher, waiting_room, batch_of(1))
        return [*failed, await again]

    assert run_with_false_clock(play()) == [(str(fault), 0), (str(fault), 0), ([START - 1000], 0)]


def test_at_the_end_what_is_being_reserved_is_still_given_and_the_rest_is_refused() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> list[Outcome]:
        asking = [asyncio.ensure_future(outcome(batcher, count)) for count in (1, 2)]
        await happened(lambda: waiting_room.requested)
        batcher.stop()
        asking.append(asyncio.ensure_future(outcome(batcher)))
        await give_all(batcher, waiting_room, batch_of(2))
        return await asyncio.gather(*asking)

    stopped = (STOPPING, STALL_SECONDS), 0
    assert run_with_false_clock(play()) == [([START - 1000], 0), stopped, stopped]
    assert (batcher.waiting, waiting_room.requested) == (0, [(1, 3)])


def test_labels_are_reserved_by_one_thread_that_has_a_name_and_does_not_keep_the_process() -> None:
    batcher, waiting_room = batcher_of()

    async def play() -> None:
        for _ in range(3):
            waiting_room.script.put(batch_of(1))
            await batcher.draw(1)

    asyncio.run(play())
    asyncio.run(play())
    assert [(one.name, one.daemon) for one in waiting_room.threads] == [("reserving labels", True)]


def test_a_reservation_that_ends_after_its_event_loop_does_not_stop_the_next_one() -> None:
    batcher, waiting_room = batcher_of()

    async def leave() -> None:
        asking = asyncio.ensure_future(batcher.draw(1))
        await happened(lambda: waiting_room.requested)
        asking.cancel()

    async def draw() -> Any:
        waiting_room.script.put(batch_of(1))
        async with asyncio.timeout(20):
            return await outcome(batcher)

    asyncio.run(leave())
    assert batcher.waiting == 0
    waiting_room.script.put(batch_of(1, START - 500))
    dates, _ = asyncio.run(draw())
    assert dates == [START - 1000]
