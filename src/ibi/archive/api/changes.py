"""The feed of changes, by which a catalogue or an index beside the Archive follows it (decision 0044).

    GET /-/api/changes               all items as they are, the newest first
    GET /-/api/changes?after=CURSOR  what follows: the rest of them, then each change in the order of commits

    CURSOR   1017-5f0c2a9e88d1b3e4         up to event 1017 of the feed
             1017-5f0c2a9e88d1b3e4-250     the items below number 250 are to come, then the events after 1017

The middle part is a digest of event 1017: after a restored backup, or in another Archive, this number is another
event, and the cursor is refused, since what it stands for can no longer be followed without a gap.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from ibi.api.operations import etag_of
from ibi.api.routes import MOMENT, ROOT, TEXT, TRUTH, Route, answer, in_thread, list_of, record
from ibi.archive.model.item import Holding
from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.search.search import page_of
from ibi.archive.store.tables import history, listings
from ibi.errors import IbiError
from ibi.http.conditional import unchanged
from ibi.http.response import NO_STORE, Refusal, Response, link

if TYPE_CHECKING:
    from ibi.api.routes import Call
    from ibi.archive.store.tables.catalogue import Catalogue, SqlRunner
    from ibi.identifier.forms import IBIForms

CHANGES: Final = f"{ROOT}/changes"
"""The path of the feed."""
MOST_CHANGES: Final = 500
"""Changes on one page."""

_USUAL: Final = 100
_CURSOR: Final = re.compile(r"([0-9]{1,18})-([0-9a-f]{16})(?:-([0-9]{1,18}))?").fullmatch
_LIMIT: Final = re.compile("[1-9][0-9]{0,2}").fullmatch
_LONGEST_CURSOR: Final = 64
# Moved: this Archive no longer has the original, or has it now.
_WORDS: Final = {"removed": "removed", "given": "moved", "received": "moved", "returned": "moved"}
_FIELDS: Final = frozenset({*(each.name for each in ITEM_FIELDS), *(each.name for each in fields(Holding))})
_FILES: Final = "files"

_CHANGE: Final = record(
    "changed",
    cursor={"type": "string", "description": "after this change, the feed goes on with `after`"},
    ibi=TEXT,
    what={"enum": ["added", "edited", "moved", "removed"]},
    changed={
        "type": "array",
        "items": TEXT,
        "description": 'the fields that were edited; "files" for any file',
    },
    moment=MOMENT,
    state={"enum": ["Original", "Copy", "Deleted"]},
    content_type={"enum": ["Data", "Metadata"]},
    page=TEXT,
)
_PAGE: Final = record(changes=list_of(_CHANGE), next=TEXT, more=TRUTH)


class _Cursor(NamedTuple):
    """A place in the feed; `below`: the items with lower numbers are to come first, None: all were told."""

    feed: int
    digest: str
    below: int | None = None

    def __str__(self) -> str:
        whole = f"{self.feed}-{self.digest}"
        return whole if self.below is None else f"{whole}-{self.below}"


@dataclass(frozen=True, slots=True)
class _Feed:
    """Reads pages of the feed; `service`: the names of the Archive's service item, which is never told of."""

    run: SqlRunner
    service: IBIForms

    def cursor(self, text: str) -> _Cursor:
        """Read the cursor of a client; "" for the beginning. Raises Refusal: 400, and 410 if a gap would follow it."""
        if not text:
            feed, below = history.feed_now(self.run)
            return _Cursor(feed, _digest(history.feed_at(self.run, feed)), below)
        found = _CURSOR(text)
        if found is None:
            raise Refusal(400, IbiError("after is the cursor of a change, or what next names"))
        feed, digest = int(found[1]), found[2]
        if digest != _digest(history.feed_at(self.run, feed)):
            raise Refusal(
                410, IbiError("this Archive cannot go on after this cursor; begin again without after")
            )
        return _Cursor(feed, digest, None if found[3] is None else int(found[3]))

    def page(self, after: _Cursor, most: int) -> tuple[list[dict[str, Any]], _Cursor, bool]:
        """Return the next changes, the cursor after them, and whether more follow."""
        if after.below is None:
            return self._events(after, most)
        numbers = history.items_below(self.run, after.below, most + 1)
        numbers, more = numbers[:most], len(numbers) > most
        held, changes = listings.holdings(self.run, numbers), []
        for number in numbers:
            after = after._replace(below=number)
            if self._shows(held[number]):
                what = "removed" if held[number].deleted else "added"
                changes.append(_facts(held[number], after, what, held[number].timestamp))
        end = after if more else after._replace(below=None)
        return changes, end, more or bool(history.feed_after(self.run, after.feed, 1))

    def _events(self, after: _Cursor, most: int) -> tuple[list[dict[str, Any]], _Cursor, bool]:
        events = history.feed_after(self.run, after.feed, most + 1)
        held, changes = listings.holdings(self.run, {event.item for event in events[:most]}), []
        for event in events[:most]:
            after = _Cursor(event.feed, _digest(event))
            detail = json.loads(event.detail or "{}")
            # What happened in another Archive came with the item when it was handed over; it changed nothing here.
            if self._shows(held[event.item]) and "archive" not in detail:
                what, changed = _kind(event, detail)
                facts = _facts(held[event.item], after, what, event.moment)
                changes.append(facts | ({"changed": changed} if changed else {}))
        return changes, after, len(events) > most

    def _shows(self, holding: Holding) -> bool:
        # An item that is not settled after a restore is told of with the event that settles it.
        return not holding.unsettled and not holding.forms.shares(self.service)


