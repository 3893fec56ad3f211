"""Serve short records of an item, in the shapes of other systems.

    /<ibi>?info              for people the page of the item; for programs a record like those of ARKs (ERC,
                             with a statement of persistence); `?json` gives the same facts as JSON
    /-/api/handles/<ibi>     in the form of the Handle System's proxy: the RDA's PID kernel information

Only a persistent URL whose whole query is `info` or `json` asks for a record; any other query is the item's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import Route, in_quick_thread
from ibi.archive.model.access import withheld_from
from ibi.archive.model.formats import described
from ibi.archive.model.relations import ItemRelations
from ibi.archive.pages.mementos import Mementos
from ibi.errors import ParseError
from ibi.http import handle_records as shape
from ibi.http.handle_records import PROFILE, HandleValue, WantedValues
from ibi.http.response import JSON, NO_STORE, PLAIN, Response, visible
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ibi.api.routes import Call
    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.runtime.settings import ArchiveSettings


PERSISTENCE: Final = (
    "The name never changes and is never given to another item. The item stays until this Archive removes it or hands "
    "it over; of a removed item the name, the date and the reason stay."
)
"""The promise of an Archive about its items."""

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
_WORDS: Final[Mapping[str, Any]] = {
    "type": {"type": "array", "items": {"type": "string"}},
    "index": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 999_999_999}},
    "pretty": {"type": "string"},
}
_FOR_A_MINUTE: Final = (("cache-control", "public, max-age=60"),)
_UNKNOWN: Final = "(:unkn) unknown"


class HandleRecords:
    """The short records of one Archive's items. `now` returns POSIX seconds."""

    def __init__(self, settings: ArchiveSettings, catalogue: Catalogue, now: Callable[[], float]) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._base = settings.root
        self._root = (settings.resolver or self._base).rstrip("/")
        self._mementos = Mementos(catalogue, self._base, self._root)
        self._now = now

    def inflected(self, request: Request, url: PersistentURL, holding: Holding) -> Response | None:
        """Answer `?info` or `?json`; return None if the item that the URL leads to is not held here."""
        related = None if holding.deleted else self._walk(holding).one(url.relation)
        there = related.holding if related is not None else holding if holding.deleted else None
        if there is None:
            return None
        page = f"/-/{'metadata' if related is not None and related.page else 'item'}/{there.forms.main}"
        # Not cached, because the same URL gives programs a record.
        if url.inflection == "info" and request.form == "html":
            return Response(303, headers=(("location", visible(page)), ("vary", "accept"), *NO_STORE))
        status = 410 if there.deleted else 200
        headers = (("vary", "accept"), *_FOR_A_MINUTE)
        if url.inflection == "json" or request.form == "json":
            body = json.dumps(self._facts(there), ensure_ascii=False, indent=1).encode("utf-8", "replace")
            return Response(status, body, JSON, headers)
        return Response(status, self._record(there).encode("utf-8", "replace"), PLAIN, headers)

    def routes(self) -> tuple[Route, ...]:
        """Return the route below /-/api/."""

        async def act(call: Call) -> Response:
            return await in_quick_thread(self._handle, call.values["ibi"], call.request.query)

        says = dict.fromkeys((400, 404), _HANDLE)
        summary = "what is known of an item, as the proxy of the Handle System tells it"
        path = shape.PATH.removeprefix("/-/api") + "<ibi>"
        return (
            Route("GET", path, None, act, summary, gives=_HANDLE, refusals=(303,), query=_WORDS, says=says),
        )

    def _handle(self, raw: str, query: str) -> Response:
        try:
            name, wanted = parse_name(unescape(raw)), WantedValues.read(query)
        except ParseError as error:
            return shape.handle_failure(400, raw, str(error))
        holding = self._catalogue.holding(name)
        if holding is not None:
            holding.check_settled()
            return shape.handle_record(str(name), list(self._values(holding)), holding.timestamp, wanted)
        if self._settings.resolver:
            tail = f"?{query}" if query else ""
            # The resolver gives the record from the Archive that holds the item.
            where = ("location", visible(f"{self._root}{shape.PATH}{name}{tail}"))
            return Response(303, headers=(where, *NO_STORE))
        return shape.handle_failure(404, str(name), f"this Archive does not hold {name}")

    def _values(self, holding: Holding) -> Iterator[HandleValue]:
        """Yield the values of an item's record; fewer for a removed item."""
        forms, walk = holding.forms, self._walk(holding)
        url = None if holding.deleted else walk.url(walk.item)
        yield HandleValue("URL", url or "")
        for name in (forms.rep, forms.ibip):
            yield HandleValue("IBI", str(name) if name else "")
        yield HandleValue("IBI_STATE", holding.state.value)
        yield HandleValue("IBI_ARCHIVE", str(self._settings.service.main))
        yield HandleValue("KernelInformationProfile", PROFILE)
        yield HandleValue("digitalObjectType", holding.content_type.value)
        yield HandleValue("digitalObjectLocation", url or "")
        yield HandleValue("digitalObjectPolicy", holding.licence or holding.rights)
        yield HandleValue("dateModified", holding.timestamp)
        yield HandleValue("dateCreated", forms.main.date.text or "")
        if holding.deleted:
            return
        target = holding.target_file
        yield HandleValue("etag", target.sha256 if target and not walk.is_withheld(walk.item) else "")
        yield from self._editions(holding)
        for other in holding.translations.values():
            if not other.shares(forms):
                yield HandleValue("alternateOf", f"{self._root}/{other.main}")

    def _editions(self, holding: Holding) -> Iterator[HandleValue]:
        """Yield the series that an item belongs to, and the edition before it."""
        series = self._mementos.series(holding)
        if len(series.mementos) == 1 and series.beyond is None:
            return
        yield HandleValue("specializationOf", f"{self._root}/{series.first.main}!")
        for each in series.mementos:
            following = each.holding.next_edition
            if following is not None and following.shares(holding.forms):
                yield HandleValue("wasRevisionOf", f"{self._root}/{each.holding.forms.main}")

    def _walk(self, holding: Holding) -> ItemRelations:
        """Return the relations of an item as an unknown reader sees them."""
        # Records are cached, so they may contain only what every reader may have (SVC-10: URLs by reader).
        withheld = withheld_from(self._settings.networks, lambda: None, self._now)
        return ItemRelations(self._catalogue.holding, self._base, holding, withheld)

    def _metadata(self, holding: Holding) -> Mapping[str, tuple[MetadataValue, ...]]:
        settings = self._settings
        item = described(
            self._catalogue.holding, holding, self._base, settings.resolver, settings.address, ""
        )
        return item.metadata if item is not None else {}

    def _facts(self, holding: Holding) -> dict[str, Any]:
        kernel: dict[str, list[str]] = {}
        for value in self._values(holding):
            if value.data:
                kernel.setdefault(value.type, []).append(value.data)
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
            "replacement": str(holding.replacement.main) if holding.replacement else None,
            "metadata": metadata,
            "kernel": {kind: values[0] if len(values) == 1 else values for kind, values in kernel.items()},
            "persistence": {
                "who": self._settings.address,
                "what": PERSISTENCE,
                "until": holding.timestamp if holding.deleted else None,
            },
        }

    def _record(self, holding: Holding) -> str:
        """Write an electronic resource citation as of ARKs: one pair a line."""
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
        lines += [f"replacement: {self._root}/{holding.replacement.main}"] if holding.replacement else []
        lines += ["", "erc-support:", f"who: {self._settings.address}", f"what: {PERSISTENCE}"]
        lines += [f"when: {holding.timestamp}", f"where: {self._base}/"]
        return "\n".join(lines) + "\n"


def _joined(statements: tuple[MetadataValue, ...], otherwise: str = _UNKNOWN) -> str:
    return "; ".join(_line(statement.value) for statement in statements) or otherwise


def _line(text: str) -> str:
    """Return a text on one line, because a line break would begin another pair of the record."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())
