"""The page of the identity of an institution: its texts, colour and pictures, with a preview before they are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.layout import ROOT, Form, PageHandler
from ibi.accounts.tokens import Scope
from ibi.api import institution
from ibi.api.fields import described, given
from ibi.api.institution import GROUPS, InstitutionFields
from ibi.api.operation_pages import form_fields
from ibi.api.operations import etag_of
from ibi.errors import BadField, SetupError
from ibi.runtime.settings.institution import LARGEST_PICTURES, Institution, data_url, read_picture

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.accounts.layout import PageRequest
    from ibi.api.fields import FieldInfo

PICTURES: Final = tuple(LARGEST_PICTURES)
"""The fields that are pictures: each is chosen as a file, or removed."""

_SEEN: Final = "was."
_REMOVE: Final = "without"


@dataclass(frozen=True, slots=True)
class IdentityPage:
    """The form of the identity.

    `values`: what is in its fields; `present`: what is kept now; `theirs`: fields that another administrator has
    changed meanwhile, too; `version`: the ETag of all of it; `preview`: how it will be, None before it was wanted;
    `removed`: the pictures that are to go.
    """

    values: Mapping[str, str]
    present: Mapping[str, str]
    version: str
    theirs: Sequence[str] = ()
    preview: Institution | None = None
    removed: Sequence[str] = ()

    @property
    def fields(self) -> Sequence[FieldInfo]:
        """The fields of the form."""
        return described(InstitutionFields)

    @property
    def groups(self) -> list[tuple[str, list[FieldInfo]]]:
        """The fields under their headings, without pictures."""
        known = {each.name: each for each in self.fields}
        return [(heading, [known[name] for name in names]) for heading, names in GROUPS]

    @property
    def pictures(self) -> list[FieldInfo]:
        """The fields of pictures."""
        return [each for each in self.fields if each.name in PICTURES]


@dataclass(frozen=True, slots=True)
class IdentityPages:
    """The page of the identity of one service. `_context_of` makes the context of its operations."""

    _context_of: Callable[[PageRequest], Any]

    def handlers(self) -> dict[str, PageHandler]:
        """Return the handler of the page, by the word in its path."""
        return {"identity": PageHandler(Scope.ADMIN, self._show, self._do, small_files=True)}

    def _show(self, visit: PageRequest, typed: Form | None) -> IdentityPage:
        """Return the form with what is kept, or with what was typed where that differs from it."""
        facts = institution.facts_of(Institution.of(self._context_of(visit).data))
        version = etag_of({"institution": facts})
        if typed is None:
            return IdentityPage(facts, facts, version)
        typed = _with_pictures(typed)
        changes = {name: text for name, text in _typed(typed).items() if text != typed.one(_SEEN + name)}
        changes = {
            name: text for name, text in changes.items() if name not in PICTURES or _is_picture(name, text)
        }
        theirs = [
            name
            for name in changes
            if name not in PICTURES and facts[name] not in {changes[name], typed.one(_SEEN + name)}
        ]
        return IdentityPage(facts | changes, facts, version, theirs, removed=typed.many(_REMOVE))

    def _do(self, visit: PageRequest, form: Form) -> IdentityPage | str:
        """Show the preview, or keep what was typed. Raises BadField, Conflict, SetupError."""
        context = self._context_of(visit)
        form = _with_pictures(form)
        changes = given(form_fields(InstitutionFields, form))
        after = _checked(Institution.of(context.data), changes)
        if form.one("what") == "preview":
            return replace(self._show(visit, form), preview=after)
        if not changes:
            return f"{ROOT}/identity?done=unchanged"
        context.if_match = form.one("version")
        done = institution.change(context, form_fields(InstitutionFields, form))
        return f"{ROOT}/identity?done={'identity' if done['changed'] else 'unchanged'}"


def _typed(form: Form) -> dict[str, str]:
    """Return the texts and pictures of the form, by field; those that it does not have are left out."""
    names = [each.name for each in described(InstitutionFields)]
    return {name: form.one(name).replace("\r\n", "\n") for name in names if form.many(name)}


def _is_picture(name: str, text: str) -> bool:
    """Whether a text may be kept as this picture."""
    try:
        return read_picture(name, text) is not None
    except SetupError:
        return False


def _with_pictures(form: Form) -> Form:
    """Return the form with each picture as a text: the chosen file, "" if it is removed, or as in the preview."""
    others = [(name, text) for name, text in form.fields if name not in PICTURES]
    removed = set(form.many(_REMOVE))
    for name in PICTURES:
        content = form.files.get(name, b"")
        if content:
            others.append((name, data_url(content)))
        elif name in removed:
            others.append((name, ""))
        elif form.one(name):
            others.append((name, form.one(name)))
    return Form(others)


def _checked(before: Institution, changes: Mapping[str, str]) -> Institution:
    """Return the institution with the changes. Raises BadField, which names the field."""
    after = before
    for name, text in changes.items():
        try:
            after = after.changed({name: text})
        except SetupError as error:
            raise BadField(error.problem, **{**error.details, "name": name}) from None
    return after
