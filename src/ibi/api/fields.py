"""The fields of an operation: declared once, with their types, limits and meaning.

    class JoinFields(Fields):
        resolver: Annotated[str, field("the root URL of the resolver", "--resolver URL")]
        key: Annotated[str, field("the registration key agreed with it")] = ""

The JSON Schema, the options of the command and the form of the page are made from this declaration. All three
read their input with `read` or `read_texts`, so that the same bad input gets the same sentence.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from ibi.errors import BadField
from ibi.runtime.settings.rules import with_point

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

F = TypeVar("F", bound="Fields")

_KNOWN: dict[type[Fields], tuple[FieldInfo, ...]] = {}

LONGEST_TEXT: Final = 2_048
"""Characters of a text whose field sets no other limit."""
MOST_TEXTS: Final = 100
"""Texts in a list."""

_SHOWN: Final = 80  # characters of the name of an unknown field
_DIGITS: Final = 18  # of a whole number
_AT = re.compile(r" - at `\$\.(\w+)")


UNSET: Final[Any] = msgspec.UNSET
"""The default of an optional field that changes nothing if it is not given."""


class Fields(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of one operation. A field without a default must be given; a text must then not be empty."""


class NoFields(Fields, frozen=True):
    """The fields of an operation that has none."""


def field(text: str, option: str | None = "", longest: int | None = None, **properties: bool) -> msgspec.Meta:
    """Describe a field: its meaning, and its option on the command line as in a usage line ("--to PEER").

    `option`: "" for an option with the name of the field, None for no option. `longest`: characters of a
    text, or texts of a list (at most MOST_TEXTS). Properties: `secret`: it is typed without echo; `local`: it
    can be given only on the command line, because it names something on the machine, or decides whom the
    service trusts; `upload`: it is a file, given by its path on the command line, and elsewhere by the id of
    a complete upload; `lines`: a text of several lines; `commas`: the texts of a list may also be separated by commas.
    """
    return msgspec.Meta(description=text, max_length=longest, extra={"option": option, **properties})


def number_field(text: str, option: str | None, least: float, most: float) -> msgspec.Meta:
    """Describe a number from `least` to `most`."""
    return msgspec.Meta(description=text, ge=least, le=most, extra={"option": option})


def free_field(
    text: str, option: str | None, schema: Mapping[str, Any], choices: Sequence[str] = ()
) -> msgspec.Meta:
    """Describe a field of the type Any, which the operation reads itself; `schema` is its JSON Schema.

    `choices`: the words that its option accepts; () for any text.
    """
    return msgspec.Meta(
        description=text, extra_json_schema=dict(schema), extra={"option": option, "choices": choices}
    )


class FieldInfo(NamedTuple):
    """A field as it was declared. `type`: the type as msgspec describes it; the rest as in `field`."""

    name: str
    text: str
    type: inspect.Type
    required: bool
    default: Any
    option: str | None
    choices: tuple[str, ...]
    """The words that are its possible values; () for any other field."""
    secret: bool
    local: bool
    upload: bool
    commas: bool
    lines: bool

    @property
    def is_truth(self) -> bool:
        """Whether its type is bool."""
        return isinstance(self.type, inspect.BoolType)

    @property
    def is_unset_by_default(self) -> bool:
        """Whether the field changes nothing if it is not given."""
        return not self.required and self.default is UNSET

    @property
    def is_needed_text(self) -> bool:
        """Whether it is a text that must be given; an empty text, or blanks, counts as missing."""
        return self.required and isinstance(self.type, inspect.StrType)

    @property
    def is_list(self) -> bool:
        """Whether it is a list of texts."""
        return isinstance(self.type, inspect.VarTupleType | inspect.ListType)

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return isinstance(self.type, inspect.IntType | inspect.FloatType)


def described(kind: type[Fields]) -> tuple[FieldInfo, ...]:
    """Return the fields of a class, in the order of their declaration."""
    if kind not in _KNOWN:
        known = inspect.type_info(kind)
        assert isinstance(known, inspect.StructType)  # noqa: S101 - `kind` is a Struct
        _KNOWN[kind] = tuple(_info(each) for each in known.fields)
    return _KNOWN[kind]


def given(fields: Fields) -> dict[str, Any]:
    """Return the members that were given, without those that are UNSET."""
    return {name: value for name in fields.__struct_fields__ if (value := getattr(fields, name)) is not UNSET}


def schema_of(kind: type[Fields]) -> dict[str, Any]:
    """Return the JSON Schema of the fields, without `local` ones."""
    found = msgspec.json.schema(kind)
    schema = found["$defs"][kind.__name__]
    local = {each.name for each in described(kind) if each.local}
    free = {each.name for each in described(kind) if isinstance(each.type, inspect.AnyType)}
    needed = {each.name for each in described(kind) if each.is_needed_text}
    members = {
        name: each if name in free else _limited(each) | ({"minLength": 1} if name in needed else {})
        for name, each in schema["properties"].items()
        if name not in local
    }
    return {
        "type": "object",
        "required": schema.get("required", []),
        "properties": members,
        "additionalProperties": False,
    }


def read(kind: type[F], value: Any) -> F:
    """Read the members of a JSON object. Raises BadField, which names the field and its possible values."""
    if not isinstance(value, dict):
        raise BadField("the body must be a JSON object")
    try:
        found = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise _bad(kind, value, str(error)) from None
    for each in described(kind):
        _check_length(each, getattr(found, each.name))
        if each.is_needed_text and not getattr(found, each.name).strip():
            raise _missing(each.name)
    return found


