"""How a reader who gets an alert can go on (RES-13): decided from the alert and what is known of Archives; pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.identifier.ibip import EPOCH, IBIp
from ibi.identifier.legacy import LegacyId
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.relation import Step
from ibi.resolver.advice import Advice, Responsible, Way, is_mail
from ibi.resolver.alerts import Alert, Kind
from ibi.resolver.wish import wish_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.identifier.forms import Name
    from ibi.resolver.wish import Wish

MOST_RESPONSIBLE: Final = 5
"""Archives whose administrators are named in one alert."""

WAYS: Final = {
    "again": "Try again",
    "copy": "Any copy of it",
    "item": "The item itself",
    "whole": "The item without this file",
    "files": "The list of its files",
    "language": "The same in your language, or in any that there is",
    "format": "The metadata in any format",
    "archive": "What its Archive may tell of it",
    "explain": "How this URL is resolved",
}
"""Where a reader can go on."""

_RESOLVED: Final = frozenset(
    {
        *(Kind.NOT_FOUND, Kind.DELETED, Kind.NO_TRANSLATION, Kind.NO_ORIGINAL),
        *(Kind.SUSPECT_ORIGINALS, Kind.INCOMPLETE, Kind.UNSAFE_URL),
    }
)
"""Alerts that came of asking Archives."""
_MISSING: Final = frozenset({Kind.NOT_FOUND, Kind.INCOMPLETE})
_LATER: Final = frozenset({Kind.INCOMPLETE, Kind.BUSY, Kind.TOO_MANY})
_OF_ARCHIVES: Final = frozenset({Kind.DELETED, Kind.NO_TRANSLATION, Kind.UNSAFE_URL, Kind.NO_ORIGINAL})
"""What an Archive can put right rather than whoever runs the resolver."""
_TOMORROW: Final = 86_400  # seconds: clocks differ, and so do zones of time


class Responsibles:
    """The Archives that are included, found by their names and by how these begin."""

    def __init__(self, archives: Iterable[Responsible] = ()) -> None:
        self._by_name: dict[str, Responsible] = {}
        self._by_prefix: dict[str, list[Responsible]] = {}
        for each in archives:
            known = each if is_mail(each.mail) else each._replace(mail="")
            self._by_name[each.service_ibi] = known
            prefix = each.service_ibi.lower().rsplit("/", 2 if "." in each.service_ibi else 1)[0]
            self._by_prefix.setdefault(prefix, []).append(known)

    def of(self, alert: Alert, name: Name) -> tuple[Responsible, ...]:
        """Those that an alert is about; where it is about none, those whose own names begin like the item's."""
        if alert.archives:
            found = [self._by_name[each] for each in alert.archives if each in self._by_name]
        else:
            found = self._by_prefix.get(name.prefix.lower(), [])
        return tuple(found[:MOST_RESPONSIBLE])


def advised(alert: Alert, archives: Responsibles, now: float) -> Alert:
    """An alert together with what helps; as it is where it is about no persistent URL.

    `archives`: all that are included here; `now`: POSIX seconds.
    """
    wish = wish_of(alert.url) if alert.url and alert.problem is None else None
    if wish is None:
        return alert
    resolved = alert.kind in _RESOLVED
    concerned = archives.of(alert, wish.url.ibi) if resolved else ()
    advice = Advice(
        wish,
        ways=tuple(_ways(alert, wish, concerned)),
        slips=tuple(_slips(wish.url.ibi, now)) if alert.kind in _MISSING and not alert.known else (),
        responsible=concerned,
        others=max(0, alert.round.answered - len(set(alert.archives))) if alert.round else None,
        to=_to(alert, concerned),
    )
    return replace(alert, advice=advice)


def _ways(alert: Alert, wish: Wish, concerned: tuple[Responsible, ...]) -> Iterator[Way]:
    url, kind = wish.url, alert.kind
    known = alert.known or kind is Kind.NO_TRANSLATION
    if kind in _LATER:
        yield Way(WAYS["again"], url.text)
    if url.original_required and kind in {Kind.NO_ORIGINAL, Kind.SUSPECT_ORIGINALS, Kind.INCOMPLETE}:
        yield Way(WAYS["copy"], wish.path())
    if known and url.file_path:
        yield Way(WAYS["whole"], wish.path(file=False, file_list=False))
        yield Way(WAYS["files"], wish.path(file=False, file_list=True))
    if known and any(step.parameter for step in url.relation.steps):
        bare = tuple(Step(step.kind) for step in url.relation.steps)
        translated = any(step.kind is StepKind.TRANSLATION for step in bare)
        yield Way(WAYS["language" if translated else "format"], wish.path(bare))
    if known and url.relation.steps:
        yield Way(WAYS["item"], wish.path((), file=False, file_list=False))
    if kind is Kind.DELETED:
        for each in concerned:
            yield Way(WAYS["archive"], f"http://{each.address}/-/item/{url.ibi}")
    if kind in _RESOLVED:
        yield Way(WAYS["explain"], f"/-/explain{url.text}")


def _slips(name: Name, now: float) -> Iterator[IbiError]:
    """What looks wrong in a name that nobody knows."""
    seconds = name.date.seconds
    if name.date.text is None:
        yield IbiError("no calendar has this date")
    elif seconds is not None and seconds < EPOCH:
        yield IbiError("no label is older than August 1995")
    elif seconds is not None and seconds > now + _TOMORROW:
        yield IbiError("its date, {date}, has not come yet", date=name.date.text)
    if isinstance(name, LegacyId):
        yield IbiError("this is an opaque id from before the standard: upper and lower case matter")
    elif isinstance(name, IBIp) and name.ip is None:
        yield IbiError("the prefix spells no IP address")


def _to(alert: Alert, concerned: tuple[Responsible, ...]) -> tuple[str, ...]:
    """Who gets a report: whoever can put it right, and whoever runs the resolver."""
    if not alert.investigated and alert.kind is not Kind.NO_TRANSLATION:
        return ()
    own = [alert.contact] if is_mail(alert.contact) else []
    theirs = [each.mail for each in concerned if each.mail]
    first, second = (theirs, own) if alert.kind in _OF_ARCHIVES else (own, theirs)
    return tuple(dict.fromkeys((*first, *second)))[:MOST_RESPONSIBLE]
