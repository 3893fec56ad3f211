"""What an alert shows a reader besides its title: how to go on, and what each Archive answered (RES-13); pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.http.well_known import mail_url
from ibi.identifier.ibip import EPOCH, IBIp
from ibi.identifier.legacy import LegacyId
from ibi.protocol.relation import Step, StepKind
from ibi.resolver.model.alert import ALERT_KINDS, Alert, AlertKind
from ibi.resolver.model.archive import moment_text
from ibi.resolver.model.statements import WORDS, ArchiveStatement, RoundStatements, Statements, silence
from ibi.resolver.model.suggestion import Absence, Responsible, SuggestedLink, Suggestions, parse_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ibi.identifier.forms import Name
    from ibi.resolver.model.archive import Archive, AwayArchive
    from ibi.resolver.model.statements import What
    from ibi.resolver.model.suggestion import ParsedRequest
    from ibi.resolver.pages.explanation import ExplainedRound, Explanation


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
    "archive": "What its Archive may know of it",
    "explain": "How this link is resolved",
}
"""Links that help a reader to go on."""

_TOMORROW: Final = 86_400  # seconds


class ResponsibleArchives:
    """The included Archives, by the names of their services and by the prefixes of these."""

    def __init__(self, archives: Iterable[Archive] = ()) -> None:
        self.by_name: dict[str, Responsible] = {}
        """By the IBI of the service, as it is spelled."""
        self._by_prefix: dict[str, list[Responsible]] = {}
        for each in archives:
            known = self.by_name[each.name] = responsible_of(each)
            # A label has only one "/", the name of a repository at least three.
            prefix = each.name.lower().rsplit("/", 2)[0]
            self._by_prefix.setdefault(prefix, []).append(known)

    def of(self, alert: Alert, name: Name) -> tuple[Responsible, ...]:
        """Return the Archives that an alert names; if it names none, those with the prefix of the item."""
        if alert.archives:
            found = [self.by_name[each] for each in alert.archives if each in self.by_name]
        else:
            found = self._by_prefix.get(name.prefix.lower(), [])
        return tuple(found[:MOST_RESPONSIBLE])


def responsible_of(archive: Archive) -> Responsible:
    """Return what a reader may know of an Archive."""
    mail = archive.admin_mail if mail_url(archive.admin_mail) else ""
    since = moment_text(archive.included_at) if archive.included_at else ""
    return Responsible(archive.name, archive.address, mail, archive.titles, since)


def with_absences(
    alert: Alert,
    archives: ResponsibleArchives,
    away: Iterable[AwayArchive],
    heard: Callable[[str], float | None],
) -> Alert:
    """Add to an alert which Archives gave no answer, and since when; return any other alert as it is.

    `away`: the Archives that are switched off; `heard` returns when an Archive was heard last, in POSIX seconds.
    """
    if alert.coverage is None or not alert.coverage.silent:
        return alert
    switched_off = {each.archive.name: each for each in away}
    found = []
    for name, _ in alert.coverage.silent[:MOST_RESPONSIBLE]:
        off, known = switched_off.get(name), archives.by_name.get(name)
        if off is not None:
            back_at = "" if off.back_at is None else moment_text(off.back_at)
            found.append(Absence(responsible_of(off.archive), moment_text(off.excluded_at), back_at))
        elif known is not None:
            seconds = heard(name)
            found.append(Absence(known, heard="" if seconds is None else moment_text(seconds)))
    return replace(alert, absences=tuple(found))


def with_suggestions(
    alert: Alert, archives: ResponsibleArchives, roots: Mapping[str, str], now: float
) -> Alert:
    """Add suggestions how to go on to an alert about a persistent URL; return any other alert as it is.

    `archives`: the included ones; `roots`: the known roots of their URLs; `now`: POSIX seconds.
    """
    parsed = parse_request(alert.url) if alert.url and alert.problem is None else None
    if parsed is None:
        return alert
    properties = ALERT_KINDS[alert.kind]
    concerned = archives.of(alert, parsed.url.ibi) if properties.resolved else ()
    suggestions = Suggestions(
        parsed,
        ways=tuple(_ways(alert, parsed, concerned, roots)),
        typos=tuple(_typos(parsed.url.ibi, now)) if properties.shows_typos and not alert.known else (),
        responsible=concerned,
        others=max(0, alert.coverage.answered - len(set(alert.archives))) if alert.coverage else None,
        to=_to(alert, concerned),
        places=tuple(
            (each.service_ibi, _place(each, parsed.url.ibi, roots))
            for each in (concerned if alert.kind is AlertKind.SUSPECT_ORIGINALS else ())
        ),
    )
    return replace(alert, suggestions=suggestions)


def _ways(
    alert: Alert, parsed: ParsedRequest, concerned: tuple[Responsible, ...], roots: Mapping[str, str]
) -> Iterator[SuggestedLink]:
    url, kind = parsed.url, alert.kind
    known = alert.known or kind is AlertKind.NO_TRANSLATION
    if ALERT_KINDS[kind].offers_retry:
        yield SuggestedLink(WAYS["again"], url.text)
    if url.original_required and kind in {
        AlertKind.NO_ORIGINAL,
        AlertKind.SUSPECT_ORIGINALS,
        AlertKind.INCOMPLETE,
    }:
        yield SuggestedLink(WAYS["copy"], parsed.path())
    if known and url.file_path:
        yield SuggestedLink(WAYS["whole"], parsed.path(file=False, file_list=False))
        yield SuggestedLink(WAYS["files"], parsed.path(file=False, file_list=True))
    if known and any(step.parameter for step in url.relation.steps):
        bare = tuple(Step(step.kind) for step in url.relation.steps)
        translated = any(step.kind is StepKind.TRANSLATION for step in bare)
        yield SuggestedLink(WAYS["language" if translated else "format"], parsed.path(bare))
    if known and url.relation.steps:
        yield SuggestedLink(WAYS["item"], parsed.path((), file=False, file_list=False))
    if kind is AlertKind.DELETED:
        for each in concerned:
            yield SuggestedLink(WAYS["archive"], _place(each, url.ibi, roots))
    if ALERT_KINDS[kind].resolved:
        yield SuggestedLink(WAYS["explain"], f"/-/explain{url.text}")


def _place(archive: Responsible, name: Name, roots: Mapping[str, str]) -> str:
    """Return the page of an item at an Archive of ours."""
    root = roots.get(archive.service_ibi, f"http://{archive.address}")
    return f"{root}/-/item/{name}"


def _typos(name: Name, now: float) -> Iterator[IbiError]:
    """Find what looks wrong in a name that no Archive knows."""
    seconds = name.date.seconds
    if name.date.text is None:
        yield IbiError("no calendar has this date")
    elif seconds is not None and seconds < EPOCH:
        yield IbiError("no label is older than August 1995")
    # Up to a day later than now is no mistake, since clocks and time zones differ.
    elif seconds is not None and seconds > now + _TOMORROW:
        yield IbiError("its date, {date}, has not come yet", date=name.date.text)
    if isinstance(name, LegacyId):
        yield IbiError("this is an opaque id from before the standard: upper and lower case matter")
    elif isinstance(name, IBIp) and name.ip is None:
        yield IbiError("the prefix spells no IP address")


def _to(alert: Alert, concerned: tuple[Responsible, ...]) -> tuple[str, ...]:
    """Return the mail addresses for a report: first the administrators that can put the fault right."""
    if not alert.investigated and alert.kind is not AlertKind.NO_TRANSLATION:
        return ()
    own = [alert.contact] if mail_url(alert.contact) else []
    theirs = [each.mail for each in concerned if each.mail]
    first, second = (theirs, own) if ALERT_KINDS[alert.kind].archive_first else (own, theirs)
    return tuple(dict.fromkeys((*first, *second)))[:MOST_RESPONSIBLE]


MOST_NAMED: Final = 30
"""Archives that one alert names with their responses; beyond that, those without the item are counted."""

MOST_SHOWN_ROUNDS: Final = 8
"""Rounds that one alert shows: the last ones, which led to it."""

_NOTHING: Final = "nothing known"
_RANKS: Final = {what: rank for rank, what in enumerate(WORDS)}


def with_responses(alert: Alert, explanation: Explanation) -> Alert:
    """Add to an alert what each Archive answered in the rounds that led to it."""
    if alert.coverage is None or not explanation.rounds:
        return alert
    rounds = explanation.rounds[-MOST_SHOWN_ROUNDS:]
    # Of a thousand Archives, nearly all answer that they do not know the item. A page that names them all
    # would help no reader, so these are only counted if there are too many.
    responses = [
        each.informative + [ArchiveStatement(name, "", "not waited for") for name in each.late]
        for each in rounds
    ]
    responses[-1] += _elsewhere(alert, explanation.rounds)
    ignorant = [each.ignorant for each in rounds]
    if sum(map(len, responses)) + sum(ignorant) <= MOST_NAMED:
        ignorant = [0] * len(ignorant)
        for number, each in enumerate(rounds):
            responses[number] += [one for one in each.statements if one.what == _NOTHING]
            responses[number] += [ArchiveStatement(one.name, one.address, _NOTHING) for one in each.negatives]
    named = _most_informative(responses)
    first = len(explanation.rounds) - len(rounds) + 1
    shown = map(_shown_round, count(first), rounds, responses, named, ignorant)
    return replace(alert, statements=Statements(tuple(shown)))


def _most_informative(responses: list[list[ArchiveStatement]]) -> list[list[ArchiveStatement]]:
    """Return the responses of each round that are named, the most informative first."""
    ranked = sorted(
        (_RANKS[each.what], each.archive, number, index)
        for number, of_round in enumerate(responses)
        for index, each in enumerate(of_round)
    )
    named: list[list[ArchiveStatement]] = [[] for _ in responses]
    for *_, number, index in ranked[:MOST_NAMED]:
        named[number].append(responses[number][index])
    return named


def _shown_round(
    number: int,
    explained: ExplainedRound,
    responses: list[ArchiveStatement],
    named: list[ArchiveStatement],
    ignorant: int,
) -> RoundStatements:
    """Make a round that lists the `named` responses and counts all others."""
    counts: Counter[What] = Counter(each.what for each in responses)
    counts.subtract(each.what for each in named)
    counts[_NOTHING] += ignorant
    return RoundStatements(
        number,
        explained.ibi,
        explained.verbs,
        explained.file_path,
        tuple(named),
        tuple((what, counts[what]) for what in WORDS if counts[what]),
    )


def _elsewhere(alert: Alert, rounds: list[ExplainedRound]) -> list[ArchiveStatement]:
    """Return the silence of the upstream resolver, which is not among the Archives of the rounds."""
    named = {archive for each in rounds for archive in each.queried}
    # An Archive that is switched off was not asked, but is among the responses.
    named |= {statement.archive for each in rounds for statement in each.informative}
    silent = alert.coverage.silent if alert.coverage else ()
    return [ArchiveStatement(name, "", silence(why), why) for name, why in silent if name not in named]
