"""A receiver of spans on loopback: what a collector of OpenTelemetry does with OTLP over HTTP, and no more."""

from __future__ import annotations

import ssl
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Final, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SentSpan

if TYPE_CHECKING:
    from pathlib import Path

_SECONDS: Final = 30.0


@dataclass(frozen=True)
class Received:
    """One span: which program sent it, its place in the trace (hexadecimal; "" for no parent), what it tells."""

    program: str
    name: str
    kind: str
    trace: str
    span: str
    parent: str
    values: dict[str, str | int]
    failed: bool
    seconds: float


class SpanReceiver:
    """A receiver with a port of its own; `status` is what it answers, once `may_answer` is set.

    `tls`: the files of certificate and key, for https.
    """

    def __init__(self, status: int = 200, tls: tuple[Path, Path] | None = None) -> None:
        self.raw: list[bytes] = []
        self.paths: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                receiver.paths.append(self.path)
                receiver.raw.append(self.rfile.read(int(self.headers["content-length"])))
                receiver.may_answer.wait(_SECONDS)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.may_answer.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def spans(self) -> list[Received]:
        """All spans that have come."""
        found = []
        for body in list(self.raw):
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                of_program = {each.key: each.value.string_value for each in resource.resource.attributes}
                for scope in resource.scope_spans:
                    found += [_received(of_program["service.name"], span) for span in scope.spans]
        return found

    def wait_for_posts(self, count: int) -> None:
        """Wait until it was sent something so many times."""
        end = time.monotonic() + _SECONDS
        while len(self.raw) < count:
            assert time.monotonic() < end, f"{len(self.raw)} of {count}"
            time.sleep(0.01)


def _received(program: str, span: SentSpan) -> Received:
    values: dict[str, str | int] = {
        each.key: each.value.int_value if each.value.HasField("int_value") else each.value.string_value
        for each in span.attributes
    }
    return Received(
        program,
        span.name,
        SentSpan.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        values,
        span.status.code == span.status.STATUS_CODE_ERROR,
        (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )
