"""Spans go out by OTLP where an endpoint is set: real programs, a real receiver. Without one, none are made."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ibi.cli import main
from ibi.runtime.tracing import tracer
from support.cli.archive_commands import Resolver, ibi, make_archive, until
from support.cli.archive_commands import serving as serving_archive
from support.network.span_receiver import Received, SpanReceiver
from support.network.up import get
from support.ports import free_port
from support.resolver.process import ResolverProcess, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.runtime.tracing import Tracer

TRACE: Final = "4bf92f3577b34da6a3ce929d0e0e4736"
AGAIN: Final = "b" * 32
UNRECORDED: Final = "c" * 32
READER: Final = "00f067aa0ba902b7"
KEY: Final = "12345678901234567890"
ARCHIVE: Final = "archive.example/archive/2020/01.01.00.00"
STEPS: Final = (
    "ibi-resolver GET click", "ibi-resolver resolution", "ibi-resolver round", "ibi-resolver query",
    "ibi-archive GET message",
)  # fmt: skip
SILENT: Final = "d" * 32
ITEM: Final = "archive.example/archive/2020/02.02.00.0"
SECRET: Final = "sekretword"
ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
COMPLAINT: Final = "traces are not exported"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SERVICE_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")  # milliseconds
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@contextmanager
def _both_running(folder: Path) -> Iterator[tuple[ResolverProcess, subprocess.Popen[str]]]:
    """A resolver, and an Archive with three items from ITEM0 on, which takes part."""
    resolver, port = Resolver(folder / "resolver"), free_port()
    archive = folder / "archive"
    assert make_archive(archive, port, "--resolver", resolver.url, "--key", KEY) == ARCHIVE
    resolver.register(ARCHIVE, KEY)
    items = folder / "items.jsonl"
    lines = ({"rep": f"{ITEM}{number}", "url": f"http://files.example/{number}"} for number in range(3))
    items.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    ibi("archive", "import", "--data", archive, items)
    with (
        serving(resolver.data, bind=f"127.0.0.1:{resolver.port}") as process,
        serving_archive("--data", archive, "--bind", f"127.0.0.1:{port}") as other,
    ):
        until(lambda: resolver.included)
        yield process, other


def _click(resolver: ResolverProcess, number: int, trace: str, flags: str = "01") -> int:
    sent = {"traceparent": f"00-{trace}-{READER}-{flags}", "x_forwarded_for": "203.0.113.77"}
    url, host = f"{resolver.root}/{ITEM}{number}?{SECRET}=1", resolver.root.rpartition("/")[2]
    return get(url, host=host, **sent).status


def _of(receiver: SpanReceiver, trace: str) -> dict[str, Received]:
    """The spans of a trace that have come, by program and name, of which there is one each."""
    found = [each for each in receiver.spans if each.trace == trace]
    by_name = {f"{each.program} {each.name}": each for each in found}
    assert len(by_name) == len(found), found
    return by_name


def test_a_click_makes_one_trace_through_the_resolver_and_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SpanReceiver() as receiver:
        receiver.may_answer.clear()  # no click waits for a receiver that hangs
        monkeypatch.setenv(ENDPOINT, receiver.url)
        with _both_running(tmp_path) as (resolver, archive):
            assert _click(resolver, 0, UNRECORDED, "00") == 302
            receiver.wait_for_posts(1)
            assert [_click(resolver, 1, trace) for trace in (TRACE, AGAIN)] == [302, 302]
            receiver.may_answer.set()
            until(lambda: len(_of(receiver, TRACE)) == len(STEPS))
            archive.kill()
            archive.wait()
            assert _click(resolver, 2, SILENT) == 503
    assert set(receiver.paths) == {"/v1/traces"}
    assert not _of(receiver, UNRECORDED)
    found = _of(receiver, TRACE)
    chain = [found[step] for step in STEPS]
    assert [each.parent for each in chain] == [READER, *[each.span for each in chain[:-1]]]
    assert [each.kind for each in chain] == ["SERVER", "INTERNAL", "INTERNAL", "CLIENT", "SERVER"]
    assert [each.values for each in chain] == [
        {"http.request.method": "GET", "ibi.kind": "click", "http.response.status_code": 302},
        {"ibi.outcome": "redirect"},
        {"ibi.outcome": "known"},
        {"ibi.archive": ARCHIVE, "ibi.outcome": "answered"},
        {"http.request.method": "GET", "ibi.kind": "message", "http.response.status_code": 200},
    ]
    assert not any(each.failed for each in chain)
    assert chain[3].seconds < chain[1].seconds < chain[0].seconds
    # The next reader's redirect came from a cache, and the request has its span, too.
    click = _of(receiver, AGAIN)[STEPS[0]]
    assert (click.parent, click.values["http.response.status_code"]) == (READER, 302)
    query = _of(receiver, SILENT)[STEPS[3]]
    assert (query.values, query.failed) == ({"ibi.archive": ARCHIVE, "ibi.outcome": "silent"}, True)
    assert _of(receiver, SILENT)[STEPS[0]].failed
    # Who the reader is, what the item and the key are: in no span.
    for body in receiver.raw:
        assert not any(word.encode() in body for word in (SECRET, "203.0.113.77", KEY, ITEM))


def test_a_mint_makes_a_span_of_each_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = f"--data {tmp_path} --bind 127.0.0.1:0 --host mint.example.org --ip 150.163.34.243".split()
    assert main(["mint", "token", "--data", str(tmp_path), "--name", "first"]) == 0
    with SpanReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{receiver.url}/elsewhere")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "our-mint")
        command = [sys.executable, "-m", "ibi", "mint", "serve", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                root = process.stdout.readline().split()[1]
                assert get(f"{root}/-/healthz").status == 200
            finally:
                process.terminate()
            assert process.wait(30) == 0
    assert set(receiver.paths) == {"/elsewhere"}
    (span,) = receiver.spans
    assert (span.program, span.name, span.parent) == ("our-mint", "GET health", "")
    assert span.values["http.response.status_code"] == 200


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded_and_the_service_is_as_it_was() -> None:
    program = """
