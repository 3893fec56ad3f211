"""The form of an item: its fields as the JSON interface takes them, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.dublin_core import ELEMENTS
from ibi.archive.item_lines import write_item
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.archive.holding import Holding
    from ibi.signing_in.visit import Form

    Values = Mapping[str, Sequence[tuple[str, str]]]

TEXTS: Final = ("language", "url", "target", "access", "embargo", "rights", "licence", "contenttype")
"""Fields of one text; empty ones are not said."""
TRUTHS: Final = ("transferable", "file_list_public")
"""Fields that are true where nothing else is said: "yes" or "no"."""
FIELDS: Final = (*TEXTS, *TRUTHS, "metadata")
"""The facts of an item that the form is about."""

MOST_STATEMENTS: Final = 900
"""Statements about an item in one form: two fields each, of those that a form may have."""

_USUAL: Final = {"access": "open", "contenttype": "Data"}
DUBLIN_CORE: Final = "dc."
"""What the names of the fields of Dublin Core begin with: an item has a language and rights of its own."""

_LANGUAGE: Final = ".lang"


def value_of(form: Form) -> dict[str, Any]:
    """What was typed, as the JSON of an item; what has its usual value is left out."""
    value: dict[str, Any] = {}
    for name in TEXTS:
        text = form.one(name)
        if text and text != _USUAL.get(name):
            value[name] = text
    value |= {name: False for name in TRUTHS if form.one(name) == "no"}
    metadata = {element: said for element in ELEMENTS if (said := _statements(form, element))}
    if metadata:
        value["metadata"] = metadata
    return value


def changes(form: Form, holding: Holding) -> dict[str, Any]:
    """What the form says differently from the item, as an edit takes it: null for what is taken away."""
    new, old = value_of(form), write_item(holding)
    if "metadata" in old:
        old["metadata"] = {name: [_stripped(each) for each in said] for name, said in old["metadata"].items()}
    return {name: new.get(name) for name in FIELDS if new.get(name) != old.get(name)}


def typed_values(form: Form) -> Values:
    """What was typed, to be shown again."""
    shown: dict[str, list[tuple[str, str]]] = {name: [(form.one(name), "")] for name in (*TEXTS, *TRUTHS)}
    for element in ELEMENTS:
        shown[f"{DUBLIN_CORE}{element}"] = [pair for pair in _rows(form, element) if any(pair)]
    return shown


def values_of(holding: Holding, *, leaving: Sequence[str] = ()) -> Values:
    """What an item says, to be shown in its form; but for the fields that are not its successor's.

    Raises BadItem where it says more than a form takes.
    """
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
    """Of each field that the form says differently, what the item says now, as one text."""
    now = values_of(holding)
    found: dict[str, str] = {}
    for name, value in changes(form, holding).items():
        names = [name] if name != "metadata" else _differing(value, holding)
        found |= {each: "; ".join(text for text, _ in now.get(each, ())) for each in names}
    return found


def _differing(metadata: Mapping[str, Any] | None, holding: Holding) -> list[str]:
    """The fields of Dublin Core that metadata say differently from an item."""
    old, new = write_item(holding).get("metadata", {}), metadata or {}
    return [
        f"{DUBLIN_CORE}{element}"
        for element in ELEMENTS
        if [_stripped(each) for each in old.get(element, [])] != new.get(element, [])
    ]


def _statements(form: Form, element: str) -> list[Any]:
    """The values of an element that are not empty, each with its language if one was typed."""
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
    """A text without blanks around it and at the ends of its lines, which nobody sees in a form."""
    return "\n".join(line.rstrip() for line in text.strip().replace("\r\n", "\n").split("\n"))
