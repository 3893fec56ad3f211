"""Counts the requests of a program: by kind and class of status, and how soon their answers begin."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ibi.http.metrics import numbers
from ibi.http.metrics.numbers import Family
from ibi.http.request import target_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from ibi.http.metrics.numbers import Families

_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")
_REFUSALS_OF_LOAD: Final = ("429", "503", "507")
_FAILED: Final = 500  # what uvicorn answers when an application fails


def families_of_requests(kinds: Sequence[str]) -> tuple[Family, ...]:
    """Return the metrics of requests of these kinds."""
    return (
        Family(
            "requests_total", "Requests, by kind and class of status.", {"kind": kinds, "status": _CLASSES}
        ),
        Family(
            "refused_for_load_total",
            "Requests refused since one client asked for too much (429), too much was under way (503), "
            "or the disk was full (507).",
            {"status": _REFUSALS_OF_LOAD},
        ),
        Family("request_seconds", "How soon answers began.", {"kind": kinds}, "histogram"),
    )


class RequestMetrics(numbers.Metrics):
    """The metrics of a program that counts its requests. `kind` returns the kind of a method and a target."""

    def __init__(self, folder: Path, families: Families, kind: Callable[[str, bytes], str]) -> None:
        super().__init__(folder, families)
        self._kind = kind
        self._requests = families.indexes("requests_total")
        self._refusals = families.indexes("refused_for_load_total")
        begin, each = families.begin("request_seconds"), len(numbers.HISTOGRAM)
        kinds = next(family for family in families.all if family.name == "request_seconds").labels["kind"]
        self._durations = {kind: begin + each * number for number, kind in enumerate(kinds)}

    def answered(self, kind: str, status: int, seconds: float, count: int = 1) -> None:
        """Count requests whose answers began after so many seconds."""
        self.values[self._requests[f"{kind} {status // 100}xx"]] += count
        refusal = self._refusals.get(str(status))
        if refusal is not None:
            self.values[refusal] += count
        self.observe(self._durations[kind], seconds, count)

    def counted(self, app: Any) -> Any:
        """Wrap an ASGI application, to count its requests."""
        return _CountedRequests(app, self)

    def kind_of(self, scope: Mapping[str, Any]) -> str:
        """Return the kind of a request."""
        return self._kind(scope["method"], target_of(scope))


class _CountedRequests:
    def __init__(self, app: Any, metrics: RequestMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(
        self, scope: Mapping[str, Any], receive: Any, send: Callable[[dict[str, Any]], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        clock = asyncio.get_running_loop().time
        began, metrics, is_counted = clock(), self._metrics, False

        async def noting(message: dict[str, Any]) -> None:
            nonlocal is_counted
            if not is_counted:  # the first message has the status
                is_counted = True
                metrics.answered(metrics.kind_of(scope), message["status"], clock() - began)
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            if not is_counted:
                metrics.answered(metrics.kind_of(scope), _FAILED, clock() - began)
            raise
