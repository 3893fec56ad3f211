"""The evidence: the log, alerts of two originals in it, and whether it is whole.

The latest entries come first. `next` leads to earlier ones, by the byte `at` of the log, because lines that
are not as they were written have no number.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, field, given, number_field
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, ROOT, TEXT, TRUTH, list_of, record
from ibi.errors import IbiError, NotHeld
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_ibi
from ibi.resolver.evidence.chain import Anchor
from ibi.resolver.evidence.log import EVIDENCE_FILE
from ibi.resolver.evidence.reading import MOST_ENTRIES, alert_facts, entry_facts, entry_filter, read_slice

if TYPE_CHECKING:
    from ibi.resolver.evidence.reading import AlertsSlice, LogSlice
    from ibi.resolver.operations.context import ResolverContext

_USUAL_ENTRIES: Final = 50  # entries on one page, if the query names no other number
_LAST: Final = 10**18 - 1  # a place in the log

# One at a time: to verify reads the whole log, which may take minutes and a core.
_VERIFYING: Final = threading.Semaphore(1)


class PositionFields(Fields, frozen=True):
    """Where a list goes on."""

    before: Annotated[int, number_field("only what is older than this entry", None, 1, _LAST)] = UNSET
    at: Annotated[int, number_field("where `next` leads to", None, 1, _LAST)] = UNSET


class LogFields(PositionFields, frozen=True):
    """Which entries are listed."""

    what: Annotated[str, field("only these, such as original or alert", "--what WHAT", longest=100)] = UNSET
    ibi: Annotated[str, field("only those about this item or this Archive", "--ibi IBI", longest=512)] = UNSET
    limit: Annotated[int, number_field("at most this many; without it, 50", None, 1, MOST_ENTRIES)] = UNSET


class SettleFields(Fields, frozen=True):
    """An item whose alerts were looked into."""

    ibi: Annotated[str, field("the item that two Archives have claimed", "ibi IBI", longest=512)]


class VerifyFields(Fields, frozen=True):
    """What the log must go on from."""

    since: Annotated[str, field("what `log show --head` printed once", "--since NUMBER:HASH", 100)] = UNSET


def log(context: ResolverContext, fields: LogFields) -> dict[str, Any]:
    """Entries of the log. Raises ParseError, SetupError."""
    words = given(fields)
    before, at = words.pop("before", 0), words.pop("at", 0)
    wanted = entry_filter(words.get("what", ""), words.get("ibi", ""))
    most = words.get("limit", _USUAL_ENTRIES)
    found = read_slice(context.data / EVIDENCE_FILE, wanted, before, most, at=at)
    return _page("/log", {"entries": [entry_facts(each) for each in found.entries]}, found, words)


def alerts(context: ResolverContext, fields: PositionFields) -> dict[str, Any]:
    """Alerts of two originals of one item, and what the log has about each. Raises SetupError."""
    words = given(fields)
    found = context.alerts.read(words.get("before", 0), words.get("at", 0))
    return _page("/alerts", {"alerts": [alert_facts(each) for each in found.alerts]}, found, {})


def settle(context: ResolverContext, fields: SettleFields) -> None:
    """Settle the alerts of an item. Raises Conflict, NotHeld, ParseError, SetupError.

    Nothing else changes: as long as two Archives claim the item, its next reader causes another alert.
    """
    name = parse_ibi(fields.ibi)

    def check() -> None:
        if context.if_match:
            context.check_match(alerts(context, PositionFields()))
        if not context.alerts.open_of(name.canonical):
            raise NotHeld("there is no open alert of two originals about {ibi}", ibi=name)

    context.evidence.write_if(check, "settled", ibi=str(name), by=context.who)


def _page(
    path: str, value: dict[str, Any], found: LogSlice | AlertsSlice, words: dict[str, Any]
) -> dict[str, Any]:
    """Return one page of a list; `words`: the parts of the query that the link to the next page repeats."""
    unread = {"unread": found.unread} if found.unread else {}
    following = {"next": f"{ROOT}{path}?{urlencode({**words, 'at': found.at})}"} if found.at else {}
    return {**value, **unread, **following}


def verify(context: ResolverContext, fields: VerifyFields) -> dict[str, Any]:
    """Look whether every entry is as it was written. Raises ParseError, SetupError, Refusal (429)."""
    anchor = Anchor.parse(fields.since) if fields.since is not UNSET else None
    if not _VERIFYING.acquire(blocking=False):
        raise Refusal(429, IbiError("the log is being verified just now"), ("retry-after", "10"))
    try:
        verification = context.evidence.verify(anchor)
    finally:
        _VERIFYING.release()
    result: dict[str, Any] = {
        "whole": verification.fault is None,
        "entries": verification.entries,
        "last": str(verification.last),
        "damage": verification.damage,
    }
    return result if verification.fault is None else {**result, "problem": context.say(verification.fault)}


_ENTRY: Final = record(
    number=COUNT, moment=TEXT, what=TEXT, facts={"type": "object"}, previous=TEXT, hash=TEXT
)
_LOG: Final = record("unread", "next", entries=list_of(_ENTRY), unread=COUNT, next=TEXT)
_ALERT: Final = {"type": "object", "required": ["ibi", "moment", "alert", "first", "settled", "claimants"]}
_ALERTS: Final = record("unread", "next", alerts=list_of(_ALERT), unread=COUNT, next=TEXT)
_VERIFICATION: Final = record("problem", whole=TRUTH, entries=COUNT, last=TEXT, damage=COUNT, problem=TEXT)

LOG: Final = Operation(
    "log", "what was written down", Scope.READ, LogFields, log, "GET /log", gives=_LOG, page="log",
    command="log show",
)  # fmt: skip
VERIFY: Final = Operation(
    "verify-log", "whether every entry of the log is as it was written", Scope.ADMIN, VerifyFields, verify,
    "GET /log/verify", gives=_VERIFICATION, command="log verify",
)  # fmt: skip

SETTLE: Final = Operation(
    "settle-alert", "mark the alerts of two originals of an item as settled", Scope.ADMIN, SettleFields, settle,
    "POST /alerts/<ibi>/settle", place="ibi", page="alerts",
)  # fmt: skip

OPERATIONS: Final[tuple[Operation[ResolverContext, Any], ...]] = (
    VERIFY,
    LOG,
    SETTLE,
    Operation(
        "alerts", "alerts of two Originals, with their evidence", Scope.READ, PositionFields, alerts, "GET /alerts",
        gives=_ALERTS, page="alerts",
    ),
)  # fmt: skip
