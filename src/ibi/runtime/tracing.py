"""Traces: passes a `traceparent` on (W3C Trace Context), and exports spans where OpenTelemetry is wanted.

    not installed, or no endpoint     `tracer` returns None, nothing of OpenTelemetry is imported, no span is made
    OTEL_EXPORTER_OTLP_ENDPOINT       spans are sent by OTLP over HTTP, from a thread of their own; where they
    (or …_TRACES_ENDPOINT) is set     cannot be sent they are lost, and no request waits for that

No span tells who the reader is, what a persistent URL asks for, or any key (T15: keys in logs; T28: privacy of
readers): the names of attributes are those below, and their values are from fixed lists or the service IBI of an
Archive.
"""

from __future__ import annotations

import logging
import re
import time
from contextvars import ContextVar
from os import urandom
from threading import Thread
from typing import TYPE_CHECKING, Final, Literal

from ibi.runtime.environment import environment_wants_traces

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OTelSpan

TRACEPARENT: Final = b"traceparent"

METHOD: Final = "http.request.method"
STATUS: Final = "http.response.status_code"
KIND: Final = "ibi.kind"
"""The kind of a request, as in the metrics."""
OUTCOME: Final = "ibi.outcome"
ARCHIVE: Final = "ibi.archive"
"""The service IBI of the Archive that is asked."""

SECONDS_BETWEEN_COMPLAINTS: Final = 60.0
"""Seconds for which a further sentence about traces that cannot be exported is left out of the log."""
LAST_SECONDS: Final = 2.0
"""How long a program that ends waits for its last spans to be sent."""

_VALID: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})-(?P<span>(?!0{16})[0-9a-f]{16})"
    r"-(?P<flags>[0-9a-f]{2})(?P<more>-[!-~]*)?",
    re.ASCII,
)
_LIBRARIES: Final = ("opentelemetry", "urllib3.connectionpool")  # that complain about an endpoint

_log = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]


def child_headers(parent: str) -> Headers:
    """Return the headers of requests that belong to a traceparent: a new span; () for one that is not valid."""
    found = _read(parent)
    if found is None:
        return ()
    return _headers(found["trace"], urandom(8).hex(), int(found["flags"], 16))


def _read(parent: str) -> re.Match[str] | None:
    found = _VALID.fullmatch(parent)
    return None if found is None or (found["version"] == "00" and found["more"]) else found


def _headers(trace: str, span: str, flags: int) -> Headers:
    sampled = flags & 1  # the only flag of version 00
    return ((TRACEPARENT.decode(), f"00-{trace}-{span}-{sampled:02x}"),)


class Span:
    """A part of a trace, which is exported when it has ended."""

    __slots__ = ("_before", "_span", "_tracer")

    def __init__(self, tracer: Tracer, span: OTelSpan) -> None:
        self._tracer = tracer
        self._span = span
        self._before: Token[Span | None] | None = None

    def enter(self, name: str) -> Span:
        """Begin a part of this span, which is the current one until it ends, in the same task."""
        child = self.child(name)
        child._before = current_span.set(child)  # noqa: SLF001 - it is of this class
        return child

    def child(self, name: str, kind: Literal["INTERNAL", "CLIENT"] = "INTERNAL", **values: str) -> Span:
        """Begin a part of this span; `values`: attributes by the names of their constants, in lower case."""
        return self._tracer.begin(self._span, name, kind, values)

    def end(self, outcome: str | int, *, failed: bool = False) -> None:
        """End the span, unless it has ended: with a status of HTTP or another outcome."""
        if self._before is not None:
            current_span.reset(self._before)
            self._before = None
        if self._span.is_recording():
            self._span.set_attribute(STATUS if isinstance(outcome, int) else OUTCOME, outcome)
            if failed:
                self._span.set_status(self._tracer.error)
            self._span.end()

    @property
    def headers(self) -> Headers:
        """The headers of a request that is a part of this span."""
        context = self._span.get_span_context()
        return _headers(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)


current_span: ContextVar[Span | None] = ContextVar("current_span", default=None)
"""The span of the request that is handled, or of its resolution; None where no spans are made."""


class Tracer:
    """Makes the spans of one program. Raises ImportError where OpenTelemetry is not installed."""

    def __init__(self, program: str) -> None:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        complaints = _Complaints()
        for name in _LIBRARIES:
            library = logging.getLogger(name)
            library.handlers, library.propagate = [complaints], False
        # What the environment says of the program (OTEL_SERVICE_NAME) comes before our name of it.
        resource = Resource.create({SERVICE_NAME: f"ibi-{program}"}).merge(OTELResourceDetector().detect())
        self._provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._make = self._provider.get_tracer("ibi").start_span
        self._trace = trace
        self.error = trace.Status(trace.StatusCode.ERROR)

    def request(self, parent: str, method: str, kind: str, began: int | None = None) -> Span:
        """Begin the span of a request with this `traceparent`, or at `began` (nanoseconds since 1970)."""
        found, trace, remote = _read(parent) if parent else None, self._trace, None
        if found is not None:
            flags = trace.TraceFlags(int(found["flags"], 16) & 1)
            context = trace.SpanContext(
                int(found["trace"], 16), int(found["span"], 16), is_remote=True, trace_flags=flags
            )
            remote = trace.NonRecordingSpan(context)
        return self.begin(remote, f"{method} {kind}", "SERVER", {"method": method, "kind": kind}, began)

    def begin(
        self, parent: OTelSpan | None, name: str, kind: str, values: dict[str, str], began: int | None = None
    ) -> Span:
        """Begin a span, of a new trace without a `parent`."""
        context = self._trace.set_span_in_context(parent or self._trace.INVALID_SPAN)
        attributes = {_NAMES[each]: value for each, value in values.items()}
        span = self._make(name, context, self._trace.SpanKind[kind], attributes, start_time=began)
        return Span(self, span)

    def close(self) -> None:
        """Send what has not been sent, for a moment. Blocks, so do not call it in an event loop."""
        last = Thread(target=self._provider.shutdown, daemon=True)  # it waits for an endpoint that hangs
        last.start()
        last.join(LAST_SECONDS)


_NAMES: Final = {"method": METHOD, "kind": KIND, "archive": ARCHIVE}


class _Complaints(logging.Handler):
    """Writes one sentence a minute of what libraries say while traces cannot be exported."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS_BETWEEN_COMPLAINTS
            _log.warning("traces are not exported: %s", record.getMessage())


def tracer(program: str) -> Tracer | None:
    """Return what makes the spans of a program; None where no endpoint is set, or OpenTelemetry is not installed."""
    if not environment_wants_traces():
        return None
    try:
        return Tracer(program)
    except ImportError:
        _log.warning("no traces are exported: install ibi with the extra otel (pip install 'ibi[node,otel]')")
        return None
