"""Deposits an original with its links to other items, edits its facts and files, and removes it.

    a new edition       becomes the next edition of the item that was the last edition
    a translation       is linked in both directions with every other translation, by language (`store.links`)
    metadata            of another item, or of the new one, become an item of their own

Only originals are edited: a copy is edited in the Archive of its original (ARC-13: copies follow originals).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.file_names import listed_name
from ibi.archive.model.item import Access, StoredFile
from ibi.archive.model.item_fields import EDITED
from ibi.archive.model.item_json import check_facts, read_facts, usual_facts
from ibi.archive.model.record_values import impossible_dates
from ibi.archive.store.links import add_translation, change_links, check_editable, follow_language
from ibi.errors import AlreadyHeld, BadItem, Conflict, HoldingError, SetupError
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ContentType, ItemState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from ibi.archive.model.item import Holding
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.item_store import ItemStore, UnitOfWork
    from ibi.archive.store.tables.catalogue import Catalogue, CatalogueWriter
    from ibi.identifier.forms import Name


_EDITED: Final = frozenset(each.name for each in EDITED)
"""The facts that `edit` changes: older ids are only added, and states have rules of their own."""


Files = dict[str, StoredFile]
"""Staged files, by their names in the item; those that are left at the end are discarded."""


class Changed(NamedTuple):
    """The result of a change: the item as it is held afterwards, and whether it, or the put file, is new."""

    holding: Holding
    is_new: bool = False


@contextmanager
def release_all_on_database_error(files: Files) -> Iterator[None]:
    """Take all out of `files`, so that none is discarded, if the catalogue fails while it lists them."""
    # If the COMMIT failed, the transaction may still count in the end, and then its files must exist. If it does not,
    # the next staging session deletes them (`_end_unknown_transactions` of `archive.store.files`).
    try:
        yield
    except SetupError:
        files.clear()
        raise


def release_listed(files: Files, holding: Holding) -> None:
    """Take out of `files` those that an item now lists, so that they are not discarded."""
    names = {file.staged for file in holding.files}
    for name, file in list(files.items()):
        if file.staged in names:
            del files[name]


def removal_notice(holding: Holding) -> HoldingError:
    """Return the error for a removed item: when it was removed, and why if a reason was given."""
    known = {"name": holding.forms.main, "date": holding.timestamp, "reason": holding.reason}
    if holding.replacement is not None:
        known["other"] = holding.replacement.main
        problem = "{name} was removed on {date}, and {other} takes its place: {reason}"
        if not holding.reason:
            problem = "{name} was removed on {date}, and {other} takes its place"
        return HoldingError(problem, **known)
    problem = "{name} was removed on {date}: {reason}" if holding.reason else "{name} was removed on {date}"
    return HoldingError(problem, **known)


def edit(
    item_store: ItemStore,
    name: Name,
    value: Mapping[str, Any],
    who: str,
    *,
    staged: Iterable[StoredFile] = (),
    without: Collection[str] = (),
    unchanged_since: str | None = None,
) -> Holding:
    """Change facts and files of an original; returns the item as it is held afterwards.

    `value`: fields as in JSON lines, null for deleted fields; `staged` files are added, or replace files of
    the same name; `without`: names of files to remove, percent-encoded or as plain text; `unchanged_since`:
    the timestamp that the editor has seen. If `value` has no target, the item's link leads to the same file
    as before. Raises Conflict if the item has changed since, HoldingError for copies and removed items,
    NotHeld, BadItem, ParseError.
    """
    facts = _facts(value)
    with item_store.unit_of_work(who) as work:
        held = work.get(name)
        check_editable(work, held)
        _check_unchanged(held, unchanged_since)
        listed = {file.name for file in held.files}
        without = {listed_name(each, listed) for each in without}
        missing = sorted(without - listed)
        if missing:
            raise BadItem("{name} has no such file", name=held.forms.main)
        new = replace(
            held,
            **facts,
            files=tuple(file for file in held.files if file.name not in without),
            timestamp=work.next_timestamp(held),
        )
        if "access" in facts and new.access is not Access.EMBARGOED:
            new = replace(new, embargo=facts.get("embargo", ""))
        check_facts({"access": new.access, "embargo": new.embargo}, ())
        for problem in impossible_dates(new.metadata, held.metadata):
            raise problem
        if new.language != held.language:
            new = follow_language(work, held, new)
        staged = list(staged)
        if "target" not in value:
            new = _with_same_target(held, new, {file.name for file in (*new.files, *staged)})
        changed = [*sorted(value), *(file.name for file in staged), *sorted(without)]
        return work.change(held, new, staged, "edited", changed=changed)


def _with_same_target(held: Holding, new: Holding, files: Collection[str]) -> Holding:
    """Return `new` with the only former file as target, if the item gets several files; `files`: their names.

    Raises BadItem if that file is removed: then the editor must say which of several files is the target.
    """
    only = held.target_file
    if held.target or only is None or len(files) <= 1:
        return new
    if only.name in files:
        return replace(new, target=only.name)
    problem = (
        "the link of {name} led to {file}, which is removed: say with target which file it leads "
        "to from now on"
    )
    raise BadItem(problem, name=held.forms.main, file=only.readable)


def remove(
    item_store: ItemStore,
    name: Name,
    reason: str,
    who: str,
    replacement: Name | None = None,
    *,
    unchanged_since: str | None = None,
) -> Holding:
    """Remove an item for ever; returns its tombstone. `unchanged_since`: as in `edit`.

    `replacement`: the item that takes its place, which may be in another Archive. Raises Conflict, NotHeld,
    HoldingError, also if the replacement was removed itself, and BadItem for an item that would replace itself.
    """
    with item_store.unit_of_work(who) as work:
        held = work.get(name)
        _check_unchanged(held, unchanged_since)
        return work.remove(held, reason, _replacement(work, replacement) if replacement else None)


def _replacement(work: UnitOfWork, name: Name) -> IBIForms:
    """Return the forms of the item that takes the place of a removed one, all of them if it is held here."""
    held = work.find(name)
    if held is not None:
        if held.deleted:
            raise removal_notice(held)
        return held.forms
    if isinstance(name, LegacyId):
        raise BadItem("the item that takes its place is named by an IBI or by its persistent URL")
    return IBIForms.of(name)


def _check_unchanged(held: Holding, since: str | None) -> None:
    """Check that an item has the timestamp that its editor has seen, if any. Raises Conflict."""
    if since is not None and held.timestamp != since:
        raise Conflict(
            "{name} has been changed meanwhile, on {date}, so nothing was done",
            name=held.forms.main,
            date=held.timestamp,
        )


def _facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes that an edit sets; null sets the default value. Raises BadItem, ParseError."""
    odd = sorted(set(value) - _EDITED)
    if odd:
        raise BadItem("{name} cannot be edited", name=odd[0])
    taken_away = usual_facts(field for field, each in value.items() if each is None)
    return taken_away | read_facts({field: each for field, each in value.items() if each is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPlacement:
    """The links of a new item to items that are held here.

    `edition_of`: the last edition until now; `translation_of`: an item in another language; `metadata_of`:
    the item that the new item describes; `metadata_as_item`: whether its own metadata become an item, too.
    """

    edition_of: Name | None = None
    translation_of: Name | None = None
    metadata_of: Name | None = None
    metadata_as_item: bool = False


def deposit(
    item_store: ItemStore,
    draft: Draft,
    staged: Iterable[StoredFile],
    who: str,
    place: ItemPlacement | None = None,
    request: Sequence[str] = (),
    labels: Iterable[IBIForms] | None = None,
) -> Changed:
    """Add a new original, and mint its names if the draft has none; returns the item as it is held.

    `request`: the identity of the request, by which a repetition is recognised; it is stored in the history
    of the item. `labels`: the labels, if they were minted before; their number is `labels_needed`. If the key
    of the draft is held already, that item is returned, unchanged. Raises AlreadyHeld, NotHeld, BadItem,
    HoldingError, MintingError, SetupError; then nothing has changed.
    """
    place = place or ItemPlacement()
    if draft.facts.get("state", ItemState.ORIGINAL) is not ItemState.ORIGINAL:
        raise BadItem("what is deposited is an original; copies are made by copying, or imported")
    held = held_by_key(item_store.catalogue, draft)
    if held is not None:
        return Changed(held)
    if labels is None:
        labels = item_store.mint(labels_needed(draft, place))
    detail = {"request": request} if request else {}
    return _deposited(item_store, draft, staged, who, place, iter(labels), **detail)


def labels_needed(draft: Draft, place: ItemPlacement) -> int:
    """Return how many labels a deposit needs: for an item without a name, and for its metadata as an item."""
    return (draft.forms is None) + place.metadata_as_item


def _deposited(
    item_store: ItemStore,
    draft: Draft,
    staged: Iterable[StoredFile],
    who: str,
    place: ItemPlacement,
    labels: Iterator[IBIForms],
    **detail: Any,
) -> Changed:
    """Name a new item, add it and link it; return the held item if its key is held by now."""
    # Minted before the transaction: each label waits for its moment, and a transaction blocks other writers.
    forms = draft.forms or next(labels)
    own_metadata = next(labels) if place.metadata_as_item else None
    holding = draft.holding(forms, item_store.moment)
    if place.metadata_of is not None:
        holding = replace(holding, content_type=ContentType.METADATA)
    with item_store.unit_of_work(who) as work:
        # The same deposit may have been stored since the key was looked up. Checked before any link is made,
        # because the links of the stored item would make this deposit fail.
        held = held_by_key(work.writer, draft)
        if held is not None:
            return Changed(held)
        if own_metadata is not None:
            holding = _with_metadata_item(work, holding, own_metadata)
        if place.translation_of is not None:
            holding = add_translation(work, holding, place.translation_of)
        added = work.add(holding, staged, **detail)
        if place.edition_of is not None:
            last = work.get(place.edition_of)
            if last.next_edition is not None:
                problem = "{name} already has a next edition: {edition}"
                raise BadItem(problem, name=last.forms.main, edition=last.next_edition.main)
            change_links(work, last, next_edition=added.forms)
        if place.metadata_of is not None:
            change_links(work, work.get(place.metadata_of), metadata_item=added.forms)
    return Changed(added, is_new=True)


def held_by_key(catalogue: Catalogue | CatalogueWriter, draft: Draft) -> Holding | None:
    """Return the item deposited under a draft's key. Raises AlreadyHeld if the draft has further names."""
    held = catalogue.holding_by_key(draft.key) if draft.key else None
    # All names of the draft must be names of this item: a further one may be the name of another item.
    if held is not None and draft.forms is not None and not draft.forms.canonicals <= held.forms.canonicals:
        raise AlreadyHeld("{name}, or its key, is already held", name=held.forms.main)
    return held


def _with_metadata_item(work: UnitOfWork, holding: Holding, forms: IBIForms) -> Holding:
    """Add the metadata of an item as an item of their own; return the item with its link to them."""
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
    work.add(described, describes=str(holding.forms.main))
    return replace(holding, metadata_item=forms)
