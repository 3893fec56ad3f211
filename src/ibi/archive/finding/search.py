"""Looking things up in the index: each answer at a bounded cost, whatever is asked and however much is held.

Of what is looked for in words, items with all of them in the title come first, then those with all of them among title,
people and subjects, then all others; the newest first in each. The last word may be the beginning of one, unless
very many items have it as it is, or very many words begin like it. A list of a year or a person has the newest first.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.finding.index import COLUMNS, entry
from ibi.archive.finding.patience import Patience, TooLong
from ibi.archive.finding.question import MOST_PAGES, PER_PAGE, expression, has_words
from ibi.archive.finding.words import fold
from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ibi.archive.finding.index import Entry, Index
    from ibi.archive.finding.question import Question

LOOKED_AT: Final = PER_PAGE * MOST_PAGES
"""Items among which the best are chosen, and that are counted by year, language, kind and person."""

LONGEST_LOOK: Final = 0.25
"""Seconds of computing that the items of one question may take to be found."""
LONGEST_RANKING: Final = 0.1
"""Seconds of computing that it may take to tell which of them are better."""

_BETTER: Final = ("title", "title people subject")
FACETS: Final = ("year", "language", "kind", "person")
_MOST_VALUES: Final = 12

_NEWEST: Final = (
    "SELECT rowid FROM words WHERE words MATCH :match AND rowid < :before ORDER BY rowid DESC LIMIT :most"
)
_ENTRIES: Final = f"SELECT {COLUMNS} FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"  # noqa: S608 - our own columns
_COUNTED: Final = (
    "SELECT year, language, kind, people FROM entry WHERE number IN (SELECT value FROM json_each(:numbers))"
)
_KNOWN: Final = "SELECT 1 FROM facet WHERE what = 'person' AND value = :value"
_ITEMS_OF: Final = "SELECT items FROM facet WHERE what = :what AND value = :value"
_LISTED: Final = (
    "SELECT value, label, items FROM facet WHERE what = :what AND value > :after ORDER BY value LIMIT :most"
)
_LISTED_BACK: Final = (
    "SELECT value, label, items FROM facet WHERE what = :what AND value > '' ORDER BY value DESC LIMIT :most"
)
_MOST_FIRST: Final = (
    "SELECT value, label, items FROM facet WHERE what = :what AND value > ''"
    " ORDER BY items DESC, value LIMIT :most"
)
_PEOPLE: Final = (
    "SELECT value, label, items FROM facet WHERE what = 'person' AND value >= :letter AND value > :after"
    " AND value < :letter || char(1114111) ORDER BY value LIMIT :most"  # the last character of all: no further letter
)
_END: Final = 1 << 62

NEWS: Final = f"SELECT {COLUMNS} FROM entry WHERE shown ORDER BY stamp DESC, number DESC LIMIT :most"  # noqa: S608 - our own columns
"""What changed last of all that is shown."""


class Value(NamedTuple):
    """One value by which items can be listed, how it is written ("" for as it is), and how many items have it."""

    value: str
    label: str
    items: int


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question.

    `entries`: those of its page, best first; `count`: how many there are, or where there are `many` more, how many of
    them were looked at; `facets`: those that were looked at by year, language, kind and person. `next`: the question
    for those that follow, None at the end.
    """

    question: Question
    entries: tuple[Entry, ...]
    count: int
    many: bool
    facets: Mapping[str, tuple[Value, ...]]
    next: Question | None

    @property
    def exact(self) -> bool:
        """Whether the facets count all that was found."""
        return not self.many and self.count <= LOOKED_AT and not self.question.before


def search(index: Index, question: Question) -> Found:
    """The answer to a question that looks for something. Raises ParseError, BeingMade and SetupError."""
    known = _is_known(index, question.person)
    match = expression(question, known=known, begun=False) if has_words(question) else ""
    if not match:
        return Found(question, (), 0, many=False, facets={}, next=None)
    patience = Patience(LONGEST_LOOK)
    with _in_time(question):
        if not question.ranked:
            newest = _newest(index, match, patience, question.before or _END)
            return _listed(index, question, newest[:LOOKED_AT], many=len(newest) > LOOKED_AT)
        begun, everything = _all(index, question, match, patience, known=known)
    numbers = _best_first(index, question, everything, known=known, begun=begun)
    ranked = numbers[:LOOKED_AT]
    end = question.page * PER_PAGE
    more = len(ranked) > end and question.page < MOST_PAGES
    return Found(
        question,
        _entries(index, ranked[end - PER_PAGE : end]),
        len(ranked),
        many=len(numbers) > LOOKED_AT,
        facets=_facets(index, question, ranked),
        next=replace(question, page=question.page + 1) if more else None,
    )


def _all(
    index: Index, question: Question, match: str, patience: Patience, *, known: bool
) -> tuple[bool, list[int]]:
    """All items with the words, which `match`; and whether also with such as the last one begins. Raises TooLong.

    Words that very many have need none that begin with them; and where too many words begin so, it is the word alone.
    """
    found = _newest(index, match, patience)
    wider = expression(question, known=known, begun=len(found) <= LOOKED_AT)
    if wider == match:
        return False, found
    try:
        return True, _newest(index, wider, patience)
    except TooLong:
        if not found:
            raise
        return False, found


