"""Who showed an Original first, as the evidence tells it: an index of holders can be made anew (threats T04, T05)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ibi.errors import ParseError
from ibi.identifier.forms import IBIForms, parse_ibi

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.resolver.chain import Entry


AT_ONCE: Final = 5_000
"""Entries that are told to an index before it has kept them."""


class Holder(NamedTuple):
    """Who holds the Original of an item, by its canonical names; `moved` if it came there from another Archive."""

    canonicals: frozenset[str]
    archive: str
    moved: bool


class HolderIndex(Protocol):
    """What looks up holders quickly, and can be made anew from the log."""

    def remember(self, canonicals: Iterable[str], *, original: str | None = None) -> None:
        """The first Original of an item stays."""

    def moved(self, canonicals: Iterable[str], original: str) -> None:
        """Unless it has moved."""

    def settle(self) -> None:
        """Return when all that was told is kept."""


def rebuild(entries: Iterable[Entry]) -> Iterator[Holder]:
    """Who held what, in order. Of an item, the first holder that is told stays, until one is told that `moved`."""
    for entry in entries:
        if entry.what in {"original", "migrated"}:
            archive = entry.facts.get("to" if entry.what == "migrated" else "archive")
            try:
                forms, holder = IBIForms.parse(str(entry.facts.get("ibi"))), parse_ibi(str(archive))
            except ParseError:
                continue  # sealed, but no entry of ours
            yield Holder(forms.canonicals, holder.canonical, entry.what == "migrated")


def refill(index: HolderIndex, entries: Iterable[Entry]) -> int:
    """Tell an index, best an empty one, all that the log knows of holders; returns how many entries told of one."""
    count = 0
    for holder in rebuild(entries):
        count += 1
        if holder.moved:
            index.moved(holder.canonicals, holder.archive)
        else:
            index.remember(holder.canonicals, original=holder.archive)
        if count % AT_ONCE == 0:
            index.settle()
    index.settle()
    return count
