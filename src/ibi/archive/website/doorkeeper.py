"""Who may have the expensive pages of an Archive now (threat T30): harvesters are let in, floods are not.

Counted is who asks, each process by itself: pages about items, and, more strictly, what costs much (search, feeds,
harvests, statistics, zip files). Files, messages of the standard, and what must always be had are not counted.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.access import vouched
from ibi.errors import IbiError
from ibi.exchange import PROBLEM
from ibi.limits import Limit, Verdict, is_loopback, source_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.exchange import Asked
    from ibi.settings import ArchiveSettings


class Cost(NamedTuple):
    """What a request costs, and of which budget."""

    costly: bool
    tokens: float = 1.0


DOORS: Final[dict[str, Cost]] = {
    **dict.fromkeys(("/-/item", "/-/metadata", "/-/files", "/-/linkset"), Cost(costly=False)),
    **dict.fromkeys(("/-/timegate", "/-/timemap", "/-/api/handles", "/-/api/items"), Cost(costly=False)),
    **dict.fromkeys(("/-/search", "/-/browse", "/-/feed", "/-/api/search"), Cost(costly=True)),
    "/-/oai": Cost(costly=False, tokens=2),
    "/-/qr": Cost(costly=False, tokens=4),
    "/-/api/statistics": Cost(costly=True, tokens=2),
    "/-/zip": Cost(costly=True, tokens=5),
}
"""By where their paths begin: two words below /-/api, one elsewhere."""


_TOKENS: Final = "/-/api/"
"""Where tokens are looked at."""


class Doorkeeper:
    """Counts who asks for what. `now` gives seconds; that it may go back does no harm."""

    def __init__(self, settings: ArchiveSettings, now: Callable[[], float]) -> None:
        self._proxies = settings.trusted_proxies
        self._now = now
        self._latest = 0.0
        self._pages = Limit("pages", settings.page_rate, settings.page_burst)
        self._costly = Limit("costly", settings.costly_rate, settings.costly_burst)

    def ask(self, asked: Asked) -> Verdict | None:
        """Whether a request may pass; None where it is not counted.

        Who sends a token to the JSON interface is not counted: a wrong one is refused there at once, and a right one is
        an administrator's word.
        """
        cost = DOORS.get(_door(asked.path)) if asked.path.startswith("/-/") else None
        if cost is None or (asked.path.startswith(_TOKENS) and asked.headers.get(b"authorization")):
            return None
        address = vouched(asked.peer, asked.header(b"x-forwarded-for"), self._proxies)
        if address is None or is_loopback(address):
            return None
        self._latest = max(self._latest, self._now())
        limit = self._costly if cost.costly else self._pages
        return limit.ask(source_of(address), self._latest, cost.tokens)


def status_of(asked: Asked) -> int:
    """With which status a request is refused: harvesters know 503 with Retry-After (OAI-PMH 3.1.2.2), others 429."""
    return 503 if _door(asked.path) == "/-/oai" else 429


def too_much(wait: float) -> IbiError:
    """Why a request does not pass; `wait` in seconds."""
    sentence = "this is more than one reader may ask for at a time; please come back in {seconds} s"
    return IbiError(sentence, seconds=ceil(wait))


def as_program(asked: Asked) -> Asked:
    """A request as it is refused: below /-/api/ always as a problem (RFC 9457)."""
    if not asked.path.startswith("/-/api/"):
        return asked
    return replace(asked, headers={**asked.headers, b"accept": PROBLEM.encode()})


def _door(path: str) -> str:
    """Where a path begins: "/-/item" of "/-/item/a/b", "/-/api/items" of "/-/api/items/a/b"."""
    words = path.split("/", 4)
    return "/".join(words[: 4 if words[2] == "api" else 3])
