"""The ETag of an item, and the requests that name the state of the item that they are for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.operations.item_facts import (
    check_item_match,
    check_optional_match,
    item_etag,
    item_headers,
)
from ibi.errors import Conflict
from ibi.http.response import Refusal
from ibi.identifier.forms import IBIForms, parse_ibi

NAME = "a.example/b/2010/01.01.00.00"
MOMENT = "2026-11-21T10:00:00Z"
HELD = Holding(forms=IBIForms.of(parse_ibi(NAME)), timestamp=MOMENT)


def sent(if_match: str) -> Any:
    return SimpleNamespace(if_match=if_match)


@pytest.mark.parametrize(
    "header",
    [
        f'"{MOMENT}-0123456789abcdef"', f' "{MOMENT}-x" ', f'"other-x","{MOMENT}-y"', f'"x" , "{MOMENT}-y" ',
        f"{MOMENT}-x", f'"{MOMENT}-"',
    ],
)  # fmt: skip
def test_an_etag_of_the_present_state_lets_a_request_pass(header: str) -> None:
    assert check_item_match(sent(header), HELD) == MOMENT
    check_optional_match(sent(header), HELD)


@pytest.mark.parametrize("header", ["*", " * "])
def test_a_request_for_any_state_names_none(header: str) -> None:
    assert check_item_match(sent(header), HELD) is None


@pytest.mark.parametrize(
    "header", ['"x"', f'"{MOMENT}"', f'W/"{MOMENT}-x"', '"2026-11-21T10:00:01Z-x"', "*, *", ","]
)
def test_an_etag_of_another_state_is_a_conflict(header: str) -> None:
    for check in (check_item_match, check_optional_match):
        with pytest.raises(Conflict) as refused:
            check(sent(header), HELD)
        assert str(refused.value) == (f"{NAME} has been changed meanwhile, on {MOMENT}, so nothing was done")


@pytest.mark.parametrize("header", ["", "  "])
def test_without_an_etag_a_request_that_needs_one_is_refused(header: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_item_match(sent(header), HELD)
    assert refused.value.status == 428
    assert str(refused.value.why) == "say which state of the item is meant: If-Match with its ETag, or with *"
    check_optional_match(sent(""), HELD)


def test_the_etag_has_the_timestamp_and_changes_with_each_fact() -> None:
    facts = {"rep": NAME, "ibip": "LK47B6W/362SFKH", "timestamp": MOMENT}
    tag = item_etag(facts)
    assert (tag[: len(MOMENT) + 2], len(tag), tag[-1]) == (f'"{MOMENT}-', len(MOMENT) + 19, '"')
    assert item_etag({**facts, "language": "pt"}) != tag == item_etag(dict(facts))
    assert dict(item_headers(facts)) == {"etag": tag, "location": f"/-/api/items/{NAME}"}
    only = {"ibip": "LK47B6W/362SFKH", "timestamp": MOMENT}
    assert dict(item_headers(only))["location"] == "/-/api/items/LK47B6W/362SFKH"
