"""The filter of a full URL list, as the standard describes it (R15 chapter 9); Archives derive only what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.protocol import vocabulary as say
from ibi.protocol.relation import Relation, Step, StepKind
from ibi.protocol.url_list import relations_of
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.item import Holding
    from ibi.protocol.pair_list import PairList
    from ibi.protocol.url_list import UrlList

_ALWAYS = frozenset({say.ARCHIVE_ADDRESS, say.IBI, say.ARCHIVE_SERVICE, say.PLATFORM_SOFTWARE})


def filter_url_list(pairs: PairList, verbs: Iterable[str]) -> PairList:
    """Remove the pairs that are useless for finishing a resolution (SVC-18, SVC-19).

    `verbs` as in a verb list; raises ParseError if they form no relation.
    """
    if pairs.get(say.STATE) == ItemState.DELETED.value:
        return dict(pairs)
    wanted = VerbList(tuple(verbs)).relation
    kept = {name: value for name, value in pairs.items() if name in _ALWAYS}
    for word in (say.CONTENT_TYPE, say.IBI, say.STATE, say.TIMESTAMP):
        kept |= _qualified(pairs, word, wanted)
    urls = _qualified(pairs, say.URL, wanted)
    if urls:
        for lead in wanted.leading():
            # Any language, or one of several variants: a better one may be known by its name alone (note 38).
            names = _qualified(pairs, say.IBI, lead)
            is_choice = lead.steps[-1].kind is StepKind.TRANSLATION and len(names) > 1
            if is_choice or Step(StepKind.TRANSLATION) in wanted.steps[: len(lead.steps) + 1]:
                kept |= names
        return kept | urls | {name: pairs[name] for name in (say.URL_KEY,) if name in pairs}
    if say.NEXT_EDITION in pairs and any(step.kind is StepKind.LAST_EDITION for step in wanted.steps):
        kept[say.NEXT_EDITION] = pairs[say.NEXT_EDITION]
    for lead in wanted.leading():
        kept |= _qualified(pairs, say.IBI, lead)
    return kept


def filtered_by_us(full: UrlList, verbs: VerbList, held: Holding | None) -> PairList:
    """The pairs of a full answer about an item that an Archive of this software gives: those of the filter, and more.

    Beside the next edition the farthest one; where the wanted language or format is not there, all that are; and
    the state of the item, whether or not the wanted URL is there (notes 6 and 19).
    """
    expected, wanted = filter_url_list(dict(full.pairs), verbs.verbs), verbs.relation
    if say.NEXT_EDITION in expected and say.FARTHEST_EDITION in full.pairs:
        expected[say.FARTHEST_EDITION] = full.pairs[say.FARTHEST_EDITION]
    if say.URL_KEY in expected:
        return expected
    if any(step.parameter for step in wanted.steps):
        for word in (say.URL, say.IBI):
            for relation in relations_of(full.pairs, word):
                if relation.kinds == wanted.kinds:
                    name = word + relation.qualifier
                    expected[name] = full.pairs[name]
    if say.NEXT_EDITION not in expected and held is not None:
        expected[say.STATE] = held.state.value
    return expected


def _qualified(pairs: PairList, word: str, pattern: Relation) -> PairList:
    """Return the pairs of a word whose relation the pattern accepts."""
    names = [word + relation.qualifier for relation in relations_of(pairs, word) if pattern.accepts(relation)]
    return {name: pairs[name] for name in names if name in pairs}
