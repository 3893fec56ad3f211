"""Periodic tasks of a running Archive, work that is restarted after faults, and waiting for threads.

Only the first of several processes has periodic tasks. Those of one `PeriodicTasks` run one after the other; an Archive
has several of these, which do not wait for each other. Of several nodes, one does the tasks of DoneBy.ONE_NODE
(`runtime.duty_lock`), and each those of DoneBy.EACH_NODE (`app.archive_background`). Taking part at resolvers is no
such task, because it must not wait for a disk (`archive.membership`).
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import copy_context
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar, TypeVarTuple

from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from concurrent.futures import Executor


LONGEST: Final = 600.0
"""Seconds after which a task without a limit of its own is cancelled.

It loses what it has not recorded yet, and begins with that when it is due again. So a part of the work that can
take longer needs a limit of its own, at which the task records that it failed, and goes on with the next part.
"""

RESTART_SECONDS: Final = 10.0
"""Seconds after a fault before endless work is started again."""

LOOK_EVERY = 0.5
"""Seconds between two looks at what is due."""

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

_log = logging.getLogger(__name__)


class DoneBy(Enum):
    """Which of several nodes do a task."""

    ONE_NODE = "one node"
    EACH_NODE = "each node"
    """For what a node keeps for itself, such as an index."""


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """Work that is done again and again, `every` so many seconds, counted from its end.

    `do` does a portion of the work and returns. It may be cancelled at every await. A thread cannot be
    cancelled, so a thread that `do` waits for may have work for a second at most. `longest` is in seconds.
    `close` releases what the task holds between two portions.
    """

    name: str
    every: float
    do: Callable[[], Awaitable[None]]
    longest: float = LONGEST
    close: Callable[[], None] | None = None
    done_by: DoneBy = DoneBy.ONE_NODE


def _ignore(_name: str, _done: bool) -> None:  # noqa: FBT001 - a callback has no keywords
    """Do nothing."""


class PeriodicTasks:
    """Runs tasks of an Archive, as `tasks` lists them at the time. Two of them never run at once.

    `ended` is called with the name of a task each time it has ended, and with whether it was done. `only`: which
    tasks it does; None: all of them.
    """

    def __init__(
        self,
        tasks: Callable[[], Sequence[PeriodicTask]],
        ended: Callable[[str, bool], None] = _ignore,
        *,
        only: DoneBy | None = None,
    ) -> None:
        self._tasks = tasks
        self._ended = ended
        self._only = only
        self._listed: Sequence[PeriodicTask] = ()
        self._complaints: dict[str, str] = {}

    async def run(self) -> None:
        """Do each task when it is due, until cancelled; new ones are due at once, in their order."""
        clock = asyncio.get_running_loop().time
        due: dict[str, float] = {}
        try:
            while True:
                self._list(self._tasks())
                mine = [task for task in self._listed if self._only in {None, task.done_by}]
                due = {task.name: due.get(task.name, clock()) for task in mine}
                task = min(mine, key=lambda each: due[each.name], default=None)
                if task is None or due[task.name] > clock():
                    await asyncio.sleep(LOOK_EVERY)
                    continue
                await self._do(task)
                due[task.name] = clock() + task.every
        finally:
            self._list(())

    def _list(self, tasks: Sequence[PeriodicTask]) -> None:
        """Close the tasks of before and use these from now on, unless they are the same sequence."""
        if tasks is self._listed:
            return
        for task in self._listed:
            if task.close is not None:
                task.close()
        self._listed = tasks

    async def _do(self, task: PeriodicTask) -> None:
        """Do a task once; log a problem if it differs from the last time, and its end."""
        try:
            async with asyncio.timeout(task.longest):
                await task.do()
        except TimeoutError:
            self._complain(task, f"it took longer than {task.longest:g} s")
        except (IbiError, OSError) as error:
            self._complain(task, str(error))
        except Exception as error:  # noqa: BLE001 - a fault of ours in one task must not end the others
            self._complain(task, f"{type(error).__name__}: {error}", error)
        else:
            self._ended(task.name, True)  # noqa: FBT003 - a callback has no keywords
            if self._complaints.pop(task.name, None) is not None:
                _log.info("%s: well again", task.name)

    def _complain(self, task: PeriodicTask, problem: str, fault: Exception | None = None) -> None:
        self._ended(task.name, False)  # noqa: FBT003 - a callback has no keywords
        if self._complaints.get(task.name) != problem:
            self._complaints[task.name] = problem
            _log.warning("%s: %s", task.name, problem, exc_info=fault)


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], pause: float = RESTART_SECONDS
) -> None:
    """Do work until it ends or is cancelled; log a fault, and start the work again `pause` seconds later."""
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - a fault of ours in one piece of work must not end it, nor any other
            _log.exception("%s: failed, and starts again in %g s", name, pause)
            await asyncio.sleep(pause)
        else:
            return


async def cancel_tasks(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, and wait until each has ended."""
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


async def run_to_completion(
    function: Callable[[*_Ts], _T], *args: *_Ts, threads: Executor | None = None
) -> _T:
    """Run a function in one of these threads (None: the loop's); a caller that is cancelled waits for it."""
    # A thread cannot be cancelled: it would go on while its caller clears away its lock or its staged files.
    # A process that must not wait so long ends as a whole, as after a kill (`http.server`).
    running = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, function, *args)
    stopped: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is None:
        return running.result()
    if not running.cancelled():
        # Retrieved, because asyncio would log it otherwise.
        running.exception()
    raise stopped
