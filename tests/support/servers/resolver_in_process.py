"""A resolver without a socket: it is asked as an ASGI application, and other machines are functions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, Any

from ibi.accounts.tokens import Tokens
from ibi.errors import PeerError
from ibi.http.client import AddressPolicy, Reply
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.service import Outgoing, ResolverService
from ibi.runtime.settings import ResolverSettings
from support.engines.shared_store import opened_registry
from support.resolver.parts import stores
from support.resolver.running_resolver import SERVICE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from ibi.resolver.registry.registry import Registry
    from ibi.resolver.service import Stores

NOW = 1_800_000_000.0
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def reply(body: bytes = b"", status: int = 200, **headers: str) -> Reply:
    """What another machine answers; names of headers with an underscore for a hyphen."""
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return Reply(status, named, body, "192.0.2.1")


class Peers:
    """A client of other machines: `answer` gives the reply of an address to a target; `asked`: what was asked."""

    def __init__(self, answer: Callable[[str, str], Reply | PeerError]) -> None:
        self.answer = answer
        self.requests: list[tuple[str, str]] = []
        self.headers: list[tuple[list[tuple[str, str]], str]] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    def _outcome(self, address: str, target: Any, headers: Any, cdn_loop: str) -> Reply | PeerError:
        text = target if isinstance(target, str) else b"".join(target).decode()
        self.requests.append((address, text))
        self.headers.append(([*headers], cdn_loop))
        return self.answer(address, text)

    def ask(
        self,
        address: str,
        target: Any,
        _deadline: Any,
        done: Callable[[Any], None],
        headers: Any = (),
        cdn_loop: str = "",
    ) -> Any:
        outcome = self._outcome(address, target, headers, cdn_loop)
        handle = asyncio.get_running_loop().call_soon(done, outcome)
        return SimpleNamespace(give_up=handle.cancel)

    async def get(
        self, address: str, target: str, _deadline: float, headers: Any = (), *, cdn_loop: str = ""
    ) -> Reply:
        outcome = self._outcome(address, target, headers, cdn_loop)
        if isinstance(outcome, PeerError):
            raise outcome
        return outcome

    def keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()


class Letters:
    """Takes mail as a `MailSender` does: each letter, and what it tells."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, ...]] = []

    def __getattr__(self, kind: str) -> Callable[..., None]:
        def take(*facts: Any, **more: Any) -> None:
            texts = (str(getattr(each, "service_ibi", each)) for each in (*facts, *more.values()))
            self.sent.append((kind, *texts))

        return take

    def close(self) -> None:
        """Do nothing."""


@dataclass
class Answered:
    """An answer as it was sent: its headers in order, each with its value."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def of(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each == name), None)


@dataclass
class InProcess:
    """A resolver, its stores, and the other machines."""

    service: ResolverService
    stores: Stores
    peers: Peers
    registry: Registry
    letters: Letters
    acknowledgments: AcknowledgmentQueue

    async def ask(
        self, target: str, method: str = "GET", headers: Mapping[str, str] = NO_HEADERS, body: bytes = b""
    ) -> Answered:
        """Ask as a client at this machine; names of headers as in `reply`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        path, _, query = target.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [
                (name.encode(), value.encode("latin-1"))
                for name, value in {"host": "urlib.net", **named}.items()
            ],
            "client": ("127.0.0.1", 1),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await self.service(scope, receive, send)
        written = [(name.decode(), value.decode("latin-1")) for name, value in sent[0]["headers"]]
        return Answered(sent[0]["status"], written, b"".join(each["body"] for each in sent[1:]))


@asynccontextmanager
async def in_process(
    data: Path,
    answer: Callable[[str, str], Reply | PeerError] = lambda _address, _target: reply(),
    *,
    pages: Any = None,
    trusted: Sequence[Any] = (),
    publisher: Any = None,
    nonce: Any = None,
    **settings: Any,
) -> AsyncIterator[InProcess]:
    """A resolver whose clock stands at NOW, until the end of the block."""
    registry = opened_registry(data, lambda: NOW)
    peers: Any = Peers(answer)

    async def no_address(_host: str, _port: int) -> Any:
        raise OSError

    kept = stores(registry, data, no_address, lambda: NOW)
    queue = AcknowledgmentQueue(peers)
    letters: Any = Letters()
    outside = Outgoing(AddressPolicy(), peers, peers, queue, letters)
    given = {"address": "urlib.net", "service": SERVICE, "aliases": ("www.urlib.net",), **settings}
    service = ResolverService(
        ResolverSettings(**given), kept, outside, trusted=trusted, pages=pages, tokens=Tokens(data),
        publisher=publisher, nonce=nonce,
    )  # fmt: skip
    try:
        yield InProcess(service, kept, peers, registry, letters, queue)
    finally:
        await service.close()
        await asyncio.to_thread(kept.close)
