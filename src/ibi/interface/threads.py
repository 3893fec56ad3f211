"""What a thread is at work on is waited for to its end, however often whoever waits for it is told to stop.

Nobody can end a thread. Whoever left it alone would clear away under it what it is about to keep: its lock, its files
in staging. A process that must not wait for so long ends as a whole (`serving.workers`), as after a kill.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def to_its_end(function: Callable[_P, _T], *args: _P.args, **named: _P.kwargs) -> _T:
    """What a function gives, run in one of the loop's threads. Whoever is cancelled waits for its end first."""
    return await in_one_of(None, partial(function, *args, **named))


async def in_one_of(threads: Executor | None, function: Callable[[], _T]) -> _T:
    """The same in one of these threads."""
    running = asyncio.get_running_loop().run_in_executor(threads, function)
    stopped: asyncio.CancelledError | None = None
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError as error:
            stopped = error
    if stopped is None:
        return running.result()
    if not running.cancelled():
        running.exception()  # nobody else will look at it
    raise stopped
