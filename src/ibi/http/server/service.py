"""Serve ASGI applications with uvicorn: several services in one event loop, from listening to the last connection.

uvicorn's access log is off, because the query strings of inclusion requests carry keys (REG-08: repeating is
harmless) and those of URL requests the addresses of readers. `AccessLog` writes neither, nor the address of the
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from os import urandom
from typing import Any, Final

import uvicorn

from ibi.errors import SetupError
from ibi.http.server.config import AtOnce, Config, Later, Repeat
from ibi.http.server.connections import Connections
from ibi.http.server.protocol import Protocol
from ibi.http.server.tls import HSTS, Certificate
from ibi.http.server.turns import Turns
from ibi.runtime.logging import FACTS
from ibi.runtime.tasks import cancel_tasks

for _name in ("uvicorn.error", "python_multipart"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # faulty requests of clients need not be logged

Hook = Callable[[], Awaitable[None]]

IDLE_SECONDS = 20
"""How long a connection may stay open between two requests (T30: slow requests)."""
DRAIN_SECONDS = 4
"""How long running requests may go on after the signal to stop."""
STOPPING_SECONDS = 2.0
"""How long the hooks `stopping` may take: an Archive asks its resolver for exclusion."""
CLOSE_SECONDS = 3.5
"""How long the hooks `close` may take: a resolver sends its last acknowledgments."""

_PASSED = "fd://"
_TICKS_BETWEEN_LOOKS: Final = 50  # uvicorn ticks ten times a second: every five seconds
_FAILED: Final = 500  # what uvicorn answers when an application fails

_access_log = logging.getLogger("ibi.access")


@dataclass(frozen=True)
class Service:
    """One ASGI application and what it does besides answering.

    `started` runs once connections are accepted, because an Archive then asks for inclusion, and the resolver calls
    back while the Archive waits (REG-04: the resolver calls back). `stopping` and `draining` run while connections
    are still accepted, `close` runs last. Every worker runs `background`, while it serves, `draining` and `close`;
    only the first runs `started` and `stopping`, so that a service is included once.
    """

    app: Any
    started: Hook | None = None
    stopping: Hook | None = None
    close: Hook | None = None
    tls: tuple[str, str] | None = None
    """The files of the certificate chain and of its private key."""
    draining: Hook | None = None
    largest_body: int = 0
    """Bytes that the body of a method that writes may have; 0: what fits into the limits of a head."""
    drain_seconds: int = DRAIN_SECONDS
    """How long running requests may go on after the signal to stop."""
    reload: Callable[[], None] | None = None
    """Reads the settings again if they have changed (SIGHUP)."""
    at_once: AtOnce | None = None
    """Answers GET and HEAD where that needs no waiting; without it, `app` answers all of them."""
    repeat: Repeat | None = None
    """Answers a GET that differs from the last on its connection only in the target, if `at_once` answered that."""
    later: Later | None = None
    """Answers GET where that needs waiting for a database on another machine, but no task."""
    background: Hook | None = None
    """Work of each process while it serves; it is cancelled at the end."""
    proxies: Callable[[], tuple[str, ...]] = tuple
    """The networks of the trusted proxies, each of which brings many clients."""


def without_tls(service: Service) -> Service:
    """Return the same service for a port without TLS; what it does besides answering is done once, by the other."""
    return replace(
        service,
        started=None,
        stopping=None,
        draining=None,
        background=None,
        close=None,
        reload=None,
        tls=None,
    )


class _Server(uvicorn.Server):
    """uvicorn's server without its handling of signals: several of ours run in one process."""

    _certificate: Certificate | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.config.ssl is not None:
            files = str(self.config.ssl_certfile), str(self.config.ssl_keyfile)
            self._certificate = Certificate(files, self.config.ssl)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS_BETWEEN_LOOKS == 0:
            if self._certificate is not None:
                self._certificate.reload()
            now = asyncio.get_running_loop().time()
            for connection in list(self.server_state.connections):
                connection.end_if_stuck(now)  # type: ignore[union-attr]  # it is ours
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.config.stop()  # type: ignore[attr-defined]  # it is ours
        await super().shutdown(sockets)


def listen(bind: str) -> socket.socket:
    """Listen at "host:port" ("[::1]:8080"; port 0: any free one), or take the open socket of "fd://3".

    The process that passes a socket keeps it open, so clients can connect while one service replaces another.
    Raises SetupError if the address is not one of this machine or is taken.
    """
    if is_passed(bind):
        return _passed(bind)
    host, _, port = bind.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if host == "[]" or not port.isascii():
        raise SetupError("cannot listen on {bind}: {why}", bind=bind, why="not an address and port")
    family = socket.AF_INET6 if bracketed else socket.AF_INET
    # The protocol is named so that every event loop turns off Nagle's delay on accepted connections.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]") if bracketed else host or "127.0.0.1", int(port)))
        listener.listen(1024)
        listener.setblocking(False)  # noqa: FBT003 - the standard library's own
    except (OSError, ValueError, OverflowError, TypeError) as error:  # TypeError: a lone surrogate
        listener.close()
        why = error.strerror if isinstance(error, OSError) else None
        raise SetupError(
            "cannot listen on {bind}: {why}", bind=bind, why=why or "not an address and port"
        ) from error
    return listener


