"""Records of items in the JSON of the Handle System's proxy, so that clients of that system can read them.

    GET /-/api/handles/<ibi>?type=URL&index=11&pretty

    {"responseCode": 1, "handle": "<ibi>", "values": [{"index": 1, "type": "URL", "data": {"format": "string",
     "value": "http://…"}, "ttl": 60, "timestamp": "2026-11-21T10:00:00Z"}]}

The types beside URL are those of the RDA recommendation on PID kernel information, three of our own, and
10320/loc, with which the Handle System lists several places of an item. The interface only reads, so records
have neither administrators of values nor signatures.
"""

from __future__ import annotations

import json
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.errors import ParseError
from ibi.http.response import JSON, Response
from ibi.protocol.query_string import read_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.http.response import Headers

PATH: Final = "/-/api/handles/"

FOUND: Final = 1
ERROR: Final = 2
NOT_FOUND: Final = 100
NO_VALUES: Final = 200
"""Response codes."""

SECONDS: Final = 60
"""How long a value may be cached."""

PROFILE: Final = "https://doi.org/10.15497/rda00031"
"""Where the types are defined."""

TYPES: Final[dict[str, int]] = {
    "URL": 1,
    "IBI": 2,
    "IBI_STATE": 4,
    "IBI_ARCHIVE": 5,
    "KernelInformationProfile": 10,
    "digitalObjectType": 11,
    "digitalObjectLocation": 12,
    "digitalObjectPolicy": 13,
    "etag": 14,
    "dateModified": 15,
    "dateCreated": 16,
    "version": 17,
    "wasDerivedFrom": 18,
    "specializationOf": 19,
    "wasRevisionOf": 100,
    "alternateOf": 200,
    "10320/loc": 1000,
}
"""The index of the first value of each type; further values of the type have the next indexes."""

_MOST_WORDS: Final = 64  # parts of a query
_INDEX: Final = re.compile("[0-9]{1,9}")


class HandleValue(NamedTuple):
    """One value of a record; a value whose `data` is "" is unknown, and left out."""

    type: str
    data: str


class Location(NamedTuple):
    """A place of an item: its URL, "Original" or "Copy", the service IBI of its Archive; "" if unknown."""

    url: str
    state: str = ""
    archive: str = ""


def locations(places: Iterable[Location]) -> HandleValue:
    """Return the value for an item at several places, best first; only the first has weight 1 (10320/loc)."""
    written = "".join(
        f'<location id="{number}" href="{escape(url)}" weight="{int(number == 0)}"'
        f' state="{escape(state)}" archive="{escape(archive)}"/>'
        for number, (url, state, archive) in enumerate(places)
    )
    return HandleValue("10320/loc", f"<locations>{written}</locations>")


class WantedValues(NamedTuple):
    """The values that a request asks for: those of these types or indexes; all if it names neither.

    `everywhere`: whether the client wants every place of the item, which only a resolver knows.
    """

    types: frozenset[str] = frozenset()
    indexes: frozenset[int] = frozenset()
    pretty: bool = False
    everywhere: bool = False

    @classmethod
    def read(cls, query: str) -> WantedValues:
        """Read the query of a request, and pass over unknown names. Raises ParseError."""
        pairs = read_query(query) if query else []
        if len(pairs) > _MOST_WORDS:
            raise ParseError("query", query, "it has more than {limit} parts", limit=_MOST_WORDS)
        types = frozenset(value for name, value in pairs if name == "type" and value)
        texts = [value for name, value in pairs if name == "index" and value]
        odd = next((text for text in texts if _INDEX.fullmatch(text) is None), None)
        if odd is not None:
            raise ParseError("index", odd, "an index is a whole number")
        flags = {name for name, value in pairs if value != "false"}
        return cls(types, frozenset(map(int, texts)), "pretty" in flags, "all" in flags)

    def has(self, value: dict[str, Any]) -> bool:
        """Whether a value is asked for."""
        everything = not self.types and not self.indexes
        return everything or value["type"] in self.types or value["index"] in self.indexes


def handle_record(
    handle: str,
    values: Iterable[HandleValue],
    timestamp: str,
    wanted: WantedValues,
    *headers: tuple[str, str],
) -> Response:
    """Return the answer about a known item; `timestamp`: when it was last changed, RFC 3339."""
    shown = [each for each in _numbered(values, timestamp) if wanted.has(each)]
    code = FOUND if shown else NO_VALUES
    kept = ("cache-control", f"public, max-age={SECONDS}")
    return _response(200, {"responseCode": code, "handle": handle, "values": shown}, wanted, (kept, *headers))


def handle_failure(status: int, handle: str, message: str, *headers: tuple[str, str]) -> Response:
    """Return the answer about an item without a record: NOT_FOUND if `status` is 404, else ERROR."""
    code = NOT_FOUND if status == 404 else ERROR  # noqa: PLR2004 - Not Found
    content = {"responseCode": code, "handle": handle, "message": message}
    return _response(status, content, WantedValues(), (("cache-control", "no-store"), *headers))


def _numbered(values: Iterable[HandleValue], timestamp: str) -> Sequence[dict[str, Any]]:
    taken: dict[str, int] = {}
    found = []
    for kind, data in values:
        if not data:
            continue
        index = TYPES[kind] + taken.get(kind, 0)
        taken[kind] = taken.get(kind, 0) + 1
        shaped = {"format": "string", "value": data}
        found.append({"index": index, "type": kind, "data": shaped, "ttl": SECONDS, "timestamp": timestamp})
    return sorted(found, key=lambda each: int(each["index"]))


def _response(status: int, content: dict[str, Any], wanted: WantedValues, headers: Headers) -> Response:
    body = json.dumps(content, ensure_ascii=False, indent=2 if wanted.pretty else None)
    return Response(status, body.encode("utf-8", "replace"), JSON, headers)
