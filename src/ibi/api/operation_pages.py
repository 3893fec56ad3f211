"""Make pages of operations: /-/admin/do lists them, and /-/admin/do/<name> is the form or result of one.

For an operation that has its own page, the list only links to that page.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.layout import ROOT, PageHandler, no_such_page
from ibi.accounts.tokens import Scope
from ibi.api.fields import NoFields, described, read_texts
from ibi.api.jobs import Job
from ibi.api.operations import Document, OperationGroup, document_response, etag_of
from ibi.api.routes import explaining_setup
from ibi.errors import BadField, IbiError
from ibi.http.response import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ibi.accounts.layout import Form, PageRequest
    from ibi.api.fields import F, FieldInfo, Fields
    from ibi.api.operations import Operation, OperationContext, OperationRunner
    from ibi.http.response import Response

    ContextOf = Callable[[PageRequest], OperationContext]

WORD: Final = "do"
"""The word of these pages in their paths."""

_SEEN: Final = "was."
_VERSION: Final = "version"
_OF_PAGES: Final = frozenset({"done", "lang"})  # words of a query that are of every page, and no fields


@dataclass(frozen=True, slots=True)
class OperationsPage:
    """The operations that the user may do, under headings."""

    groups: Sequence[OperationGroup]


@dataclass(frozen=True, slots=True)
class OperationPage:
    """One operation: its form with the `values` of its fields, or its result.

    `present`: the values that the fields had when the page was made; `version`: the ETag of all that the
    operation changes; `notes`: notices besides the result.
    """

    operation: Operation[Any, Any]
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    present: Mapping[str, Sequence[str]] = field(default_factory=dict)
    version: str = ""
    result: Mapping[str, Any] | None = None
    notes: Sequence[IbiError] = ()

    @property
    def fields(self) -> list[FieldInfo]:
        """The fields of the form."""
        return [each for each in described(self.operation.fields) if not each.local]

    @property
    def groups(self) -> list[tuple[str, list[FieldInfo]]]:
        """The fields of the form under their headings, "" for no heading."""
        if not self.operation.groups:
            return [("", self.fields)]
        known = {each.name: each for each in self.fields}
        return [(heading, [known[name] for name in names]) for heading, names in self.operation.groups]

    def texts(self, name: str) -> Sequence[str]:
        """Return the texts in a field."""
        return self.values.get(name, ())


class OperationPages:
    """The pages of operations. `groups`: groups of operations, each with a function that makes their context.

    `keep` stores a file, yields its id, and deletes it if the block raises.
    """

    def __init__(
        self,
        groups: Sequence[tuple[OperationGroup, ContextOf]],
        runner: OperationRunner,
        keep: Callable[[PageRequest, Any], AbstractContextManager[str]],
    ) -> None:
        self._groups = [group for group, _ in groups]
        self._operations = {each.name: each for group, _ in groups for each in group.operations}
        self._contexts = {each.name: context for group, context in groups for each in group.operations}
        self._runner = runner
        self._keep = keep

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of these pages, by the word in their path."""
        return {WORD: PageHandler(Scope.READ, self._show, self._do, files=True)}

    def _show(self, visit: PageRequest, typed: Form | None) -> OperationsPage | OperationPage | Response:
        if not visit.rest:
            mine = [
                OperationGroup(heading, [each for each in group if _may(visit, each)])
                for heading, group in self._groups
            ]
            return OperationsPage([group for group in mine if group.operations])
        operation = self._find(visit)
        if operation.changes:
            return self._form(visit, operation, typed)
        query = {name: [text] for name, text in visit.query.items() if name not in _OF_PAGES}
        page = OperationPage(operation, query)
        # Typed texts have failed already: they are shown to be corrected, and not tried again.
        if typed is not None or any(each.required and each.name not in query for each in page.fields):
            return page
        context, notes = self._context(visit, operation)
        with explaining_setup():
            result = operation.run(context, read_texts(operation.fields, query))
        if isinstance(result, Document):
            return document_response(result)
        return replace(page, result=result, notes=notes)

    def _form(self, visit: PageRequest, operation: Operation[Any, Any], typed: Form | None) -> OperationPage:
        context, _ = self._context(visit, operation)
        reader, present, version = self._runner.reader_of(operation), dict[str, "Sequence[str]"](), ""
        if reader is not None and reader.fields is NoFields:
            facts = reader.run(context, NoFields())
            present = present_texts(operation.fields, facts)
            version = etag_of(facts if reader.version is None else reader.version(context, NoFields()))
        kinds = described(operation.fields)
        if typed is None:
            usual = {each.name: ["yes"] for each in kinds if each.default is True}
            # A link may fill only required fields: it must not bring along a change of settings.
            linked = {
                each.name: [visit.query[each.name]]
                for each in kinds
                if each.required and each.name in visit.query
            }
            return OperationPage(operation, {**usual, **present, **linked}, present, version)
        # Fields that were not changed in the form show their present value, which others may have changed.
        values = {
            each.name: present.get(each.name, ())
            if _is_untouched(typed, each.name)
            else typed.many(each.name)
            for each in kinds
        }
        if typed.one(_VERSION) and _is_wrong(operation, typed):
            version = typed.one(_VERSION)  # it has not been compared yet
        return OperationPage(operation, values, present, version)

    def _do(self, visit: PageRequest, form: Form) -> OperationPage | Response | str:
        operation = self._find(visit)
        if not operation.changes:
            raise no_such_page()
        if operation.warning:
            form.check_confirmed()
        context, notes = self._context(visit, operation)
        context.if_match = form.one(_VERSION)
        with ExitStack() as stack, explaining_setup():
            texts = _texts_of(operation.fields, form)
            for each in described(operation.fields):
                if each.upload and form.files:
                    read_texts(operation.fields, {**texts, each.name: ["0"]})  # before the file is stored
                    texts[each.name] = [stack.enter_context(self._keep(visit, form.files.popitem()[1]))]
            result = self._runner.run(operation, context, read_texts(operation.fields, texts))
        if isinstance(result, Job):
            return f"{ROOT}/{WORD}/job?id={result.id}"
        if isinstance(result, Document):
            return document_response(result)
        return OperationPage(operation, result=result or {}, notes=notes)

    def _find(self, visit: PageRequest) -> Operation[Any, Any]:
        """Return the operation in the path. Raises Refusal."""
        operation = self._operations.get(visit.rest)
        if operation is None or operation.page:
            raise no_such_page()
        if not _may(visit, operation):
            raise Refusal(403, IbiError("your account does not permit this; ask an administrator"))
        return operation

    def _context(self, visit: PageRequest, operation: Operation[Any, Any]) -> tuple[Any, list[IbiError]]:
        context, notes = self._contexts[operation.name](visit), list[IbiError]()
        context.noted = notes.append
        labels = {each.name: each.text for each in described(operation.fields)}
        context.called = lambda name: f"“{context.say(labels.get(name, name))}”"
        return context, notes


