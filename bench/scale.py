"""How much is measured: `tiny` shows that a row runs, `short` is `make bench`, `full` is `make bench-full`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeVar

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Scale:
    """One of the three; called with what each of them takes, it gives its own."""

    name: str

    def __call__(self, tiny: Choice, short: Choice, full: Choice) -> Choice:
        """What this one takes."""
        return {"tiny": tiny, "short": short, "full": full}[self.name]

    @property
    def runs(self) -> int:
        """How many runs a figure has: five at least, where it is one."""
        return self(1, 5, 5)


TINY: Final = Scale("tiny")
SHORT: Final = Scale("short")
FULL: Final = Scale("full")
SCALES: Final = {scale.name: scale for scale in (TINY, SHORT, FULL)}
