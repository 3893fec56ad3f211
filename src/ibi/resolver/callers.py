"""Programs that ask about a persistent URL in the manner of other systems; each is answered in its own shape.

    /-/api/handles/<ibi>    what its Archive said, as the proxy of the Handle System tells it
    /-/timegate/<ibi>       to the Archive that was chosen, which knows the editions (RFC 7089)
    /-/timemap/<ibi>        likewise

What is asked is resolved as for an explanation: nobody is thanked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ibi.errors import ParseError
from ibi.exchange import NO_STORE, Response, link, visible
from ibi.exchange import handles as shape
from ibi.exchange.handles import Value, Wanted
from ibi.identifier.forms import parse_name
from ibi.protocol.query_string import unescape
from ibi.protocol.vocabulary import ContentType, State
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.testifying import witnessed
from ibi.resolver.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.identifier.forms import Name
    from ibi.resolver.alerts import Say
    from ibi.resolver.explanation import Explanation, Statement

    Teller = Callable[[Explanation | Alert], Response]

TIMES: Final = ("/-/timegate/", "/-/timemap/")
EXPLAIN: Final = "/-/explain/"


@dataclass(frozen=True, slots=True)
class Caller(Visitor):
    """One request, whose answer is made by `told` of what came out."""

    told: Teller = field(kw_only=True)


def caller(visitor: Visitor, say: Say, alert: Callable[[Alert], Response]) -> Caller | Response | None:
    """Whoever asks at one of these doors, as one who wants an explanation; the answer to a request that is none.

    `alert`: how an alert is told to this visitor. None for a path that is none of these.
    """
    door = next((door for door in (shape.PATH, *TIMES) if visitor.path.startswith(door)), None)
    if door is None:
        return None
    raw = visitor.path.removeprefix(door)
    try:
        name = parse_name(unescape(raw))
        wanted = Wanted.read(visitor.query) if door == shape.PATH else Wanted()
    except ParseError as error:
        if door == shape.PATH:
            return shape.failure(400, raw, say(error.problem, error.details))
        return alert(Alert(Kind.BAD_URL, url=visitor.path, problem=error))
    teller = _handle(name, wanted, say) if door == shape.PATH else _times(door, name, alert)
    asked = replace(visitor, path=f"{EXPLAIN}{name}", query="")
    return Caller(
        asked.method, asked.path, asked.query, asked.headers, asked.addresses, peer=asked.peer, told=teller
    )


def _handle(name: Name, wanted: Wanted, say: Say) -> Teller:
    def told(outcome: Explanation | Alert) -> Response:
        alert = outcome if isinstance(outcome, Alert) else outcome.alert
        removed = alert is not None and alert.kind is Kind.DELETED
        if alert is not None and not removed:
            later = () if alert.retry_after is None else (("retry-after", str(alert.retry_after)),)
            return shape.failure(alert.status, str(name), alert.title(say), *later)
        if alert is not None:
            gone = [Value("IBI", str(name)), Value("IBI_STATE", State.DELETED.value)]
            gone += [Value("IBI_ARCHIVE", archive) for archive in alert.archives[:1]]
            return shape.record(str(name), gone, alert.timestamp, wanted)
        assert not isinstance(outcome, Alert)  # noqa: S101 - it has no alert, so it is no alert
        source = _source(outcome)
        there = () if source is None else (link(f"http://{source.address}{shape.PATH}{name}", "alternate"),)
        stamp = (source.answer.timestamp if source and source.answer else None) or ""
        return shape.record(str(name), _values(outcome, source), stamp, wanted, *there)

    return told


def _source(story: Explanation) -> Statement | None:
    """What the Archive said whose URL was chosen; None where that is the word of another resolver."""
    said = story.rounds[-1].statements if story.rounds else []
    return next((each for each in said if each.archive == story.archive and each.answer), None)


def _values(story: Explanation, source: Statement | None) -> Iterator[Value]:
    yield Value("URL", story.location)
    yield Value("KernelInformationProfile", shape.PROFILE)
    yield Value("digitalObjectLocation", story.location)
    answer = source.answer if source else None
    if source is None or answer is None:
        return
    yield Value("IBI_ARCHIVE", source.archive)
    entry = answer.entry()
    forms = answer.forms
    for name in (forms.rep, forms.ibip) if forms else ():
        yield Value("IBI", str(name) if name else "")
    yield Value("IBI_STATE", entry.state.value if entry.state else "")
    yield Value("digitalObjectType", (entry.content_type or ContentType.DATA).value)
    yield Value("dateModified", entry.timestamp or "")
    yield Value("dateCreated", (forms.main.date.text if forms else None) or "")


def _times(door: str, name: Name, alert: Callable[[Alert], Response]) -> Teller:
    def told(outcome: Explanation | Alert) -> Response:
        if isinstance(outcome, Alert):
            return alert(outcome)
        if outcome.alert is not None:
            return alert(witnessed(outcome.alert, outcome))
        source = _source(outcome)
        if source is None:
            return alert(Alert(Kind.NO_SUCH_PAGE))
        where = ("location", visible(f"http://{source.address}{door}{name}"))
        vary = (("vary", "accept-datetime"),) if door == TIMES[0] else ()
        return Response(302 if vary else 303, headers=(where, *vary, *NO_STORE))

    return told
