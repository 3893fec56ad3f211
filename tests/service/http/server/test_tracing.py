"""Requests of a service make spans where traces are exported, however they are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from ibi.http.server.head import Head
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
from ibi.runtime.tracing import current_span
from support.network.span_receiver import Received, SpanReceiver

TRACE, READER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = (b"traceparent", f"00-{TRACE}-{READER}-01".encode())
SECONDS = 20.0
BEGAN = 100  # seconds before now at which answers at once begin


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def _kind(method: str, target: bytes) -> str:
    return f"{method.lower()} of {target.decode()}"


@contextmanager
def spans_of(
    service: Service, monkeypatch: pytest.MonkeyPatch, found: list[Received], count: int
) -> Iterator[Service]:
    """The service with spans within a block; then it is closed, and `found` has the spans, at least so many."""
    with SpanReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        made = traced("archive", _kind, lambda: time.time_ns() - BEGAN * 10**9)(lambda: service)()
        yield made
        assert made.close is not None
        asyncio.run(_run(made.close()))
        end = time.monotonic() + SECONDS
        while len(receiver.spans) < count:
            assert time.monotonic() < end
            time.sleep(0.01)
        found += receiver.spans


async def _run(awaitable: Any) -> None:
    await awaitable


def _scope(target: bytes, *headers: tuple[bytes, bytes], kind: str = "http") -> dict[str, Any]:
    path, _, query = target.partition(b"?")
    return {"type": kind, "method": "GET", "raw_path": path, "query_string": query, "headers": headers}


def test_each_request_makes_a_span_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    seen, found = list[Any](), list[Received]()

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        seen.append(current_span.get())
        if scope["raw_path"].startswith(b"/fails"):
            raise ZeroDivisionError
        await send({"type": "http.response.start", "status": int(scope["raw_path"][1:])})
        await send({"type": "http.response.body"})

    async def ask(made: Service, scope: Any) -> list[dict[str, Any]]:
        sent = list[dict[str, Any]]()

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        await made.app(scope, None, send)
        assert current_span.get() is None
        return sent

    async def fail(made: Service) -> None:
        with pytest.raises(ZeroDivisionError):
            await ask(made, _scope(b"/fails"))

    with spans_of(Service(app), monkeypatch, found, 4) as made:
        assert made.at_once is None
        for target in (b"/499?a=b", b"/500"):
            sent = asyncio.run(ask(made, _scope(target, PARENT)))
            assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]
        asyncio.run(fail(made))
        asyncio.run(ask(made, _scope(b"/200")))
        assert len({*seen, None}) == 5
        asyncio.run(ask(made, _scope(b"/200", kind="lifespan")))
        assert seen[-1] is None
    of = {str(each.values["ibi.kind"]): each for each in found}
    assert {kind: (each.values["http.response.status_code"], each.failed) for kind, each in of.items()} == {
        "get of /499?a=b": (499, False), "get of /500": (500, True), "get of /fails": (500, True),
        "get of /200": (200, False),
    }  # fmt: skip
    assert len(found) == 4
    assert [of[f"get of /{path}"].parent for path in ("500", "200")] == [READER, ""]
    assert {each.program for each in found} == {"ibi-archive"}


def test_what_is_answered_at_once_has_a_span_too_and_nothing_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, closed = list[Received](), list[bool]()

    def at_once(_method: bytes, target: bytes, _head: Head, peer: str) -> tuple[int, bytes] | None:
        return (int(target[1:]), peer.encode()) if target[1:].isdigit() else None

    async def close() -> None:
        closed.append(True)

    service = replace(
        Service(None, close=close), at_once=at_once, repeat=lambda *_: None, later=lambda *_: False
    )
    with spans_of(service, monkeypatch, found, 3) as made:
        assert (made.repeat, made.later) == (None, None)
        assert made.at_once is not None
        for target in (b"/302", b"/499", b"/500", b"/none"):
            answer = made.at_once(b"GET", target, Head([PARENT]), "192.0.2.7")
            assert answer == at_once(b"GET", target, Head(), "192.0.2.7")
    assert closed == [True]
    of = {str(each.values["ibi.kind"]): each for each in found}
    assert {kind: (each.values["http.response.status_code"], each.failed) for kind, each in of.items()} == {
        "get of /302": (302, False), "get of /499": (499, False), "get of /500": (500, True),
    }  # fmt: skip
    assert {(each.trace, each.parent, each.name.partition(" ")[0]) for each in found} == {
        (TRACE, READER, "GET")
    }
    assert all(BEGAN <= each.seconds < BEGAN + SECONDS for each in found)
