"""Makes a span of each request of a service, where traces are exported (`runtime.tracing`)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from ibi.http.request import joined_headers, target_of
from ibi.runtime.tracing import TRACEPARENT, current_span, tracer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ibi.http.server.config import Answer, AtOnce
    from ibi.http.server.head import Head
    from ibi.http.server.service import Service
    from ibi.runtime.tracing import Tracer

P = ParamSpec("P")

_FAILED: Final = 500  # what uvicorn answers when an application fails, and the least status of a failure


def traced(
    program: str, kind: Callable[[str, bytes], str], now: Callable[[], int]
) -> Callable[[Callable[P, Service]], Callable[P, Service]]:
    """Decorate what makes the service of a program: its requests make spans, where traces are exported.

    `kind` returns the kind of a method and a target, `now` nanoseconds since 1970.
    """

    def decorate(make: Callable[P, Service]) -> Callable[P, Service]:
        @wraps(make)
        def made(*args: P.args, **options: P.kwargs) -> Service:
            service, spans = make(*args, **options), tracer(program)
            return service if spans is None else _with_spans(service, spans, kind, now)

        return made

    return decorate


def _with_spans(
    service: Service, spans: Tracer, kind: Callable[[str, bytes], str], now: Callable[[], int]
) -> Service:
    close, at_once = service.close, service.at_once

    async def close_both() -> None:
        await asyncio.gather(asyncio.to_thread(spans.close), *([close()] if close else []))

    return replace(
        service,
        app=_TracedRequests(service.app, spans, kind),
        close=close_both,
        at_once=_traced_at_once(at_once, spans, kind, now) if at_once else None,
        repeat=None,  # what these answer would have no span
        later=None,
    )


class _TracedRequests:
    """Wraps an ASGI application."""

    def __init__(self, app: Any, spans: Tracer, kind: Callable[[str, bytes], str]) -> None:
        self._app = app
        self._spans = spans
        self._kind = kind

    async def __call__(
        self, scope: Mapping[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, status = scope["method"], _FAILED
        span = self._spans.request(_parent(scope["headers"]), method, self._kind(method, target_of(scope)))

        async def noting(message: dict[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        token = current_span.set(span)
        try:
            await self._app(scope, receive, noting)
        finally:
            current_span.reset(token)
            span.end(status, failed=status >= _FAILED)


def _traced_at_once(
    at_once: AtOnce, spans: Tracer, kind: Callable[[str, bytes], str], now: Callable[[], int]
) -> AtOnce:
    def answer(method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
        began = now()
        found = at_once(method, target, head, peer)
        if found is not None:
            name = method.decode()
            span = spans.request(_parent(head), name, kind(name, target), began)
            span.end(found[0], failed=found[0] >= _FAILED)
        return found

    return answer


def _parent(headers: Iterable[tuple[bytes, bytes]]) -> str:
    return joined_headers(headers).get(TRACEPARENT, b"").decode("latin-1")
