"""The common base of all kinds of labels: spelling, parts, equality and order by time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from ibi.identifier.dates import LabelDate


class TimeOrdered(ABC):
    """A label: immutable text that compares by its canonical form and sorts by its date."""

    __slots__ = ("canonical", "text")

    text: str
    """The spelling, as it was read."""
    canonical: str
    """The spelling by which labels are compared: equal labels have equal canonical forms."""

    @property
    @abstractmethod
    def date(self) -> LabelDate:
        """The moment in the label."""

    @property
    def prefix(self) -> str:
        """The part for the subsystem that named the item: "8JMKD3MGP8W"."""
        return self.text.partition("/")[0]

    @property
    def suffix(self) -> str:
        """The part for the item within its subsystem: "34PGRBS"."""
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
        """Return the sort key: dates that no calendar has come first, equal moments sort by spelling."""
        seconds, fraction, _ = self.date
        return (-1 if seconds is None else seconds, fraction, self.canonical)

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> TimeOrdered:
        """Read the label. Raises ParseError."""


# Constructors set the two fields with these, because __setattr__ refuses every change.
set_text = TimeOrdered.__dict__["text"].__set__
set_canonical = TimeOrdered.__dict__["canonical"].__set__