def routes(catalogue: Catalogue, service: IBIForms) -> tuple[Route, ...]:
    """Return the route of the feed."""
    query = {
        "after": {"type": "string", "maxLength": _LONGEST_CURSOR},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_CHANGES, "default": _USUAL},
    }
    return (
        Route(
            "GET", "/changes", None, in_thread(partial(_changes, catalogue, service)),
            "all items, and then each change", gives=_PAGE, refusals=(304, 410), query=query,
            headers={"if-none-match": TEXT},
        ),
    )  # fmt: skip


def _changes(catalogue: Catalogue, service: IBIForms, call: Call, _value: Any) -> Response:
    query = call.query
    after, limit = query.get("after", ""), query.get("limit", str(_USUAL))
    if not _LIMIT(limit) or int(limit) > MOST_CHANGES:
        raise Refusal(400, IbiError("limit is a whole number from 1 to {most}", most=MOST_CHANGES))
    with catalogue.reading() as run:
        feed = _Feed(run, service)
        changes, cursor, more = feed.page(feed.cursor(after), int(limit))
    following = f"{CHANGES}?{urlencode({'after': str(cursor), 'limit': limit})}"
    value = {"changes": changes, "next": following, "more": more}
    etag = etag_of(value)
    if unchanged(call.request, etag, ""):
        return Response(304, headers=(("etag", etag), *NO_STORE))
    return answer(value, 200, ("etag", etag), link(following, "next"))


def _digest(event: history.FeedEvent | None) -> str:
    """Return what tells an event from the one that has its number in another catalogue."""
    known = "" if event is None else f"{event.item} {event.number} {event.moment} {event.what} {event.detail}"
    return sha256(known.encode("utf-8", "replace")).hexdigest()[:16]


def _kind(event: history.FeedEvent, detail: dict[str, Any]) -> tuple[str, list[str]]:
    """Return what happened in a word for programs, and which fields an edit changed."""
    if event.what in _WORDS:
        return _WORDS[event.what], []
    if event.number == 1:
        return "added", []
    if event.what in {"repaired", "dropped"}:
        return "edited", [_FILES]
    # Names of files are left out, because not every list of files is public.
    names = [*detail.get("changed", ()), *detail.get("fields", ())]
    return "edited", sorted({each if each in _FIELDS else _FILES for each in names})


def _facts(holding: Holding, cursor: _Cursor, what: str, moment: str) -> dict[str, Any]:
    name = str(holding.forms.main)
    return {
        "cursor": str(cursor),
        "ibi": name,
        "what": what,
        "moment": moment,
        "state": holding.state.value,
        "content_type": holding.content_type.value,
        "page": page_of(name),
    }
