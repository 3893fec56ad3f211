"""Administration pages for items: list, item, deposit, edit, files, removal.

A form is converted to the JSON of the JSON interface, and the same operations read it and act on it.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.forms import TOKEN
from ibi.accounts.layout import ROOT, Form, PageHandler, no_such_page
from ibi.accounts.tokens import Scope
from ibi.api.fields import read
from ibi.api.operation_pages import form_fields
from ibi.api.routes import in_quick_thread, in_waiting_thread
from ibi.archive.admin.item_form import (
    changes_from_form,
    differences,
    drops_embargo,
    item_from_form,
    problems_in,
    typed_values,
    values_of,
)
from ibi.archive.admin.item_lists import ItemQuery, ItemsPage, row_number
from ibi.archive.admin.kept_files import named_uploads
from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.model.item_json import check_facts, read_facts, usual_facts
from ibi.archive.model.record_values import name_in
from ibi.archive.operations import items
from ibi.archive.operations.exchange import REFRESH
from ibi.archive.operations.item_facts import check_item_match
from ibi.archive.store.tables import copies, history
from ibi.errors import BadItem, IbiError, ParseError, with_text
from ibi.http.response import NO_STORE, Response
from ibi.identifier.forms import parse_name
from ibi.identifier.unwrapping import unwrap
from ibi.protocol.vocabulary import ItemState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import PageRequest
    from ibi.api.operations import Operation
    from ibi.archive.admin.item_lists import ItemList
    from ibi.archive.admin.kept_files import KeptFile, KeptFiles
    from ibi.archive.api.deposits import Deposits
    from ibi.archive.model.item import Holding
    from ibi.archive.operations.context import ArchiveContext
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.history import ItemEvent
    from ibi.runtime.settings import ArchiveSettings


_NOT_AGAIN: Final = frozenset({TOKEN, "step", "upload"})  # fields that are not repeated as they came
_NOT_INHERITED: Final[Mapping[str, Sequence[str]]] = {
    "edition_of": ("target", "url", "date", "identifier"),
    "translation_of": ("target", "url", "language", "title", "description", "identifier"),
}
"""The fields that an edition or a translation does not take over from its predecessor."""
_NOT_LIKE: Final = ("target", "url", "title", "description", "identifier", "date")
"""The fields that another item like one does not take over from it."""


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


class FormProblems(BadItem):
    """Several fields of a form are wrong: this error is about the first one, `others` are about the others."""

    def __init__(self, first: IbiError, others: Sequence[IbiError] = ()) -> None:
        super().__init__(first.problem, **first.details)
        self.others = tuple(others)


@dataclass(frozen=True, slots=True)
class ItemFormPage:
    """The form for a new item, or for editing an item.

    `before`: the item that a new one follows or translates, or the edited item; `theirs`: fields that another
    librarian has changed meanwhile, with their present values; `files`: those that have been received;
    `lost`: how many of those are not here any more; `step`: what the form was sent for, "" for nothing yet:
    "kind:<kind>", "row:<field>", "person", "institution", "up:<number>", "remove:<number>", "files".
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
    files: Sequence[KeptFile] = ()
    lost: int = 0
    step: str = ""

    def one(self, name: str) -> str:
        """Return the first value of a field, "" if it has none."""
        return next((value for value, _ in self.values.get(name, ())), "")


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """An item as it will be, before it is deposited or edited.

    `holding`: a new item has the name of the Archive's service in the place of its own; `fields`: those of the
    form, to be sent again; `root`: the beginning of its persistent URL; `archive`: the publisher if it names
    none; `moment`: now; `before`: the item that a new one follows or translates.
    """

    holding: Holding
    fields: Sequence[tuple[str, str]]
    root: str
    archive: str
    moment: str
    before: Holding | None = None
    is_new: bool = True


@dataclass(frozen=True, slots=True)
class FilesPage:
    """The files of an item, with the form that adds, replaces and removes them."""

    holding: Holding
    largest: int


@dataclass(frozen=True, slots=True)
class DeletePage:
    """The form that removes an item. `reason`, `replacement`: as typed."""

    holding: Holding
    reason: str = ""
    replacement: str = ""


