"""Where the original of an item is, as a resolver leads there: through its own persistent URL, followed by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.item_lines import read_item
from ibi.errors import BadItem, HoldingError, PeerError
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import REQUIRED_STATE, State
from ibi.transport.download import Place

if TYPE_CHECKING:
    from ibi.identifier.forms import Name
    from ibi.transport.download import Downloads

_SECONDS: Final = 20.0
_MOST_BYTES: Final = 1 << 20
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OK: Final = 200


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where an original is: the URL that a reader is sent to, and what its Archive told the resolver, if that is known.

    `archives`: the root URLs under which its Archive may be, the likeliest first.
    """

    url: str
    archives: tuple[str, ...]
    told: UrlList = field(default_factory=lambda: UrlList({}))

    @property
    def timestamp(self) -> str:
        """When the item was last changed, as its Archive says; "" where it says no moment."""
        try:
            return read_item({"timestamp": self.told.timestamp}).timestamp or ""
        except BadItem:
            return ""


async def find_original(door: Downloads, resolver: str, name: Name) -> Whereabouts:
    """Ask the resolver at this root URL for the original. Raises HoldingError where it knows none, PeerError."""
    root = resolver.rstrip("/")
    target = f"/{name}?{REQUIRED_STATE}={State.ORIGINAL.value}"
    async with door.get(f"{root}{target}", most_bytes=_MOST_BYTES, seconds=_SECONDS) as reply:
        url = reply.headers.get("location", "")
        if reply.status not in _REDIRECTS or not url:
            problem = "the resolver does not lead to the original of {name}; it answered {status}"
            raise HoldingError(problem, name=name, status=reply.status)
    place = Place.parse(url)
    told = await _url_list(door, f"{root}/-/explain{target}")
    address = told.archive_address
    roots = ((f"http://{address}",) if address else ()) + (place.root,)
    return Whereabouts(url, tuple(dict.fromkeys(roots)), told)


async def _url_list(door: Downloads, url: str) -> UrlList:
    """What the Archive of the original said to the resolver; empty where the resolver does not explain itself."""
    accept = {"Accept": "application/json"}
    try:
        async with door.get(url, most_bytes=_MOST_BYTES, seconds=_SECONDS, headers=accept) as reply:
            return _chosen(json.loads(await reply.read())) if reply.status == _OK else UrlList({})
    except (PeerError, ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return UrlList({})  # it is only more than what is needed


def _chosen(story: Any) -> UrlList:
    """The URL list of the Archive that was chosen. Raises what reading an odd story comes to."""
    archive = story["outcome"]["archive"]
    for statement in story["rounds"][-1]["statements"]:
        if statement["archive"] == archive:
            pairs = {
                str(name): value if isinstance(value, str) else tuple(map(str, value))
                for name, value in statement["pairs"].items()
            }
            return UrlList(pairs)
    return UrlList({})
