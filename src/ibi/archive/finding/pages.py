"""What the pages of a search say, as values; a renderer given from above writes them (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ibi.archive.finding.question import Question
    from ibi.archive.finding.results import Result
    from ibi.archive.finding.search import Found, Value
    from ibi.archive.website.place import Place


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The form, and under it what was found for its question; `found` is None where nothing was asked.

    `leads`: an identifier in the text and where it leads; `meant`: one that was probably meant.
    """

    place: Place
    question: Question
    found: Found | None = None
    results: tuple[Result, ...] = ()
    leads: tuple[str, str] | None = None
    meant: str = ""
    status: int = 200
    lang: str = ""


@dataclass(frozen=True, slots=True)
class BrowsePage:
    """The lists by which all that is held can be walked through.

    `letter`: whose people are listed in `people`, "" for the beginning; `after`: the key of the last of them, where
    more follow.
    """

    place: Place
    years: tuple[Value, ...] = ()
    languages: tuple[Value, ...] = ()
    kinds: tuple[Value, ...] = ()
    letters: tuple[Value, ...] = ()
    letter: str = ""
    people: tuple[Value, ...] = ()
    after: str = ""
    status: int = 200
    lang: str = ""
