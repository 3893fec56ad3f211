"""A false clock: an event loop whose time stands still while there is something to do, and leaps when there is not.

Sockets are real; only waiting is not. A play in which an Archive is silent for three seconds takes milliseconds, and
what happens after 40 ms happens before what happens after 50 ms on the slowest machine.
"""

from __future__ import annotations

import asyncio
import selectors
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Executor

_T = TypeVar("_T")

_GRACE = 0.002  # real seconds: what one process sends itself over loopback arrives long before


class FalseClock:
    """`now` is in seconds and moves only when the loop would have to wait."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.threads = 0  # at work in the background: time stands still until they are done

    def time(self) -> float:
        return self.now


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: FalseClock, grace: float) -> None:
        super().__init__()
        self._clock = clock
        self._grace = grace

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None or self._clock.threads:
            return super().select(timeout if timeout is None else _GRACE)
        ready = super().select(self._grace)
        if not ready:
            self._clock.now += timeout
        return ready


class FalseClockLoop(asyncio.SelectorEventLoop):
    """The loop to run plays in; without `sockets`, nothing comes from elsewhere, and hours pass in a second."""

    def __init__(self, *, sockets: bool = True) -> None:
        self.clock = FalseClock()
        super().__init__(_Selector(self.clock, _GRACE if sockets else 0.0))

    def time(self) -> float:
        return self.clock.now

    def run_in_executor(  # type: ignore[override]  # the base class leaves its types open
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        self.clock.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._back)
        return future

    async def shutdown_default_executor(self, *timeout: Any) -> None:
        """Time stands still for this too: newer Pythons wait for their threads with a limit."""
        self.clock.threads += 1
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self.clock.threads -= 1

    def _back(self, _future: asyncio.Future[Any]) -> None:
        self.clock.threads -= 1


def run_with_false_clock(main: Coroutine[Any, Any, _T], *, sockets: bool = True) -> _T:
    """Run to the end in a loop of its own."""
    with asyncio.Runner(loop_factory=partial(FalseClockLoop, sockets=sockets)) as runner:
        return runner.run(main)
