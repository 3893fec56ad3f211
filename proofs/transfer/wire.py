"""The wire between two Archives, at which a plan loses, doubles and delays messages, and decides when.

Each connection carries one request and its answer, since neither Archive keeps connections to the other.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

_TURNS: Final = 5
"""Turns of the loop after which what was accepted last has become a task."""


class Moment(Enum):
    """Where a message is."""

    REQUESTED = "a request has come"
    PASSED = "a request was passed on"
    ANSWERED = "an answer has come"
    DELIVERED = "an answer was passed on"


class Fate(Enum):
    """What becomes of it."""

    GO_ON = "passed"
    LOSE = "lost"
    DOUBLE = "doubled"


@dataclass(frozen=True)
class Seen:
    """A message at a moment: the number of its connection since the plan was made, and the Archive asked."""

    number: int
    moment: Moment
    target: str


Plan = Callable[[Seen], Awaitable[Fate]]


async def no_plan(_: Seen) -> Fate:
    """Nothing is done to anything."""
    return Fate.GO_ON


class Wire:
    """Two ports, one before each Archive; `plan` is asked about every message at every moment."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.plan: Plan = no_plan
        self.number = 0
        self.ports: dict[str, int] = {}
        self._targets = ports
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(10)

    def follow(self, plan: Plan) -> None:
        """Do from now on what a plan says; its first connection has the number 0."""
        self.plan, self.number = plan, 0

    def close(self) -> None:
        """End everything; nothing connects any more."""
        asyncio.run_coroutine_threadsafe(self._shut(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _open(self) -> None:
        for name, port in self._targets.items():
            server = await asyncio.start_server(self._meet(name, port), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[name] = server.sockets[0].getsockname()[1]

    async def _shut(self) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)  # what connected last reaches `meet`, which alone closes it
        for server in self._servers:
            server.close()
        quiet = 0
        while quiet < _TURNS:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)  # what they had open is closed, and what was accepted last becomes a task
            quiet = 0 if tasks else quiet + 1

    def _meet(
        self, name: str, port: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await self._carry(name, port, reader, writer)
            finally:
                writer.close()

        return meet

    async def _carry(
        self, name: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One request and its answer."""
        number, self.number = self.number, self.number + 1
        request = await _message(reader)
        fate = await self.plan(Seen(number, Moment.REQUESTED, name))
        if fate is Fate.LOSE:
            return
        answer = await self._ask(number, name, port, request)
        if fate is Fate.DOUBLE:
            await self._ask(number, name, port, request)
        if await self.plan(Seen(number, Moment.ANSWERED, name)) is Fate.LOSE:
            return
        writer.write(answer)
        await writer.drain()
        await self.plan(Seen(number, Moment.DELIVERED, name))

    async def _ask(self, number: int, name: str, port: int, request: bytes) -> bytes:
        """The whole answer of an Archive."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            await self.plan(Seen(number, Moment.PASSED, name))
            return await reader.read()
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """A whole request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    return head + await reader.readexactly(length)
