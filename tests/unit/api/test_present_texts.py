"""The form of an operation shows what there is: numbers without a needless fraction, and texts letter for letter."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from ibi.api.fields import Fields, field
from ibi.api.operation_pages import present_texts


class SomeFields(Fields, frozen=True):
    """A text and a number."""

    name: Annotated[str, field("its name")] = ""
    seconds: Annotated[float, field("how long")] = 0.0


@pytest.mark.parametrize(
    ("member", "value", "shown"),
    [("name", "Release 1.0", "Release 1.0"), ("seconds", 3.0, "3"), ("seconds", 0.05, "0.05")],
)
def test_a_form_shows_what_there_is(member: str, value: Any, shown: str) -> None:
    assert present_texts(SomeFields, {"settings": {member: value}}) == {member: [shown]}


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        (None, {}),
        ({}, {}),
        ({"other": {"name": "no"}, "name": "yes"}, {"name": ["yes"]}),
        ({"name": None, "seconds": True}, {"name": [""], "seconds": ["yes"]}),
        ({"name": ("a", 1)}, {"name": ["a", "1"]}),
    ],
)
def test_what_there_is_may_be_the_result_or_the_one_object_in_it(
    facts: Any, shown: dict[str, list[str]]
) -> None:
    assert present_texts(SomeFields, facts) == shown
