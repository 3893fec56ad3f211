"""What a server is given: nothing of uvicorn's own extras, and of a service without TLS the answers alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

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
