"""The life of an item in one Archive: deposit, with its place among other items; edition of its facts; removal.

    a new edition       becomes the next edition of the item that was the last one
    a translation       is linked both ways, and with every other translation
    metadata            of another item, or of the new one, as an item of their own

Only originals are maintained (ARC-13): a copy is edited where its original is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ibi.archive.editing import check_editable
from ibi.archive.holding import Access
from ibi.errors import AlreadyHeld, BadItem
from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.item_lines import Draft
    from ibi.archive.keeper import Hand, Keeper
    from ibi.identifier.forms import IBIForms, Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a new item among those that are held here.

    `edition_of`: the last edition until now; `translation_of`: an item in another language; `metadata_of`: the item
    that the new one describes; `metadata_as_item`: whether its own metadata become an item with a name of its own.
    """

    edition_of: Name | None = None
    translation_of: Name | None = None
    metadata_of: Name | None = None
    metadata_as_item: bool = False


def deposit(
    keeper: Keeper,
    draft: Draft,
    staged: Iterable[StoredFile],
    who: str,
    place: Place | None = None,
    request: Sequence[str] = (),
) -> Holding:
    """Take in a new original, and give it names if the draft has none; returns it as it is held.

    `request`: by what the request is known if it comes again; it stands in the history of the item.
    A draft whose key is held already gives that item, unchanged. Raises AlreadyHeld, NotHeld, BadItem, HoldingError,
    MintingError, SetupError; then nothing has changed.
    """
    place = place or Place()
    if draft.facts.get("state", State.ORIGINAL) is not State.ORIGINAL:
        raise BadItem("what is deposited is an original; copies are made by copying, or imported")
    held = _of_key(keeper, draft)
    if held is not None:
        return held
    try:
        return _deposited(keeper, draft, staged, who, place, **({"request": request} if request else {}))
    except AlreadyHeld:
        held = _of_key(keeper, draft)  # it may have come at the same time by somebody else
        if held is None:
            raise
        return held


def _deposited(
    keeper: Keeper, draft: Draft, staged: Iterable[StoredFile], who: str, place: Place, **detail: Any
) -> Holding:
    """Name an item, and put it into its place."""
    labels = keeper.mint((draft.forms is None) + place.metadata_as_item)
    forms = draft.forms or next(labels)
    own_metadata = next(labels) if place.metadata_as_item else None
    holding = draft.holding(forms, keeper.moment)
    if place.metadata_of is not None:
        holding = replace(holding, content_type=ContentType.METADATA)
    with keeper.changing(who) as hand:
        if own_metadata is not None:
            holding = _with_metadata_item(hand, holding, own_metadata)
        if place.translation_of is not None:
            holding = _translated(hand, holding, place.translation_of)
        added = hand.add(holding, staged, **detail)
        if place.edition_of is not None:
            _follow(hand, place.edition_of, added)
        if place.metadata_of is not None:
            _link(hand, hand.held(place.metadata_of), metadata_item=added.forms)
    return added


def _of_key(keeper: Keeper, draft: Draft) -> Holding | None:
    """The item that came under this key before. Raises AlreadyHeld where the draft gives it other names."""
    held = keeper.catalogue.holding_of_key(draft.key) if draft.key else None
    if held is not None and draft.forms is not None and not held.forms.shares(draft.forms):
        raise AlreadyHeld("{name}, or its key, is already held", name=held.forms.main)
    return held


def _with_metadata_item(hand: Hand, holding: Holding, forms: IBIForms) -> Holding:
    """Make the metadata of an item an item of its own."""
    if holding.metadata is None:
        raise BadItem("there are no metadata to be made an item")
    described = replace(
        holding,
        forms=forms,
        aliases=(),
        key="",
        content_type=ContentType.METADATA,
        url="",
        target="",
        next_edition=None,
        translations={},
        access=Access.OPEN,
        embargo="",
    )
    hand.add(described, describes=str(holding.forms.main))
    return replace(holding, metadata_item=forms)


def _follow(hand: Hand, before: Name, new: Holding) -> None:
    """Make an item the next edition of the one that was the last."""
    held = hand.held(before)
    if held.next_edition is not None:
        problem = "{name} already has a next edition: {edition}"
        raise BadItem(problem, name=held.forms.main, edition=held.next_edition.main)
    _link(hand, held, next_edition=new.forms)


def _translated(hand: Hand, holding: Holding, source: Name) -> Holding:
    """Link a new translation with its source and with every other translation that is held here."""
    held = hand.held(source)
    language = holding.language or ""
    if language in held.translations or (held.language or "") == language:
        problem = "{name} is already there in this language: {language}"
        raise BadItem(problem, name=held.forms.main, language=language or "-")
    for sibling in held.translations.values():
        found = hand.find(sibling.main)
        if found is not None and found.state is State.ORIGINAL:
            _link(hand, found, translations={**found.translations, language: holding.forms})
    _link(hand, held, translations={**held.translations, language: holding.forms})
    others = {**held.translations, held.language or "": held.forms, **holding.translations}
    return replace(holding, translations=others)


def _link(hand: Hand, held: Holding, **links: Any) -> None:
    check_editable(hand, held)
    changes = {**links, "timestamp": hand.later(held)}
    hand.change(held, replace(held, **changes), (), "edited", changed=sorted(links))
