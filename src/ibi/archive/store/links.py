"""Links between the items of one Archive, above all between translations, by language (URL-11: the browser's language).

A link states the language of its target. If the language of the target is corrected, its links are, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.relations import held_by
from ibi.archive.store.tables import copies, listings
from ibi.errors import BadItem, HoldingError
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ibi.archive.model.formats import DescribedItem
    from ibi.archive.model.item import Holding
    from ibi.archive.model.relations import Lookup
    from ibi.archive.store.item_store import UnitOfWork
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.identifier.forms import IBIForms, Name


_MOST_EARLIER: Final = 16  # items that have the same next edition


def with_links(catalogue: Catalogue, item: DescribedItem) -> DescribedItem:
    """Return an item with the editions before it, and the original that it equals."""
    holding = item.holding
    with catalogue.reading() as run:
        earlier = listings.earlier(run, holding.forms, _MOST_EARLIER)
        source = copies.source_of(run, holding.number) if holding.state is ItemState.COPY else None
    known = tuple(forms for forms in earlier if held_by(catalogue.holding, forms))
    original = ""
    if source is not None and not source.since:
        original = source.url or f"{source.archive.rstrip('/')}/{holding.forms.main}"
    return replace(item, earlier=known, original=original)


def check_editable(work: UnitOfWork, held: Holding) -> None:
    """Raise HoldingError for a copy, with the Archive of its original, and for a removed item."""
    if held.state is ItemState.COPY:
        archive = copies.original_of(work.writer.run, held.number)
        if archive:
            problem = "{name} is a copy; it is edited where its original is: {archive}"
            raise HoldingError(problem, name=held.forms.main, archive=archive)
        raise HoldingError("{name} is a copy; it is edited where its original is", name=held.forms.main)
    if held.deleted:
        raise HoldingError("{name} was removed on {date}", name=held.forms.main, date=held.timestamp)


def change_links(work: UnitOfWork, held: Holding, **links: Any) -> None:
    """Change links of an original, given by the names of attributes. Raises HoldingError, BadItem."""
    check_editable(work, held)
    changes = {**links, "timestamp": work.next_timestamp(held)}
    work.change(held, replace(held, **changes), (), "edited", changed=sorted(links))


def add_translation(work: UnitOfWork, holding: Holding, source: Name) -> Holding:
    """Link a new translation with its source and every other held translation; returns it with its links.

    Raises BadItem if it states no language or one that a translation has already; NotHeld, HoldingError.
    """
    held, language = work.get(source), holding.language
    if language is None:
        raise _needs_language()
    if language in held.translations or held.language == language:
        raise _is_there(held, language)
    for sibling in _siblings(work, held.translations):
        change_links(work, sibling, translations={**sibling.translations, language: holding.forms})
    change_links(work, held, translations={**held.translations, language: holding.forms})
    others = {**held.translations, held.language or "": held.forms, **holding.translations}
    return replace(holding, translations=others)


def follow_language(work: UnitOfWork, old: Holding, new: Holding) -> Holding:
    """Restate links between an item and its translations in its new language; returns it with its links.

    Links of translations that are held elsewhere, or as copies, are not changed here. Raises BadItem if
    another translation has that language already, or if a translation would have no language; HoldingError.
    """
    language = new.language or ""
    linked = {**old.translations, **new.translations}
    if linked and not language:
        raise _needs_language()
    for sibling in _siblings(work, linked):
        if sibling.forms.shares(new.forms):
            continue
        if _leads_to(sibling.translations, new.forms):
            if (sibling.language or "") == language:
                raise _is_there(sibling, language)
            change_links(work, sibling, translations=_restated(sibling, new.forms, language))
    if _leads_to(new.translations, new.forms):
        return replace(new, translations=_restated(new, new.forms, language))
    return new


def misstated_links(holding: Holding, lookup: Lookup) -> Iterator[tuple[str, Holding]]:
    """Yield (language of the link, item) for translations whose own language differs from that of their link.

    "pt" and "pt-BR" do not differ. Items that state no language, or are held elsewhere, are skipped.
    """
    for language, forms in holding.translations.items():
        found = lookup(forms.main)
        if found is not None and found.language and found.language[:2] != language[:2]:
            yield language, found


def is_free(holding: Holding, target: Holding) -> bool:
    """Return whether no other translation of an item is linked under the language of this one."""
    return not any(
        tag == (target.language or "") and not forms.shares(target.forms)
        for tag, forms in holding.translations.items()
    )


def restate_link(work: UnitOfWork, name: Name, target: Name) -> None:
    """Make a link state the language of its target. Raises NotHeld, HoldingError, BadItem."""
    held, found = work.get(name), work.get(target)
    restated = _restated(held, found.forms, found.language or "")
    if restated != held.translations:
        change_links(work, held, translations=restated)


def _siblings(work: UnitOfWork, translations: Mapping[str, IBIForms]) -> Iterator[Holding]:
    """Yield the translations that are originals here: a copy is edited where its original is (ARC-13)."""
    for forms in translations.values():
        found = work.find(forms.main)
        if found is not None and found.state is ItemState.ORIGINAL:
            yield found


def _leads_to(translations: Mapping[str, IBIForms], forms: IBIForms) -> bool:
    return any(each.shares(forms) for each in translations.values())


def _restated(held: Holding, forms: IBIForms, language: str) -> dict[str, IBIForms]:
    """Return an item's translations with one moved to this language. Raises BadItem if it is taken."""
    others = {tag: each for tag, each in held.translations.items() if not each.shares(forms)}
    if language in others:
        raise _is_there(held, language)
    return {**others, language: forms}


def _is_there(held: Holding, language: str) -> BadItem:
    problem = "{name} is already there in this language: {language}"
    return BadItem(problem, name=held.forms.main, language=language or "-")


def _needs_language() -> BadItem:
    return BadItem("a translation needs its language, such as en or pt-BR")
