"""What every page of an Archive knows of it, as a value (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Place:
    """What every page of an Archive knows of it.

    `base` begins the URLs of its pages; `resolver`: the root URL of its resolver, "" if it has joined none; `contact`:
    the mail address of its keepers; `search`: whether items can be looked for at /-/search.
    """

    base: str = ""
    resolver: str = ""
    contact: str = ""
    search: bool = False

    @property
    def root(self) -> str:
        """What persistent URLs begin with: without a resolver our own address resolves what we hold."""
        return (self.resolver or self.base).rstrip("/")


NOWHERE: Final = Place()
