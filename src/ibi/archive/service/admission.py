"""Rate limits of the expensive pages of an Archive (threat T30): harvesters are admitted, floods are not.

Clients are counted, each process by itself: for pages about items, and, more strictly, for what costs much (search,
feeds, harvests, statistics, zip files). Files, messages of the standard and what must always be served are free.
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
    """How many tokens a request costs, and of which bucket."""

    costly: bool
    tokens: float = 1.0


COSTS: Final[dict[str, Cost]] = {
    **dict.fromkeys(("/-/item", "/-/metadata", "/-/files", "/-/linkset"), Cost(costly=False)),
    **dict.fromkeys(("/-/timegate", "/-/timemap", "/-/api/handles", "/-/api/items"), Cost(costly=False)),
    **dict.fromkeys(("/-/search", "/-/browse", "/-/feed", "/-/api/search"), Cost(costly=True)),
    # Harvesters ask for page after page, so they have the larger bucket; each page brings up to 100 records.
    "/-/oai": Cost(costly=False, tokens=2),
    "/-/qr": Cost(costly=False, tokens=4),
    "/-/api/statistics": Cost(costly=True, tokens=2),
    "/-/zip": Cost(costly=True, tokens=5),
}
"""By the route of a path (`_priced_path`)."""


_API: Final = "/-/api/"


class AdmissionControl:
    """Rate limits by client. `now` gives seconds; that it may go back does no harm."""

    def __init__(self, settings: ArchiveSettings, now: Callable[[], float]) -> None:
        self._proxies = settings.trusted_proxies
        self._now = now
        self._latest = 0.0
        self._pages = RateLimit("pages", settings.page_rate, settings.page_burst)
        self._costly = RateLimit("costly", settings.costly_rate, settings.costly_burst)

    def check(self, request: Request) -> RateDecision | None:
        """Count a request and decide whether it is admitted; None where it is not counted."""
        cost = COSTS.get(_priced_path(request.path)) if request.path.startswith("/-/") else None
        if cost is None:
            return None
        # A wrong token is refused by the JSON interface before any work; a right one is an administrator's program.
        if request.path.startswith(_API) and request.headers.get(b"authorization"):
            return None
        client = request.address(self._proxies)
        # Without a vouched address all readers behind a proxy would share one bucket.
        if client is None or is_loopback(client):
            return None
        # A clock that is set back must not fill buckets, nor empty them.
        self._latest = max(self._latest, self._now())
        limit = self._costly if cost.costly else self._pages
        return limit.admit(client_key(client), self._latest, cost.tokens)


def refusal(request: Request, wait: float) -> tuple[Request, int, IbiError]:
    """Return what the refusal of a request is written with: the request, the status, and why; `wait` in seconds."""
    # Harvesters know 503 with Retry-After (OAI-PMH 3.1.2.2), other clients 429.
    status = 503 if _priced_path(request.path) == "/-/oai" else 429
    if request.path.startswith(_API):
        # Below /-/api/ every refusal is a problem (RFC 9457).
        request = replace(request, headers={**request.headers, b"accept": PROBLEM.encode()})
    sentence = "this is more than one reader may ask for at a time; please come back in {seconds} s"
    return request, status, IbiError(sentence, seconds=ceil(wait))


def _priced_path(path: str) -> str:
    """The beginning of a path: "/-/item" of "/-/item/a/b", "/-/api/items" of "/-/api/items/a/b"."""
    words = path.split("/", 4)
    return "/".join(words[: 4 if words[2] == "api" else 3])