import os, sys
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
kind, now = lambda *_: "click", lambda: 0
bare = Service(app=None, at_once=lambda *_: None, repeat=lambda *_: None)
assert traced("resolver", kind, now)(lambda: bare)() is bare
os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"], os.environ["OTEL_SDK_DISABLED"] = "http://127.0.0.1:9", "True"
assert traced("resolver", kind, now)(lambda: bare)() is bare
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
del os.environ["OTEL_SDK_DISABLED"]
assert traced("resolver", kind, now)(lambda: bare)() is not bare
assert "opentelemetry.sdk.trace" in sys.modules
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_where_opentelemetry_is_not_installed_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert tracer("resolver") is None
    assert not caplog.messages
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")
    assert tracer("resolver") is None
    assert len(caplog.messages) == 1
    assert "extra otel" in caplog.messages[0]


def _end_a_span(spans: Tracer) -> None:
    spans.request("", "GET", "page").end(200)


def test_a_receiver_that_refuses_is_complained_about_once_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with SpanReceiver(status=400) as receiver:
        monkeypatch.setenv(ENDPOINT, receiver.url)
        spans = tracer("resolver")
        assert spans is not None
        for count in range(1, 5):
            _end_a_span(spans)
            receiver.wait_for_posts(count)
        spans.close()
    assert [COMPLAINT in each for each in caplog.messages] == [True]


def test_where_nothing_listens_one_sentence_is_logged_and_the_end_does_not_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{free_port()}")
    spans = tracer("resolver")
    assert spans is not None
    _end_a_span(spans)
    until(lambda: caplog.messages, pause=0.01)
    _end_a_span(spans)
    monkeypatch.setattr("ibi.runtime.tracing.LAST_SECONDS", 0.1)
    began = time.monotonic()
    spans.close()
    assert time.monotonic() - began < 5  # the library tries again for ten seconds
    assert [COMPLAINT in each for each in caplog.messages] == [True]
