"""Readers over real connections: one at a time, or many as fast as they are answered, or at a rate."""

from __future__ import annotations

import asyncio
import json
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proofs.common import numbered

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TIMEOUT: Final = 20.0
"""Seconds after which an answer is given up."""
RESTED: Final = 10.0
"""Seconds after which a connection is not used again: the resolver ends those that rest for long."""
EXPLAINED: Final = "-/explain/"
"""Where a resolver explains how it comes to an answer: before what is asked for."""
NO_ANSWER: Final = 0
"""Stands for the status where none came."""

_CANARIES: Final = (
    f"Accept-Language: es, x-{numbered.CANARY}",
    f"Cookie: {numbered.CANARY}=1",
    f"Referer: http://{numbered.CANARY}.example/",
)


class Answer(NamedTuple):
    """What a reader got for a target, and after how many seconds."""

    target: str
    status: int
    location: str
    body: bytes
    seconds: float


@dataclass
class Reader:
    """A client with one connection, which is opened again where needed. `address`: the one that it claims."""

    port: int
    address: str = ""
    _pair: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    _since: float = 0.0

    async def ask(self, target: str, *headers: str) -> Answer:
        """Ask for a path and query; no answer has the status NO_ANSWER."""
        begun = time.monotonic()
        if begun - self._since > RESTED:
            self.close()
        try:
            async with asyncio.timeout(TIMEOUT):
                status, location, body = await self._ask(target, headers)
        except (OSError, EOFError, ValueError, TimeoutError):
            self.close()
            status, location, body = NO_ANSWER, "", b""
        self._since = time.monotonic()
        return Answer(target, status, location, body, self._since - begun)

    async def connect(self) -> None:
        """Connect, if that is to be done. Raises OSError."""
        if self._pair is None:
            self._pair = await asyncio.open_connection("127.0.0.1", self.port)
            self._since = time.monotonic()

    async def _ask(self, target: str, headers: Sequence[str]) -> tuple[int, str, bytes]:
        await self.connect()
        if self._pair is None:
            raise EOFError
        reader, writer = self._pair
        more = (f"X-Forwarded-For: {self.address}",) if self.address else ()
        lines = (f"GET /{target} HTTP/1.1", f"Host: {numbered.ADDRESS}", *more, *_CANARIES, *headers, "", "")
        writer.write("\r\n".join(lines).encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        pairs = (line.partition(": ") for line in head.split("\r\n")[1:])
        found = {name.lower(): value for name, _, value in pairs}
        body = await reader.readexactly(int(found.get("content-length", "0")))
        if found.get("connection", "").lower() == "close":
            self.close()
        return int(head.split(" ", 2)[1]), found.get("location", ""), body

    def close(self) -> None:
        """Hang up."""
        if self._pair is not None:
            self._pair[1].close()
            self._pair = None


async def explain(port: int, item: str) -> dict[str, Any]:
    """How the resolver says that it comes to its answer; an empty one if it does not say."""
    reader = Reader(port)
    answer = await reader.ask(f"{EXPLAINED}{item}", "Accept: application/json")
    reader.close()
    found: dict[str, Any] = json.loads(answer.body) if answer.body.startswith(b"{") else {}
    return found


async def ask_all(
    port: int,
    targets: Iterable[str],
    together: int,
    addresses: Sequence[str] = ("",),
    headers: Sequence[str] = (),
) -> list[Answer]:
    """Have so many readers ask for all of these, each its next one when it has been answered."""
    todo: Iterator[str] = iter(targets)
    found: list[Answer] = []

    async def one(reader: Reader) -> None:
        for target in todo:
            answer = await reader.ask(target, *headers)
            found.append(answer)
        reader.close()

    await asyncio.gather(*(one(Reader(port, addresses[each % len(addresses)])) for each in range(together)))
    return found


async def ask_at_once(port: int, targets: Sequence[str]) -> list[Answer]:
    """Connect first, as many readers as there are targets, and then ask for all of them at the same moment."""
    readers = [Reader(port) for _ in targets]
    for reader in readers:
        with suppress(OSError):
            await reader.connect()
    found = await asyncio.gather(
        *(reader.ask(target) for reader, target in zip(readers, targets, strict=True))
    )
    for reader in readers:
        reader.close()
    return found


@dataclass
class Stream:
    """Readers who come at a rate, whether those before them were answered or not, until it is `over`.

    `in_turn`: the targets are asked for in their order, each once; otherwise any of them, again and again.
    """

    port: int
    targets: Sequence[str]
    rate: float
    chance: random.Random
    addresses: Sequence[str] = ("",)
    in_turn: bool = False
    over: bool = False
    answers: list[Answer] = field(default_factory=list)
    _rest: list[Reader] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def flow(self) -> None:
        """Let them come."""
        clock = asyncio.get_running_loop().time
        due = clock()
        targets = iter(self.targets)
        while not self.over:
            due += self.chance.expovariate(self.rate)
            await asyncio.sleep(max(0.0, due - clock()))
            target = next(targets) if self.in_turn else self.chance.choice(self.targets)
            task = asyncio.create_task(self._one(target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        await asyncio.gather(*self._tasks)
        for reader in self._rest:
            reader.close()

    async def _one(self, target: str) -> None:
        reader = self._rest.pop() if self._rest else Reader(self.port)
        reader.address = self.chance.choice(self.addresses)
        self.answers.append(await reader.ask(target))
        self._rest.append(reader)


def milliseconds(answers: Sequence[Answer], share: float) -> int:
    """How long the quickest so many of them took at most: 0.5 for the median."""
    ordered = sorted(answer.seconds for answer in answers) or [0.0]
    return round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))])
