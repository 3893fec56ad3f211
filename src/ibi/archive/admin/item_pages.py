"""Administration pages for items: list, item, deposit, edit, files, removal.

A form is converted to the JSON of the JSON interface, and the same operations read it and act on it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.layout import ROOT, Form, PageHandler
from ibi.accounts.tokens import Scope
from ibi.api.fields import read
from ibi.api.operation_pages import form_fields
from ibi.archive.model.item import ELEMENTS
from ibi.archive.model.item_fields import EDITED, FormKind
from ibi.archive.model.item_json import usual_facts, write_item
from ibi.archive.operations import items
from ibi.archive.operations.exchange import REFRESH
from ibi.archive.operations.item_facts import check_match
from ibi.archive.store.tables import copies, history
from ibi.errors import BadItem
from ibi.identifier.forms import parse_name
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import PageRequest
    from ibi.api.operations import Operation
    from ibi.archive.api.deposits import Deposits
    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.runtime.settings import ArchiveSettings

    Values = Mapping[str, Sequence[tuple[str, str]]]


TEXTS: Final = tuple(each.name for each in EDITED if each.form not in {FormKind.NONE, FormKind.TRUTH})
"""Fields of one text each; empty ones are left out."""
TRUTHS: Final = tuple(each.name for each in EDITED if each.form is FormKind.TRUTH)
"""Fields that are true by default: "yes" or "no"."""
FIELDS: Final = (*TEXTS, *TRUTHS, "metadata")
"""The facts of an item that the form edits."""

MOST_STATEMENTS: Final = 900
"""Metadata values in one form. Each takes two of the fields that a form may have."""

_USUAL: Final = {
    each.name: each.write(usual_facts([each.name])[each.attribute])
    for each in EDITED
    if each.form is FormKind.CHOICE
}
DUBLIN_CORE: Final = "dc."
"""The prefix of Dublin Core fields. It is needed because an item itself has a language and rights, too."""

_LANGUAGE: Final = ".lang"


def item_from_form(form: Form) -> dict[str, Any]:
    """Make the JSON of an item from a form; defaults are left out."""
    value: dict[str, Any] = {}
    for name in TEXTS:
        text = form.one(name)
        if text and text != _USUAL.get(name):
            value[name] = text
    value |= {name: False for name in TRUTHS if form.one(name) == "no"}
    metadata = {element: values for element in ELEMENTS if (values := _statements(form, element))}
    if metadata:
        value["metadata"] = metadata
    return value


def changes_from_form(form: Form, holding: Holding) -> dict[str, Any]:
    """Return the fields in which a form differs from the item, for an edit: None for a deleted value."""
    new, old = item_from_form(form), write_item(holding)
    if "metadata" in old:
        old["metadata"] = {
            name: [_stripped(each) for each in values] for name, values in old["metadata"].items()
        }
    return {name: new.get(name) for name in FIELDS if new.get(name) != old.get(name)}


def typed_values(form: Form) -> Values:
    """Return the values of a form, to show them again."""
    shown: dict[str, list[tuple[str, str]]] = {name: [(form.one(name), "")] for name in (*TEXTS, *TRUTHS)}
    for element in ELEMENTS:
        shown[f"{DUBLIN_CORE}{element}"] = [pair for pair in _rows(form, element) if any(pair)]
    return shown


def values_of(holding: Holding, *, leaving: Sequence[str] = ()) -> Values:
    """Return the values of an item, to show them in its form, without the fields in `leaving`.

    Raises BadItem if there are more values than a form may have.
    """
    # A form with more fields would be refused when it comes back.
    if sum(map(len, (holding.metadata or {}).values())) > MOST_STATEMENTS:
        raise BadItem("so many statements are too many for a form; use the command: ibi archive edit")
    written = write_item(holding)
    shown: dict[str, list[tuple[str, str]]] = {
        name: [(str(written.get(name, _USUAL.get(name, ""))), "")] for name in TEXTS if name not in leaving
    }
    shown |= {name: [("no" if written.get(name) is False else "yes", "")] for name in TRUTHS}
    for element, statements in (holding.metadata or {}).items():
        if element not in leaving:
            shown[f"{DUBLIN_CORE}{element}"] = [(value, language or "") for value, language in statements]
    return shown


def differences(form: Form, holding: Holding) -> dict[str, str]:
    """Return the present value of the item, as one text, for each field that differs from the form."""
    now, changes = values_of(holding), changes_from_form(form, holding)
    names = [name for name in changes if name != "metadata"]
    if "metadata" in changes:
        old, new = write_item(holding).get("metadata", {}), changes["metadata"] or {}
        names += [
            f"{DUBLIN_CORE}{element}"
            for element in ELEMENTS
            if [_stripped(each) for each in old.get(element, [])] != new.get(element, [])
        ]
    return {name: "; ".join(text for text, _ in now.get(name, ())) for name in names}


def _statements(form: Form, element: str) -> list[Any]:
    """Return the values of an element that are not empty, each with its language if one was typed."""
    return [
        {"value": _tidy(value), "lang": language.strip()} if language.strip() else _tidy(value)
        for value, language in _rows(form, element)
        if value.strip()
    ]


def _rows(form: Form, element: str) -> list[tuple[str, str]]:
    values = form.many(f"{DUBLIN_CORE}{element}")
    languages = form.many(f"{DUBLIN_CORE}{element}{_LANGUAGE}")
    return list(zip(values, languages + [""] * (len(values) - len(languages)), strict=False))


def _stripped(statement: Any) -> Any:
    if isinstance(statement, dict):
        return {**statement, "value": _tidy(statement["value"])}
    return _tidy(statement)


def _tidy(text: str) -> str:
    """Remove blanks around a text and at the ends of lines, because they are invisible in a form."""
    return "\n".join(line.rstrip() for line in text.strip().replace("\r\n", "\n").split("\n"))


_PAGE: Final = 50
_LONGEST_AFTER: Final = 512  # characters of the name after which a page of the list begins
_NOT_INHERITED: Final = {
    "edition_of": ("target", "url", "date", "identifier"),
    "translation_of": ("target", "url", "language", "title", "description", "identifier"),
}
"""The fields that an edition or a translation does not take over from its predecessor."""


@dataclass(frozen=True, slots=True)
class ItemsPage:
    """The items in the order of their names; `after` leads to the next page, "" at the end."""

    items: Sequence[Holding]
    after: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class ItemPage:
    """One item and what can be done with it.

    `archive`: where the original of a copy is, if known; `acts`: operations whose forms are made of fields.
    """

    holding: Holding
    persistent: str
    history: Sequence[ItemEvent]
    archive: str = ""
    acts: Sequence[Operation[Any, Any]] = ()


@dataclass(frozen=True, slots=True)
class ItemFormPage:
    """The form for a new item, or for editing an item.

    `before`: the item that a new one follows or translates, or the edited item; `theirs`: fields that another
    librarian has changed meanwhile, with their present values.
    """

    values: Mapping[str, Sequence[tuple[str, str]]]
    """The values of each field, each with its language ("" for none)."""
    place: str = ""
    """"edition_of", "translation_of", "edit", or "" for a new item without a predecessor."""
    before: Holding | None = None
    since: str = ""
    once: str = ""
    """The Idempotency-Key of the form, which makes one item even if it is sent twice."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    largest: int = 0

    def one(self, name: str) -> str:
        """Return the first value of a field, "" if it has none."""
        return next((value for value, _ in self.values.get(name, ())), "")

    def rows(self, element: str) -> list[tuple[str, str]]:
        """Return the values of a Dublin Core element, and an empty row."""
        return [*self.values.get(f"dc.{element}", ()), ("", "")]


