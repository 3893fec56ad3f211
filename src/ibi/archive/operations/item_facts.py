"""An item as programs are given it, and its ETag: both made, and the ETag read, here alone."""

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
    """The item as JSON has it, without the `hidden` members.

    `with_history`: with its events and acknowledgments, which need the scope `read`.
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
    """The ETag of an item as it is served: its timestamp, and a digest of all that is served."""
    digest = sha256(answer(facts).body).hexdigest()[:_DIGEST]
    return f'"{facts["timestamp"]}-{digest}"'


def item_headers(facts: dict[str, Any]) -> Sequence[tuple[str, str]]:
    """The ETag of an item, on which a change of it can depend (If-Match), and its URL."""
    name = facts.get("rep") or facts["ibip"]
    return ("etag", item_etag(facts)), ("location", f"{ROOT}/items/{name}")


def seen(context: ArchiveContext, held: Holding) -> str | None:
    """The timestamp that the editor has seen; None if any will do. Raises Refusal (428) and Conflict."""
    header = context.if_match.strip()
    if not header:
        raise Refusal(
            428, IbiError("say which state of the item is meant: If-Match with its ETag, or with *")
        )
    if header == "*":
        return None
    # The timestamp alone: an edit conflicts with changes of the item, not with what a token may see of it.
    if held.timestamp not in {_timestamp_of(each) for each in header.split(",")}:
        problem = "{name} has been changed meanwhile, on {date}"
        raise Conflict(problem, name=held.forms.main, date=held.timestamp)
    return held.timestamp


def check_seen(context: ArchiveContext, held: Holding) -> None:
    """Compare If-Match, if there is one, with an item. Raises Conflict.

    An act calls it in the transaction in which it changes the item: an edit may have come since it was called.
    """
    if context.if_match:
        seen(context, held)


def check_item(context: ArchiveContext, fields: Any) -> None:
    """Do so with the item that `fields.ibi` names. Raises ParseError, NotHeld, Conflict."""
    with context.catalogue() as catalogue:
        check_seen(context, catalogue.held(parse_name(fields.ibi)))


def _timestamp_of(etag: str) -> str:
    """The timestamp in an ETag of an item; of what is no ETag of ours, a text that is no timestamp."""
    return etag.strip().removeprefix('"').removesuffix('"').rpartition("-")[0]
