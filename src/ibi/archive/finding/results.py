"""Items that were found, with all that a list tells of them: their entries, and what the catalogue says now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from ibi.archive.ledgers import numbered

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.finding.index import Entry
    from ibi.archive.finding.search import Found
    from ibi.archive.holding import Holding, Statement
    from ibi.protocol.vocabulary import State


class Result(NamedTuple):
    """One item of a list. `titles` as they are told, with their languages; `timestamp`: of its last update."""

    entry: Entry
    titles: tuple[Statement, ...]
    abstracts: tuple[Statement, ...]
    state: State
    timestamp: str

    @property
    def name(self) -> str:
        """Its main name."""
        return self.entry.name

    @property
    def people(self) -> list[str]:
        """Who made it."""
        return self.entry.people.split("\n") if self.entry.people else []

    @property
    def page(self) -> str:
        """Where it is described, at this Archive."""
        return page_of(self.name)

    def facts(self) -> dict[str, Any]:
        """The same for programs; the title is the first one, "" where nobody tells one."""
        return {
            "ibi": self.name,
            "title": self.titles[0].value if self.titles else "",
            "people": self.people,
            "year": self.entry.year or None,
            "language": self.entry.language or None,
            "kind": self.entry.kind,
            "state": self.state.value,
            "timestamp": self.timestamp,
            "page": self.page,
        }


def page_of(name: str) -> str:
    """The path of the page of an item."""
    return f"/-/item/{quote(name, safe='/:@.-_~!$&()*+,;=')}"


def results(catalogue: Catalogue, entries: Sequence[Entry]) -> tuple[Result, ...]:
    """The items of these entries, in their order; what was removed a moment ago is left out. Raises SetupError."""
    with catalogue.reading() as run:
        held = numbered.holdings(run, [each.number for each in entries])
    found = ((each, held.get(each.number)) for each in entries)
    return tuple(
        _result(catalogue, each, holding)
        for each, holding in found
        if holding is not None and not holding.deleted
    )


def facts(found: Found, listed: Sequence[Result]) -> dict[str, Any]:
    """An answer as programs read it."""
    return {
        "count": found.count,
        "more": found.many,
        "items": [each.facts() for each in listed],
        "facets": {
            what: [{"value": each.value, "items": each.items} for each in values]
            for what, values in found.facets.items()
        },
        "exact": found.exact,
    }


def _result(catalogue: Catalogue, entry: Entry, holding: Holding) -> Result:
    metadata = holding.metadata
    if metadata is None and holding.metadata_item is not None:
        teller = catalogue.holding(holding.metadata_item.main)
        metadata = teller.metadata if teller is not None else None
    said = metadata or {}
    return Result(entry, said.get("title", ()), said.get("description", ()), holding.state, holding.timestamp)
