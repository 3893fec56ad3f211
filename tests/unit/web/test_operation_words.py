"""A page that is made from an operation has words for whatever the operation returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ibi.api import accounts
from ibi.api.fields import described
from ibi.api.operation_pages import OperationPage
from ibi.archive.operations import listed as archive
from ibi.archive.operations.settings import SET, SETTINGS
from ibi.resolver.operations import listed as resolver
from ibi.web.administration.operation_words import FACTS, MOMENTS, fact_words

if TYPE_CHECKING:
    from collections.abc import Iterator

MADE = [
    *(each for group in (*archive.GROUPS, *resolver.GROUPS) for each in group.operations if not each.page),
    *accounts.TOKENS,  # an Archive has a page for them; a resolver has not
]


def _members(schema: Any) -> Iterator[tuple[str, Any]]:
    """The members of a JSON schema, with their schemas, whether they lie in objects, lists or choices."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for each in schema.values():
            yield from _members(each)
    elif isinstance(schema, list | tuple):
        for each in schema:
            yield from _members(each)


@pytest.mark.parametrize("operation", MADE, ids=lambda each: each.name)
def test_every_member_of_a_result_has_a_label(operation: Any) -> None:
    assert {name for name, _ in _members(operation.gives)} - FACTS.keys() == set()


def test_every_moment_is_written_as_one() -> None:
    members = [member for each in MADE for member in _members(each.gives)]
    moments = {
        name for name, schema in members if isinstance(schema, dict) and "date-time" in schema.values()
    }
    assert "made" in moments
    assert moments - MOMENTS == set()


def test_settings_are_shown_with_the_labels_of_the_form_that_changes_them_and_nothing_else_is() -> None:
    shown, other = (
        OperationPage(operation=operation)
        for operation in (SETTINGS, next(each for each in MADE if each is not SETTINGS))
    )
    labels = {each.name: each.text for each in described(SET.fields)} | FACTS
    assert fact_words(shown) == labels
    assert fact_words(other) == fact_words(object()) == FACTS
