"""A resolver among Archives, each side a process of its own, and the commands of the proof."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from proofs.common import numbered
from proofs.common.environment import environment
from proofs.common.resolver_directory import directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from proofs.common.report import Report

LATENCY: Final = 0.02
"""The median of an honest Archive's answers, in seconds."""

_TIMEOUT: Final = 60.0
_UNLIMITED: Final = 1_000_000
_FAULTS: Final = ("Traceback", " ERROR ", " CRITICAL ", "never retrieved", "never awaited")


@dataclass
class Town:
    """The process of the Archives."""

    process: asyncio.subprocess.Process
    port: int

    @classmethod
    async def open(cls, seed: int, archives: int, items: int, latency: float) -> Town:
        """Start it; its Archives are honest."""
        words = ("proofs.resolver.stubs", str(seed), str(archives), str(items), str(latency))
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *words, stdin=pipe, stdout=pipe, env=environment(), limit=1 << 24
        )
        return cls(process, int(await _line(process)))

    async def do(self, **order: Any) -> dict[str, Any]:
        """Have something done by (some of) the Archives: see `stubs`."""
        if self.process.stdin is None:
            raise RuntimeError
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        found: dict[str, Any] = json.loads(await _line(self.process))
        return found

    async def behave(self, manner: str, who: Iterable[int] | None = None) -> None:
        """Let some of them, or all, take a manner."""
        await self.do(behave=manner, **({} if who is None else {"who": sorted(who)}))

    async def request_counts(self) -> dict[str, int]:
        """How often all were asked for what, since this was called last."""
        found: dict[str, int] = (await self.do(forget=True))["asked"]
        return found

    async def close(self) -> None:
        """End it."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        await asyncio.wait_for(self.process.wait(), _TIMEOUT)


@dataclass
class Resolver:
    """The process of the resolver. `samples` are what its watcher has written so far."""

    folder: Path
    process: asyncio.subprocess.Process
    port: int

    @classmethod
    async def open(cls, folder: Path, town: Town, *options: str) -> Resolver:
        """Start it on a data directory, with options of `watched`."""
        words = (str(folder), str(folder / "samples"), str(town.port), *options)
        with (folder / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "proofs.resolver.watched", *words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment(),
            )
        ready = (await _line(process)).split(":")
        if ready[0] != "ready http":
            raise RuntimeError(f"the resolver did not start: {(folder / 'log').read_text()}")
        return cls(folder, process, int(ready[-1]))

    def samples(self) -> list[dict[str, Any]]:
        """Those that are whole."""
        lines = (self.folder / "samples").read_text(encoding="ascii").splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    async def sampled(self) -> dict[str, Any]:
        """A sample that is taken from now on."""
        since, until = time.monotonic(), time.monotonic() + _TIMEOUT
        while time.monotonic() < until:
            found = self.samples()
            if found and found[-1]["moment"] > since:
                return found[-1]
            await asyncio.sleep(0.1)
        raise RuntimeError("the resolver gives no sign of life")

    async def close(self) -> int:
        """End it in good order; its status."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), _TIMEOUT)


@dataclass
class World:
    """Both of them, and the folder that the resolver lives in."""

    folder: Path
    town: Town
    resolver: Resolver
    report: Report
    _options: tuple[str, ...] = field(default=())

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        report: Report,
        seed: int,
        archives: int,
        items: int = numbered.MOST_ITEMS,
        *options: str,
        latency: float = LATENCY,
        **settings: Any,
    ) -> AsyncIterator[World]:
        """Have them run until the end of the block, and look at what the resolver left behind.

        `options` are those of `watched`; readers have no budget unless `settings` say so.
        """
        settings = {"request_rate": 0.0, "request_burst": _UNLIMITED} | settings
        with tempfile.TemporaryDirectory() as parent:
            folder = directory(Path(parent) / "resolver", archives, **settings)
            town = await Town.open(seed, archives, items, latency)
            try:
                resolver = await Resolver.open(folder, town, *options)
                world = cls(folder, town, resolver, report, options)
                try:
                    yield world
                finally:
                    status = await world.resolver.close()
                report.demand(status == 0, f"the resolver ended with the status {status}")
                canaries = (await town.request_counts()).get("canaries", 0)
                report.demand(not canaries, "an Archive saw what is only the reader's")
            finally:
                await town.close()
            demand_quiet(report, folder / "log")

    async def restart(self) -> None:
        """End the resolver, and start it again."""
        await self.resolver.close()
        self.resolver = await Resolver.open(self.folder, self.town, *self._options)

    @property
    def port(self) -> int:
        """Where the resolver answers."""
        return self.resolver.port


def demand_quiet(report: Report, log: Path) -> None:
    """Nothing that a resolver wrote may be a fault of its own."""
    for line in log.read_text(encoding="utf-8").splitlines():
        report.demand(not any(fault in line for fault in _FAULTS), f"the resolver wrote: {line[:300]}")


async def _line(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None:
        raise RuntimeError
    line = await asyncio.wait_for(process.stdout.readline(), _TIMEOUT)
    return line.decode().rstrip("\n")
