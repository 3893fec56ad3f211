"""How an institution presents itself on the pages of its Archive or resolver: shown and changed, the same in both."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

from ibi.accounts.tokens import Scope
from ibi.api.fields import UNSET, Fields, NoFields, field, given
from ibi.api.operations import FieldGroup, Operation
from ibi.api.routes import TEXT, list_of, record
from ibi.errors import BadField
from ibi.runtime.settings import settings_lock
from ibi.runtime.settings.institution import LARGEST_PICTURES, LONGEST_LINES, LONGEST_TEXTS, Institution

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import msgspec


class InDirectory(Protocol):
    """The part of an `OperationContext` that these operations need, and the data directory."""

    @property
    def data(self) -> Path:
        """The data directory."""

    def check_match(self, present: Any) -> None:
        """Compare If-Match with the present value. Raises Conflict."""


def _line(name: str, text: str) -> msgspec.Meta:
    return field(text, longest=LONGEST_LINES[name])


def _text(name: str, text: str) -> msgspec.Meta:
    return field(text, longest=LONGEST_TEXTS[name], lines=True)


def _picture(name: str, text: str) -> msgspec.Meta:
    # Base64 takes four characters for three bytes, and the data URL begins with its media type.
    return field(text, f"--{name} FILE", LARGEST_PICTURES[name] * 4 // 3 + 100)


class InstitutionFields(Fields, frozen=True):
    """What an institution says of itself; what is not given stays as it is, and an empty text removes it."""

    name: Annotated[str, _line("name", "its name, instead of the address")] = UNSET
    name_pt: Annotated[str, _line("name", "its name on pages in Portuguese, if it is different")] = UNSET
    subtitle: Annotated[str, _line("subtitle", "a line below the name")] = UNSET
    subtitle_pt: Annotated[str, _line("subtitle", "the line below the name in Portuguese")] = UNSET
    colour: Annotated[
        str, field("its colour, such as #0b6b5d; all colours of the pages follow from it", longest=80)
    ] = UNSET
    logo: Annotated[
        str, _picture("logo", "its logo: SVG or PNG, at most 64 KB; for programs, a data URL")
    ] = UNSET
    cover: Annotated[
        str, _picture("cover", "a picture for the front page: SVG, PNG, JPEG or WebP, at most 256 KB")
    ] = UNSET
    font: Annotated[
        Literal["ours", "system"], field("a font that tells 0 from O, or a font of the reader's machine")
    ] = UNSET
    welcome: Annotated[
        str, _text("welcome", "the welcome on the front page; its first line is the heading")
    ] = UNSET
    welcome_pt: Annotated[str, _text("welcome", "the welcome in Portuguese")] = UNSET
    about: Annotated[str, _text("about", "what the institution and its collection are")] = UNSET
    about_pt: Annotated[str, _text("about", "the same in Portuguese")] = UNSET
    policies: Annotated[
        str, _text("policies", "what is accepted, how it is kept, and who may do what with it")
    ] = UNSET
    policies_pt: Annotated[str, _text("policies", "the policies in Portuguese")] = UNSET
    privacy: Annotated[str, _text("privacy", "what is recorded of readers")] = UNSET
    privacy_pt: Annotated[str, _text("privacy", "the text on privacy in Portuguese")] = UNSET
    contact: Annotated[
        str, _line("contact", "whom readers write to: a mail address, or the URL of a page")
    ] = UNSET
    postal_address: Annotated[str, _text("postal_address", "where it is: street, place, telephone")] = UNSET
    publisher: Annotated[
        str,
        _line("publisher", "the publisher of items that name none, if it is not the name of the institution"),
    ] = UNSET


GROUPS: Final = (
    FieldGroup("Name and colour", ("name", "name_pt", "subtitle", "subtitle_pt", "colour", "font")),
    FieldGroup("Front page", ("welcome", "welcome_pt")),
    FieldGroup(
        "About and policies", ("about", "about_pt", "policies", "policies_pt", "privacy", "privacy_pt")
    ),
    FieldGroup("Contact", ("contact", "postal_address", "publisher")),
)


def show(context: InDirectory, _fields: NoFields) -> dict[str, Any]:
    """Return all that the institution says of itself. Raises SetupError."""
    return {"institution": facts_of(Institution.of(context.data))}


def change(context: InDirectory, fields: InstitutionFields) -> dict[str, Any]:
    """Change some of it: all that is given, or nothing. Raises BadField, SetupError, Conflict."""
    changes = given(fields)
    if not changes:
        raise BadField("nothing to change was given")
    with settings_lock(context.data):
        before = Institution.of(context.data)
        context.check_match({"institution": facts_of(before)})
        after = before.changed(changes)
        changed = [name for name in changes if getattr(before, name) != getattr(after, name)]
        if changed:
            after.write(context.data)
    return {"institution": facts_of(after), "changed": changed}


def facts_of(institution: Institution) -> dict[str, str]:
    """Return the institution as a JSON object."""
    return {each.name: getattr(institution, each.name) for each in fields_of(institution)}


_INSTITUTION: Final = {"type": "object"}
INSTITUTION: Final[Operation[Any, NoFields]] = Operation(
    "institution", "how the institution presents itself", Scope.READ, NoFields, show, "GET /institution",
    gives=record(institution=_INSTITUTION),
)  # fmt: skip
SET_INSTITUTION: Final[Operation[Any, InstitutionFields]] = Operation(
    "set-institution", "change how the institution presents itself", Scope.ADMIN, InstitutionFields, change,
    "PATCH /institution", gives=record(institution=_INSTITUTION, changed=list_of(TEXT)), groups=GROUPS,
    command="institution", page="identity",
)  # fmt: skip

OPERATIONS: Final[Sequence[Operation[Any, Any]]] = (INSTITUTION, SET_INSTITUTION)
