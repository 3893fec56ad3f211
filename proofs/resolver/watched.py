"""A resolver as it is served, under observation: `python -m proofs.resolver.watched DATA SAMPLES PORT ...`.

It listens on a free port, prints "ready URL", and ends in good order on SIGTERM, or when its standard input ends. The
Archives are found at the addresses of `numbered` at PORT. Every second a line of JSON goes to the file SAMPLES: memory,
descriptors, tasks, and how long the event loop kept others waiting, by the wall clock and in time of this
process alone, which does not depend on what else the machine does. `--pause` and `--failures` change the breakers
(`ibi.resolver.resolve.breaker`), for what would take too long, or never come to pass, with theirs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
import time
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from typing import IO, Final

import uvloop

from ibi.app.resolver import resolver_service
from ibi.http.server.service import listen, run
from ibi.http.server.workers import tune_garbage_collection
from ibi.resolver.resolve import breaker
from ibi.runtime import logging
from proofs.common import numbered

TICK: Final = 0.01
"""Seconds between two looks at the event loop."""


async def main(args: argparse.Namespace) -> None:
    """Serve, and watch."""

    async def names(name: str, _port: int) -> list[tuple[str, int]]:
        return [(numbered.ip(int(name.removeprefix("a").partition(".")[0])), args.port)]

    listener = listen("127.0.0.1:0")
    trusted = [ip_network("127.0.0.0/8")]
    service = resolver_service(args.data, host_lookup=names, trusted=trusted)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    asyncio.get_running_loop().add_reader(sys.stdin, stop.set)  # who started it is gone
    with args.samples.open("w", encoding="ascii") as samples:
        watching = asyncio.create_task(_watch(samples))
        await run([service], [listener], _settled, stop)
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    gc.collect()  # so that what was never awaited complains


def _settled(urls: list[str]) -> None:
    tune_garbage_collection()
    print(f"ready {urls[0]}", flush=True)


async def _watch(samples: IO[str]) -> None:
    clock = asyncio.get_running_loop().time
    waits: list[float] = []
    works: list[float] = []
    since = clock()
    while True:
        begun, worked = clock(), time.thread_time()
        await asyncio.sleep(TICK)
        waits.append(max(0.0, clock() - begun - TICK))
        works.append(max(0.0, time.thread_time() - worked - TICK))
        if clock() - since >= 1:
            since = clock()
            samples.write(json.dumps(_sample() | {"waits": _rounded(waits), "works": _rounded(works)}) + "\n")
            samples.flush()
            waits.clear()
            works.clear()


def _sample() -> dict[str, float]:
    pages = [int(number) for number in Path("/proc/self/statm").read_text(encoding="ascii").split()]
    return {
        "moment": time.monotonic(),
        "bytes": pages[1] * os.sysconf("SC_PAGE_SIZE"),
        "shared": pages[2] * os.sysconf("SC_PAGE_SIZE"),
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "tasks": len(asyncio.all_tasks()),
    }


def _rounded(seconds: list[float]) -> list[float]:
    return [round(each, 4) for each in seconds]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proofs.resolver.watched")
    parser.add_argument("data", type=Path)
    parser.add_argument("samples", type=Path)
    parser.add_argument("port", type=int)
    parser.add_argument("--pause", type=float, default=breaker.OPEN_SECONDS)
    parser.add_argument("--failures", type=int, default=breaker.FAILURES)
    return parser.parse_args()


if __name__ == "__main__":
    logging.set_up()
    ARGUMENTS = _arguments()
    breaker.OPEN_SECONDS, breaker.FAILURES = ARGUMENTS.pause, ARGUMENTS.failures  # type: ignore[misc]  # that is the point
    breaker.PROBE_WAIT = breaker.CHECK_EVERY = ARGUMENTS.pause  # type: ignore[misc]  # the same
    uvloop.run(main(ARGUMENTS))
