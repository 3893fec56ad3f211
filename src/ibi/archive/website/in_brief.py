"""What is told of an item in brief, in the manner of other systems.

    /<ibi>?info              for people the page of the item; for others a record as ARKs have it (ERC, with a statement
                             of what is promised); `?json` the same facts as JSON
    /-/api/handles/<ibi>     as the proxy of the Handle System tells it

In a persistent URL only the whole query `info` or `json` means this, as at a resolver; any other query is the item's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import withheld
from ibi.archive.related import Walk
from ibi.archive.website import kernel
from ibi.archive.website.formats import described
from ibi.archive.website.mementos import Mementos
from ibi.errors import ParseError
from ibi.exchange import JSON, NO_STORE, PLAIN, Response, visible
from ibi.exchange import handles as shape
from ibi.exchange.handles import Value, Wanted
from ibi.identifier.forms import parse_name
from ibi.interface.routes import Route, aside
from ibi.protocol.query_string import unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding, Statement
    from ibi.exchange import Asked
    from ibi.interface.routes import Call
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.settings import ArchiveSettings

PERSISTENCE: Final = (
    "The name never changes and is never given to another item. The item stays until this Archive removes it or hands "
    "it over; of a removed item the name, the date and the reason stay."
)
"""What an Archive promises of its items."""

_HANDLE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["responseCode", "handle"],
    "properties": {
        "responseCode": {"enum": [1, 2, 100, 200]},
        "handle": {"type": "string"},
        "message": {"type": "string"},
        "values": {"type": "array", "items": {"type": "object", "required": ["index", "type", "data"]}},
    },
}
_FOR_A_MINUTE: Final = (("cache-control", "public, max-age=60"),)
_UNKNOWN: Final = "(:unkn) unknown"


class InBrief:
    """Tells of one Archive's items in brief. `base` begins its pages; `now` gives POSIX seconds."""

    def __init__(
        self,
        settings: ArchiveSettings,
        catalogue: Catalogue,
        base: str,
        now: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._base = base
        self._root = (settings.resolver or base).rstrip("/")
        self._mementos = Mementos(catalogue, base, self._root)
        self._now = now

    def inflected(self, asked: Asked, url: PersistentURL, holding: Holding) -> Response | None:
        """The answer to `?info` or `?json`; None where what the URL leads to is not here."""
        related = None if holding.deleted else self._walk(holding).one(url.relation)
        there = related.holding if related is not None else holding if holding.deleted else None
        if there is None:
            return None
        page = f"/-/{'metadata' if related is not None and related.page else 'item'}/{there.forms.main}"
        if url.inflection == "info" and asked.form == "html":
            return Response(303, headers=(("location", visible(page)), ("vary", "accept"), *NO_STORE))
        status = 410 if there.deleted else 200
        headers = (("vary", "accept"), *_FOR_A_MINUTE)
        if url.inflection == "json" or asked.form == "json":
            body = json.dumps(self._facts(there), ensure_ascii=False, indent=1).encode("utf-8", "replace")
            return Response(status, body, JSON, headers)
        return Response(status, self._record(there).encode("utf-8", "replace"), PLAIN, headers)

    def routes(self) -> tuple[Route, ...]:
        """What answers below /-/api/."""
        words: Mapping[str, Any] = {
            "type": {"type": "array", "items": {"type": "string"}},
            "index": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999_999_999}},
            "pretty": {"type": "string"},
        }

        async def act(call: Call) -> Response:
            return await aside(self._handle, call.values["ibi"], call.asked.query)

        says = dict.fromkeys((400, 404), _HANDLE)
        summary = "what is known of an item, as the proxy of the Handle System tells it"
        path = shape.PATH.removeprefix("/-/api") + "<ibi>"
        return (
            Route("GET", path, None, act, summary, gives=_HANDLE, refusals=(303,), query=words, says=says),
        )

    def _handle(self, raw: str, query: str) -> Response:
        try:
            name, wanted = parse_name(unescape(raw)), Wanted.read(query)
        except ParseError as error:
            return shape.failure(400, raw, str(error))
        holding = self._catalogue.holding(name)
        if holding is not None:
            return shape.record(str(name), self._values(holding), holding.timestamp, wanted)
        if self._settings.resolver:
            tail = f"?{query}" if query else ""
            where = ("location", visible(f"{self._root}{shape.PATH}{name}{tail}"))
            return Response(303, headers=(where, *NO_STORE))
        return shape.failure(404, str(name), f"this Archive does not hold {name}")

    def _values(self, holding: Holding) -> list[Value]:
        line = self._mementos.line(holding)
        service = str(self._settings.service.main)
        return list(kernel.values(holding, self._walk(holding), line, self._root, service))

    def _walk(self, holding: Holding) -> Walk:
        """The relations of an item, for a reader of whom nothing is known."""
        kept_back = withheld(self._settings, lambda: None, self._now)
        return Walk(self._catalogue.holding, self._base, holding, kept_back)

    def _metadata(self, holding: Holding) -> Mapping[str, tuple[Statement, ...]]:
        settings = self._settings
        told = described(
            self._catalogue.holding, holding, self._base, settings.resolver, settings.address, ""
        )
        return told.metadata if told is not None else {}

    def _facts(self, holding: Holding) -> dict[str, Any]:
        told: dict[str, list[str]] = {}
        for value in self._values(holding):
            if value.data:
                told.setdefault(value.type, []).append(value.data)
        metadata = {
            element: [statement.value for statement in statements]
            for element, statements in self._metadata(holding).items()
        }
        return {
            "ibi": str(holding.forms.main),
            "url": f"{self._root}/{holding.forms.main}",
            "state": holding.state.value,
            "timestamp": holding.timestamp,
            "reason": holding.reason or None,
            "metadata": metadata,
            "kernel": {kind: values[0] if len(values) == 1 else values for kind, values in told.items()},
            "persistence": {
                "who": self._settings.address,
                "what": PERSISTENCE,
                "until": self._until(holding),
            },
        }

    def _record(self, holding: Holding) -> str:
        """An electronic resource citation, as ARKs have it: pairs, a line each."""
        metadata = self._metadata(holding)
        url = f"{self._root}/{holding.forms.main}"
        lines = [
            "erc:",
            f"who: {_joined(metadata.get('creator', ()))}",
            f"what: {_joined(metadata.get('title', ()))}",
            f"when: {_joined(metadata.get('date', ())[:1], holding.forms.main.date.text or _UNKNOWN)}",
            f"where: {url}",
            f"how: {_joined(metadata.get('type', ()), holding.content_type.value)}",
            f"state: {holding.state.value}",
        ]
        lines += [f"removed: {holding.timestamp}"] if holding.deleted else []
        lines += [f"reason: {_line(holding.reason)}"] if holding.reason else []
        lines += ["", "erc-support:", f"who: {self._settings.address}", f"what: {PERSISTENCE}"]
        lines += [f"when: {holding.timestamp}", f"where: {self._base}/"]
        return "\n".join(lines) + "\n"

    @staticmethod
    def _until(holding: Holding) -> str | None:
        """When a removed item went; None of one that is there."""
        return holding.timestamp if holding.deleted else None


def _joined(statements: tuple[Statement, ...], otherwise: str = _UNKNOWN) -> str:
    return "; ".join(_line(statement.value) for statement in statements) or otherwise


def _line(text: str) -> str:
    """A text on one line, so that it begins no other pair."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
