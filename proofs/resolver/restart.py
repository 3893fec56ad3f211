"""P-R10: a resolver of four processes is restarted again and again, and no reader notices.

The listening socket is held by this program, as systemd would do it. Readers ask without a pause, some on connections
that they keep, others on a new one each time; meanwhile the next resolver is started, and when it is ready, the one
before is told to stop. A question fails if its connection ends without an answer, cannot be made, or brings another
answer than the redirect. No request is retried: what a client would hide by a retry is a failure here.
"""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import sys
import tempfile
from collections import Counter
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.resolver.network import ADDRESS, Network

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NAME: Final = "P-R10"

WORKERS: Final = 4
RATE: Final = 300
"""Questions a second, all readers together."""
READERS: Final = 24
"""Half of them keep their connections."""

_LOG: Final = "log"
_TIMEOUT: Final = 30.0  # seconds until an answer or a process is given up


def prove(scale: Scale, seed: int) -> Report:
    """Restart it, and count the readers who were not answered."""
    report = Report(NAME, "every question is answered while resolvers come and go")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_prove(report, Path(folder), random.Random(seed), scale))
    return report


async def _prove(report: Report, folder: Path, chance: random.Random, scale: Scale) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        async with Network.open(folder, chance) as network, _Resolvers.of(folder, listener) as resolvers:
            readers = _Readers(network, chance, listener.getsockname()[1])
            await _restart(report, resolvers, readers, scale)
    for line in (folder / _LOG).read_text().splitlines():
        report.demand(" ERROR " not in line and " CRITICAL " not in line, f"a resolver wrote: {line}")
    report.count("questions", readers.requests)
    report.count("on new connections", readers.new)
    report.count("last answers on a connection", readers.last)
    report.count("failed", sum(readers.failures.values()))
    for problem, count in sorted(readers.failures.items()):
        report.violate(f"{count} questions: {problem}")


async def _restart(report: Report, resolvers: _Resolvers, readers: _Readers, scale: Scale) -> None:
    restarts, questions = scale.pick(2, 20, 20), scale.pick(2_000, 20_000, 100_000)
    running = await resolvers.begin()
    await readers.include()
    tasks = [asyncio.create_task(readers.read(keep=bool(each % 2))) for each in range(READERS)]
    for number in range(1, restarts + 1):
        await readers.until(questions * number // (restarts + 1))
        coming = await resolvers.begin()
        report.demand(await _end(running) == 0, f"a resolver did not stop in order (restart {number})")
        running = coming
        report.count("restarts")
    await readers.until(questions)
    readers.over = True
    await asyncio.gather(*tasks)
    report.demand(await _end(running) == 0, "the last resolver did not stop in order")


@dataclass
class _Resolvers:
    """Those of one directory, at one socket; whatever still runs is killed at the end."""

    folder: Path
    listener: socket.socket
    begun: list[asyncio.subprocess.Process] = field(default_factory=list)

    @classmethod
    @asynccontextmanager
    async def of(cls, folder: Path, listener: socket.socket) -> AsyncIterator[_Resolvers]:
        """None runs yet."""
        made = cls(folder, listener)
        try:
            yield made
        finally:
            for process in made.begun:
                if process.returncode is None:
                    process.terminate()
                await process.communicate()

    async def begin(self) -> asyncio.subprocess.Process:
        """One that answers. Raises RuntimeError with what it says where it does not."""
        number = self.listener.fileno()
        words = f"resolver serve --data {self.folder} --bind fd://{number} --workers {WORKERS}"
        with (self.folder / _LOG).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ibi", *words.split()),
                pass_fds=[number],
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment(),
            )
        self.begun.append(process)
        line = await asyncio.wait_for(process.stdout.readline(), _TIMEOUT) if process.stdout else b""
        if not line.startswith(b"ready "):
            raise RuntimeError(f"the resolver did not start: {(self.folder / _LOG).read_text()}")
        return process


async def _end(process: asyncio.subprocess.Process) -> int:
    process.send_signal(signal.SIGTERM)
    return await asyncio.wait_for(process.wait(), _TIMEOUT)


@dataclass
class _Readers:
    """Readers who ask for items without a pause, and what became of their questions."""

    network: Network
    chance: random.Random
    port: int
    requests: int = 0
    new: int = 0
    last: int = 0
    over: bool = False
    failures: Counter[str] = field(default_factory=Counter)

    async def include(self) -> None:
        """Switch the Archive on. Raises RuntimeError where the resolver does not want it."""
        line = await _Line.open(self.port)
        answer = await line.say(self.network.inclusion)
        await line.close()
        if b" included" not in answer:
            raise RuntimeError(f"the Archive was not included: {answer!r}")

    async def until(self, questions: int) -> None:
        """Wait until so many were asked."""
        while self.requests < questions:  # noqa: ASYNC110 - a look now and then is enough
            await asyncio.sleep(0.02)

    async def read(self, *, keep: bool) -> None:
        """One reader: asks, waits a moment, asks again."""
        line: _Line | None = None
        while not self.over:
            await asyncio.sleep(self.chance.uniform(0.5, 1.5) * READERS / RATE)
            self.requests += 1
            self.new += line is None
            try:
                line = line or await _Line.open(self.port)
                more = await asyncio.wait_for(
                    line.ask(self.chance.choice(self.network.items), keep=keep), _TIMEOUT
                )
            except (OSError, EOFError, ValueError) as problem:
                self.failures[f"{'kept' if keep else 'new'} connection: {problem!r}"] += 1
                more = False
            self.last += keep and not more
            if line is not None and not more:
                await line.close()
                line = None
        if line is not None:
            await line.close()


@dataclass
class _Line:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def open(cls, port: int) -> _Line:
        """Connect. Raises OSError."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, item: str, *, keep: bool) -> bool:
        """Whether a further question may follow. Raises OSError, EOFError or ValueError for what is no redirect."""
        head, _, body = (await self.say(item, keep=keep)).partition(b"\r\n\r\n")
        head = head.lower()
        if not head.startswith(b"http/1.1 302"):
            raise ValueError(f"{head.partition(b' ')[2][:30].decode()}: {body[:300].decode()}")
        return keep and b"connection: close" not in head

    async def say(self, target: str, *, keep: bool = False) -> bytes:
        """The answer, head and body. Raises OSError or EOFError."""
        close = "" if keep else "Connection: close\r\n"
        self.writer.write(f"GET /{target} HTTP/1.1\r\nHost: {ADDRESS}\r\n{close}\r\n".encode())
        head = await self.reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        return head + await self.reader.readexactly(size)

    async def close(self) -> None:
        """Hang up."""
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