def _best_first(
    index: Index, question: Question, everything: list[int], *, known: bool, begun: bool
) -> list[int]:
    """The items with the words at a better place, and then all others; one alone is the best anyway."""
    numbers: dict[int, None] = {}
    patience = Patience(LONGEST_RANKING)
    for columns in _BETTER if len(everything) > 1 else ():
        better = expression(question, known=known, begun=begun, only=columns)
        try:
            numbers |= dict.fromkeys(_newest(index, better, patience))
        except TooLong:  # then the newest are the best
            break
        if len(numbers) > LOOKED_AT:
            break
    return list(numbers | dict.fromkeys(everything))


def newest(index: Index, question: Question, most: int) -> tuple[Entry, ...]:
    """Of what a question finds, the items that changed last among those that came last."""
    if not has_words(question):
        return ()
    known = _is_known(index, question.person)
    match = expression(question, known=known, begun=False)
    with _in_time(question):
        _begun, numbers = _all(index, question, match, Patience(LONGEST_LOOK), known=known)
    found = _entries(index, numbers[:LOOKED_AT])
    return tuple(sorted(found, key=lambda each: (each.stamp, each.number), reverse=True)[:most])


def years(index: Index, most: int) -> list[Value]:
    """The years of what is held, the last first."""
    return [Value(*row) for row in index.rows(_LISTED_BACK, {"what": "year", "most": most})]


def values(index: Index, what: str, most: int) -> list[Value]:
    """The languages or kinds of what is held, the most frequent first."""
    return [Value(*row) for row in index.rows(_MOST_FIRST, {"what": what, "most": most})]


def letters(index: Index, most: int) -> list[Value]:
    """The letters that names of people begin with; counted are the items of these people."""
    return [Value(*row) for row in index.rows(_LISTED, {"what": "letter", "after": "", "most": most})]


def people(index: Index, letter: str, after: str, most: int) -> list[Value]:
    """People whose names begin with a letter, from the first one after `after`."""
    return [Value(*row) for row in index.rows(_PEOPLE, {"letter": letter, "after": after, "most": most})]


def _is_known(index: Index, person: str) -> bool:
    """Whether somebody is listed under exactly this name; one word alone may be the name of many."""
    key = fold(person) if person else ""
    return " " in key and bool(index.rows(_KNOWN, {"value": key}))


def _listed(index: Index, question: Question, numbers: Sequence[int], *, many: bool) -> Found:
    """A list, newest first: it has no best, and no end."""
    count = None if question.person else _items_of(index, question)
    return Found(
        question,
        _entries(index, numbers[:PER_PAGE]),
        len(numbers) if count is None else count,
        many=many and count is None,
        facets=_facets(index, question, numbers),
        next=replace(question, before=numbers[PER_PAGE - 1]) if len(numbers) > PER_PAGE else None,
    )


def _items_of(index: Index, question: Question) -> int | None:
    """How many items have what a list is of, None where it is of several things."""
    if question.conditions != 1:
        return None
    what = next(each for each in ("year", "language", "kind") if getattr(question, each))
    value = f"{question.year:04}" if what == "year" else getattr(question, what)
    rows = index.rows(_ITEMS_OF, {"what": what, "value": value})
    return int(rows[0][0]) if rows else None


def _newest(index: Index, match: str, patience: Patience, before: int = _END) -> list[int]:
    """The items that match, the newest first; one more than are looked at, where there are more. Raises TooLong."""
    values = {"match": match, "before": before, "most": LOOKED_AT + 1}
    return [row[0] for row in index.rows(_NEWEST, values, patience)]


@contextmanager
def _in_time(question: Question) -> Iterator[None]:
    """Say what to do where a question takes too long. Raises ParseError."""
    try:
        yield
    except TooLong:
        problem = "to look for this takes too long: write the words whole, or use fewer or rarer ones"
        raise ParseError("text", question.text or question.person, problem) from None


def _entries(index: Index, numbers: Sequence[int]) -> tuple[Entry, ...]:
    rows = index.rows(_ENTRIES, {"numbers": json.dumps(numbers)})
    found = {row[0]: entry(row) for row in rows}
    return tuple(found[number] for number in numbers if number in found)


def _facets(index: Index, question: Question, numbers: Sequence[int]) -> dict[str, tuple[Value, ...]]:
    """How many of these there are of each year, language, kind and person, besides what was asked for."""
    rows = index.rows(_COUNTED, {"numbers": json.dumps(numbers)})
    years, languages, kinds, people = zip(*rows, strict=True) if rows else ((), (), (), ())
    found = {
        "year": Counter(f"{year:04}" for year in years if year),
        "language": Counter(languages),
        "kind": Counter(kinds),
        "person": Counter("\n".join(filter(None, people)).split("\n")),
    }
    facets = {}
    for what, counter in found.items():
        common = [Value(value, "", items) for value, items in counter.most_common(_MOST_VALUES + 1) if value]
        if what == "year":
            common.sort(reverse=True)
        if common and not getattr(question, what):
            facets[what] = tuple(common[:_MOST_VALUES])
    return facets
