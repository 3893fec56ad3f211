"""Write what a resolver shows of a resolution: alerts and explanations, as HTML in the reader's language."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import ParseError
from ibi.http.well_known import mail_url
from ibi.protocol.verb_list import GET_FILE_LIST, VerbList
from ibi.protocol.vocabulary import STATE
from ibi.resolver.model.alert import ALERT_KINDS, MOST_SILENT, AlertKind
from ibi.resolver.model.statements import WORDS, ArchiveStatement
from ibi.resolver.model.suggestion import parse_request, step_words
from ibi.resolver.pages.alert_details import WAYS
from ibi.resolver.pages.explanation import BEGAN, FIRST_REASONS, PERSISTENCE
from ibi.web.rendering import html, language_name, sayer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ibi.errors import ParseError as Fault
    from ibi.resolver.model.alert import Alert, Say
    from ibi.resolver.model.statements import What
    from ibi.resolver.model.suggestion import Responsible, Suggestions
    from ibi.resolver.pages.explanation import ExplainedRound, Explanation
    from ibi.resolver.pages.page_language import PageLanguage
    from ibi.web.branding import Branding

MOST_CONCERNED: Final = 10
"""Archives concerned by an alert that its page names; the JSON document lists all."""

MOST_OPEN: Final = 8
"""Responses of Archives that an alert page shows at first; the reader can unfold the others."""

MOST_OF_A_KIND: Final = 6
"""Answers of one kind that an explanation shows; more of them are folded."""


class Look(NamedTuple):
    """How the page of an alert shows its kind: the word beside its number, a class of the sheet, an icon."""

    word: str
    sheet_class: str
    icon: str


LOOKS: Final = {
    AlertKind.BAD_URL: Look("Not understood", "warn", "warn"),
    AlertKind.NOT_FOUND: Look("Not found", "quiet", "search"),
    AlertKind.DELETED: Look("Removed", "warn", "info"),
    AlertKind.NO_TRANSLATION: Look("Not found", "quiet", "search"),
    AlertKind.NO_ORIGINAL: Look("Not found", "quiet", "search"),
    AlertKind.SUSPECT_ORIGINALS: Look("Conflict", "bad", "warn"),
    AlertKind.INCOMPLETE: Look("Only for now", "warn", "clock"),
    AlertKind.UNSAFE_URL: Look("Not safe", "bad", "warn"),
    AlertKind.TOO_FAR: Look("Leads too far", "bad", "warn"),
    AlertKind.NO_SUCH_PAGE: Look("Not found", "quiet", "search"),
    AlertKind.WRONG_HOST: Look("Another host", "bad", "warn"),
    AlertKind.WRONG_METHOD: Look("Not allowed", "bad", "warn"),
    AlertKind.TOO_LONG: Look("Too long", "bad", "warn"),
    AlertKind.LOOP: Look("Going in circles", "bad", "warn"),
    AlertKind.BUSY: Look("Only for now", "warn", "clock"),
    AlertKind.TOO_MANY: Look("Too many at once", "warn", "clock"),
}
"""Kind of an alert -> how its page shows it."""


class Act(NamedTuple):
    """What a reader can do: words, a target, a hint, the words of its button."""

    words: str
    url: str
    hint: str = ""
    button: str = ""


_HINTS: Final = {
    WAYS["copy"]: "If any copy will do, the plain link leads to one.",
    WAYS["archive"]: "The page of the Archive that held it, with what stays public.",
    WAYS["explain"]: "Who was asked, who answered what, and why.",
}
"""Words of a suggested link -> hint."""
_SHOWN: Final = {WAYS["explain"]: "See how the link was resolved"}
"""Words of a suggested link -> words for people, if others are better on a page."""
_BUTTONS: Final = {"": "Open it", WAYS["explain"]: "Explanation"}
"""Words of a suggested link -> words of its button; "": of all others."""
_MAIN: Final = {
    "": "Open the corrected link",
    "replacement": "Open the replacement",
    WAYS["copy"]: "Open any copy",
    WAYS["archive"]: "Read what is known of it",
    WAYS["item"]: "Open the item itself",
    WAYS["whole"]: "Open the item without this file",
    WAYS["files"]: "See the list of its files",
    WAYS["language"]: "Open it in another language",
    WAYS["format"]: "See the metadata in any format",
}
"""Words of a suggested link -> words of the one main button; "": of a corrected link, "replacement": of an item
that takes the place of a removed one."""
_STEP: Final = re.compile(r"!|[+:](?:\([^)]*\))?")


def alert(value: Alert, known: Mapping[str, Responsible], reader: PageLanguage, branding: Branding) -> bytes:
    """Write an alert (RES-13: the fitting alert): what was requested, what Archives answered, and how to go on.

    `known`: the included Archives by the names of their services.
    """
    translated = sayer(reader.language)
    title, suggestions = value.title(translated), value.suggestions
    silent = value.coverage.silent if value.coverage and not value.statements and not value.absences else ()
    main, acts = _acts(value, reader)
    return html(
        "alert.html",
        reader.language,
        branding,
        page=reader,
        alert=value,
        look=LOOKS[value.kind],
        title=title,
        detail=value.detail(translated),
        leading=value.leading(translated),
        caret=caret(value.problem),
        main=main,
        acts=acts,
        tombstone=value.tombstone,
        claimed_since=dict(value.claimed_since),
        first_claimant=value.first_holder or _first(value.claimed_since),
        places=dict(suggestions.places) if suggestions else {},
        wanted=suggestions.parsed.words(translated, partial(language_name, language=reader.language))
        if suggestions
        else [],
        letter=suggestions.letter(title, translated) if suggestions else "",
        contacts=list(_contacts(value, suggestions, reader.language)),
        silent=silent[:MOST_SILENT],
        more_silent=max(0, len(silent) - MOST_SILENT),
        known={each: known.get(each) for each in value.archives},
        named=_naming(known, reader.language),
        words=WORDS,
        most_open=MOST_OPEN,
        most_concerned=MOST_CONCERNED,
        may_search=ALERT_KINDS[value.kind].offers_search,
    )


def _acts(value: Alert, reader: PageLanguage) -> tuple[Act | None, list[Act]]:
    """Return the one main act, None if there is none, and the others."""
    ways = value.suggestions.ways if value.suggestions else ()
    acts = [
        Act(
            _SHOWN.get(way.words, way.words),
            reader.to(way.url) if way.url.startswith("/") else way.url,
            _HINTS.get(way.words, ""),
            _BUTTONS.get(way.words, _BUTTONS[""]),
        )
        for way in ways
    ]
    if value.proposals:
        return Act(_MAIN[""], value.proposals[0]), acts
    if value.tombstone is not None and value.tombstone.replacement is not None:
        return Act(_MAIN["replacement"], reader.to(f"/{value.tombstone.replacement.main}")), acts
    if not acts or ways[0].words == WAYS["explain"]:
        return None, acts
    return acts[0]._replace(words=_MAIN.get(acts[0].words, acts[0].words)), acts[1:]


def _first(claims: Sequence[tuple[str, str]]) -> str:
    """Return who claimed the original first; "" if none is known, or two did at one moment."""
    found = sorted((moment, name) for name, moment in claims if moment)
    return found[0][1] if found and all(moment > found[0][0] for moment, _ in found[1:]) else ""


def _contacts(value: Alert, suggestions: Suggestions | None, language: str) -> Iterable[tuple[str, str]]:
    """Yield whom to write to: pairs of who it is and a mail address."""
    absent = {each.archive.service_ibi for each in value.absences}
    cards = set(value.archives) if value.kind is AlertKind.SUSPECT_ORIGINALS else set()
    for each in suggestions.responsible if suggestions else ():
        if each.mail and each.service_ibi not in absent | cards:
            yield each.shown(language), each.mail
    if value.investigated and mail_url(value.contact):
        yield "", value.contact


def _naming(known: Mapping[str, Responsible], language: str) -> Callable[..., str]:
    """Return the function that names an Archive as readers know it: by name, address, or the IBI of its service."""

    def named(service_ibi: str, address: str = "") -> str:
        found = known.get(service_ibi)
        return found.shown(language) if found is not None else address or service_ibi

    return named


def caret(problem: Fault | None) -> list[str] | None:
    """Return a faulty text and the marks under its fault; None if there is no text."""
    return problem.caret().split("\n", 1) if problem is not None and problem.text.strip() else None


@dataclass(frozen=True, slots=True)
class ShownRound:
    """One round of an explanation. `shown`: answers, the deciding one first; `folded`: many alike.

    `decided`: the pairs of the deciding answer on which the decision rests, none if no answer decided;
    `count`: how many Archives were asked; `began`: after how many milliseconds, None for the
    first round; `next`: the item of the next round, "" for the last one.
    """

    heading: str
    why: str
    count: int
    began: int | None
    shown: Sequence[ArchiveStatement]
    decided: Sequence[tuple[str, str]]
    folded: Sequence[tuple[What, Sequence[ArchiveStatement]]]
    next: str


def explanation(
    trace: Explanation, known: Mapping[str, Responsible], reader: PageLanguage, branding: Branding
) -> bytes:
    """Write the page that explains a resolution, round by round; `known` as in `alert`."""
    translated = sayer(reader.language)
    parsed = parse_request(trace.url)
    names = partial(language_name, language=reader.language)
    parts = _parts(trace.url)
    meanings = step_words(parsed.url.relation, translated, names) if parsed else []
    steps = [text for text, is_step in parts if is_step]
    return html(
        "explain.html",
        reader.language,
        branding,
        page=reader,
        trace=trace,
        path=parsed.url.text if parsed else "",
        parts=parts,
        meanings=[
            *zip(steps, meanings, strict=False),
            *_further_meanings(trace.url, len(meanings), translated),
        ],
        named_on=parsed.named_on if parsed else "",
        rounds=_rounds(trace, translated, names),
        title=trace.alert.title(translated) if trace.alert else "",
        sentences=trace.alert.sentences(translated) if trace.alert else [],
        named=_naming(known, reader.language),
        words=WORDS,
        first_asked=FIRST_REASONS,
        began=BEGAN,
        persistence=PERSISTENCE,
    )


def _parts(url: str) -> list[tuple[str, bool]]:
    """Split a persistent URL into its parts; for each, whether it is a step of a relation."""
    parsed = parse_request(url)
    if parsed is None:
        return [(url, False)]
    path = parsed.url.text
    name, modifier = str(parsed.url.ibi), parsed.url.modifier
    before, found, after = path.partition(name + modifier)
    if not found:  # it is escaped
        return [(parsed.root, False), (path, False)]
    steps = [(each, True) for each in _STEP.findall(modifier)]
    return [
        (text, step)
        for text, step in ((parsed.root + before, False), (name, False), *steps, (after, False))
        if text
    ]


def _further_meanings(url: str, steps: int, say: Say) -> list[tuple[str, str]]:
    """Return what a persistent URL asks for beside the `steps` of its relation: the text, and words for it."""
    parsed = parse_request(url)
    words = parsed.words(say)[steps:] if parsed else []
    return [(_parts(url)[-1][0], "; ".join(words))] if words else []


def _rounds(trace: Explanation, say: Say, names: Callable[[str], str]) -> list[ShownRound]:
    follow = [after.ibi for _, after in pairwise(trace.rounds)] + [""]

    shown = []
    for number, (each, following) in enumerate(zip(trace.rounds, follow, strict=True), 1):
        answers = [*each.statements, *(ArchiveStatement(name, "", "not waited for") for name in each.late)]
        decider = _decider(answers, following, trace.archive)
        few, many = _folded(answer for answer in answers if answer is not decider)
        ahead = [] if decider is None else [decider]
        shown.append(
            ShownRound(
                _heading(number, each, say, names),
                each.why,
                len(each.queried),
                each.began if number > 1 else None,
                [*ahead, *few],
                [] if decider is None else _deciding_pairs(decider, following or trace.location),
                many,
                "" if following == each.ibi else following,
            )
        )
    return shown


def _decider(statements: Sequence[ArchiveStatement], following: str, archive: str) -> ArchiveStatement | None:
    """Return the answer that decided a round: it names the item of the next round, or leads the reader on."""
    for each in statements:
        if not following and archive and each.archive == archive and each.why is None:
            return each
        if following and any(following in value.split() for _, value in each.deciding):
            return each
    return None


def _deciding_pairs(decider: ArchiveStatement, value: str) -> list[tuple[str, str]]:
    """Return the pairs of the deciding answer with this value and its state; all pairs if none has it."""
    pairs = [each for each in decider.deciding if value in each[1].split() or each[0] == STATE]
    return pairs or decider.deciding or [("", "")]


def _folded(
    statements: Iterable[ArchiveStatement],
) -> tuple[list[ArchiveStatement], list[tuple[What, list[ArchiveStatement]]]]:
    """Return the answers that are shown, and those of which there are too many of one kind."""
    by_kind: dict[What, list[ArchiveStatement]] = defaultdict(list)
    for each in statements:
        by_kind[each.what].append(each)
    many = [(what, by_kind[what]) for what in WORDS if len(by_kind[what]) > MOST_OF_A_KIND]
    few = [each for what in WORDS if len(by_kind[what]) <= MOST_OF_A_KIND for each in by_kind[what]]
    return few, many


def _heading(number: int, each: ExplainedRound, say: Say, names: Callable[[str], str]) -> str:
    """Return the question of a round in words."""
    try:
        wanted = step_words(VerbList(each.verbs).relation, say, names)
    except ParseError:
        wanted = []
    if GET_FILE_LIST in each.verbs:
        wanted.append(say("the list of files", {}))
    details = {"number": number, "name": f"{each.ibi}{each.file_path}", "wanted": ", ".join(wanted)}
    if not wanted:
        return say("Round {number}: where is {name}?", details)
    return say("Round {number}: who knows of {name}: {wanted}?", details)
