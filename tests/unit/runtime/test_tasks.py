"""When tasks of an Archive are done, how long each may take, and what is logged of a fault; by a false clock."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ibi.runtime.tasks import (
    LOOK_EVERY,
    DoneBy,
    PeriodicTask,
    PeriodicTasks,
    cancel_tasks,
    keep_running,
    run_to_completion,
)
from support.clock import run_with_false_clock


def times_of(
    seconds: float, *tasks: tuple[str, float, Callable[[], Awaitable[None]]]
) -> list[tuple[str, float]]:
    """When each task was begun within so many seconds: its name, and the seconds since the beginning."""

    async def run() -> list[tuple[str, float]]:
        clock = asyncio.get_running_loop().time
        start, begun = clock(), list[tuple[str, float]]()

        def noting(name: str, do: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
            async def noted() -> None:
                begun.append((name, round(clock() - start, 3)))
                await do()

            return noted

        listed = [PeriodicTask(name, every, noting(name, do)) for name, every, do in tasks]
        running = asyncio.create_task(PeriodicTasks(lambda: listed).run())
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return begun

    return run_with_false_clock(run())


async def _nothing() -> None: ...


async def _for_ever() -> None:
    await asyncio.Event().wait()


async def _for_three_seconds() -> None:
    await asyncio.sleep(3)


def test_a_task_is_done_at_once_and_then_at_the_first_look_when_it_is_due() -> None:
    assert LOOK_EVERY == 0.5
    assert times_of(3.2, ("a", 1.2, _nothing)) == [("a", 0), ("a", 1.5), ("a", 3)]
    assert times_of(2.2, ("a", 0.5, _nothing)) == [("a", 0), ("a", 0.5), ("a", 1), ("a", 1.5), ("a", 2)]


def test_the_time_between_is_counted_from_the_end_of_a_task() -> None:
    assert times_of(9, ("a", 1, _for_three_seconds), ("b", 2, _nothing)) == [
        ("a", 0), ("b", 3), ("a", 4), ("b", 7), ("a", 8),
    ]  # fmt: skip


def test_a_task_without_a_limit_of_its_own_is_ended_after_ten_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert times_of(1300, ("a", 1, _for_ever)) == [("a", 0), ("a", 601), ("a", 1202)]
    assert caplog.messages == ["a: it took longer than 600 s"]


def test_tasks_that_come_later_are_done_and_what_goes_is_closed() -> None:
    begun, closed = list[str](), list[str]()

    def task(name: str) -> PeriodicTask:
        async def do() -> None:
            begun.append(name)

        return PeriodicTask(name, 60.0, do, close=lambda: closed.append(name))

    async def run() -> list[tuple[list[str], list[str]]]:
        lists: list[list[PeriodicTask]] = [[]]
        seen = list[tuple[list[str], list[str]]]()
        running = asyncio.create_task(PeriodicTasks(lambda: lists[-1]).run())
        for each in ([], [task("a")], [task("a"), task("b")]):
            lists.append(each)
            await asyncio.sleep(2 * LOOK_EVERY)
            seen.append((begun.copy(), closed.copy()))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        seen.append((begun.copy(), closed.copy()))
        return seen

    # What has the name of one before is no new task, and is due when that was.
    assert run_with_false_clock(run()) == [
        ([], []),
        (["a"], []),
        (["a", "b"], ["a"]),
        (["a", "b"], ["a", "a", "b"]),
    ]


async def _full_disk() -> None:
    raise OSError(28, "No space left on device", "/data/x")


async def _fault_of_ours() -> None:
    raise ValueError("x")


@pytest.mark.parametrize(
    ("do", "written", "traced"),
    [
        (_full_disk, "a: [Errno 28] No space left on device: '/data/x'", None),
        (_fault_of_ours, "a: ValueError: x", ValueError),
    ],
)
def test_only_a_fault_of_ours_is_logged_with_the_place_where_it_arose(
    caplog: pytest.LogCaptureFixture,
    do: Callable[[], Awaitable[None]],
    written: str,
    traced: type[Exception] | None,
) -> None:
    times_of(3, ("a", 1, do))
    assert caplog.messages == [written]
    assert [record.exc_info[0] if record.exc_info else None for record in caplog.records] == [traced]


def test_the_end_of_a_fault_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    done = 0

    async def do() -> None:
        nonlocal done
        done += 1
        if done in {2, 3, 6}:
            raise OSError(28, "No space left on device")

    with caplog.at_level(logging.INFO, "ibi.runtime.tasks"):
        times_of(9, ("a", 1, do))
    full = "a: [Errno 28] No space left on device"
    assert caplog.messages == [full, "a: well again", full, "a: well again"]
    assert done == 9


def test_work_that_fails_is_started_again_ten_seconds_later(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[float]:
        clock, begun = asyncio.get_running_loop().time, list[float]()

        async def work() -> None:
            begun.append(clock())
            if len(begun) < 3:
                raise RuntimeError("a fault")

        await keep_running("mirroring", work)
        return [time - begun[0] for time in begun]

    assert run_with_false_clock(run()) == pytest.approx([0, 10, 20], abs=0.01)
    assert caplog.messages == ["mirroring: failed, and starts again in 10 s"] * 2
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_the_fault_of_a_thread_whose_caller_was_cancelled_is_not_reported() -> None:
    go, reported = threading.Event(), list[Any]()

    def fail() -> None:
        go.wait(60)
        raise ValueError

    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
        task = asyncio.create_task(run_to_completion(fail))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.wait([task])
        assert task.cancelled()
        del task
        gc.collect()

    asyncio.run(run())
    assert reported == []


def test_cancelled_tasks_have_ended_and_their_faults_are_dropped() -> None:
    async def run() -> list[str]:
        ended = list[str]()

        async def work(name: str) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)
                ended.append(name)
                if name == "b":
                    raise ValueError(name)

        tasks = [asyncio.create_task(work(name)) for name in "ab"]
        await asyncio.sleep(0)
        await cancel_tasks(tasks)
        assert all(task.done() for task in tasks)
        return ended

    assert run_with_false_clock(run()) == ["a", "b"]


def test_what_a_thread_returns_is_returned() -> None:
    assert asyncio.run(run_to_completion(lambda number: number + 1, 6)) == 7


def test_each_end_of_a_task_is_told_and_whether_it_was_done() -> None:
    async def run() -> list[tuple[str, bool]]:
        ended: list[tuple[str, bool]] = []
        listed = [
            PeriodicTask("good", 1.2, _nothing),
            PeriodicTask("full", 9.0, _full_disk),
            PeriodicTask("slow", 9.0, _for_ever, longest=1.0),
        ]
        tasks = PeriodicTasks(lambda: listed, lambda name, done: ended.append((name, done)))
        running = asyncio.create_task(tasks.run())
        await asyncio.sleep(2.2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return ended

    assert run_with_false_clock(run()) == [("good", True), ("full", False), ("slow", False), ("good", True)]


@pytest.mark.parametrize(
    ("part", "done"),
    [(None, ["audit", "index"]), (DoneBy.EACH_NODE, ["index"]), (DoneBy.ONE_NODE, ["audit"])],
)
def test_of_several_nodes_each_does_the_tasks_of_each_node_and_one_the_others(
    part: DoneBy | None, done: list[str]
) -> None:
    begun: list[str] = []

    def noting(name: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            begun.append(name)

        return note

    listed = [
        PeriodicTask("audit", 60.0, noting("audit")),
        PeriodicTask("index", 60.0, noting("index"), done_by=DoneBy.EACH_NODE),
    ]

    async def run() -> None:
        running = asyncio.create_task(PeriodicTasks(lambda: listed, only=part).run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    run_with_false_clock(run())
    assert begun == done
