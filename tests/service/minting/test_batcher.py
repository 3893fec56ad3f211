"""The batcher: many requests are served with one write, none twice, and none waits for what will not come."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ibi.errors import ClockError, IbiError, LostState, SetupError
from ibi.identifier.dates import TICKS
from ibi.identifier.generator import LabelGenerator
from ibi.minting import WaitingRoom
from ibi.minting.batcher import LONGEST_WAIT, MOST_WAITING, STALL_SECONDS, Busy, LabelBatcher
from ibi.minting.clock import ClockLimits
from ibi.minting.machine import this_machine
from support.clock import run_with_false_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.identifier.distributor import Batch

GENERATOR = LabelGenerator("mint.example.org", ip="150.163.34.243")
MICRO, MILLI = TICKS // 10**6, TICKS // 10**3


class Clock:
    """The clock of this machine, set wrong by so many seconds."""

    def __init__(self) -> None:
        self.wrong = 0.0
        self.machine = replace(this_machine(), now=self.now)

    def now(self) -> int:
        return time.time_ns() + int(self.wrong * TICKS)


class WatchedWaitingRoom(WaitingRoom):
    """A waiting room that knows what it has given; `then` is done before the batcher gets it."""

    def __init__(self, *what: Any) -> None:
        super().__init__(*what)
        self.given: list[list[int]] = []
        self.then: Callable[[], None] | None = None

    def reserve(self, granularity: int, count: int) -> Batch:
        batch = super().reserve(granularity, count)
        self.given.append(list(batch))
        if self.then is not None:
            self.then()
        return batch


def opened(data: Path, clock: Clock | None = None) -> WatchedWaitingRoom:
    with WatchedWaitingRoom(data, (clock or Clock()).machine) as waiting_room:
        return waiting_room


def batcher_of(
    data: Path, granularity: int | None = MICRO, clock: Clock | None = None, **more: Any
) -> LabelBatcher:
    return LabelBatcher(opened(data, clock), GENERATOR, granularity, **more)


def dates(batches: list[Batch]) -> list[int]:
    return [date for batch in batches for date in batch]


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Another one holds the lock."""
    with (data / "minting" / "lock").open("r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


async def outcome(batcher: LabelBatcher, count: int = 1) -> list[int] | Exception:
    """The dates, or why there are none."""
    try:
        return dates(await batcher.draw(count))
    except (Busy, IbiError) as error:
        return error


@pytest.mark.proves("GEN-41", "GEN-44")
def test_many_who_ask_at_once_share_one_write(tmp_path: Path) -> None:
    waiting_room = opened(tmp_path)
    batcher = LabelBatcher(waiting_room, GENERATOR, MICRO)

    async def ask() -> list[list[Batch]]:
        return await asyncio.gather(*[batcher.draw(3) for _ in range(200)])

    given = [dates(batches) for batches in asyncio.run(ask())]
    assert len(waiting_room.given) == 1
    assert {len(each) for each in given} == {3}
    in_order = [date for each in given for date in each]
    assert all(earlier < later for earlier, later in pairwise(in_order))
    assert str(in_order[-1]).encode() in (tmp_path / "minting" / "state").read_bytes().split()
    assert batcher.waiting == 0


@pytest.mark.proves("GEN-40")
@pytest.mark.parametrize("granularity", [None, TICKS, TICKS // 10, MILLI, MICRO])
@pytest.mark.long
def test_no_date_leaves_before_the_clock_has_reached_it(tmp_path: Path, granularity: int | None) -> None:
    batcher = batcher_of(tmp_path, granularity)

    async def ask(count: int) -> int:
        last = dates(await batcher.draw(count))[-1]
        return time.time_ns() - last

    async def ask_all() -> list[int]:
        return list(await asyncio.gather(ask(1), ask(2), ask(1)))

    assert min(asyncio.run(ask_all())) >= 0


@pytest.mark.proves("GEN-43", "GEN-46")
def test_a_large_order_keeps_the_granularity_it_began_with(tmp_path: Path) -> None:
    """What is left of it is no smaller demand: else its last labels would take as long as all the others."""
    batcher = batcher_of(tmp_path, None)
    given = dates(asyncio.run(batcher.draw(1000)))
    assert len(given) == 1000
    steps = Counter(later - earlier for earlier, later in pairwise(given))
    assert steps[MILLI] >= 950  # the others: from one reservation to the next


@pytest.mark.proves("GEN-43")
def test_automatic_granularity_follows_what_waits_here_and_at_other_batchers(tmp_path: Path) -> None:
    async def drawn(batcher: LabelBatcher, count: int) -> int:
        await batcher.draw(1)
        given = dates(await batcher.draw(count))
        return given[-1] - given[-2]

    assert asyncio.run(drawn(batcher_of(tmp_path / "one", None), 20)) == TICKS // 100
    assert asyncio.run(drawn(batcher_of(tmp_path / "four", None, sharers=8), 20)) == TICKS // 1000


@pytest.mark.proves("GEN-44")
def test_several_batchers_of_one_directory_never_give_a_date_twice(tmp_path: Path) -> None:
    batchers = [batcher_of(tmp_path) for _ in range(3)]

    async def ask() -> list[list[Batch]]:
        return await asyncio.gather(*[batchers[n % 3].draw(1 + n % 7) for n in range(300)])

    given = [date for batches in asyncio.run(ask()) for date in dates(batches)]
    assert len(given) == sum(1 + n % 7 for n in range(300))
    assert len(set(given)) == len(given)


# --- backpressure ------------------------------------------------------------------------------------------------


def test_who_would_have_to_wait_too_long_is_refused_at_once(tmp_path: Path) -> None:
    waiting_room = opened(tmp_path)
    batcher = LabelBatcher(waiting_room, GENERATOR, TICKS)
    refused = asyncio.run(outcome(batcher, LONGEST_WAIT + 1))
    assert isinstance(refused, Busy)
    assert refused.seconds >= 1
    assert str(refused) == "more labels are requested than can be given in 10 seconds; ask again later"
    assert waiting_room.given == []

    async def requests() -> list[int] | Exception:
        with locked(tmp_path):
            asking = [asyncio.ensure_future(outcome(batcher, count)) for count in (LONGEST_WAIT - 1, 1)]
            await asyncio.sleep(0.01)
            assert batcher.waiting == LONGEST_WAIT
            one_more = await outcome(batcher)
            for one in asking:
                one.cancel()
            await asyncio.wait(asking)
        assert batcher.waiting == 0
        return one_more

    assert isinstance(asyncio.run(requests()), Busy)


def test_what_cannot_be_spelled_in_time_is_refused(tmp_path: Path) -> None:
    waiting_room = opened(tmp_path)
    assert isinstance(asyncio.run(outcome(LabelBatcher(waiting_room, GENERATOR, 1), MOST_WAITING + 1)), Busy)
    assert waiting_room.given == []


@pytest.mark.long
def test_while_another_holds_the_lock_all_requests_are_refused_for_a_while(tmp_path: Path) -> None:
    waiting_room = opened(tmp_path)
    batcher = LabelBatcher(waiting_room, GENERATOR, MICRO)

    async def ask() -> tuple[list[list[int] | Exception], list[int] | Exception]:
        with locked(tmp_path):
            first = [asyncio.ensure_future(outcome(batcher)) for _ in range(3)]
            await asyncio.sleep(STALL_SECONDS / 2)
            later = asyncio.ensure_future(outcome(batcher, 5))
            async with asyncio.timeout(20):
                refused = await asyncio.gather(*first)
            assert not later.done()  # it has its own time
        return refused, await later

    refused, later = asyncio.run(ask())
    assert all(isinstance(one, Busy) for one in refused)
    assert isinstance(later, list)
    assert len(set(later)) == 5
    assert batcher.waiting == 0


@pytest.mark.long
def test_who_shares_a_coarse_granularity_is_not_refused_before_the_turn_can_have_come(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path, TICKS, sharers=2)

    async def ask() -> list[int] | Exception:
        with locked(tmp_path):
            asking = asyncio.ensure_future(outcome(batcher))
            await asyncio.sleep(STALL_SECONDS + 0.5)
            assert not asking.done()
        return await asking

    assert isinstance(asyncio.run(ask()), list)


@pytest.mark.parametrize(
    ("granularity", "sharers", "seconds"),
    [
        (MICRO, 1, STALL_SECONDS),
        (TICKS, 2, 4),
        (TICKS // 10, 13, 3),  # 2.6
        (TICKS, 7, LONGEST_WAIT + STALL_SECONDS),  # less than 14
    ],
)
def test_who_gets_no_label_is_refused_after_the_time_of_two_turns(
    tmp_path: Path, granularity: int, sharers: int, seconds: int
) -> None:
    batcher = batcher_of(tmp_path, granularity, sharers=sharers)

    async def ask() -> tuple[list[int] | Exception, float]:
        now = asyncio.get_running_loop().time
        began = now()
        with locked(tmp_path):
            return await outcome(batcher), now() - began

    refused, waited = run_with_false_clock(ask())
    assert isinstance(refused, Busy)
    assert str(refused) == "no label came in time; ask again later"
    assert refused.seconds == STALL_SECONDS
    assert waited == pytest.approx(seconds, abs=0.01)


@pytest.mark.parametrize(
    ("granularity", "sharers", "most"), [(TICKS, 1, 10), (TICKS, 4, 2), (TICKS, 11, 0), (MILLI, 3, 3333)]
)
def test_the_largest_order_is_served_and_a_larger_one_never_is(
    tmp_path: Path, granularity: int, sharers: int, most: int
) -> None:
    batcher = batcher_of(tmp_path, granularity, sharers=sharers)
    assert batcher.most_labels == most
    assert batcher.delay(most) <= LONGEST_WAIT < batcher.delay(most + 1)


@pytest.mark.parametrize("sharers", [1, 2])
def test_where_the_demand_chooses_the_granularity_the_finest_one_counts(tmp_path: Path, sharers: int) -> None:
    assert batcher_of(tmp_path, None, sharers=sharers).most_labels == LONGEST_WAIT * TICKS // sharers


# --- faults ------------------------------------------------------------------------------------------------------


@pytest.mark.proves("GEN-44", "AMB-18")
@pytest.mark.parametrize("wrong", [-3600.0, 2 * 86400.0, -(10.0**9)])
def test_a_faulty_clock_gives_an_error_to_all_and_labels_again_when_it_is_right(
    tmp_path: Path, wrong: float
) -> None:
    clock = Clock()
    batcher = batcher_of(tmp_path, MICRO, clock)

    async def ask() -> tuple[list[int], ...]:
        before = dates(await batcher.draw(10))
        clock.wrong = wrong
        refused = await asyncio.gather(*[outcome(batcher) for _ in range(10)])
        assert all(isinstance(one, ClockError) for one in refused)
        clock.wrong = 0.0
        return before, dates(await batcher.draw(10))

    before, after = asyncio.run(ask())
    assert before[-1] < after[0]


@pytest.mark.proves("GEN-40", "GEN-44")
@pytest.mark.long
def test_a_clock_that_goes_back_before_the_moment_has_come_burns_what_was_reserved(tmp_path: Path) -> None:
    clock = Clock()
    waiting_room = opened(tmp_path, clock)
    batcher = LabelBatcher(waiting_room, GENERATOR, TICKS)

    async def ask() -> tuple[list[int] | Exception, list[int]]:
        await batcher.draw(1)
        waiting_room.then = lambda: setattr(clock, "wrong", -60.0)
        refused = await outcome(batcher)
        clock.wrong, waiting_room.then = 0.0, None
        return refused, dates(await batcher.draw(2))

    refused, following = asyncio.run(ask())
    assert isinstance(refused, ClockError)
    burned, *given = waiting_room.given[1:]
    assert burned[-1] < following[0]
    assert [date for batch in given for date in batch] == following


@pytest.mark.proves("GEN-40")
def test_a_clock_that_goes_back_no_further_than_it_may_burns_nothing(tmp_path: Path) -> None:
    clock = Clock()
    with WatchedWaitingRoom(tmp_path, clock.machine, ClockLimits(back=60 * TICKS)) as waiting_room:
        batcher = LabelBatcher(waiting_room, GENERATOR, TICKS // 10)

    async def ask() -> list[int]:
        await batcher.draw(1)
        waiting_room.then = lambda: setattr(clock, "wrong", -30.0)
        asking = asyncio.ensure_future(batcher.draw(1))
        while clock.wrong == 0.0:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        clock.wrong = 0.0
        return dates(await asking)

    assert asyncio.run(ask()) == waiting_room.given[-1]


@pytest.mark.proves("AMB-18")
def test_a_lost_state_is_said_to_all_who_wait(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path)

    async def ask() -> list[list[int] | Exception]:
        await batcher.draw(1)
        (tmp_path / "minting" / "state").unlink()
        return await asyncio.gather(*[outcome(batcher) for _ in range(3)], outcome(batcher, 100))

    assert all(isinstance(one, LostState) for one in asyncio.run(ask()))
    assert batcher.waiting == 0


def test_a_disk_that_fails_is_said_and_the_next_who_ask_are_served(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path)

    async def ask() -> tuple[list[int] | Exception, ...]:
        (tmp_path / "minting").rename(tmp_path / "elsewhere")
        first = await outcome(batcher)
        (tmp_path / "elsewhere").rename(tmp_path / "minting")
        return first, await outcome(batcher)

    failed, served = asyncio.run(ask())
    assert isinstance(failed, SetupError)
    assert isinstance(served, list)


# --- going away, and the end -------------------------------------------------------------------------------------


def test_who_goes_away_leaves_the_line_and_burns_what_was_theirs(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path, TICKS)

    async def ask() -> list[int]:
        with locked(tmp_path):
            leaving = [asyncio.ensure_future(batcher.draw(3)) for _ in range(3)]
            await asyncio.sleep(0.01)
            assert batcher.waiting == 9
            for one in leaving:
                one.cancel()
            await asyncio.wait(leaving)
            assert batcher.waiting == 0
        return dates(await batcher.draw(2))

    given = asyncio.run(ask())
    assert len(set(given)) == 2


def test_after_the_end_nothing_is_reserved(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path)
    batcher.stop()
    refused = asyncio.run(outcome(batcher))
    assert isinstance(refused, Busy)
    assert str(refused) == "this service is stopping; ask again later"
    assert (refused.seconds, batcher.waiting) == (2, 0)
    assert (tmp_path / "minting" / "state").read_text().split()[4] == "0"


@pytest.mark.long
def test_at_the_end_what_is_reserved_is_handed_out_and_the_rest_is_refused(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path, TICKS)

    async def ask() -> list[list[int] | Exception]:
        await batcher.draw(1)
        asking = [asyncio.ensure_future(outcome(batcher, count)) for count in (1, 2)]
        while batcher.waiting != 2:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)
        batcher.stop()
        asking.append(asyncio.ensure_future(outcome(batcher)))
        return await asyncio.gather(*asking)

    reserved, waiting, late = asyncio.run(ask())
    assert isinstance(reserved, list)
    assert isinstance(waiting, Busy)
    assert isinstance(late, Busy)


def test_the_program_can_end_while_another_holds_the_lock(tmp_path: Path) -> None:
    batcher = batcher_of(tmp_path)

    async def ask() -> None:
        with locked(tmp_path), pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await batcher.draw(1)

    asyncio.run(ask())
    assert dates(asyncio.run(batcher_of(tmp_path).draw(1)))


_LEAVING = """
import asyncio, sys
from ibi.identifier.generator import LabelGenerator
from ibi.minting import WaitingRoom
from ibi.minting.batcher import LabelBatcher
from ibi.minting.machine import this_machine

async def main():
    batcher = LabelBatcher(WaitingRoom(sys.argv[1], this_machine()), LabelGenerator("mint.example.org"))
    try:
        await asyncio.wait_for(batcher.draw(1), 0.1)
    except TimeoutError:
        print("left")

asyncio.run(main())
"""


def test_a_process_ends_although_its_thread_still_waits_for_the_lock(tmp_path: Path) -> None:
    opened(tmp_path)
    with locked(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", _LEAVING, tmp_path],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "left\n", "")
