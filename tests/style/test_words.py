"""The private words of the first version do not come back: a stranger should find the field's and the standard's."""

from __future__ import annotations

import pytest

from support.style import words


def test_no_private_word_comes_back() -> None:
    assert [f"{each.path}:{each.line}: {each.word} -> {each.instead}" for each in words.all_found()] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Whoever waits\nat the door.", [(0, "Whoever"), (1, "door")]),
        ("two ledgers and a Tally", [(0, "ledgers"), (0, "Tally")]),
        ("A key is sealed, its Archive thanked.", [(0, "sealed"), (0, "thanked")]),
        ("What left alone is over.", [(0, "left alone"), (0, "is over")]),
        ("The waiting room rolls back by a wall clock: floor(x / 2).", []),
        ("The helper unlocked the roomy houseboat.", []),
    ],
)
def test_private_words_are_seen_in_sentences(text: str, found: list[tuple[int, str]]) -> None:
    assert [(line, word) for line, word, _ in words.in_prose(text)] == found


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("take_desk", ["desk"]),
        ("ClientDoor", ["Door"]),
        ("_keepersOf", ["keepers"]),
        ("WaitingRoom", []),
        ("test_what_was_said_is_told", []),
        ("test_nobody_is_told", ["nobody"]),
        ("bedroom_floorplan", []),
    ],
)
def test_private_words_are_seen_in_names(name: str, found: list[str]) -> None:
    assert [part for part, _ in words.in_name(name)] == found


def test_private_words_are_seen_in_modules_and_pages() -> None:
    module = (
        'import math\nfrom os import path as door\n\n\nclass Place:\n    told: int\n    """Nobody."""\n\n'
        "    def __init__(self, crowd: str) -> None:\n        self.roof = math.floor(1)  # the roof\n"
        "        x = 'nobody'\n"
    )
    assert sorted(each.word for each in words.of_module("a.py", module)) == [
        "Nobody", "class Place", "crowd in crowd", "door in door", "roof", "roof in roof", "told in told",
    ]  # fmt: skip
    page = "A [desk](../door.md)\nhas `nobody`.\n```\nroom\n```\nroom\n"
    assert [(each.line, each.word) for each in words.of_page("a.md", page)] == [(1, "desk"), (6, "room")]


def test_on_a_page_neither_code_nor_addresses_are_looked_at() -> None:
    page = (
        "`a door`, [a link](door.md), <https://a.example/door>\n\n    ibi door\n\nThe door.\n```\ndoor\n```\n"
    )
    assert [(each.line, each.word) for each in words.of_page("docs/page.md", page)] == [(5, "door")]
