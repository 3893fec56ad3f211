"""An item as the result of an operation: what `GET /-/api/items/<ibi>` would answer to the same client."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import ROOT, answer
from ibi.archive.model.item_json import write_item
from ibi.archive.store.tables import copies, history
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import Catalogue

_DIGEST: Final = 16  # hexadecimal digits of the second half of an ETag


def item_facts(catalogue: Catalogue, holding: Holding, *, with_history: bool) -> dict[str, Any]:
    """The item as JSON has it; `with_history`: with its events and acknowledgments, which need the scope `read`.

    It is for one who has just put the item there, so nothing is withheld from it.
    """
    facts = write_item(holding)
    with catalogue.reading() as run:
        source = copies.source_of(run, holding.number) if holding.state is ItemState.COPY else None
        if source is not None:
            facts["copy"] = source.facts()
        if with_history:
            facts["history"] = [event._asdict() for event in history.events_of(run, holding.number)]
            facts["thanks"] = catalogue.acknowledgments(holding.number)
    return facts


def item_headers(facts: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """The ETag of an item, on which a change of it can depend (If-Match), and its URL."""
    digest = sha256(answer(facts).body).hexdigest()[:_DIGEST]
    name = facts.get("rep") or facts["ibip"]
    return ("etag", f'"{facts["timestamp"]}-{digest}"'), ("location", f"{ROOT}/items/{name}")
