"""What a server is given: nothing of uvicorn's own extras, and of a service without TLS the answers alone."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import fields
from typing import Any

import pytest
import uvicorn

from ibi.http.server import service as services
from ibi.http.server.protocol import Protocol
from ibi.http.server.service import Service, server_of, without_tls

ANSWERS = {"app", "largest_body", "drain_seconds", "at_once", "repeat", "later", "proxies"}


def test_the_port_without_tls_has_the_answers_and_does_nothing_else() -> None:
    service = Service(**{each.name: each.name for each in fields(Service)})  # type: ignore[arg-type]  # to be found again
    bare, usual = without_tls(service), Service(None)
    for each in fields(Service):
        value = each.name if each.name in ANSWERS else getattr(usual, each.name)
        assert getattr(bare, each.name) == value, each.name


@pytest.mark.parametrize("drain_seconds", [4, 30])
def test_uvicorn_adds_and_decides_nothing(drain_seconds: int) -> None:
    async def app(*_: Any) -> None:
        """Answer nothing."""

    def repeat(*_: Any) -> None:
        """Repeat nothing."""

    config = server_of(Service(app, drain_seconds=drain_seconds, repeat=repeat)).config
    wanted = {
        "app": app, "http": Protocol, "ws": "none", "loop": "none", "lifespan": "off", "interface": "asgi3",
        "log_config": None, "access_log": False, "server_header": False, "proxy_headers": False,
        "timeout_keep_alive": 20, "timeout_graceful_shutdown": drain_seconds, "ssl_certfile": None,
        "ssl_keyfile": None, "headers": [], "at_once": None, "repeat": None, "largest_body": 0,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in wanted} == wanted
    assert server_of(Service(app)).config.timeout_graceful_shutdown == 4


def test_every_five_seconds_a_server_looks_at_its_connections_and_certificate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = list[Any]()

    class Certificate:
        def __init__(self, files: tuple[str, str], context: object) -> None:
            looks.append((files, context))

        def reload(self) -> None:
            looks.append("certificate")

    class Connection:
        def end_if_stuck(self, now: float) -> None:
            looks.append(round(now - asyncio.get_running_loop().time(), 3))

    async def started(*_: Any) -> None:
        """Listen nowhere."""

    async def play(*, tls: bool) -> None:
        server = server_of(Service(print, tls=("cert", "key") if tls else None))
        server.config.load = lambda: None  # type: ignore[method-assign]  # there are no such files
        server.config.ssl = "context" if tls else None  # type: ignore[assignment]  # any will do
        server.config.encoded_headers = []
        await server.startup()
        server.server_state.connections = {Connection()}  # type: ignore[arg-type]  # the same
        for counter in (1, 49, 50, 51, 100):
            looks.append(counter)
            assert await server.on_tick(counter) is False
        with server.capture_signals():
            looks.append(signal.getsignal(signal.SIGTERM) is before)

    monkeypatch.setattr(services, "Certificate", Certificate)
    monkeypatch.setattr(uvicorn.Server, "startup", started)
    before = signal.getsignal(signal.SIGTERM)
    asyncio.run(play(tls=False))
    assert looks == [1, 49, 50, 0.0, 51, 100, 0.0, True]
    looks.clear()
    asyncio.run(play(tls=True))
    looked = ["certificate", 0.0]
    assert looks == [(("cert", "key"), "context"), 1, 49, 50, *looked, 51, 100, *looked, True]


def test_a_server_that_ends_leaves_all_requests_to_the_application_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps = list[str]()

    async def shutdown(*_: Any) -> None:
        steps.append("end")

    server = server_of(Service(print))
    monkeypatch.setattr(server.config, "stop", lambda: steps.append("stop"), raising=False)
    monkeypatch.setattr(uvicorn.Server, "shutdown", shutdown)
    asyncio.run(server.shutdown())
    assert steps == ["stop", "end"]
