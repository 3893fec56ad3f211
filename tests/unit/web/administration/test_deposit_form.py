"""The form of a deposit: which kind a type that is already there belongs to, and what becomes of the other types."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.archive.admin.item_pages import ItemFormPage
from ibi.web.administration.deposit_form import DEPOSIT_KINDS, MORE_NAMES, values
from ibi.web.formats.record import OTHER, kind_of

WORDS = [(kind, word) for kind, each in DEPOSIT_KINDS.items() for word in each.types]


def test_each_field_of_a_kind_alone_has_its_label_and_its_place() -> None:
    assert [f"{kind}.{name}" for kind, each in DEPOSIT_KINDS.items() for name in each.elements] == list(
        MORE_NAMES
    )
    for kind, each in DEPOSIT_KINDS.items():
        shown = values(ItemFormPage({"kind": [(kind, "")]}), "en")
        assert [name for name, *_ in shown["own"]] == list(each.elements)
        assert [name for name, *_ in shown["numbers"]] == list(each.numbers)


def _shown(*types: str, step: str = "", **fields: str) -> dict[str, Any]:
    given = {name: [(text, "")] for name, text in fields.items()}
    page = ItemFormPage({**given, "dc.type": [(text, "") for text in types]}, "edit", step=step)
    found = values(page, "en")
    return {name: found[name] for name in ("kind", "types", "chosen", "type_text", "type_other")}


@pytest.mark.parametrize("word", sorted({word for _, word in WORDS if kind_of([word]) != OTHER}))
def test_a_type_that_is_known_is_chosen_in_its_kind_and_kept_as_it_is_spelled(word: str) -> None:
    meant = kind_of([word])
    expected = next(kind for kind, same in WORDS if kind_of([same]) == meant)
    found = _shown(word.upper(), "second", "third")
    assert found == {
        "kind": expected, "types": ["second", "third"], "chosen": found["chosen"], "type_text": word.upper(),
        "type_other": "",
    }  # fmt: skip
    assert found["chosen"] in DEPOSIT_KINDS[expected].types
    assert kind_of([found["chosen"]]) == meant


@pytest.mark.parametrize("word", ["weblog", "something else"])
def test_a_type_that_is_not_known_is_one_of_the_other_types(word: str) -> None:
    found = _shown(word, "second")
    assert (found["kind"], found["types"], found["type_text"]) == ("other", [word, "second"], "")


def test_a_form_without_a_type_has_no_kind_yet() -> None:
    assert _shown()["kind"] == ""


def test_a_type_that_was_typed_is_kept_while_another_kind_is_looked_at() -> None:
    away = _shown("a", "b", "c", kind="other", step="kind:thesis")
    assert (away["kind"], away["types"], away["type_other"]) == ("thesis", ["b", "c"], "a")
    back = _shown("b", "c", kind="thesis", type_other="a", step="kind:other")
    assert (back["kind"], back["types"]) == ("other", ["a", "b", "c"])
    assert _shown("a", "b", kind="other", type_other="x")["types"] == ["a", "b"]


def test_a_known_type_is_left_out_where_its_item_gets_another_kind() -> None:
    assert _shown("thesis", "b", step="kind:other")["types"] == ["b"]
