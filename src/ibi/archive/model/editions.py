"""The editions of an item in the order of time, and its translations, as far as one Archive knows (pure).

A link leads from an edition to the next one. If that is in another Archive, only its name is known here, and
the date in its name; a resolver can find it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.relations import held_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.identifier.forms import IBIForms

    Earlier = Callable[[IBIForms], list[IBIForms]]
    """The items whose next edition is the item of these names."""

MOST_EDITIONS: Final = 10
"""Editions that are shown before an item, and as many after it."""


class ItemVersion(NamedTuple):
    """An edition or translation. `holding`: None if it is not held here; `language`: "" if unstated."""

    forms: IBIForms
    holding: Holding | None
    language: str = ""
    here: bool = False
    """Whether it is the item itself."""

    @property
    def date(self) -> str:
        """When it got its name ("2026-09-14T16:40:00Z"); "" if its name holds no date."""
        return self.forms.main.date.text or ""


class Timeline(NamedTuple):
    """Editions from the oldest to the newest.

    `before`, `after`: whether some are left out; `ended`: whether the last one shown is
    known to be the last edition.
    """

    versions: tuple[ItemVersion, ...] = ()
    before: bool = False
    after: bool = False
    ended: bool = True


def editions(item: Holding, lookup: Lookup, earlier: Earlier) -> Timeline:
    """Return the editions of an item; only the item itself if no other edition is known."""
    here = ItemVersion(item.forms, item, here=True)
    after, ended = _later(item, lookup)
    before = _before(item, lookup, earlier)
    return Timeline(
        (*reversed(before[:MOST_EDITIONS]), here, *after[:MOST_EDITIONS]),
        len(before) > MOST_EDITIONS,
        len(after) > MOST_EDITIONS,
        ended and len(after) <= MOST_EDITIONS,
    )


def translations(item: Holding, lookup: Lookup) -> tuple[ItemVersion, ...]:
    """Return the item itself in its language, then its translations; empty if it has no translation."""
    others = [
        ItemVersion(forms, held_by(lookup, forms), language)
        for language, forms in sorted(item.translations.items())
        if not item.forms.shares(forms)
    ]
    own = next((tag for tag, forms in item.translations.items() if item.forms.shares(forms)), None)
    here = ItemVersion(item.forms, item, own or item.language or "", here=True)
    return (here, *others) if others else ()


def _later(item: Holding, lookup: Lookup) -> tuple[list[ItemVersion], bool]:
    """Return the later editions, at most one more than are shown, and whether the last one ends the chain."""
    found: list[ItemVersion] = []
    seen = set(item.forms.canonicals)
    forms = item.next_edition
    while forms is not None and len(found) <= MOST_EDITIONS:
        if not seen.isdisjoint(forms.canonicals):
            # A circle has no last edition.
            return found, False
        seen |= forms.canonicals
        holding = held_by(lookup, forms)
        found.append(ItemVersion(forms, holding))
        if holding is None:
            return found, False
        forms = holding.next_edition
    return found, forms is None


def _before(item: Holding, lookup: Lookup, earlier: Earlier) -> list[ItemVersion]:
    """Return the earlier editions that are held here, the nearest first: all, or more than are shown."""
    found: list[ItemVersion] = []
    seen = set(item.forms.canonicals)
    waiting = [item.forms]
    # Several items may name the same next edition, so the earlier editions form a tree.
    while waiting and len(found) <= MOST_EDITIONS:
        for forms in earlier(waiting.pop(0)):
            holding = held_by(lookup, forms) if seen.isdisjoint(forms.canonicals) else None
            if holding is not None:
                seen |= forms.canonicals
                found.append(ItemVersion(forms, holding))
                waiting.append(forms)
    return sorted(found, key=lambda version: version.forms.main.date.ticks or 0, reverse=True)
