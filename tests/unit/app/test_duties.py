"""What a running Archive does by itself: one thing after the other, and whatever goes wrong stops nothing else."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ibi.errors import SetupError
from ibi.runtime import tasks as module
from ibi.runtime.tasks import PeriodicTask, PeriodicTasks, keep_running


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.01)


async def _run(duties: Callable[[], Sequence[PeriodicTask]], until: Callable[[], object]) -> None:
    running = asyncio.create_task(PeriodicTasks(duties).run())
    async with asyncio.timeout(10):
        while not until():  # noqa: ASYNC110 - what is waited for has no event of its own
            await asyncio.sleep(0.005)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _noting(done: list[str], name: str, seconds: float = 0.0) -> Callable[[], Awaitable[None]]:
    async def do() -> None:
        done.append(f"{name} begins")
        await asyncio.sleep(seconds)
        done.append(f"{name} ends")

    return do


def test_duties_come_one_after_the_other_each_in_its_time() -> None:
    done: list[str] = []
    often, seldom = (
        PeriodicTask("often", 0.01, _noting(done, "often", 0.01)),
        PeriodicTask("seldom", 0.2, _noting(done, "seldom", 0.01)),
    )
    asyncio.run(_run(lambda: [often, seldom], lambda: done.count("seldom ends") >= 2))
    assert done[:4] == ["often begins", "often ends", "seldom begins", "seldom ends"]
    assert done.count("often ends") > done.count("seldom ends")
    for begin, end in zip(done[::2], done[1::2], strict=False):
        assert (begin.split()[0], begin.split()[1], end.split()[1]) == (end.split()[0], "begins", "ends")


def test_a_duty_that_fails_is_said_once_and_again_when_it_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    tries, others = [0], list[str]()

    async def fail() -> None:
        tries[0] += 1
        if tries[0] <= 3:
            raise SetupError("the disk {name} is full", name="d")
        if tries[0] <= 5:
            raise ValueError(tries[0] > 0)

    duties = [PeriodicTask("failing", 0, fail), PeriodicTask("other", 0, _noting(others, "other"))]
    asyncio.run(_run(lambda: duties, lambda: tries[0] > 8))
    assert [record.getMessage() for record in caplog.records] == [
        "failing: the disk d is full",
        "failing: ValueError: True",
        "failing: well again",
    ]
    assert len(others) > 8


def test_a_duty_that_hangs_is_ended_at_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    others: list[str] = []

    async def hang() -> None:
        await asyncio.Event().wait()

    duties = [
        PeriodicTask("hanging", 0, hang, longest=0.05),
        PeriodicTask("other", 0, _noting(others, "other")),
    ]
    asyncio.run(_run(lambda: duties, lambda: len(others) > 4))
    assert caplog.messages == ["hanging: it took longer than 0.05 s"]


def test_the_list_may_change_and_what_goes_gives_up_what_it_holds() -> None:
    done: list[str] = []
    first = PeriodicTask("first", 0.01, _noting(done, "first"), close=lambda: done.append("first closed"))
    second = PeriodicTask("second", 0.01, _noting(done, "second"), close=lambda: done.append("second closed"))
    lists = [[first], [second]]

    def now() -> list[PeriodicTask]:
        return lists[0 if done.count("first ends") < 2 else 1]

    asyncio.run(_run(now, lambda: "second ends" in done))
    assert done.index("first closed") < done.index("second begins")
    assert done[-1] == "second closed"
    assert done.count("first closed") == done.count("second closed") == 1


def test_an_archive_without_duties_does_nothing() -> None:
    calls: list[None] = []

    def none() -> list[PeriodicTask]:
        calls.append(None)
        return []

    asyncio.run(_run(none, lambda: len(calls) > 3))


def test_work_that_fails_starts_again_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    begun = 0

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise RuntimeError("a fault")

    asyncio.run(asyncio.wait_for(keep_running("mirroring", work, pause=0.01), 10))
    assert begun == 3
    assert [record.getMessage() for record in caplog.records] == [
        "mirroring: failed, and starts again in 0.01 s"
    ] * 2
    assert "a fault" in caplog.text
