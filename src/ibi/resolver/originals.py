"""Which of several Archives has the original (R15 8.2, RES-08, AMB-51); pure.

Claims count whether or not a reader may be sent to their URLs: whoever claims is part of the question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ibi.protocol.choice import Found, wanted
from ibi.protocol.url_list import UrlList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.relation import Relation
    from ibi.resolver.selection import Archive


class Offer(NamedTuple):
    """What an Archive has of what is wanted."""

    archive: Archive
    answer: UrlList
    found: Found

    def contradicts(self, other: Offer) -> bool:
        """Whether both cannot be the original: for one relation there is one, and each item has one (ARC-03)."""
        if other is self:
            return False
        mine, theirs = self.found.entry.forms, other.found.entry.forms
        same_item = mine is None or theirs is None or mine.shares(theirs)
        return same_item or self.found.relation == other.found.relation


def contradicting(claims: Sequence[Offer]) -> list[Offer]:
    """The claims of which not all can be true."""
    return [claim for claim in claims if any(map(claim.contradicts, claims))]


def preferred(claims: Sequence[Offer], wanted_relation: Relation, preference: LanguagePreference) -> Offer:
    """Of originals of different items, which only differ in language, the one that suits the reader."""
    if len(claims) == 1:
        return claims[0]  # as nearly always
    said = {name: value for claim in reversed(claims) for name, value in claim.answer.pairs.items()}
    relations = [claim.found.relation for claim in claims]
    found = wanted(UrlList(said), wanted_relation, preference, relations)
    chosen = found.relation if found else relations[0]
    return next(claim for claim in claims if claim.found.relation == chosen)