def form_fields(kind: type[F], form: Form, **known: str) -> F:
    """Read the fields of an operation from a form of a page of its own; `known`: from its path. Raises BadField."""
    return read_texts(kind, {**_texts_of(kind, form), **{name: [text] for name, text in known.items()}})


def query_fields(kind: type[F], visit: PageRequest) -> F:
    """Read the fields of an operation that changes nothing from the query of a page of its own. Raises BadField."""
    texts = {name: text.strip() for name, text in visit.query.items() if name not in _OF_PAGES}
    return read_texts(kind, {name: [text] for name, text in texts.items() if text})


def _texts_of(kind: type[Fields], form: Form) -> dict[str, list[str]]:
    """Return the typed texts, without files and without fields that were not changed."""
    texts: dict[str, list[str]] = {}
    for each in described(kind):
        if each.local or each.upload:
            continue
        given = _typed(form, each.name)
        if each.is_truth and not each.is_unset_by_default and not given:
            given = ["no"]  # browsers send no value for a box that is not ticked
        if not given:
            continue
        if each.is_list:
            given = [line for text in given for line in text.splitlines()]
        if _typed(form, _SEEN + each.name) == ["\n".join(given)] or (
            given == [""] and (each.secret or not each.is_unset_by_default)
        ):
            continue
        texts[each.name] = given or [""]
    return texts


def _is_untouched(form: Form, name: str) -> bool:
    return _typed(form, _SEEN + name) == ["\n".join(_typed(form, name))]


def _typed(form: Form, name: str) -> list[str]:
    """Return the texts of a field without blanks around them; browsers end the lines of a text with CRLF."""
    return [text.strip().replace("\r\n", "\n") for text in form.many(name)]


def _is_wrong(operation: Operation[Any, Any], form: Form) -> bool:
    """Return whether the typed texts are invalid by the declaration of the fields."""
    files = {each.name: ["0"] for each in described(operation.fields) if each.upload}
    try:
        read_texts(operation.fields, {**_texts_of(operation.fields, form), **files})
    except BadField:
        return True
    return False


def _may(visit: PageRequest, operation: Operation[Any, Any]) -> bool:
    return visit.signed.role.may(operation.scope)


def present_texts(kind: type[Fields], facts: Mapping[str, Any] | Document | None) -> dict[str, Sequence[str]]:
    """Return the present texts of the fields whose names are members of the facts."""
    if not isinstance(facts, dict):
        return {}
    # What is shown as one object is changed by its members: {"settings": {…}}.
    [first, *others] = [*facts.values()] or [None]
    members: Mapping[str, Any] = first if isinstance(first, dict) and not others else facts
    return {each.name: _texts(members[each.name]) for each in described(kind) if each.name in members}


def _texts(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list | tuple):
        return [str(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return [str(int(value))]
    return ["" if value is None else str(value)]