@dataclass(frozen=True, slots=True)
class FilesPage:
    """The files of an item, with the form that adds, replaces and removes them."""

    holding: Holding
    largest: int


@dataclass(frozen=True, slots=True)
class DeletePage:
    """The form that removes an item. `reason`: as typed."""

    holding: Holding
    reason: str = ""


class ItemPages:
    """The pages of items. `context_of` makes the context of operations; `acts`: operations on one item."""

    def __init__(
        self,
        catalogue: Catalogue,
        context_of: Callable[[PageRequest], ArchiveContext],
        settings: ArchiveSettings,
        deposits: Deposits,
        acts: Sequence[Operation[Any, Any]] = (),
    ) -> None:
        self._catalogue = catalogue
        self._context_of = context_of
        self._deposits = deposits
        self._settings = settings
        self._acts = acts

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of each page, by the word in its path."""
        return {
            "items": PageHandler(Scope.READ, self._items),
            "deposit": PageHandler(Scope.DEPOSIT, self._deposit_form, self._deposit, files=True),
            "edit": PageHandler(Scope.EDIT, self._edit_form, self._edit),
            "files": PageHandler(Scope.EDIT, self._files_form, self._change_files, files=True),
            "delete": PageHandler(Scope.DELETE, self._removal_form, self._remove),
        }

    def _items(self, visit: PageRequest, typed: Form | None) -> ItemsPage | ItemPage:
        """Return a page of the list, or one item; only the search field if the `typed` name was not found."""
        if visit.rest:
            return self._item(self._catalogue.settled(visit.name))
        if typed is not None:
            return ItemsPage((), wanted=typed.one("name"))
        name = visit.query.get("name", "").strip()
        if name:
            return self._item(self._catalogue.settled(unwrap(name).ibi))
        after = visit.query.get("after", "")[:_LONGEST_AFTER]
        page = list(islice(self._catalogue.all(after), _PAGE + 1))
        more = page[_PAGE - 1].forms.main.canonical if len(page) > _PAGE else ""
        return ItemsPage(page[:_PAGE], more)

    def _item(self, holding: Holding) -> ItemPage:
        with self._catalogue.reading() as run:
            events = history.events_of(run, holding.number)
            archive = copies.original_of(run, holding.number) if holding.state is ItemState.COPY else ""
        root = self._settings.resolver or self._settings.root
        return ItemPage(
            holding, f"{root.rstrip('/')}/{holding.forms.main}", events, archive or "", self._acts_on(holding)
        )

    def _acts_on(self, holding: Holding) -> list[Operation[Any, Any]]:
        """Return the operations that are possible on an item in its present state."""
        if holding.deleted:
            return []
        return [each for each in self._acts if each is not REFRESH or holding.state is ItemState.COPY]

    def _deposit_form(self, visit: PageRequest, typed: Form | None) -> ItemFormPage:
        """Return an empty form, or one with the values that the new item takes over from its predecessor."""
        given = {word: typed.one(word) for word in _NOT_INHERITED} if typed else visit.query
        place = next((word for word in _NOT_INHERITED if given.get(word)), "")
        before = self._catalogue.settled(parse_name(given[place])) if place else None
        if typed is not None:
            values, once = typed_values(typed), typed.one("once")
        else:
            values = values_of(before, leaving=_NOT_INHERITED[place]) if before else {}
            once = secrets.token_hex(16)
        return ItemFormPage(values, place, before, once=once, largest=self._settings.largest_upload)

    async def _deposit(self, visit: PageRequest, form: Form) -> str:
        """Deposit the item, only once, because the form has an Idempotency-Key."""
        value = item_from_form(form)
        value |= {word: form.one(word) for word in _NOT_INHERITED if form.one(word)}
        context = self._context_of(visit)
        context.files, context.request_key = form.files, form.one("once")
        deposited = await self._deposits.take(context, value)
        return _done(deposited.holding, "deposited")

    def _edit_form(self, visit: PageRequest, typed: Form | None) -> ItemFormPage:
        """Return the form with the item, or with the typed values beside another librarian's changes."""
        holding = self._catalogue.settled(visit.name)
        if typed is None:
            return ItemFormPage(values_of(holding), "edit", holding, holding.timestamp)
        theirs = differences(typed, holding) if typed.one("since") != holding.timestamp else {}
        return ItemFormPage(typed_values(typed), "edit", holding, holding.timestamp, theirs=theirs)

    def _edit(self, visit: PageRequest, form: Form) -> str:
        """Store the differences, unless the item has changed since the form was shown."""
        holding, context = self._catalogue.settled(visit.name), self._context(visit, form)
        check_match(context, holding)
        changed = changes_from_form(form, holding)
        # Without a difference there is no edit: it would give other librarians a conflict for nothing.
        if changed:
            items.edit(context, read(items.EditFields, {"ibi": str(visit.name), **changed}))
        return _done(holding, "edited" if changed else "unchanged")

    def _files_form(self, visit: PageRequest, _typed: Form | None) -> FilesPage:
        return FilesPage(self._catalogue.settled(visit.name), self._settings.largest_upload)

    def _change_files(self, visit: PageRequest, form: Form) -> str:
        """Add the files of the form, and remove the ticked files."""
        holding, context = self._catalogue.settled(visit.name), self._context(visit, form)
        check_match(context, holding)
        without = [name for name in dict.fromkeys(form.many("without")) if name not in form.files]
        target = form.one("target")
        facts: dict[str, Any] = {}
        shown = holding.target_file.name if holding.target_file else ""
        if target != shown and target not in without:
            facts = {"target": target or None}
        elif holding.target in without:
            facts = {"target": None}
        value = {"ibi": str(visit.name), **facts, "without": without}
        items.edit(context, read(items.EditFields, value))
        return _done(holding, "files")

    def _removal_form(self, visit: PageRequest, typed: Form | None) -> DeletePage:
        return DeletePage(self._catalogue.settled(visit.name), typed.one("reason") if typed else "")

    def _remove(self, visit: PageRequest, form: Form) -> str:
        """Remove the item, if the confirmation was given."""
        holding = self._catalogue.settled(visit.name)
        fields = form_fields(items.RemoveFields, form, ibi=str(visit.name))
        # A removal cannot be undone, because the bytes of the files are deleted.
        if form.one("sure") != "yes":
            raise BadItem("tick that you mean it: the files of the item will be gone")
        items.remove(self._context(visit, form), fields)
        return _done(holding, "removed")

    def _context(self, visit: PageRequest, form: Form) -> ArchiveContext:
        """Return the context of a form, with its files and the version of the item that it showed."""
        context = self._context_of(visit)
        context.files, context.if_match = form.files, f'"{form.one("since")}-"'
        return context


def _done(holding: Holding, word: str) -> str:
    """Return the URL of an item's page, which shows a message for this word."""
    return f"{ROOT}/items/{holding.forms.main}?done={word}"
