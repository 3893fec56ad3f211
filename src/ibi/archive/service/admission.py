"""Rate limits of expensive pages of an Archive (T30: slow requests), wide enough for harvesters.

Each process has two token buckets for each client: one for pages about items, OAI-PMH and QR codes, and a
stricter one for search, feeds, ResourceSync, statistics and zip files. Files, messages of the standard, and pages that
must always be served are not counted.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import IbiError
from ibi.http.client_address import is_loopback
from ibi.http.limits.token_bucket import RateDecision, RateLimit, client_key
from ibi.http.response import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.http.request import Request
    from ibi.runtime.settings import ArchiveSettings


class Cost(NamedTuple):
    """The number of tokens that a request costs, and whether its bucket is that of costly requests."""

    costly: bool
    tokens: float = 1.0


COSTS: Final[dict[str, Cost]] = {
    **dict.fromkeys(("/-/item", "/-/metadata", "/-/files", "/-/linkset"), Cost(costly=False)),
    **dict.fromkeys(("/-/timegate", "/-/timemap", "/-/api/handles"), Cost(costly=False)),
    **dict.fromkeys(("/-/api/items", "/-/api/changes"), Cost(costly=False)),
    **dict.fromkeys(
        ("/-/search", "/-/browse", "/-/statistics", "/-/feed", "/-/api/search"), Cost(costly=True)
    ),
    # Harvesters request page after page, of up to 100 records each, so they use the larger bucket.
    "/-/oai": Cost(costly=False, tokens=2),
    # A list of 50,000 changes takes two thirds of a second to write.
    "/-/resourcesync": Cost(costly=True, tokens=5),
    "/-/qr": Cost(costly=False, tokens=4),
    "/-/api/statistics": Cost(costly=True, tokens=2),
    "/-/zip": Cost(costly=True, tokens=5),
}
"""The costs of requests, by the beginning of the path (`_priced_path`)."""


_API: Final = "/-/api/"


class AdmissionControl:
    """Rate limits by client. `now` returns seconds, and may go back."""

    def __init__(self, settings: ArchiveSettings, now: Callable[[], float]) -> None:
        self._proxies = settings.trusted_proxies
        self._now = now
        self._latest = 0.0
        self._pages = RateLimit("pages", settings.page_rate, settings.page_burst)
        self._costly = RateLimit("costly", settings.costly_rate, settings.costly_burst)

    def check(self, request: Request) -> RateDecision | None:
        """Count a request and decide whether it is admitted; None if it is not counted."""
        cost = COSTS.get(_priced_path(request.path)) if request.path.startswith("/-/") else None
        if cost is None:
            return None
        # The JSON interface refuses a wrong token before any work; a right one is an administrator's program.
        if request.path.startswith(_API) and request.headers.get(b"authorization"):
            return None
        client = request.trusted_address(self._proxies)
        # Without a vouched address all readers behind a proxy would share one bucket.
        if client is None or is_loopback(client):
            return None
        # A clock that is set back must neither fill nor empty the buckets.
        self._latest = max(self._latest, self._now())
        limit = self._costly if cost.costly else self._pages
        return limit.admit(client_key(client), self._latest, cost.tokens)


def refusal(request: Request, wait: float) -> tuple[Request, int, IbiError]:
    """Return (request, status, error) for the response of a refusal; `wait` in seconds."""
    # Harvesters expect 503 with Retry-After (OAI-PMH 3.1.2.2), other clients 429.
    status = 503 if _priced_path(request.path) == "/-/oai" else 429
    if request.path.startswith(_API):
        # Below /-/api/ every refusal is a problem (RFC 9457).
        request = replace(request, headers={**request.headers, b"accept": PROBLEM.encode()})
    sentence = "this is more than one reader may ask for at a time; please come back in {seconds} s"
    return request, status, IbiError(sentence, seconds=ceil(wait))


def _priced_path(path: str) -> str:
    """Return the beginning of a path: "/-/item" of "/-/item/a/b", "/-/api/items" of "/-/api/items/a/b"."""
    words = path.split("/", 4)
    return "/".join(words[: 4 if words[2] == "api" else 3])
