"""The JSON of an item for programs, and its ETag: only this module makes them, and reads the ETag."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from ibi.api.routes import ROOT, answer
from ibi.archive.model.item_json import write_item
from ibi.archive.store.tables import copies, history
from ibi.errors import Conflict, IbiError
from ibi.http.response import Refusal
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.tables.catalogue import Catalogue

_DIGEST: Final = 16  # hexadecimal digits of the second half of an ETag


def item_facts(
    catalogue: Catalogue, holding: Holding, *, with_history: bool, hidden: Collection[str] = ()
) -> dict[str, Any]:
    """Return the item as a JSON object, without the `hidden` members.

    `with_history`: add its events and acknowledgments, which need the scope `read`.
    """
    facts = {name: each for name, each in write_item(holding).items() if name not in hidden}
    with catalogue.reading() as run:
        source = copies.source_of(run, holding.number) if holding.state is ItemState.COPY else None
        if source is not None:
            facts["copy"] = source.facts()
        if with_history:
            facts["history"] = [event._asdict() for event in history.events_of(run, holding.number)]
            facts["thanks"] = catalogue.acknowledgments(holding.number)
    return facts


def item_etag(facts: dict[str, Any]) -> str:
    """Return the ETag of an item as it is served: its timestamp, and a digest of all served facts."""
    digest = sha256(answer(facts).body).hexdigest()[:_DIGEST]
    return f'"{facts["timestamp"]}-{digest}"'


def item_headers(facts: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """Return the headers with the ETag of an item, for If-Match, and with its URL."""
    name = facts.get("rep") or facts["ibip"]
    return ("etag", item_etag(facts)), ("location", f"{ROOT}/items/{name}")


def check_item_match(context: ArchiveContext, held: Holding) -> str | None:
    """Compare If-Match, which is required, with an item; return the item's timestamp, or None for `*`.

    Raises Refusal (428) without If-Match, and Conflict if the item has changed since the client read it.
    """
    header = context.if_match.strip()
    if not header:
        raise Refusal(
            428, IbiError("say which state of the item is meant: If-Match with its ETag, or with *")
        )
    if header == "*":
        return None
    # Only the timestamp is compared: the digest depends on what the token may see of the item.
    if held.timestamp not in {_timestamp_of(each) for each in header.split(",")}:
        problem = "{name} has been changed meanwhile, on {date}, so nothing was done"
        raise Conflict(problem, name=held.forms.main, date=held.timestamp)
    return held.timestamp


def check_optional_match(context: ArchiveContext, held: Holding) -> None:
    """Compare If-Match, if there is one, with an item. Raises Conflict.

    Edits and removals compare once more in their transaction (`archive.store.item_changes`), because another edit
    may have come meanwhile.
    """
    if context.if_match:
        check_item_match(context, held)


def check_item(context: ArchiveContext, fields: Any) -> None:
    """Compare If-Match, if there is one, with the item `fields.ibi`. Raises ParseError, NotHeld, Conflict."""
    with context.catalogue() as catalogue:
        check_optional_match(context, catalogue.held(parse_name(fields.ibi)))


def _timestamp_of(etag: str) -> str:
    """Return the timestamp in an ETag of ours; for any other text, a text that is no timestamp."""
    return etag.strip().removeprefix('"').rpartition("-")[0]
