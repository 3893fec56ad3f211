"""Plays as words: statements, and the words of a statement taken one after the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Word = str | tuple[str, ...]
"""A word, or the words of a list in braces."""


class PlayError(ValueError):
    """A play does not follow its own grammar."""


def statements(text: str) -> Iterator[str]:
    """Lines that begin at the margin, each with the indented lines below it; without comments."""
    statement = ""
    for raw in text.splitlines():
        line = raw.rstrip()
        if not line or line.lstrip().startswith("# ") or line.strip() == "#":
            continue
        if line[0].isspace():
            statement += " " + line.strip()
        else:
            if statement:
                yield statement
            statement = line
    if statement:
        yield statement


class Words:
    """The words of a statement, taken one after the other."""

    _WORD = re.compile(r"\{([^{}]*)\}|(\S+)")

    def __init__(self, statement: str) -> None:
        self._words: list[Word] = []
        for match in self._WORD.finditer(statement):
            self._words.append(match[2] if match[1] is None else tuple(match[1].split()))

    def __bool__(self) -> bool:
        return bool(self._words)

    def take(self) -> str:
        word = self._words.pop(0)
        if not isinstance(word, str):
            raise PlayError("a list stands where a word is expected")
        return word

    def take_any(self) -> Word:
        return self._words.pop(0)

    def next_is(self, *choices: str) -> bool:
        if self._words and self._words[0] in choices:
            self._words.pop(0)
            return True
        return False

    def while_like(self, pattern: str) -> tuple[str, ...]:
        """The following words that match."""
        taken = []
        while self._words and isinstance(self._words[0], str) and re.fullmatch(pattern, self._words[0]):
            taken.append(self.take())
        return tuple(taken)

    def milliseconds(self) -> float:
        """`40 ms`, in seconds."""
        number = int(self.take())
        if not self.next_is("ms"):
            raise PlayError("times are in ms")
        return number / 1000

    def names(self) -> tuple[str, ...]:
        """`a, b, c`; the comma says that another one follows."""
        found = [self.take()]
        while found[-1].endswith(","):
            found.append(self.take())
        return tuple(name.rstrip(",") for name in found)

    def rest(self) -> str:
        text = " ".join(word if isinstance(word, str) else f"{{{' '.join(word)}}}" for word in self._words)
        self._words.clear()
        return text

    def pairs(self) -> dict[str, Word]:
        pairs: dict[str, Word] = {}
        while self:
            name = self.take()
            pairs[name] = self.take_any()
        return pairs