def is_passed(bind: str) -> bool:
    """Whether another process keeps the socket open ("fd://3")."""
    return bind.startswith(_PASSED)


def address_of(bind: str) -> str:
    """Return the "host:port" that `listen` would listen at. Raises SetupError as it does."""
    if not is_passed(bind):
        return bind
    listener = _passed(bind)
    address = _host_port(listener)
    listener.detach()
    return address


def _host_port(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _passed(bind: str) -> socket.socket:
    """Return the listening socket with the number in "fd://3". Raises SetupError for any other file."""
    try:
        listener = socket.socket(fileno=int(bind.removeprefix(_PASSED)))
    except (OSError, ValueError, OverflowError) as error:
        raise SetupError("cannot listen on {bind}: {why}", bind=bind, why="not an open socket") from error
    kind = (listener.family in {socket.AF_INET, socket.AF_INET6}, listener.type == socket.SOCK_STREAM)
    if not all(kind) or not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        listener.detach()
        raise SetupError("cannot listen on {bind}: {why}", bind=bind, why="not a listening TCP socket")
    listener.set_inheritable(False)
    listener.setblocking(False)  # noqa: FBT003 - the standard library's own
    return listener


def server_of(service: Service) -> uvicorn.Server:
    """Make uvicorn's server for a service."""
    cert, key = service.tls or (None, None)
    config = Config(
        service.app,
        http=Protocol,
        ws="none",
        loop="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `client_address` decides which proxies are trusted (AMB-54: which address counts)
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=service.drain_seconds,
        ssl_certfile=cert,
        ssl_keyfile=key,
        headers=[HSTS] if service.tls else [],
    )
    config.connections, config.turns = Connections(service.proxies), Turns()
    # One after another, since chance for each would cost a system call; where they begin tells processes apart.
    config.request_numbers = count(int.from_bytes(urandom(7)))
    config.largest_body = service.largest_body
    config.at_once = service.at_once
    if service.at_once is not None:
        config.repeat, config.later = service.repeat, service.later
    return _Server(config)


async def run(
    services: Sequence[Service],
    listeners: Sequence[socket.socket],
    ready: Callable[[list[str]], None],
    stop: asyncio.Event,
) -> None:
    """Serve all services, each on its listener, until `stop` is set; return at most twelve seconds after that.

    `ready` is called with the URLs, in order, when all services accept connections, before `started`.
    """
    servers = [server_of(service) for service in services]
    pairs = list(zip(servers, listeners, strict=True))
    schemes = ["https" if service.tls else "http" for service in services]
    urls = [f"{scheme}://{_host_port(each)}" for scheme, each in zip(schemes, listeners, strict=True)]
    serving = [asyncio.ensure_future(server.serve(sockets=[listener])) for server, listener in pairs]
    hooks: list[asyncio.Future[None]] = []
    try:
        while not all(server.started for server in servers):
            _raise_first(serving)
            await asyncio.sleep(0.005)
        ready(urls)
        first_hooks = [hook for service in services for hook in (service.started, service.background)]
        hooks = [asyncio.ensure_future(hook()) for hook in first_hooks if hook]
        await _stopped(stop, serving)
    finally:
        await cancel_tasks(hooks)
        last_hooks = [hook for service in services for hook in (service.stopping, service.draining)]
        await _all_within(STOPPING_SECONDS, last_hooks)
        for server in servers:
            server.should_exit = True
        await asyncio.wait(serving)
        await _all_within(CLOSE_SECONDS, [service.close for service in services])
    _raise_first(serving)


def _raise_first(serving: Sequence[asyncio.Future[None]]) -> None:
    for task in serving:
        if task.done():
            task.result()


async def _stopped(stop: asyncio.Event, serving: Sequence[asyncio.Future[None]]) -> None:
    waiting = asyncio.ensure_future(stop.wait())
    events: list[asyncio.Future[Any]] = [waiting, *serving]
    await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    _raise_first(serving)


async def _all_within(seconds: float, hooks: Sequence[Hook | None]) -> None:
    """Run the hooks side by side; one that fails or hangs does not keep the others from ending."""
    tasks: list[asyncio.Future[None]] = [asyncio.ensure_future(hook()) for hook in hooks if hook]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class AccessLog:
    """Wraps an ASGI application and logs a line for each request, if the operator wants it (T28: privacy of readers).

    A line has method, path, status, seconds and bytes of the body.
    """

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(
        self, scope: Mapping[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        """Answer one request and log it."""
        loop = asyncio.get_running_loop()
        started, status, size = loop.time(), _FAILED, 0

        async def counting(message: dict[str, Any]) -> None:
            nonlocal status, size
            status = message.get("status", status)
            size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counting)
        finally:
            facts = {
                "method": scope["method"],
                "path": scope["raw_path"].partition(b"?")[0].decode("latin-1"),
                "status": status,
                "seconds": round(loop.time() - started, 6),
                "bytes": 0 if scope["method"] == "HEAD" else size,
            }
            line = "%(method)s %(path)s %(status)d %(seconds).6f s %(bytes)d bytes"
            _access_log.info(line, facts, extra={FACTS: facts})