class ItemPages:
    """The pages of items. `context_of` makes the context of operations; `acts`: operations on one item."""

    def __init__(
        self,
        catalogue: Catalogue,
        context_of: Callable[[PageRequest], ArchiveContext],
        settings: ArchiveSettings,
        deposits: Deposits,
        kept: KeptFiles,
        item_list: ItemList,
        acts: Sequence[Operation[Any, Any]] = (),
    ) -> None:
        self._list = item_list
        self._catalogue = catalogue
        self._kept = kept
        self._context_of = context_of
        self._deposits = deposits
        self._settings = settings
        self._acts = acts

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of each page, by the word in its path."""
        return {
            "items": PageHandler(Scope.READ, self._items),
            "deposit": PageHandler(Scope.DEPOSIT, self._deposit_form, self._deposit, files=True),
            "edit": PageHandler(Scope.EDIT, self._edit_page, self._edit),
            "files": PageHandler(Scope.EDIT, self._files_form, self._change_files, files=True),
            "delete": PageHandler(Scope.DELETE, self._removal_form, self._remove),
        }

    def _items(self, visit: PageRequest, typed: Form | None) -> ItemsPage | ItemPage | Response:
        """Return a page of the list, the list as a file, or the item that was named."""
        if visit.rest:
            return self._item(self._catalogue.settled(visit.name))
        if typed is not None:  # it has failed already
            return ItemsPage((), ItemQuery.read(dict(typed.fields)))
        query = ItemQuery.read(visit.query)
        item = self._named(query.text)
        if item is not None:
            return self._item(item)
        return self._list.csv(query) if visit.query.get("as") == "csv" else self._list.page(query)

    def _named(self, text: str) -> Holding | None:
        """Return the item that a text names; None if it is only words. Raises NotHeld."""
        name = name_in(text)
        if name is not None:
            return self._catalogue.settled(name)
        try:
            found = self._catalogue.holding(unwrap(text).ibi) if text else None
        except ParseError:
            return None
        return found and self._catalogue.settled(found.forms.main)

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
        """Return an empty form, one with what was typed, or one with what the item takes over from another."""
        if typed is not None:
            return self._typed_deposit(visit, typed)
        place = next((word for word in _NOT_INHERITED if visit.query.get(word)), "")
        leaving = _NOT_INHERITED.get(place, _NOT_LIKE)
        other = visit.query.get(place or "like", "")
        before = self._catalogue.settled(parse_name(other)) if other else None
        values = values_of(before, leaving=leaving) if before else {}
        largest, once = self._settings.largest_upload, secrets.token_hex(16)
        return ItemFormPage(values, place, before if place else None, once=once, largest=largest)

    def _typed_deposit(self, visit: PageRequest, typed: Form) -> ItemFormPage:
        """Return the form with what was typed, and with the files that have been received."""
        place, before = self._predecessor(typed)
        fields = [*typed.many("upload"), *typed.kept]
        files = self._kept.find(visit.signed.name, fields)
        return ItemFormPage(
            typed_values(typed),
            place,
            before,
            once=typed.one("once") or secrets.token_hex(16),
            largest=self._settings.largest_upload,
            files=files,
            lost=len(named_uploads(fields)) - len(files),
            step=typed.one("step"),
        )

    def _predecessor(self, typed: Form) -> tuple[str, Holding | None]:
        """Return the item that the new item follows or translates; none if what was typed names none."""
        place = next((word for word in _NOT_INHERITED if typed.one(word)), "")
        try:
            return (place, self._catalogue.settled(parse_name(typed.one(place)))) if place else ("", None)
        except IbiError:
            return "", None  # the text is in its field, and the deposit says what is wrong with it

    async def _deposit(self, visit: PageRequest, form: Form) -> str | ItemFormPage | ReviewPage:
        """Deposit the item, only once, because the form has an Idempotency-Key; or do a step before it.

        After an error the files are kept, because the form that comes back cannot have them.
        """
        step = form.one("step")
        keep = partial(self._kept.keep, visit.signed.name, dict(form.files), form.many("upload"))
        if step:
            form.kept.extend(await in_waiting_thread(keep))
            return await in_quick_thread(self._step, visit, form, step)
        try:
            context = self._context_of(visit)
            context.files, context.request_key = form.files, form.one("once")
            await in_quick_thread(self._checked, context, form)
            deposited = await self._deposits.take(context, self._new_item(form))
        except Exception:
            with suppress(Exception):  # the first error is the one that is shown
                form.kept.extend(await in_waiting_thread(keep))
            raise
        return _done(deposited.holding, "deposited-open" if drops_embargo(form) else "deposited")

    def _new_item(self, form: Form) -> dict[str, Any]:
        """Return the JSON of a new item, with the files that were kept, unless a file replaces them."""
        value = item_from_form(form)
        value |= {word: form.one(word) for word in _NOT_INHERITED if form.one(word)}
        kept = named_uploads([*form.many("upload"), *form.kept])
        uploads = {name: upload for name, upload in kept.items() if name not in form.files}
        # The file that opens first may have been removed from the form since it was chosen.
        if form.many("kind") and value.get("target") not in {*uploads, *form.files}:
            value.pop("target", None)
        return value | ({"uploads": uploads} if uploads else {})

    def _step(self, visit: PageRequest, form: Form, step: str) -> ItemFormPage | ReviewPage:
        """Do what a button before the last one asks for. Raises BadItem."""
        if step == "review":
            return self._review(visit, form)
        word, _, which = step.partition(":")
        if word == "drop":
            self._kept.drop(visit.signed.name, which)
            form = replace(form, fields=[pair for pair in form.fields if pair != ("upload", which)])
        return self._typed_deposit(visit, form)

    def _checked(self, context: ArchiveContext, form: Form) -> items.CheckedDeposit:
        """Check a new item, and tell all that is wrong at once. Raises the errors of `items.check_deposit`."""
        problems = list(problems_in(form, is_new=True))
        try:
            checked = items.check_deposit(context, read(items.DepositFields, self._new_item(form)))
        except IbiError as error:
            # What the form says of a field of its own is clearer than what programs are told.
            if error.details.get("name") not in {each.details["name"] for each in problems}:
                if not problems:
                    raise
                raise FormProblems(with_text(error), problems) from error
            checked = None
        if problems or checked is None:
            raise FormProblems(problems[0], problems[1:])
        return checked

    def _review(self, visit: PageRequest, form: Form) -> ReviewPage:
        """Return the item as it would be. Raises BadItem and the errors of `items.check_deposit`."""
        checked = self._checked(self._context_of(visit), form)
        files = self._kept.find(visit.signed.name, [*form.many("upload"), *form.kept])
        listed = tuple(each.file for each in files)
        holding = checked.draft.holding(self._settings.service, self._kept.moment, listed)
        fields = [each for each in form.fields if each[0] not in _NOT_AGAIN]
        fields += [("upload", each.field) for each in files]
        return self._review_page(holding, fields, self._predecessor(form)[1])

    def _review_page(
        self,
        holding: Holding,
        fields: Sequence[tuple[str, str]],
        before: Holding | None = None,
        *,
        is_new: bool = True,
    ) -> ReviewPage:
        root = (self._settings.resolver or self._settings.root).rstrip("/")
        return ReviewPage(holding, fields, root, self._settings.address, self._kept.moment, before, is_new)

    def _review_edit(self, holding: Holding, form: Form) -> ReviewPage:
        """Return an item as it would be after an edit. Raises BadItem."""
        changed = changes_from_form(form, holding)
        given = {name: value for name, value in changed.items() if value is not None}
        facts = usual_facts(changed.keys() - given.keys()) | read_facts(given)
        after = replace(holding, **facts)
        check_facts(
            {each.attribute: getattr(after, each.attribute) for each in ITEM_FIELDS},
            [each.name for each in holding.files],
        )
        fields = [each for each in form.fields if each[0] not in _NOT_AGAIN]
        return self._review_page(after, fields, is_new=False)

    def _edit_page(self, visit: PageRequest, typed: Form | None) -> ItemFormPage | Response:
        """Return the form; for an item by its number, as a row of a list briefly names it, lead to its name."""
        number = row_number(visit.rest)
        if number is None:
            return self._edit_form(visit, typed)
        listed = self._list.of([number])
        if not listed:
            raise no_such_page()
        here = f"{ROOT}/edit/{listed[0].holding.forms.main}"
        return Response(303, headers=(("location", here), *NO_STORE))

    def _edit_form(self, visit: PageRequest, typed: Form | None) -> ItemFormPage:
        """Return the form with the item, or with the typed values beside another librarian's changes."""
        holding = self._catalogue.settled(visit.name)
        if typed is None:
            return ItemFormPage(values_of(holding), "edit", holding, holding.timestamp)
        theirs = differences(typed, holding) if typed.one("since") != holding.timestamp else {}
        values, step = typed_values(typed), typed.one("step")
        return ItemFormPage(values, "edit", holding, holding.timestamp, theirs=theirs, step=step)

    def _edit(self, visit: PageRequest, form: Form) -> str | ItemFormPage | ReviewPage:
        """Store the differences, unless the item has changed since the form was shown; or do a step before it."""
        step = form.one("step")
        if step and step != "review":
            return self._edit_form(visit, form)
        problems = list(problems_in(form, is_new=False))
        if problems:
            raise FormProblems(problems[0], problems[1:])
        holding, context = self._catalogue.settled(visit.name), self._context(visit, form)
        check_item_match(context, holding)
        if step:
            return self._review_edit(holding, form)
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
        check_item_match(context, holding)
        without = [name for name in dict.fromkeys(form.many("without")) if name not in form.files]
        if without:
            form.check_confirmed()
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
        holding, form = self._catalogue.settled(visit.name), typed or Form()
        return DeletePage(holding, form.one("reason"), form.one("replacement"))

    def _remove(self, visit: PageRequest, form: Form) -> str:
        """Remove the item, if the confirmation was given."""
        holding = self._catalogue.settled(visit.name)
        fields = form_fields(items.RemoveFields, form, ibi=str(visit.name))
        # A removal cannot be undone, because the bytes of the files are deleted.
        if form.one("sure") != "yes":
            raise BadItem("tick the box to confirm: the files of the item are removed for ever")
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
