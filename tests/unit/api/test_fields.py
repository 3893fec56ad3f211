"""Fields of operations: the same values and the same refusals, from JSON and as they are typed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest

from ibi.api.fields import (
    LONGEST_TEXT,
    MOST_TEXTS,
    UNSET,
    Fields,
    described,
    field,
    given,
    number_field,
    read,
    read_texts,
    refuse_local,
    schema_of,
)
from ibi.errors import BadField


class Shape(Fields, frozen=True):
    name: Annotated[str, field("a name", "--name NAME", longest=10)]
    sure: Annotated[bool, field("whether it is sure")] = False
    hosts: Annotated[tuple[str, ...], field("some hosts")] = ()
    count: Annotated[int, number_field("how many", "", 1, 5)] = UNSET
    rate: Annotated[float, number_field("how fast", "", 0, 9.5)] = UNSET
    way: Annotated[Literal["on", "off"], field("which way")] = UNSET
    path: Annotated[str, field("a file here", local=True)] = ""
    maybe: Annotated[Literal["", "on"], field("whether, if at all")] = ""
    few: Annotated[tuple[str, ...], field("at most two", longest=2)] = ()


def test_members_that_are_left_out_have_their_defaults() -> None:
    assert given(read(Shape, {"name": "a", "sure": True})) == {
        "name": "a", "sure": True, "hosts": (), "path": "", "maybe": "", "few": (),
    }  # fmt: skip


def test_what_is_typed_is_read_as_what_comes_as_json() -> None:
    typed = {
        "name": ["a"],
        "sure": ["yes"],
        "hosts": ["b", " ", "c"],
        "count": ["3"],
        "rate": ["0.5"],
        "way": ["on"],
    }
    as_json = {"name": "a", "sure": True, "hosts": ["b", "c"], "count": 3, "rate": 0.5, "way": "on"}
    assert read_texts(Shape, typed) == read(Shape, as_json)


@pytest.mark.parametrize(
    "value",
    [
        None, [], "a", {}, {"name": None}, {"name": 7}, {"name": "a", "sure": 1}, {"name": "a", "sure": "yes"},
        {"name": "a", "hosts": "b"}, {"name": "a", "hosts": [1]}, {"name": "a", "hosts": ["x"] * (MOST_TEXTS + 1)},
        {"name": "a", "hosts": ["x" * (LONGEST_TEXT + 1)]}, {"name": "x" * 11}, {"name": "a", "more": 1},
        {"name": "a", "{name}" * 500: 1}, {"name": "a", "count": 0}, {"name": "a", "count": 10**400},
        {"name": "a", "count": 1.5}, {"name": "a", "count": True}, {"name": "a", "rate": 9.6},
        {"name": "a", "way": "left"}, {"name": "a", "maybe": None}, {"name": "a", "few": ["x"] * 3},
        {"name": "a", "path": "x" * (LONGEST_TEXT + 1)},
    ],
)  # fmt: skip
def test_another_shape_is_refused_with_one_short_sentence(value: Any) -> None:
    with pytest.raises(BadField) as found:
        read(Shape, value)
    assert 0 < len(str(found.value)) < 300
    assert "msgspec" not in str(found.value)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({}, "the field name is missing"),
        ({"name": ["a"], "more": ["b"]}, "there is no field more"),
        ({"name": ["x" * 11]}, "name is a text of at most 10 characters"),
        ({"name": ["a"], "sure": ["perhaps"]}, "sure is yes or no"),
        ({"name": ["a"], "count": ["six"]}, "count is a whole number from 1 to 5"),
        ({"name": ["a"], "count": ["6"]}, "count is a whole number from 1 to 5"),
        ({"name": ["a"], "count": ["²"]}, "count is a whole number from 1 to 5"),
        ({"name": ["a"], "rate": ["nan"]}, "rate is a number from 0 to 9.5"),
        ({"name": ["a"], "rate": ["inf"]}, "rate is a number from 0 to 9.5"),
        ({"name": ["a"], "rate": ["fast"]}, "rate is a number from 0 to 9.5"),
        ({"name": ["a"], "path": ["x" * 2049]}, "path is a text of at most 2048 characters"),
        (
            {"name": ["a"], "hosts": ["x" * 2049]},
            "hosts is a list of at most 100 texts, each of at most 2048 characters",
        ),
        ({"name": ["a"], "rate": ["-1"]}, "rate is a number from 0 to 9.5"),
        ({"name": ["a"], "way": ["left"]}, "way is one of: off, on"),
        ({"name": ["a"], "maybe": ["left"]}, "maybe is one of: on"),
        (
            {"name": ["a"], "hosts": ["x"] * (MOST_TEXTS + 1)},
            f"hosts is a list of at most {MOST_TEXTS} texts, each of at most {LONGEST_TEXT} characters",
        ),
        (
            {"name": ["a"], "few": ["x"] * 3},
            f"few is a list of at most 2 texts, each of at most {LONGEST_TEXT} characters",
        ),
    ],
)
def test_a_sentence_names_the_field_and_what_it_may_be(typed: dict[str, list[str]], sentence: str) -> None:
    with pytest.raises(BadField) as found:
        read_texts(Shape, typed)
    assert str(found.value) == sentence


@pytest.mark.parametrize(
    "value",
    [
        {"name": "x" * 10}, {"name": "a", "path": "x" * 2048}, {"name": "a", "hosts": ["x" * 2048] * 100},
        {"name": "a", "few": ["x" * 2048] * 2}, {"name": "a", "count": 1}, {"name": "a", "count": 5},
        {"name": "a", "rate": 0.0}, {"name": "a", "rate": 9.5}, {"name": "a", "maybe": "on"},
        {"name": "a", "way": "off"},
    ],
)  # fmt: skip
def test_what_is_just_allowed_is_read_as_json_and_as_it_is_typed(value: dict[str, Any]) -> None:
    found = given(read(Shape, value))
    assert {
        name: list(each) if isinstance(each, tuple) else each for name, each in found.items()
    }.items() >= value.items()
    typed = {name: each if isinstance(each, list) else [str(each)] for name, each in value.items()}
    assert read_texts(Shape, typed) == read(Shape, value)


def test_the_schema_says_what_is_read_and_nothing_of_what_is_local() -> None:
    schema = schema_of(Shape)
    assert schema["required"] == ["name"]
    assert schema["additionalProperties"] is False
    members = schema["properties"]
    assert "path" not in members
    assert members["name"] == {"type": "string", "minLength": 1, "maxLength": 10, "description": "a name"}
    assert members["hosts"]["maxItems"] == MOST_TEXTS
    assert members["hosts"]["items"] == {"type": "string", "maxLength": LONGEST_TEXT}
    assert (members["count"]["minimum"], members["count"]["maximum"]) == (1, 5)
    assert members["way"]["enum"] == ["off", "on"] or members["way"]["enum"] == ["on", "off"]
    refuse_local(Shape, ["name"])
    with pytest.raises(BadField, match="command line"):
        refuse_local(Shape, ["path"])


def test_a_field_tells_what_it_is() -> None:
    kinds = {each.name: each for each in described(Shape)}
    assert kinds["name"].option == "--name NAME"
    assert kinds["sure"].is_truth
    assert not kinds["sure"].is_unset_by_default
    assert kinds["hosts"].is_list
    assert kinds["count"].is_number
    assert kinds["count"].is_unset_by_default
    assert set(kinds["way"].choices) == {"on", "off"}
