"""Items over HTTP: what an Archive holds, as programs read it. Open to all: it is what copies are made from (note 29).

GET /-/api/items?after=…&limit=…      page by page, in the order of their names
GET /-/api/items/<ibi>                one; with the scope `read`, its history too
GET /-/api/items/<ibi>/history
"""

from __future__ import annotations

from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.archive.access import day_of
from ibi.archive.holding import Access
from ibi.archive.item_lines import write_item
from ibi.archive.ledgers import copies, history
from ibi.errors import HoldingError, IbiError, NotHeld
from ibi.exchange import NO_STORE, Response, link
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT, Route, answer, in_thread, ref
from ibi.protocol.vocabulary import State
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.holding import Holding
    from ibi.interface.routes import Call

MOST_ITEMS: Final = 500
"""Items on one page."""

_USUAL_ITEMS: Final = 50
_LONGEST_AFTER: Final = 512
_DIGEST: Final = 16  # hexadecimal digits of the second half of an ETag
_FILES: Final = ("files", "target")


def routes(catalogue: Catalogue, now: Callable[[], float]) -> tuple[Route, ...]:
    """The table of what is read. `now` gives POSIX seconds."""
    reading = _Reading(catalogue, now)
    query = {
        "after": {"type": "string", "maxLength": _LONGEST_AFTER},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS, "default": _USUAL_ITEMS},
    }
    page = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": ref("item")}, "next": {"type": "string"}},
        "required": ["items"],
    }
    events = {"type": "object", "properties": {"history": ref("history")}, "required": ["history"]}
    return (
        Route("GET", "/items", None, in_thread(reading.page), "the items, page by page", gives=page, query=query),
        Route(
            "GET", "/items/<ibi>", None, in_thread(reading.one), "an item", gives=ref("item"),
            refusals=(304, 404, 410), headers={"if-none-match": {"type": "string"}},
        ),
        Route(
            "GET", "/items/<ibi>/history", Scope.READ, in_thread(reading.history),
            "what happened to an item", gives=events, refusals=(404,),
        ),
    )  # fmt: skip


def tag(holding: Holding, value: Any) -> str:
    """The ETag of an item as it is told: its timestamp, by which edits are compared, and a digest of what is told."""
    digest = sha256(answer(value).body).hexdigest()[:_DIGEST]
    return f'"{holding.timestamp}-{digest}"'


def timestamp_of(etag: str) -> str:
    """The timestamp in an ETag of an item; what is no ETag of ours gives a text that is no timestamp."""
    return etag.strip().removeprefix('"').removesuffix('"').rpartition("-")[0]


def shown(catalogue: Catalogue, holding: Holding, call: Call, day: str) -> dict[str, Any]:
    """An item as one who asks may see it on a day ("2026-11-21", UTC).

    Without the scope `read` nobody sees a list of files that is not public, nor what leads to data that are not open
    to everybody (SVC-10).
    """
    value = write_item(holding)
    reads = call.may(Scope.READ)
    if not reads:
        hidden: tuple[str, ...] = () if holding.file_list_public else _FILES
        if holding.access_on(day) is not Access.OPEN:
            hidden = (*_FILES, "url")
        value = {name: each for name, each in value.items() if name not in hidden}
    with catalogue.reading() as run:
        if holding.state is State.COPY and (source := copies.source_of(run, holding.number)) is not None:
            value["copy"] = source.facts()
        if reads:
            value["history"] = _events(run, holding)
            value["thanks"] = catalogue.thanks(holding.number)
    return value


def removed(holding: Holding) -> HoldingError:
    """What is said of a removed item: when, and why if somebody has said so."""
    problem = "{name} was removed on {date}: {reason}" if holding.reason else "{name} was removed on {date}"
    return HoldingError(problem, name=holding.forms.main, date=holding.timestamp, reason=holding.reason)


def held(catalogue: Catalogue, call: Call, day: str) -> Holding:
    """The item at the place <ibi>. Raises NotHeld; Refusal (410) for a removed one, with what is left of it."""
    name = call.name
    holding = catalogue.holding(name)
    if holding is None:
        raise NotHeld("this Archive does not hold {name}", name=name)
    if holding.deleted:
        raise Refusal(410, removed(holding), item=shown(catalogue, holding, call, day))
    return holding


def told(catalogue: Catalogue, holding: Holding, call: Call, day: str, status: int = 200) -> Response:
    """An item as an answer, with its ETag and where it is."""
    value = shown(catalogue, holding, call, day)
    location = f"{ROOT}/items/{holding.forms.main}"
    return answer(value, status, ("etag", tag(holding, value)), ("location", location))


class _Reading:
    """The functions of the table."""

    def __init__(self, catalogue: Catalogue, now: Callable[[], float]) -> None:
        self._catalogue = catalogue
        self._now = now

    def page(self, call: Call, _value: Any) -> Response:
        """Some items, and where the next ones are."""
        query = call.query
        after, limit = query.get("after", ""), query.get("limit", str(_USUAL_ITEMS))
        if not (limit.isascii() and limit.isdecimal() and len(limit) < len(str(MOST_ITEMS)) + 1):
            limit = "0"
        if not 1 <= int(limit) <= MOST_ITEMS:
            raise Refusal(400, IbiError("limit is a whole number from 1 to {most}", most=MOST_ITEMS))
        if len(after) > _LONGEST_AFTER:
            raise Refusal(400, IbiError("after is the name of an item"))
        holdings = list(islice(self._catalogue.all(after), int(limit)))
        day = self._day
        value: dict[str, Any] = {"items": [shown(self._catalogue, each, call, day) for each in holdings]}
        if len(holdings) < int(limit):
            return answer(value)
        words = urlencode({"after": holdings[-1].forms.main.canonical, "limit": limit})
        value["next"] = f"{ROOT}/items?{words}"
        return answer(value, 200, link(value["next"], "next"))

    def one(self, call: Call, _value: Any) -> Response:
        """One item, or that it is still as it was."""
        day = self._day
        holding = held(self._catalogue, call, day)
        value = shown(self._catalogue, holding, call, day)
        etag = tag(holding, value)
        known = [each.strip().removeprefix("W/") for each in call.asked.header(b"if-none-match").split(",")]
        if etag in known:
            return Response(304, headers=(("etag", etag), *NO_STORE))
        return answer(value, 200, ("etag", etag))

    def history(self, call: Call, _value: Any) -> Response:
        """What happened to an item, also to one that was removed."""
        name = call.name
        holding = self._catalogue.holding(name)
        if holding is None:
            raise NotHeld("this Archive does not hold {name}", name=name)
        with self._catalogue.reading() as run:
            return answer({"history": _events(run, holding)})

    @property
    def _day(self) -> str:
        return day_of(self._now())


def _events(run: Any, holding: Holding) -> list[dict[str, Any]]:
    return [event._asdict() for event in history.events_of(run, holding.number)]
