"""What the service manager is told, where, and for how long it is waited for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

import pytest

from ibi.http.server.service_manager import notify_ready, notify_reloading, notify_stopping

UNIX, DATAGRAM = 1, 2


class Socket:
    """A socket of the system; `done` is what was done with all of them, and `fault` what the next call fails with."""

    done: list[Any]
    fault = ""

    def __init__(self, family: int, kind: int) -> None:
        self.done.append((family, kind))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.done.append("close")

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        def call(value: Any) -> None:
            if name == self.fault:
                raise OSError
            self.done.append((name, value))

        return call


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr("socket.socket", Socket)
    monkeypatch.setattr(Socket, "done", [], raising=False)
    monkeypatch.setattr("time.monotonic_ns", lambda: 1_234_567)
    monkeypatch.setenv("NOTIFY_SOCKET", "/run/notify")
    return Socket.done


def sent(message: str, address: str = "/run/notify") -> list[Any]:
    return [(UNIX, DATAGRAM), ("settimeout", 1.0), ("connect", address), ("send", message.encode()), "close"]


def test_the_manager_is_told_what_happens(done: list[Any]) -> None:
    notify_ready(["http://a.example", "https://a.example"])
    notify_stopping()
    with suppress(ZeroDivisionError), notify_reloading():
        done.append("reload")
        raise ZeroDivisionError
    assert done == [
        *sent("READY=1\nSTATUS=http://a.example https://a.example"), *sent("STOPPING=1"),
        *sent("RELOADING=1\nMONOTONIC_USEC=1234"), "reload", *sent("READY=1"),
    ]  # fmt: skip


def test_it_is_told_at_an_abstract_address_too_and_nothing_is_told_without_one(
    done: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", "@manager")
    notify_stopping()
    assert done == sent("STOPPING=1", "\0manager")
    done.clear()
    monkeypatch.setenv("NOTIFY_SOCKET", "")
    notify_stopping()
    assert done == []


@pytest.mark.parametrize("fault", ["connect", "send"])
def test_a_manager_that_cannot_be_reached_stops_nothing(
    fault: str, done: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Socket, "fault", fault)
    notify_stopping()
    assert done[-1] == "close"
    assert fault not in {name for name, _ in done[:-1]}
