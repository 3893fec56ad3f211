"""A check that refuses an item about which an answer would be longer than resolvers read (T10; pure).

The check makes two answers: one about all translations of the item, and one about all its formats. It cannot
foresee that links of several items multiply, or that a linked item changes later; the Archive then refuses
the single request whose answer would be too long (`service.messages`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.model.answer import url_list
from ibi.errors import AnswerTooLong, BadItem
from ibi.protocol import pair_list, vocabulary
from ibi.protocol import url_list as lists
from ibi.protocol.messages import UrlRequest
from ibi.protocol.pair_list import write_pairs
from ibi.protocol.relation import Relation, Step, StepKind
from ibi.protocol.verb_list import VerbList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.archive.model.answer import ArchiveIdentity
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.identifier.forms import Name
    from ibi.protocol.pair_list import Value

# A quarter is left, because other answers may have longer names of pairs, a longer key, or other IBI forms.
LONGEST_ANSWER: Final = pair_list.MAX_BODY * 3 // 4
"""Bytes of the longest answer about an item that is added or changed."""
MOST_PAIRS: Final = pair_list.MAX_PAIRS * 3 // 4
"""Pairs of the longest answer about an item that is added or changed."""
MOST_RELATIONS: Final = lists.MOST_RELATIONS * 3 // 4
"""Relations in the longest answer about such an item: translations, or formats of metadata."""

# Up to 16 links of 8 KiB each cannot make an answer reach the limits.
_FEW: Final = 16


def check_answers(
    holding: Holding, lookup: Lookup, identity: ArchiveIdentity, *, filtered: bool = True
) -> None:
    """Refuse an item about which an answer would be too long. Raises BadItem with the limits.

    `lookup` finds the other items; `filtered`: whether answers hold only what a request needs.
    """
    few = len(holding.translations) <= _FEW and len(holding.formats) <= _FEW
    if few or holding.deleted:
        return

    def found(name: Name) -> Holding | None:
        return holding if name.canonical in holding.forms.canonicals else lookup(name)

    _check(len(holding.translations), 0, 0)  # before thousands are looked up
    # A request for a format that the item does not have is answered with all the formats that it has.
    absent = next(name for name in map(str, range(len(holding.formats) + 1)) if name not in holding.formats)
    for step in (Step(StepKind.TRANSLATION), Step(StepKind.METADATA, absent)):
        request = UrlRequest((), holding.forms.main, "", VerbList.of(Relation((step,))))
        try:
            pairs = url_list(found, identity, request, "0", filtered=filtered).pairs
        except AnswerTooLong:
            raise _too_many() from None
        _check(_relations(pairs), len(pairs), len(write_pairs(pairs)))


def _relations(pairs: Mapping[str, Value]) -> int:
    return max(
        sum(name.startswith(f"{word}.") for name in pairs) for word in (vocabulary.IBI, vocabulary.URL)
    )


def _check(relations: int, pairs: int, size: int) -> None:
    if relations > MOST_RELATIONS or pairs > MOST_PAIRS or size > LONGEST_ANSWER:
        raise _too_many()


def _too_many() -> BadItem:
    return BadItem(
        "so many translations or formats are more than a resolver reads: an answer about an item has at most "
        "{relations} of them, {pairs} pairs and {size} bytes",
        relations=MOST_RELATIONS,
        pairs=MOST_PAIRS,
        size=LONGEST_ANSWER,
    )