def read_texts(kind: type[F], texts: Mapping[str, Sequence[str]]) -> F:
    """Read texts that were typed into a form or on a command line: field -> its texts. Raises BadField.

    A list has a text for each of its members. For a required field, "" counts as missing.
    """
    return read(kind, values_of(kind, texts))


def values_of(kind: type[Fields], texts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Convert typed texts to JSON values. Raises BadField."""
    known = {each.name: each for each in described(kind)}
    unknown = next((name for name in texts if name not in known), None)
    if unknown is not None:
        raise BadField("there is no field {name}", name=unknown[:_SHOWN])
    return {name: _value(known[name], typed) for name, typed in texts.items() if typed}


def refuse_local(kind: type[Fields], names: Iterable[str]) -> None:
    """Refuse fields that only the command line may give. Raises BadField."""
    for each in described(kind):
        if each.local and each.name in names:
            raise BadField("{name} is given only on the command line of the server", name=each.name)


def meaning_of(info: FieldInfo) -> BadField:
    """Return the sentence that states the possible values of a field."""
    name, kind = info.name, info.type
    if info.choices:
        words = ", ".join(filter(None, info.choices))  # the choice "" (none) need not be listed
        return BadField("{name} is one of: {words}", name=name, words=words)
    if info.is_truth:
        return BadField("{name} is true or false", name=name)
    if info.is_list:
        problem = "{name} is a list of at most {most} texts, each of at most {limit} characters"
        return BadField(problem, name=name, most=_most_texts(info), limit=LONGEST_TEXT)
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        problem = "{name} is a number from {least} to {most}"
        if isinstance(kind, inspect.IntType):
            problem = "{name} is a whole number from {least} to {most}"
        return BadField(problem, name=name, least=kind.ge, most=kind.le)
    if isinstance(kind, inspect.DictType):
        return BadField("{name} is an object of texts", name=name)
    limit = getattr(kind, "max_length", None) or LONGEST_TEXT
    return BadField("{name} is a text of at most {limit} characters", name=name, limit=limit)


def _info(known: inspect.Field) -> FieldInfo:
    kind, text, extra = known.type, "", dict[str, Any]()
    if isinstance(kind, inspect.Metadata):
        text, extra = (kind.extra_json_schema or {}).get("description", ""), kind.extra or {}
        kind = kind.type
    words = (
        _words(kind) if isinstance(kind, inspect.LiteralType | inspect.EnumType) else extra.get("choices", ())
    )
    default = UNSET if known.default is msgspec.NODEFAULT else known.default
    properties = [bool(extra.get(each)) for each in ("secret", "local", "upload", "commas", "lines")]
    return FieldInfo(
        known.encode_name, text, kind, known.required, default, extra.get("option", ""), tuple(map(str, words)),
        *properties,
    )  # fmt: skip


def _limited(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with the limits that every text and list has."""
    if schema.get("type") == "string":
        return {"maxLength": LONGEST_TEXT, **schema}
    if schema.get("type") == "array":
        return {"maxItems": MOST_TEXTS, **schema, "items": _limited(schema["items"])}
    return schema


def _words(kind: inspect.LiteralType | inspect.EnumType) -> tuple[Any, ...]:
    return kind.values if isinstance(kind, inspect.LiteralType) else tuple(each.value for each in kind.cls)


def _bad(kind: type[Fields], value: dict[str, Any], problem: str) -> BadField:
    """Return our error for an error of msgspec."""
    known = {each.name: each for each in described(kind)}
    unknown = next((name for name in value if name not in known), None)
    if unknown is not None:
        return BadField("there is no field {name}", name=str(unknown)[:_SHOWN])
    missing = next((name for name, each in known.items() if each.required and name not in value), None)
    if missing is not None:
        return _missing(missing)
    at = _AT.search(problem)
    return meaning_of(known[at[1]]) if at else BadField("the body must be a JSON object")


def _missing(name: str) -> BadField:
    return BadField("the field {name} is missing", name=name)


def _check_length(info: FieldInfo, value: Any) -> None:
    """Check the lengths that msgspec does not check. Raises BadField."""
    if isinstance(info.type, inspect.AnyType):
        return
    texts = value if isinstance(value, tuple) else (value,) if isinstance(value, str) else ()
    limit = getattr(info.type, "max_length", None) if not info.is_list else None
    if len(texts) > _most_texts(info) or any(len(text) > (limit or LONGEST_TEXT) for text in texts):
        raise meaning_of(info)


def _most_texts(info: FieldInfo) -> int:
    own = getattr(info.type, "max_length", None) if info.is_list else None
    return min(own or MOST_TEXTS, MOST_TEXTS)


def _value(info: FieldInfo, given: Sequence[str]) -> Any:
    """Convert the typed texts of one field to its JSON value. Raises BadField."""
    if info.is_list:
        texts = [each for text in given for each in text.split(",")] if info.commas else given
        return [text.strip() if info.commas else text for text in texts if text.strip()]
    text = given[0]
    if info.is_truth:
        if text not in {"yes", "no"}:
            raise BadField("{name} is yes or no", name=info.name)
        return text == "yes"
    if isinstance(info.type, inspect.IntType):
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS):
            raise meaning_of(info)
        return int(text)
    if isinstance(info.type, inspect.FloatType):
        try:
            return float(with_point(text))
        except ValueError:
            raise meaning_of(info) from None
    return text
