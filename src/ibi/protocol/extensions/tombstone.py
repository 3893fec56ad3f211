"""Facts about a removed item: optional pairs of an answer, beside its state (our extension).

    tombstone.title Levantamento%20de%20nascentes
    tombstone.reason At%20the%20request%20of%20the%20authors.
    tombstone.replacement {rep dpi.inpe.br/banon/1998/08.02.08.56}

Texts are UTF-8, percent-encoded, because a word of an answer is ASCII without blanks. Nothing is decided by them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote

from ibi.protocol.url_list import readable_forms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ibi.identifier.forms import IBIForms
    from ibi.protocol.pair_list import PairList, Value

LONGEST_TITLE: Final = 300
"""Characters of a title, or of the people, that are sent and shown (T10: huge answers)."""
LONGEST_REASON: Final = 600
"""Characters of the reason of a removal that are sent and shown (T10: huge answers)."""

_PREFIX: Final = "tombstone."
_TEXTS: Final = {"title": LONGEST_TITLE, "people": LONGEST_TITLE, "date": 10, "reason": LONGEST_REASON}
"""Pair -> the characters that are read of it."""
_DATE: Final = re.compile(r"[0-9]{4}(?:-[0-9]{2}(?:-[0-9]{2})?)?", re.ASCII)
REPLACEMENT: Final = f"{_PREFIX}replacement"
_LONGEST_ESCAPED: Final = 12
"""Bytes of the longest character, percent-encoded."""


class Tombstone(NamedTuple):
    """What is known of a removed item, "" where it is not: plain text on one line.

    `people`: its authors, as one text; `date`: its own date, "2026", "2026-03" or "2026-03-12"; `reason`: why it was
    removed; `replacement`: the item that takes its place.
    """

    title: str = ""
    people: str = ""
    date: str = ""
    reason: str = ""
    replacement: IBIForms | None = None

    @classmethod
    def of(cls, pairs: Mapping[str, Value]) -> Tombstone:
        """Return what an answer with these pairs says; a value of any other form counts as absent."""
        texts = {name: _decoded(pairs.get(_PREFIX + name), most) for name, most in _TEXTS.items()}
        if not _DATE.fullmatch(texts["date"]):
            texts["date"] = ""
        named = pairs.get(REPLACEMENT)
        return cls(**texts, replacement=readable_forms(named) if isinstance(named, tuple) else None)

    @property
    def pairs(self) -> PairList:
        """The pairs of an answer; texts that are too long are cut, a date of another form is left out."""
        pairs: PairList = {
            _PREFIX + name: quote(text, safe="")
            for name, most in _TEXTS.items()
            if (text := _one_line(getattr(self, name), most)) and (name != "date" or _DATE.fullmatch(text))
        }
        if self.replacement is not None:
            pairs[REPLACEMENT] = self.replacement.words
        return pairs


def _one_line(text: str, most: int) -> str:
    """Return a text on one line without unprintable characters, which could turn the text around it, cut with "…"."""
    printable = "".join(char if char.isprintable() else " " for char in text[: 4 * most])
    line = " ".join(printable.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _decoded(value: object, most: int) -> str:
    if not isinstance(value, str) or len(value) > most * _LONGEST_ESCAPED:
        return ""
    try:
        return _one_line(unquote(value, errors="strict"), most)
    except UnicodeDecodeError:
        return ""
