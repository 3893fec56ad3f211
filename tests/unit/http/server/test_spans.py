"""The span of each request: where it begins, what it is called, and how it ends, with a tracer that writes it down."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.http.server.config import Answer
from ibi.http.server.head import Head
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
from ibi.runtime.tracing import current_span

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Tracer:
    """Makes spans that are written down in `events`, as is its end."""

    def __init__(self) -> None:
        self.events = list[Any]()

    def request(self, *words: Any) -> Span:
        self.events.append(("begin", *words))
        return Span(self)

    def close(self) -> None:
        self.events.append("tracer closed")


class Span:
    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def end(self, outcome: int, *, failed: bool) -> None:
        self._tracer.events.append(("end", outcome, failed))


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    made = Tracer()
    monkeypatch.setattr(
        "ibi.http.server.tracing.tracer", lambda program: made if program == "archive" else None
    )
    return made


def service(tracer: Tracer, *, close: bool = True, program: str = "archive") -> Service:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        tracer.events.append(("in span", isinstance(current_span.get(), Span), receive))
        if scope["path"] == "/fails":
            raise ValueError("it fails")
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": int(scope["path"][1:])})
            await send({"type": "http.response.body"})

    async def closed() -> None:
        tracer.events.append("service closed")

    def at_once(method: bytes, target: bytes, _head: Head, peer: str) -> Answer | None:
        tracer.events.append(("at once", method, peer))
        return (int(target[1:]), b"") if target[1:].isdigit() else None

    @traced(program, lambda method, target: f"kind of {method} {target.decode()}", lambda: 77)
    def made(*, answers: bool) -> Service:
        """Make the service."""
        return Service(
            app, close=closed if close else None, at_once=at_once if answers else None,
            repeat=lambda *_: None, later=lambda *_: False,
        )  # fmt: skip

    assert (made.__name__, made.__doc__) == ("made", "Make the service.")
    return made(answers=close)


def scope(path: str, *headers: tuple[bytes, bytes], kind: str = "http") -> dict[str, Any]:
    return {
        "type": kind, "method": "GET", "path": path, "raw_path": path.encode(), "query_string": b"a=b",
        "headers": headers,
    }  # fmt: skip


def requested(made: Service, given: dict[str, Any]) -> list[Any]:
    sent = list[Any]()

    async def send(message: Any) -> None:
        sent.append(message.get("status"))

    asyncio.run(made.app(given, "receive", send))
    return sent


def test_a_request_is_a_span_with_its_status(tracer: Tracer) -> None:
    made = service(tracer)
    for status, failed in ((200, False), (499, False), (500, True)):
        tracer.events.clear()
        assert requested(made, scope(f"/{status}", (b"traceparent", PARENT.encode()))) == [status, None]
        begun = ("begin", PARENT, "GET", f"kind of GET /{status}?a=b")
        assert tracer.events == [begun, ("in span", True, "receive"), ("end", status, failed)]
    tracer.events.clear()
    with pytest.raises(ValueError, match="it fails"):
        requested(made, scope("/fails"))
    assert tracer.events == [
        ("begin", "", "GET", "kind of GET /fails?a=b"), ("in span", True, "receive"), ("end", 500, True),
    ]  # fmt: skip
    assert current_span.get() is None
    tracer.events.clear()
    assert requested(made, scope("/1", kind="lifespan")) == []
    assert tracer.events == [("in span", False, "receive")]


def test_what_is_answered_at_once_is_a_span_that_has_ended_and_nothing_else_goes_past_it(
    tracer: Tracer,
) -> None:
    made = service(tracer)
    assert (made.repeat, made.later) == (None, None)
    assert made.at_once is not None
    head = Head([(b"traceparent", PARENT.encode())])
    for target, failed in ((b"/499", False), (b"/500", True)):
        tracer.events.clear()
        assert made.at_once(b"HEAD", target, head, "peer") == (int(target[1:]), b"")
        begun = ("begin", PARENT, "HEAD", f"kind of HEAD {target.decode()}", 77)
        assert tracer.events == [("at once", b"HEAD", "peer"), begun, ("end", int(target[1:]), failed)]
    tracer.events.clear()
    assert made.at_once(b"GET", b"/x", head, "") is None
    assert tracer.events == [("at once", b"GET", "")]


def test_the_tracer_ends_with_its_service(tracer: Tracer) -> None:
    for close in (True, False):
        tracer.events.clear()
        made = service(tracer, close=close)
        assert made.close is not None
        asyncio.run(made.close())  # type: ignore[arg-type]  # it is a coroutine
        assert set(tracer.events) == {"tracer closed", *(["service closed"] if close else [])}
        assert (made.at_once is not None) is close


def test_without_a_tracer_a_service_stays_as_it_is(tracer: Tracer) -> None:
    made = service(tracer, program="resolver")
    assert made.repeat is not None
    assert requested(made, scope("/200")) == [200, None]
    assert tracer.events == [("in span", False, "receive")]
