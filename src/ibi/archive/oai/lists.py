"""Pages of a list of records: which entries come next, and the token for those after them (OAI-PMH 2.0, 3.5).

The list goes by (stamp, number) of the index. What changes gets a stamp that no other has passed, so whatever a
harvester has not seen yet comes later, and nothing that stayed as it is comes twice. What comes into a list in the very
second in which one of its pages ends may be left out of it: it is in the next one, from the responseDate of this.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.oai.asking import RESUMED, Fault
from ibi.archive.oai.envelope import Ending
from ibi.archive.oai.sets import index_part
from ibi.archive.oai.tokens import Place

if TYPE_CHECKING:
    from collections.abc import Container

    from ibi.archive.finding.index import Entry, Index
    from ibi.archive.oai.asking import Question
    from ibi.archive.oai.tokens import Tokens

RECORDS: Final = 100
"""Records on one page."""

HEADERS: Final = 500
"""Headers on one page, where no metadata are asked for."""

_MOST_SIZES: Final = 64
_NOT_OURS: Final = "this is no resumptionToken of this repository, or it has expired"


class Chosen(NamedTuple):
    """One page of a list: its entries, in which format, and its ending (None: it is all of the list)."""

    entries: list[Entry]
    prefix: str
    ending: Ending | None


class Lists:
    """Pages of lists of one index. `service`: number of the Archive's own service item, which is never listed."""

    def __init__(self, index: Index, tokens: Tokens, service: int) -> None:
        self._index = index
        self._tokens = tokens
        self._service = service
        self._sizes: dict[tuple[int | None, str, int | None, int | None], int] = {}

    def page(self, question: Question, prefixes: Container[str]) -> Chosen:
        """The page that a question asks for. Raises Fault."""
        place = self._place(question, prefixes)
        part = index_part(place.part)
        most = RECORDS if question.verb == "ListRecords" else HEADERS
        entries, more = self._entries(place, part, most) if part is not None else ([], False)
        if not entries:
            raise Fault("noRecordsMatch", "there are no records that were changed then, or in this set")
        if not more and not place.cursor:
            return Chosen(entries, place.prefix, None)
        size = place.size or max(self._size(place, part or ""), len(entries))
        token, expires = "", 0
        if more:
            last, expires, cursor = entries[-1], self._tokens.expiry(), place.cursor + len(entries)
            following = replace(
                place, stamp=last.stamp, number=last.number, cursor=cursor, size=size, expires=expires
            )
            token = self._tokens.write(following)
        return Chosen(entries, place.prefix, Ending(token, place.cursor, size, expires))

    def _place(self, question: Question, prefixes: Container[str]) -> Place:
        """Where the page begins: the place of a token, or the beginning of a new list."""
        if RESUMED in question.arguments:
            place = self._tokens.read(question[RESUMED], question.verb)
            if place is None or place.prefix not in prefixes:
                raise Fault("badResumptionToken", _NOT_OURS)
            return place
        prefix = question["metadataPrefix"]
        if prefix not in prefixes:
            raise Fault("cannotDisseminateFormat", f"there are no records in the format {prefix[:60]}")
        return Place(question.verb, prefix, question["set"], question.first, question.last, 0, 0, 0, 0)

    def _entries(self, place: Place, part: str, most: int) -> tuple[list[Entry], bool]:
        """The entries of a page, and whether there are more."""
        found = self._index.changed((place.stamp, place.number), place.first, place.last, part, most + 2)
        found = [entry for entry in found if entry.number != self._service]
        return found[:most], len(found) > most

    def _size(self, place: Place, part: str) -> int:
        """How many records there are in a list that begins now; counted again only when something has changed."""
        asked = (self._index.newest(), part, place.first, place.last)
        size = self._sizes.get(asked)
        if size is None:
            service = self._index.entry_of(self._service)
            is_in = service is not None and _matches(service, place, part)
            size = self._index.size(place.first, place.last, part) - is_in
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            self._sizes[asked] = size
        return size


def _matches(entry: Entry, place: Place, part: str) -> bool:
    """Whether an entry of something open to everybody is in a list."""
    first, last = place.first, place.last
    timely = (first is None or first <= entry.stamp) and (last is None or entry.stamp <= last)
    return timely and part in {"data", "access:open", f"kind:{entry.kind}", f"language:{entry.language}"}
