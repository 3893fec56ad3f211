"""What helps the reader of a search that found nothing: other spellings, and which condition to take away.

A spelling replaces words of the text by words of the index that are one typing error away: a letter too many,
missing, wrong, or two exchanged. Only what finds something is a hint: with all other conditions, or, if nothing
else helps, without them. All hints of a search together have a budget of processor time; when it is spent, those
found so far are the hints.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from unicodedata import normalize

from ibi.archive.search.index import CpuBudget, SearchTooLong
from ibi.archive.search.search import LOOKED_AT, count
from ibi.archive.search.words import LONGEST_TEXT, NARROWING, WORD, SearchQuery, fold

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ibi.archive.search.index import SearchIndex

LONGEST_HINTING: Final = 0.25
"""Seconds of processor time for all hints of a search that found nothing (T30: slow requests)."""
MOST_SPELLINGS: Final = 3
"""Other spellings that a search which found nothing offers."""

_MOST_TRIED: Final = 12  # texts that are searched for, of those that could be offered
_MOST_WORDS: Final = 6  # words of a text for which other spellings are looked up
_MOST_PER_WORD: Final = 6  # spellings of one word
_SHORTEST, _LONGEST = 4, 24  # letters of a word; of shorter ones nearly everything is one error away
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

_KNOWN: Final = (
    "SELECT value FROM json_each(:words) WHERE EXISTS (SELECT 1 FROM spelled WHERE term = value LIMIT 1)"
)
# char(1114111) is the last character: the range ends after all words that begin with the word.
_BEGUN: Final = "SELECT 1 FROM spelled WHERE term >= :word AND term < :word || char(1114111) LIMIT 1"
_ITEMS: Final = "SELECT count(*) FROM (SELECT rowid FROM words WHERE words MATCH :match LIMIT :most)"
_WRITTEN: Final = (
    "SELECT title || ' ' || people || ' ' || subject || ' ' || abstract FROM words WHERE words MATCH :match"
    " ORDER BY rowid DESC LIMIT 1"
)


class Hint(NamedTuple):
    """A search that finds something: the search, how many items, and whether there are `many` more.

    `condition`: the one that it leaves out, of NARROWING; "" for another spelling.
    """

    query: SearchQuery
    items: int
    many: bool
    condition: str = ""


@dataclass(frozen=True, slots=True)
class SearchHints:
    """The hints of a search: spellings, what finds most first; searches without a condition, the narrowest first."""

    spellings: tuple[Hint, ...] = ()
    wider: tuple[Hint, ...] = ()


@dataclass(slots=True)
class _Finder:
    """Looks for the hints of one search. Every method raises SearchTooLong when the budget is spent."""

    index: SearchIndex
    query: SearchQuery
    budget: CpuBudget = field(default_factory=lambda: CpuBudget(LONGEST_HINTING))

    def hint(self, query: SearchQuery, condition: str = "") -> Hint | None:
        """Return the hint for a search, None if it finds nothing."""
        found = count(self.index, query, self.budget)
        return Hint(query, min(found, LOOKED_AT), found > LOOKED_AT, condition) if found else None

    def wider(self) -> Iterator[Hint]:
        """Yield the searches without one of the conditions, as far as they find something."""
        if self.query.conditions > 1:
            found = (
                self.hint(self.query.without(name), name) for name in NARROWING if getattr(self.query, name)
            )
            yield from filter(None, found)

    def spellings(self, query: SearchQuery) -> Iterator[Hint]:
        """Yield searches with other spellings of the text that find something, at most MOST_SPELLINGS."""
        text = normalize("NFC", query.text)
        words = [fold(word) for word in WORD.findall(text)]
        wrong = self._unknown(words) or list(dict.fromkeys(filter(_is_long_enough, words)))[:_MOST_WORDS]
        others = {word: self._others(word) for word in wrong}
        found = 0
        for replaced in _replacements({word: each for word, each in others.items() if each}):
            changed = WORD.sub(lambda word: replaced.get(fold(word[0]), word[0]), text)  # noqa: B023 - used at once
            hint = self.hint(query.having(text=changed)) if len(changed) <= LONGEST_TEXT else None
            if hint is not None:
                yield hint
                found += 1
            if found == MOST_SPELLINGS:
                return

    def _unknown(self, words: Sequence[str]) -> list[str]:
        """Return the words that are in no item; the last word may be the beginning of one."""
        known = self._known(words)
        begun = words and self.index.rows(_BEGUN, {"word": words[-1]}, self.budget)
        if begun:
            known.add(words[-1])
        unknown = [word for word in dict.fromkeys(words) if word not in known and _is_long_enough(word)]
        return unknown[:_MOST_WORDS]

    def _known(self, words: Sequence[str]) -> set[str]:
        return {row[0] for row in self.index.rows(_KNOWN, {"words": json.dumps(words)}, self.budget)}

    def _others(self, word: str) -> list[str]:
        """Return the words of the index that are one typing error away from a word, the most frequent first."""
        counted = {each: self._items(each) for each in sorted(self._known(sorted(_one_error_away(word))))}
        best = sorted(counted, key=lambda each: -counted[each])[:_MOST_PER_WORD]
        return [self._as_written(each) for each in best]

    def _items(self, word: str) -> int:
        values = {"match": f'"{word}"', "most": LOOKED_AT + 1}
        return int(self.index.rows(_ITEMS, values, self.budget)[0][0])

    def _as_written(self, word: str) -> str:
        """Return a word of the index, which has no accents there, as the newest item spells it."""
        rows = self.index.rows(_WRITTEN, {"match": f'"{word}"'}, self.budget)
        written = WORD.findall(normalize("NFC", rows[0][0])) if rows else []
        return next((each.lower() for each in written if fold(each) == word), word)


def find_hints(index: SearchIndex, query: SearchQuery) -> SearchHints:
    """Return what helps the reader of a search that found nothing. Raises IndexNotReady and SetupError."""
    finder = _Finder(index, query)
    wider: list[Hint] = []
    spellings: list[Hint] = []
    with suppress(SearchTooLong):  # what was found in time is offered
        wider.extend(finder.wider())
        spellings.extend(finder.spellings(query))
        if not (wider or spellings) and query.conditions > 1:
            spellings.extend(finder.spellings(SearchQuery(text=query.text)))
    return SearchHints(
        tuple(sorted(spellings, key=lambda each: -each.items)),
        tuple(sorted(wider, key=lambda each: each.items)),
    )


def _is_long_enough(word: str) -> bool:
    """Return whether other spellings of a word are looked up: numbers, and parts of identifiers, have none."""
    return _SHORTEST <= len(word) <= _LONGEST and word.isalpha()


def _one_error_away(word: str) -> set[str]:
    """Return all that could have been meant: one letter is left out, added, wrong or exchanged with the next."""
    letters = sorted({*_LETTERS, *word})
    halves = [(word[:place], word[place:]) for place in range(len(word) + 1)]
    found = {before + after[1:] for before, after in halves if after}
    found |= {before + after[1] + after[0] + after[2:] for before, after in halves if len(after) > 1}
    found |= {before + letter + after[1:] for before, after in halves if after for letter in letters}
    found |= {before + letter + after for before, after in halves for letter in letters}
    return found - {word}


def _replacements(others: Mapping[str, Sequence[str]]) -> Iterator[dict[str, str]]:
    """Yield what to replace by what, at most _MOST_TRIED: all words by their best spellings, then one by its others."""
    best = {word: each[0] for word, each in others.items()}
    tried: list[dict[str, str]] = [best] if best else []
    tried += [{**best, word: other} for word, each in others.items() for other in each[1:]]
    # If nothing is misspelt, one of the words may still be a wrong one.
    tried += [{word: other} for word, each in others.items() for other in each if len(others) > 1]
    yield from tried[:_MOST_TRIED]
