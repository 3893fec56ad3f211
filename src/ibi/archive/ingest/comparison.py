"""Compares records with held items: finds nearly the same items, and applies updates.

Without `SimilarItems`, a corrected row without a name would give the same item a second name. An update
changes only the fields that a record has: a spreadsheet with two columns changes two fields.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_json import CONTENT_KEY, check_facts
from ibi.archive.store.tables import batches
from ibi.errors import BadItem, HoldingError
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.item import StoredFile
    from ibi.archive.model.item_json import Draft
    from ibi.archive.store.tables.catalogue import Catalogue

_METADATA: Final = "metadata"
_PAGE: Final = 2000  # items
_YEAR: Final = re.compile(r"\d{4}")


class SimilarItems:
    """Finds the items that have the same title and year as a record, or the same URL.

    It knows the items that were held at the first look-up, so the rows of one file are not compared with each
    other. An item takes about a hundred bytes of memory.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._numbers: dict[int, int] | None = None
        """Item numbers by fingerprint; read at the first look-up."""

    def find(self, draft: Draft) -> IBIForms | None:
        """Return the names of an item that is nearly the same as a draft, or None. Raises SetupError."""
        metadata = draft.facts.get("metadata") or {}
        title = next((value for value, _ in metadata.get("title", ())), "")
        dates = " ".join(value for value, _ in metadata.get("date", ()))
        if self._numbers is None:
            self._numbers = self._held()
        fingerprints = _fingerprints(draft.facts.get("url", ""), title, dates)
        number = next(
            (self._numbers[fingerprint] for fingerprint in fingerprints if fingerprint in self._numbers), None
        )
        if number is None:
            return None
        with self._catalogue.reading() as run:
            return batches.forms_of_number(run, number)

    def _held(self) -> dict[int, int]:
        numbers: dict[int, int] = {}
        after = 0
        while True:
            # Page by page, because answers to readers use the same connection.
            with self._catalogue.reading() as run:
                page = batches.titles(run, after, _PAGE)
            for number, url, title, dates in page:
                numbers |= dict.fromkeys(_fingerprints(url or "", title or "", dates or ""), number)
            if len(page) < _PAGE:
                return numbers
            after = page[-1][0]


def _fingerprints(url: str, title: str, dates: str) -> Iterable[int]:
    """Yield the fingerprints of an item: of its URL, and of its title (letters and digits) with its year."""
    if url:
        yield hash(url)
    letters = "".join(char for char in title.casefold() if char.isalnum())
    if letters:
        year = _YEAR.search(dates)
        yield hash((letters, year[0] if year else ""))


def updated(held: Holding, draft: Draft, staged: tuple[StoredFile, ...] = ()) -> Holding:
    """Return the held item with the facts of its record; the timestamp stays. Raises BadItem, HoldingError.

    Names and older opaque ids are only added, files added or replaced. The state can only become Deleted.
    Files that come to a linked item take the place of its URL.
    """
    facts = dict(draft.facts)
    if _METADATA in facts:
        facts[_METADATA] = {**(held.metadata or {}), **(facts[_METADATA] or {})}
    aliases = facts.get("aliases", ())
    facts["aliases"] = (*held.aliases, *(each for each in aliases if each not in held.aliases))
    if facts.get("state", held.state) not in {held.state, ItemState.DELETED}:
        raise BadItem("{name} cannot be edited", name="state")
    if draft.files and "url" not in facts:
        facts["url"] = ""
    files = {file.name: file for file in (*held.files, *staged)}
    new = replace(
        held,
        **facts,
        forms=_forms(held, draft.forms),
        key=_key(held, draft.key),
        files=tuple(files[name] for name in sorted(files)),
    )
    if new.access is not Access.EMBARGOED:
        new = replace(new, embargo=facts.get("embargo", ""))
    check_facts({"access": new.access, "embargo": new.embargo}, ())
    return new


def renewed(held: Holding, draft: Draft, described: Holding, staged: tuple[StoredFile, ...] = ()) -> Holding:
    """Return the item as its record describes it; names, key and timestamp stay if the record has none."""
    known = draft.forms is None or all(name in held.names for name in described.names)
    return replace(
        described,
        forms=held.forms if known else described.forms,
        number=held.number,
        key=described.key or held.key,
        timestamp=described.timestamp if draft.timestamp is not None else held.timestamp,
        files=staged,
    )


def differences(held: Holding, described: Holding) -> list[str]:
    """Return the attributes in which an item and its description differ, wherever files are stored."""
    held, described = (replace(each, files=_placed(each.files)) for each in (held, described))
    return [
        each.name for each in fields(Holding) if getattr(held, each.name) != getattr(described, each.name)
    ]


def shown_differences(held: Holding, described: Holding) -> str:
    """Return the differences as a text for people, with each differing element of metadata."""
    before, after = held.metadata or {}, described.metadata or {}
    elements = [f"metadata.{each}" for each in after if before.get(each) != after[each]]
    names = [each for each in differences(held, described) if each != _METADATA]
    return ", ".join(names + elements)


def _forms(held: Holding, described: IBIForms | None) -> IBIForms:
    """Return the names after an update: a missing form is added, no name is replaced. Raises HoldingError."""
    if described is None:
        return held.forms
    forms = IBIForms(held.forms.rep or described.rep, held.forms.ibip or described.ibip)
    known = {name.canonical for name in (*held.names, forms.rep, forms.ibip) if name}
    if any(name and name.canonical not in known for name in (described.rep, described.ibip)):
        raise HoldingError(
            "{name} keeps its name for ever; another name is another item", name=held.forms.main
        )
    return forms


def _key(held: Holding, described: str) -> str:
    """Return the key after an update: a depositor's own key is not replaced by a hash of the content."""
    own = held.key and not held.key.startswith(CONTENT_KEY)
    return held.key if not described or (own and described.startswith(CONTENT_KEY)) else described


def _placed(files: tuple[StoredFile, ...]) -> tuple[StoredFile, ...]:
    """Return the files sorted by name, without their names in staging."""
    return tuple(sorted((replace(file, staged="") for file in files), key=lambda file: file.name))
