"""A waiting room with a script: a test decides when a reservation ends, and what it gives."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue

from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Batch
from ibi.minting import WaitingRoom
from support.machine import START, FalseMachine


class ScriptedWaitingRoom(WaitingRoom):
    """Each reservation waits for the next batch of the script; with `time`, the clock runs as the event loop does."""

    def __init__(self) -> None:
        self.clock = FalseMachine()
        super().__init__("/nowhere", replace(self.clock.machine, now=self.scripted_now))
        self.script = SimpleQueue[Batch | Exception]()
        self.requested = list[tuple[int, int]]()
        self.threads = set[threading.Thread]()
        self.time: Callable[[], float] | None = None

    def scripted_now(self) -> int:
        return self.clock.at + (round((self.time() - 1_000) * TICKS) if self.time else 0)

    def reserve(self, granularity: int, count: int) -> Batch:
        self.threads.add(threading.current_thread())
        self.requested.append((granularity, count))
        batch = self.script.get()
        if isinstance(batch, Exception):
            raise batch
        return batch


def batch_of(count: int, first: int = START - 1000) -> Batch:
    return Batch((), range(first, first + count))


async def happened(what: Callable[[], object]) -> None:
    """Wait for what a thread brings about; the false clock stands still meanwhile."""
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0)
