"""The evidence over the JSON interface: the log, and alerts of two Originals with their evidence.

GET /-/api/log?what=…&ibi=…&before=…&limit=…      entries, the latest first; `next` leads on
GET /-/api/alerts?before=…                        alerts of two Originals of one item, and what the log has about each

`next` leads to a byte `at` of the log: lines that are not as they were written have no number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from ibi.accounts.tokens import Scope
from ibi.api.routes import ROOT, Route, answer, explained
from ibi.errors import ParseError
from ibi.http.response import link
from ibi.resolver.api.openapi import COUNT, TEXT, object_schema
from ibi.resolver.evidence.pages import MOST_ENTRIES, alert_facts, entry_facts, entry_filter, read_slice

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.api.routes import Call
    from ibi.http.response import Response
    from ibi.resolver.evidence.log import Evidence
    from ibi.resolver.evidence.pages import AlertsSlice, LogSlice, OriginalsAlerts

_DEFAULT_ENTRIES: Final = 50
_MOST_DIGITS: Final = 18  # digits of a number in a query
_ENTRY: Final = object_schema(
    ["number", "moment", "what", "facts", "previous", "hash"],
    number=COUNT,
    what=TEXT,
    facts={"type": "object"},
    previous=TEXT,
    hash=TEXT,
)
_LOG: Final = object_schema(["entries"], entries={"type": "array", "items": _ENTRY}, unread=COUNT, next=TEXT)
_ALERT: Final = {"type": "object", "required": ["ibi", "moment", "alert", "first", "claimants"]}
_ALERTS: Final = object_schema(["alerts"], alerts={"type": "array", "items": _ALERT}, unread=COUNT, next=TEXT)
_POSITION: Final = {"type": "integer", "minimum": 1, "maximum": 10**_MOST_DIGITS - 1}
_POSITIONS: Final[dict[str, dict[str, Any]]] = {"before": _POSITION, "at": _POSITION}


def routes(log: Path, evidence: Evidence, alerts: OriginalsAlerts) -> tuple[Route, ...]:
    """Return the routes of the log and of the alerts in it."""
    handlers = _EvidenceHandlers(log, evidence, alerts)
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_ENTRIES, "default": _DEFAULT_ENTRIES}
    words: dict[str, dict[str, Any]] = {"what": TEXT, "ibi": TEXT, **_POSITIONS, "limit": limit}
    return (
        Route(
            "GET", "/log", Scope.READ, explained(handlers.log), "what was written down, the latest first", gives=_LOG,
            query=words, refusals=(422,),
        ),
        Route(
            "GET", "/alerts", Scope.READ, explained(handlers.alerts), "alerts of two Originals, with their evidence",
            gives=_ALERTS, query=_POSITIONS, refusals=(422,),
        ),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _EvidenceHandlers:
    """The handlers of the routes."""

    _log: Path
    _evidence: Evidence
    _alerts: OriginalsAlerts

    def log(self, call: Call, _value: Any) -> Response:
        """Answer with one page of entries."""
        words = call.query
        wanted = entry_filter(words.get("what", ""), words.get("ibi", ""))
        most = _number(words, "limit", MOST_ENTRIES, _DEFAULT_ENTRIES)
        page = read_slice(self._log, wanted, _number(words, "before"), most, at=_number(words, "at"))
        return _paged("/log", words, {"entries": [entry_facts(entry) for entry in page.entries]}, page)

    def alerts(self, call: Call, _value: Any) -> Response:
        """Answer with one page of alerts."""
        words = call.query
        page = self._alerts.read(_number(words, "before"), _number(words, "at"))
        return _paged("/alerts", words, {"alerts": [alert_facts(each) for each in page.alerts]}, page)


def _paged(path: str, words: dict[str, str], value: dict[str, Any], page: LogSlice | AlertsSlice) -> Response:
    if page.unread:
        value |= {"unread": page.unread}
    if not page.at:
        return answer(value)
    kept = {word: text for word, text in words.items() if word != "before"}
    following = f"{ROOT}{path}?{urlencode({**kept, 'at': page.at})}"
    return answer({**value, "next": following}, 200, link(following, "next"))


def _number(words: dict[str, str], name: str, most: int = 10**_MOST_DIGITS - 1, otherwise: int = 0) -> int:
    """Read a number of a query, `otherwise` where it has none. Raises ParseError."""
    text = words.get(name)
    if text is None:
        return otherwise
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and 1 <= int(text) <= most:
        return int(text)
    problem = "{name} is a whole number from {least} to {most}"
    raise ParseError(name, text, problem, name=name, least=1, most=most)
