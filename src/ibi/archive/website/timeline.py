"""The editions of an item as a line in time, and its translations, as far as one Archive knows (pure).

Links lead from an edition to the next one, which may live in another Archive: then only its name is known, and the
date that the name tells; the resolver knows where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.holding import Holding
    from ibi.archive.related import Lookup
    from ibi.identifier.forms import IBIForms

    Earlier = Callable[[IBIForms], list[IBIForms]]
    """The items whose next edition is the item of these names."""

MOST_EDITIONS: Final = 10
"""Editions that are told before an item, and after it."""


class Version(NamedTuple):
    """An edition or a translation. `holding`: None if it lives in another Archive; `language`: "" if none is told.

    `date` ("2026-09-14T16:40:00Z"): when it got its name, "" if its name does not tell.
    """

    forms: IBIForms
    holding: Holding | None
    language: str = ""
    here: bool = False
    """Whether it is the item itself."""

    @property
    def date(self) -> str:
        """When it got its name."""
        return self.forms.main.date.text or ""


class Timeline(NamedTuple):
    """Editions from the oldest to the newest. `before`, `after`: whether there are more than are told.

    `ended`: whether the last one told is known to be the last edition there is.
    """

    versions: tuple[Version, ...] = ()
    before: bool = False
    after: bool = False
    ended: bool = True


def editions(item: Holding, lookup: Lookup, earlier: Earlier) -> Timeline:
    """The editions of an item; a single one where no other is known."""
    here = Version(item.forms, item, here=True)
    after, ended = _later(item, lookup)
    before = _before(item, lookup, earlier)
    return Timeline(
        (*reversed(before[:MOST_EDITIONS]), here, *after[:MOST_EDITIONS]),
        len(before) > MOST_EDITIONS,
        len(after) > MOST_EDITIONS,
        ended and len(after) <= MOST_EDITIONS,
    )


def translations(item: Holding, lookup: Lookup) -> tuple[Version, ...]:
    """The item itself in its language, and its translations; empty if there is none."""
    others = [
        Version(forms, _held(lookup, forms), language)
        for language, forms in sorted(item.translations.items())
        if not item.forms.shares(forms)
    ]
    own = next((tag for tag, forms in item.translations.items() if item.forms.shares(forms)), None)
    here = Version(item.forms, item, own or item.language or "", here=True)
    return (here, *others) if others else ()


def _later(item: Holding, lookup: Lookup) -> tuple[list[Version], bool]:
    """The editions after an item, one more than are told; and whether the last of them is known to be the last."""
    found: list[Version] = []
    seen = set(item.forms.canonicals)
    forms = item.next_edition
    while forms is not None and len(found) <= MOST_EDITIONS:
        if not seen.isdisjoint(forms.canonicals):
            return found, False  # a circle has no last edition
        seen |= forms.canonicals
        holding = _held(lookup, forms)
        found.append(Version(forms, holding))
        if holding is None:
            return found, False
        forms = holding.next_edition
    return found, forms is None


def _before(item: Holding, lookup: Lookup, earlier: Earlier) -> list[Version]:
    """The editions before an item, the nearest first, one more than are told."""
    found: list[Version] = []
    seen = set(item.forms.canonicals)
    waiting = [item.forms]
    while waiting and len(found) <= MOST_EDITIONS:
        for forms in earlier(waiting.pop(0)):
            holding = _held(lookup, forms) if seen.isdisjoint(forms.canonicals) else None
            if holding is not None:
                seen |= forms.canonicals
                found.append(Version(forms, holding))
                waiting.append(forms)
    return sorted(found, key=_age, reverse=True)


def _age(version: Version) -> int:
    return version.forms.main.date.ticks or 0


def _held(lookup: Lookup, forms: IBIForms) -> Holding | None:
    found = lookup(forms.main)
    return lookup(forms.ibip) if found is None and forms.rep and forms.ibip else found
