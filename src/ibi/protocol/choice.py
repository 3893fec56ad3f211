"""Which of the URLs in an answer a reader gets, in the reader's language (RES-06, RES-07, AMB-45 to AMB-47)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ibi.protocol import vocabulary as say
from ibi.protocol.relation import Kind, Relation, Step
from ibi.protocol.url_list import Entry, UrlList

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.protocol.language import LanguagePreference


class Found(NamedTuple):
    """The wanted item in an answer: the relation under which the answer gives it, and what it says of it."""

    relation: Relation
    entry: Entry


def wanted(
    answer: UrlList, relation: Relation, preference: LanguagePreference, usable: Iterable[Relation]
) -> Found | None:
    """The entry that a relation asks for, among the usable relations of an answer; None if there is none.

    A bare translation is decided by the reader's preference, step by step (RES-07): the best language; a translation
    without language; the item itself, if the answer shows which one that is. A bare language also takes one with a
    country (AMB-47).
    """
    candidates = [offered for offered in usable if relation.accepts(offered)]
    for index, step in enumerate(relation.steps):
        if step.kind is not Kind.TRANSLATION or not candidates:
            continue
        lead = Relation(candidates[0].steps[:index])
        offered = {candidate.steps[index].parameter for candidate in candidates}
        if step.parameter is None:
            offered |= _named(answer, lead, relation, index)
        chosen = _choose(answer, lead, step, offered, preference)
        candidates = [candidate for candidate in candidates if candidate.steps[index].parameter in chosen]
    return Found(candidates[0], answer.entry(candidates[0])) if candidates else None


def without_bare_translation(relation: Relation) -> Relation | None:
    """The relation without its last translation into whatever language, None if it has none (AMB-46)."""
    for index in range(len(relation.steps) - 1, -1, -1):
        if relation.steps[index] == Step(Kind.TRANSLATION):
            return Relation(relation.steps[:index] + relation.steps[index + 1 :])
    return None


def _named(answer: UrlList, lead: Relation, relation: Relation, index: int) -> set[str | None]:
    """The languages for which an answer names a translation after a lead, with a URL or not (URL-11 (b), RES-09)."""
    upto = Relation(relation.steps[: index + 1])
    named = [Relation(each.steps[: index + 1]) for each in answer.relations_of(say.IBI)]
    return {
        each.steps[index].parameter
        for each in named
        if upto.accepts(each) and each.steps[:index] == lead.steps
    }


def _choose(
    answer: UrlList, lead: Relation, step: Step, offered: set[str | None], preference: LanguagePreference
) -> tuple[str | None, ...]:
    """The parameter of the translation to take, as a tuple of one; empty if none will do."""
    languages = sorted(language for language in offered if language is not None)
    if step.parameter is not None:
        return (step.parameter if step.parameter in offered else languages[0],)
    best = preference.choose(languages)
    if best is not None:
        return (best,)
    if None in offered:
        return (None,)
    own = answer.entry(lead).forms
    for language in languages:
        translated = answer.entry(Relation((*lead.steps, Step(Kind.TRANSLATION, language)))).forms
        if own is not None and translated is not None and own.shares(translated):
            return (language,)
    return ()
