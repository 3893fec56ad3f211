"""Whether readers should be sent to this process: GET /-/readyz (docs/contract.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.exchange import NO_STORE, PLAIN, Response

if TYPE_CHECKING:
    from ibi.resolver.registry import Registry


class Readiness:
    """Ready is a resolver that can read its registry, until it has been told to stop."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._draining = False

    async def drain(self) -> None:
        """From now on it is not ready: what is under way is ended, and nothing new should come."""
        self._draining = True

    def answer(self) -> Response:
        """200 or 503, and why. The registry is read for each answer, so nothing is ready before it was read once."""
        if self._draining:
            return Response(503, b"it is about to stop\n", PLAIN, NO_STORE)
        if not self._registry.ready():
            return Response(503, b"the registry cannot be read\n", PLAIN, NO_STORE)
        return Response(200, b"ready\n", PLAIN, NO_STORE)
