"""Spans of one process: their place in a trace, what they tell, and what is logged while they cannot be sent."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from ibi.runtime.tracing import SECONDS_BETWEEN_COMPLAINTS, Tracer, current_span, tracer
from support.network.span_receiver import Received, SpanReceiver

TRACE, READER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
SECONDS = 20.0


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch, found: list[Received], count: int) -> Iterator[Tracer]:
    """A tracer within a block; then `found` has the spans that were sent, at least so many."""
    with SpanReceiver() as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        spans = tracer("resolver")
        assert spans is not None
        yield spans
        spans.close()
        end = time.monotonic() + SECONDS
        while len(receiver.spans) < count:
            assert time.monotonic() < end
            time.sleep(0.01)
        found += receiver.spans


def test_a_request_belongs_to_the_trace_that_it_names(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Received]()
    parents: dict[str, str | None] = {
        f"00-{TRACE}-{READER}-01": READER, f"00-{TRACE}-{READER}-03": READER, f"01-{TRACE}-{READER}-01-x": READER,
        f"00-{TRACE}-{READER}-00": None, f"00-{TRACE}-{READER}-02": None,  # which are not to be recorded
        "garbage": "", "": "",
    }  # fmt: skip
    with exporting(monkeypatch, found, 5) as spans:
        for number, parent in enumerate(parents):
            spans.request(parent, "GET", f"kind {number}").end(404)
    by_number = {int(str(each.values["ibi.kind"]).split()[1]): each for each in found}
    for number, expected in enumerate(parents.values()):
        if expected is None:
            assert number not in by_number
            continue
        span = by_number[number]
        assert (span.program, span.name, span.kind) == ("ibi-resolver", f"GET kind {number}", "SERVER")
        assert (span.parent, span.trace == TRACE, span.failed) == (expected, bool(expected), False)
        assert span.values == {
            "http.request.method": "GET", "ibi.kind": f"kind {number}", "http.response.status_code": 404,
        }  # fmt: skip
        assert span.seconds < SECONDS


def test_a_request_may_have_begun_before(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Received]()
    with exporting(monkeypatch, found, 1) as spans:
        spans.request("", "GET", "click", time.time_ns() - 100 * 10**9).end(302)
    assert 100 <= found[0].seconds < 100 + SECONDS


def test_parts_of_a_span_are_below_it_and_end_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = list[Received]()
    with exporting(monkeypatch, found, 4) as spans:
        request = spans.request(f"00-{TRACE}-{READER}-01", "GET", "click")
        assert current_span.get() is None
        part = request.enter("round")
        assert current_span.get() is part
        query = part.child("query", "CLIENT", archive="a.example/b")
        assert current_span.get() is part
        headers = query.headers
        query.end("silent", failed=True)
        part.end("known")
        assert current_span.get() is None
        other = request.enter("another")
        part.end("again")
        assert current_span.get() is other
        other.end("known")
        request.end(503, failed=True)
    by_name = {each.name: each for each in found}
    assert sorted(each.name for each in found) == ["GET click", "another", "query", "round"]
    click, part_, query_ = by_name["GET click"], by_name["round"], by_name["query"]
    assert (part_.parent, part_.kind, part_.failed) == (click.span, "INTERNAL", False)
    assert part_.values == {"ibi.outcome": "known"}
    assert (query_.parent, query_.kind, query_.failed) == (part_.span, "CLIENT", True)
    assert query_.values == {"ibi.archive": "a.example/b", "ibi.outcome": "silent"}
    assert (click.failed, click.values["http.response.status_code"]) == (True, 503)
    assert headers == (("traceparent", f"00-{TRACE}-{query_.span}-01"),)


def test_what_libraries_say_of_an_endpoint_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1_000.0
    monkeypatch.setattr("ibi.runtime.tracing.time", SimpleNamespace(monotonic=lambda: now))
    with exporting(monkeypatch, [], 0):
        for name in ("opentelemetry.exporter", "urllib3.connectionpool"):
            for passed, written in ((0.0, True), (SECONDS_BETWEEN_COMPLAINTS - 0.5, False), (0.5, True)):
                now += passed
                caplog.clear()
                with caplog.at_level(logging.INFO):
                    logging.getLogger(name).info("it was tried")
                    logging.getLogger(name).warning("no %s", "answer")
                assert caplog.messages == ["traces are not exported: no answer"] * written
            now += SECONDS_BETWEEN_COMPLAINTS
