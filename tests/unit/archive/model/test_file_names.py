"""File names: a name as people write it leads to the one that is listed."""

from __future__ import annotations

import pytest

from ibi.archive.model.file_names import listed_name
from ibi.archive.model.item_json import read_item
from ibi.errors import IbiError

LISTED = ("Relat%C3%B3rio%20final.pdf", "a.txt", "A.txt")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Relatório final.pdf", "Relat%C3%B3rio%20final.pdf"),
        ("Relato\u0301rio final.pdf", "Relat%C3%B3rio%20final.pdf"),  # as macOS writes it
        ("Relat%C3%B3rio%20final.pdf", "Relat%C3%B3rio%20final.pdf"),
        ("a.txt", "a.txt"),
        ("b.txt", "b.txt"),
        ("", ""),
        ("\ud800", "\ud800"),
    ],
)
def test_a_name_as_people_write_it_is_the_one_that_is_listed(given: str, meant: str) -> None:
    assert listed_name(given, LISTED) == meant


@pytest.mark.parametrize("half", ["\ud800", "a\udfff.txt"])
def test_half_a_character_in_json_is_refused_with_a_sentence(half: str) -> None:
    with pytest.raises(IbiError):
        read_item({"rep": "a.example/b/2010/01.01.00.00", "files": {"a.txt": "a.txt"}, "target": half})
