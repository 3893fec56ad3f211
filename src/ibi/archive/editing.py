"""Maintenance of an original: its facts, its files, its removal. A copy is edited where its original is (ARC-13)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.facts import check_facts, read_facts
from ibi.archive.holding import Access
from ibi.archive.ledgers import copies
from ibi.errors import BadItem, Conflict, HoldingError
from ibi.protocol.vocabulary import ContentType, State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from ibi.archive.holding import Holding, StoredFile
    from ibi.archive.keeper import Hand, Keeper
    from ibi.identifier.forms import Name

_USUAL: Final[dict[str, tuple[str, Any]]] = {
    "contenttype": ("content_type", ContentType.DATA),
    "language": ("language", None),
    "transferable": ("transferable", True),
    "url": ("url", ""),
    "target": ("target", ""),
    "file_list_public": ("file_list_public", True),
    "next_edition": ("next_edition", None),
    "translations": ("translations", {}),
    "metadata_item": ("metadata_item", None),
    "metadata": ("metadata", None),
    "formats": ("formats", {}),
    "access": ("access", Access.OPEN),
    "embargo": ("embargo", ""),
    "rights": ("rights", ""),
    "licence": ("licence", ""),
}
"""The fields that can be edited: the fact that each is, and its value where it is taken away."""


def edit(
    keeper: Keeper,
    name: Name,
    value: Mapping[str, Any],
    who: str,
    *,
    staged: Iterable[StoredFile] = (),
    without: Collection[str] = (),
    unchanged_since: str | None = None,
) -> Holding:
    """Change facts and files of an original; returns it as it is held then.

    `value`: fields as in JSON lines, null for those that are taken away; `staged` files are added, or replace those
    of the same name; files named in `without` go. `unchanged_since`: its timestamp as the editor has seen it.
    Raises Conflict if it has changed since, HoldingError for copies and removed items, NotHeld, BadItem, ParseError.
    """
    facts = _facts(value)
    with keeper.changing(who) as hand:
        held = hand.held(name)
        check_editable(hand, held)
        if unchanged_since is not None and held.timestamp != unchanged_since:
            raise Conflict("{name} has been changed meanwhile, on {date}", name=name, date=held.timestamp)
        missing = sorted(set(without) - {file.name for file in held.files})
        if missing:
            raise BadItem("{name} has no such file", name=held.forms.main)
        new = replace(
            held,
            **facts,
            files=tuple(file for file in held.files if file.name not in without),
            timestamp=hand.later(held),
        )
        if "access" in facts and new.access is not Access.EMBARGOED:
            new = replace(new, embargo=facts.get("embargo", ""))
        check_facts({"access": new.access, "embargo": new.embargo}, ())
        staged = list(staged)
        changed = [*sorted(value), *(file.name for file in staged), *sorted(without)]
        return hand.change(held, new, staged, "edited", changed=changed)


def remove(keeper: Keeper, name: Name, reason: str, who: str) -> Holding:
    """Remove an item for ever; returns what is left of it. Raises NotHeld, HoldingError."""
    with keeper.changing(who) as hand:
        return hand.remove(hand.held(name), reason)


def check_editable(hand: Hand, held: Holding) -> None:
    """Refuse to edit a copy, naming the Archive of its original, and what was removed. Raises HoldingError."""
    if held.state is State.COPY:
        archive = copies.original_of(hand.writer.run, held.number)
        if archive:
            problem = "{name} is a copy; it is edited where its original is: {archive}"
            raise HoldingError(problem, name=held.forms.main, archive=archive)
        raise HoldingError("{name} is a copy; it is edited where its original is", name=held.forms.main)
    if held.deleted:
        raise HoldingError("{name} was removed on {date}", name=held.forms.main, date=held.timestamp)


def _facts(value: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that an edit gives; null gives back the usual value. Raises BadItem, ParseError."""
    odd = sorted(set(value) - set(_USUAL))
    if odd:
        raise BadItem("{name} cannot be edited", name=odd[0])
    taken_away = dict(_USUAL[field] for field, each in value.items() if each is None)
    return taken_away | read_facts({field: each for field, each in value.items() if each is not None})
