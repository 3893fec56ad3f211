"""What services and settings have where nothing was chosen."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.app.doctor.doctor import CheckupOptions
from ibi.app.mint import mint_service
from ibi.client import Retries
from ibi.http.server.workers import serve
from ibi.runtime.settings import JoinedResolver, Peer, SubsystemSettings


@pytest.mark.parametrize("service", [archive_service, mint_service, serve])
def test_one_process_does_all_the_work(service: Callable[..., Any]) -> None:
    assert inspect.signature(service).parameters["workers"].default == 1


@pytest.mark.parametrize(
    ("made", "facts"),
    [
        (
            SubsystemSettings(host="a.example"),
            {
                "host": "a.example", "port": 80, "ip": "", "ip_port": 800, "granularity": "auto", "collections": (),
                "for_trying": False,
            },
        ),
        (JoinedResolver(url="u", key="k"), {"url": "u", "key": "k", "service": "", "left": False}),
        (Peer(address="a", token="t"), {"address": "a", "token": "t"}),
        (CheckupOptions(), {"host": "", "port": 80, "ip": "", "url": "", "certificate": None}),
        (Retries(), {"attempts": 4, "seconds": 60, "pause": 0.5}),
    ],
)  # fmt: skip
def test_defaults(made: Any, facts: dict[str, Any]) -> None:
    assert asdict(made) == facts
