"""The private words of the first version do not come back: a stranger should find the field's and the standard's."""

from __future__ import annotations

from collections import Counter

import pytest

from support.style import words

# How many still stand in a folder. A number only falls: `python tests/support/style/words.py FOLDER` lists each place,
# and without a folder it prints this table anew.
NOT_YET = {
    "bench": 9,
    "docs": 2,
    "docs/standard": 11,
    "proofs/resolver": 4,
}


def test_no_private_word_comes_back() -> None:
    found = words.all_found()
    counted = Counter(each.folder for each in found)
    over = {folder for folder, number in counted.items() if number > NOT_YET.get(folder, 0)}
    assert [
        f"{each.path}:{each.line}: {each.word} -> {each.instead}" for each in found if each.folder in over
    ] == []


def test_no_folder_is_allowed_more_than_it_needs() -> None:
    counted = Counter(each.folder for each in words.all_found())
    assert {folder: counted[folder] for folder, number in NOT_YET.items() if counted[folder] < number} == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Whoever waits\nat the door.", [(0, "Whoever"), (1, "door")]),
        ("two ledgers and a Tally", [(0, "ledgers"), (0, "Tally")]),
        ("What left alone is over.", [(0, "left alone"), (0, "is over")]),
        ("The waiting room rolls back by a wall clock: floor(x / 2).", []),
        ("The helper thanked the roomy houseboat.", []),
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
