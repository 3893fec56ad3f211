"""What was written down, over HTTP: the log, whether it is whole, and alerts of two Originals with their evidence.

GET /-/api/log?what=…&ibi=…&before=…&limit=…      entries, the latest first; `next` leads on
GET /-/api/log/verify?since=NUMBER:HASH           whether every entry is as it was written
GET /-/api/alerts?before=…                        alerts of two Originals of one item, and what the log tells of each

`next` leads to the place `at` in the log: there may be no number where lines are not as they were written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.errors import IbiError, ParseError
from ibi.exchange import link
from ibi.identifier.forms import parse_ibi
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT, Route, answer, deciding
from ibi.resolver.chain import Anchor
from ibi.resolver.log_pages import MOST_ENTRIES, facts, page, tells_of
from ibi.resolver.suspects import facts as suspects_facts
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ibi.exchange import Response
    from ibi.interface.routes import Call
    from ibi.resolver.chain import Entry
    from ibi.resolver.evidence import Evidence
    from ibi.resolver.log_pages import Page
    from ibi.resolver.suspects import Found, Suspicions

_USUAL_ENTRIES: Final = 50
_DIGITS: Final = 18
_VERIFYING: Final = threading.Semaphore(1)
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_ENTRY: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["number", "moment", "what", "facts", "previous", "hash"],
    "properties": {
        "number": _COUNT,
        "what": _TEXT,
        "facts": {"type": "object"},
        "previous": _TEXT,
        "hash": _TEXT,
    },
}
_LOG: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["entries"],
    "properties": {"entries": {"type": "array", "items": _ENTRY}, "unread": _COUNT, "next": _TEXT},
}
_ALERTS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["alerts"],
    "properties": {
        "alerts": {
            "type": "array",
            "items": {"type": "object", "required": ["ibi", "moment", "alert", "first", "claimants"]},
        },
        "unread": _COUNT,
        "next": _TEXT,
    },
}
_VERDICT: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["whole", "entries", "last", "damage"],
    "properties": {
        "whole": {"type": "boolean"},
        "entries": _COUNT,
        "last": _TEXT,
        "damage": _COUNT,
        "problem": _TEXT,
    },
}
_PLACE: Final = {"type": "integer", "minimum": 1, "maximum": 10**_DIGITS - 1}
_PLACES: Final[dict[str, dict[str, Any]]] = {"before": _PLACE, "at": _PLACE}


def routes(log: Path, evidence: Evidence, suspicions: Suspicions) -> tuple[Route, ...]:
    """The table."""
    door = _Door(log, evidence, suspicions)
    limit: dict[str, Any] = {
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_ENTRIES,
        "default": _USUAL_ENTRIES,
    }
    words: dict[str, dict[str, Any]] = {"what": _TEXT, "ibi": _TEXT, **_PLACES, "limit": limit}
    return (
        Route(
            "GET", "/log", Scope.READ, deciding(door.log), "what was written down, the latest first", gives=_LOG,
            query=words, refusals=(422,),
        ),
        Route(
            "GET", "/log/verify", Scope.ADMIN, deciding(door.verify), "whether every entry is as it was written",
            gives=_VERDICT, query={"since": _TEXT}, refusals=(422,),
        ),
        Route(
            "GET", "/alerts", Scope.READ, deciding(door.alerts), "alerts of two Originals, with their evidence",
            gives=_ALERTS, query=_PLACES, refusals=(422,),
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, log: Path, evidence: Evidence, suspicions: Suspicions) -> None:
        self._log = log
        self._evidence = evidence
        self._suspicions = suspicions

    def log(self, call: Call, _value: Any) -> Response:
        """One page."""
        words = call.query
        wanted = wanted_of(words.get("what", ""), words.get("ibi", ""))
        most = _number(words.get("limit", str(_USUAL_ENTRIES)), "limit", MOST_ENTRIES)
        found = page(self._log, wanted, _place(words, "before"), most, at=_place(words, "at"))
        return _paged("/log", words, {"entries": [facts(entry) for entry in found.entries]}, found)

    def alerts(self, call: Call, _value: Any) -> Response:
        """One page of alerts."""
        words = call.query
        found = self._suspicions.found(_place(words, "before"), _place(words, "at"))
        return _paged("/alerts", words, {"alerts": [suspects_facts(each) for each in found.alerts]}, found)

    def verify(self, call: Call, _value: Any) -> Response:
        """Read all of it; one at a time, since it may take long."""
        since = call.query.get("since")
        anchor = None if since is None else Anchor.parse(since)
        if not _VERIFYING.acquire(blocking=False):
            raise Refusal(429, IbiError("the log is being verified just now"), ("retry-after", "10"))
        try:
            verdict = self._evidence.verify(anchor)
        finally:
            _VERIFYING.release()
        told = {
            "whole": verdict.fault is None,
            "entries": verdict.entries,
            "last": str(verdict.last),
            "damage": verdict.damage,
        }
        return answer(told if verdict.fault is None else {**told, "problem": call.say(verdict.fault)})


def wanted_of(what: str, ibi: str) -> Callable[[Entry], bool]:
    """Which entries are asked for: of one kind, about one item or Archive; "" for all. Raises ParseError."""
    canonical = parse_ibi(ibi).canonical if ibi else ""
    return lambda entry: what in {"", entry.what} and (not canonical or tells_of(entry, canonical))


def _paged(path: str, words: dict[str, str], value: dict[str, Any], found: Page | Found) -> Response:
    if found.unread:
        value |= {"unread": found.unread}
    if not found.at:
        return answer(value)
    kept = {word: text for word, text in words.items() if word != "before"}
    following = f"{ROOT}{path}?{urlencode({**kept, 'at': found.at})}"
    return answer({**value, "next": following}, 200, link(following, "next"))


def _place(words: dict[str, str], word: str) -> int:
    return _number(words[word], word, 10**_DIGITS - 1) if word in words else 0


def _number(text: str, name: str, most: int) -> int:
    """A number in a query. Raises ParseError."""
    if text.isascii() and text.isdecimal() and len(text) <= _DIGITS and 1 <= int(text) <= most:
        return int(text)
    raise ParseError(
        name, text, "{name} is a whole number from {least} to {most}", name=name, least=1, most=most
    )
