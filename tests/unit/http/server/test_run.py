"""The course of several services in one event loop, second by second, with servers that only say what they are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ibi.http.server import service as services
from ibi.http.server.service import AccessLog, Service, run
from ibi.runtime.logging import FACTS
from support.clock import run_with_false_clock

Hook = Callable[[], Awaitable[None]]


class Server:
    """uvicorn's server of a service; it starts in 0.1 s and ends in three. `fault`: what it fails with."""

    def __init__(self, name: str, events: list[str], fault: str = "") -> None:
        self.started, self._end = False, asyncio.Event()
        self._name, self._events, self._fault = name, events, fault

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "should_exit":
            assert value is True
            self._end.set()
        else:
            super().__setattr__(name, value)

    async def serve(self, sockets: list[Any]) -> None:
        self._events.append(f"{now()} {self._name} begins at {sockets}")
        await asyncio.sleep(0.1)
        if self._fault == "at the start":
            raise OSError(self._fault)
        self.started = True
        if self._fault:
            await asyncio.sleep(2)
            raise OSError(self._fault)
        await self._end.wait()
        self._events.append(f"{now()} {self._name} ends")
        await asyncio.sleep(3)


def now() -> float:
    return round(asyncio.get_running_loop().time() - 1_000, 2)


class Listener:
    def __init__(self, *place: Any) -> None:
        self._place = place

    def getsockname(self) -> tuple[Any, ...]:
        return self._place

    def __repr__(self) -> str:
        return "a socket"


def course(monkeypatch: pytest.MonkeyPatch, fault: str = "", *, tls: bool = False) -> tuple[list[str], str]:
    """What happened, and what was raised; the hooks of the first service take `longest` seconds."""
    events = list[str]()

    def hook(name: str, seconds: float = 0, problem: str = "") -> Hook:
        async def called() -> None:
            events.append(f"{now()} {name}")
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                events.append(f"{now()} {name} is cut off")
                raise
            if problem:
                raise ValueError(problem)
            events.append(f"{now()} {name} is done")

        return called

    first = Service(
        "a", hook("started"), hook("stopping", 1.5), hook("close", 9), ("cert", "key") if tls else None,
        hook("draining", 9), background=hook("background", 99),
    )  # fmt: skip
    second = Service("b", stopping=hook("failing", 0.5, "it fails"), close=hook("second close", 3.25))

    async def play() -> str:
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(5, stop.set)
        made = {
            id(each): Server(each.app, events, fault if each is second else "") for each in (first, second)
        }
        monkeypatch.setattr(services, "server_of", lambda each: made[id(each)])
        listeners: list[Any] = [Listener("192.0.2.1", 80), Listener("2001:db8::1", 8080, 0, 0)]
        try:
            await run([first, second], listeners, lambda urls: events.append(f"{now()} ready {urls}"), stop)
        except OSError as error:
            return f"{now()} {error}"
        return f"{now()}"

    return events, run_with_false_clock(play())


CLOSED = ["close", "second close", "second close is done", "close is cut off"]
BEGUN = ["0.0 a begins at [a socket]", "0.0 b begins at [a socket]"]


def test_services_start_and_end_in_order_and_no_hook_holds_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events, end = course(monkeypatch)
    ready = events[2]
    assert ready.partition(" ")[2] == "ready ['http://192.0.2.1:80', 'http://[2001:db8::1]:8080']"
    assert float(ready.partition(" ")[0]) == pytest.approx(0.1, abs=0.02)
    assert [each.partition(" ")[2] for each in events[3:6]] == ["started", "background", "started is done"]
    assert events[:2] == BEGUN
    assert events[6:] == [
        "5.0 background is cut off",
        "5.0 stopping", "5.0 draining", "5.0 failing",
        "6.5 stopping is done", "7.0 draining is cut off",
        "7.0 a ends", "7.0 b ends",
        "10.0 close", "10.0 second close",
        "13.25 second close is done", "13.5 close is cut off",
    ]  # fmt: skip
    assert end == "13.5"


def test_a_service_with_tls_has_an_address_with_https(monkeypatch: pytest.MonkeyPatch) -> None:
    events, _ = course(monkeypatch, tls=True)
    assert events[2].endswith("ready ['https://192.0.2.1:80', 'http://[2001:db8::1]:8080']")


def test_a_server_that_cannot_start_is_told_when_all_is_closed_and_nothing_was_ready(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events, end = course(monkeypatch, "at the start")
    assert [each.partition(" ")[2] for each in events[2:]] == [
        "stopping", "draining", "failing", "stopping is done", "draining is cut off", "a ends",
        *CLOSED,
    ]  # fmt: skip
    assert end.endswith("at the start")


def test_a_server_that_fails_is_told_when_all_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    events, end = course(monkeypatch, "at 3")
    assert [each.partition(" ")[2] for each in events[6:]] == [
        "background is cut off",
        "stopping", "draining", "failing", "stopping is done", "draining is cut off", "a ends",
        *CLOSED,
    ]  # fmt: skip
    assert end.endswith("at 3")


# --- the log of requests --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "parts", "fails", "line"),
    [
        ("GET", [b"ab", b"c"], False, "GET /a%20b 201 2.000000 s 3 bytes"),
        ("HEAD", [b"ab"], False, "HEAD /a%20b 201 1.000000 s 0 bytes"),
        ("GET", None, True, "GET /a%20b 500 0.000000 s 0 bytes"),
        ("GET", [b"ab"], True, "GET /a%20b 201 1.000000 s 2 bytes"),
    ],
)
def test_a_line_for_each_request_has_no_query_and_all_that_was_sent(
    method: str, parts: list[bytes] | None, fails: bool, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = list[dict[str, Any]]()

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        assert receive == "receive"
        if parts is not None:
            await send({"type": "http.response.start", "status": 201})
        for part in parts or ():
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": part})
        if fails:
            raise ValueError("it fails")

    async def play() -> None:
        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        scope: dict[str, Any] = {"method": method, "raw_path": b"/a%20b?c=d"}
        try:
            await AccessLog(app)(scope, "receive", send)
        except ValueError:
            assert fails
        else:
            assert not fails

    with caplog.at_level(logging.INFO):
        run_with_false_clock(play())
    ((name, _, message),) = caplog.record_tuples
    assert (name, message) == ("ibi.access", line)
    status, seconds, size = line.split()[2], line.split()[3], line.split()[5]
    assert getattr(caplog.records[0], FACTS) == {
        "method": method, "path": "/a%20b", "status": int(status), "seconds": float(seconds), "bytes": int(size),
    }  # fmt: skip
    assert [each.get("body") for each in sent] == ([] if parts is None else [None, *parts])
