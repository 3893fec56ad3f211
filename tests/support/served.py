"""Services of ours on sockets of this machine, in a thread of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ibi.http.server.service import Service, listen, run


@contextmanager
def served(make: Callable[[], Service], *binds: str) -> Iterator[None]:
    """Serve what `make` gives, a new one for each "host:port", until the end of the block."""
    ready, failures = threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def work() -> None:
        listeners = [listen(bind) for bind in binds]
        await run([make() for _ in binds], listeners, lambda _: ready.set(), stop)

    def thread() -> None:
        try:
            loop.run_until_complete(work())
        except BaseException as error:  # noqa: BLE001 - it is shown by the test that waits
            failures.append(error)
        finally:
            ready.set()

    running = threading.Thread(target=thread)
    running.start()
    try:
        assert ready.wait(60)
        assert failures == []
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        running.join(20)
        assert not running.is_alive()
        loop.close()
        assert failures == []
