"""What all forms of an IBI share as values: spelling, parts, equality and order by time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ibi.identifier.dates import LabelDate


class TimeOrdered(ABC):
    """A label: immutable text that compares by its canonical form and sorts by the moment it names."""

    __slots__ = ("canonical", "text")

    text: str
    """The spelling, as it was read."""
    canonical: str
    """Equal labels have equal canonical forms."""

    @property
    @abstractmethod
    def date(self) -> LabelDate:
        """The moment the label names."""

    @property
    def prefix(self) -> str:
        """The subsystem that named the item: "8JMKD3MGP8W"."""
        return self.text.partition("/")[0]

    @property
    def suffix(self) -> str:
        """The item within its subsystem: "34PGRBS"."""
        return self.text.partition("/")[2]

    def __setattr__(self, name: str, value: object) -> NoReturn:
        msg = f"a {type(self).__name__} never changes"
        raise AttributeError(msg)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"{type(self).__name__}.parse({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.canonical == other.canonical

    def __hash__(self) -> int:
        return hash(self.canonical)

    def __lt__(self, other: TimeOrdered) -> bool:
        return self._order() < other._order()

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return type(self).parse, (self.text,)

    def _order(self) -> tuple[int, str, str]:
        """Dates that no calendar has come first; equal moments sort by spelling."""
        seconds, fraction, _ = self.date
        return (-1 if seconds is None else seconds, fraction, self.canonical)

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> TimeOrdered:
        """Read the label. Raises ParseError."""


# Past __setattr__: a constructor writes what never changes afterwards.
set_text = TimeOrdered.__dict__["text"].__set__
set_canonical = TimeOrdered.__dict__["canonical"].__set__
