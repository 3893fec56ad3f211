"""A search that finds nothing offers what would find something, at a bounded cost, whatever was typed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.search import hints as hints_module
from ibi.archive.search.hints import LONGEST_HINTING, MOST_SPELLINGS, find_hints
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.search import search
from ibi.archive.search.words import LONGEST_TEXT, MOST_WORDS, search_query
from ibi.errors import ParseError
from support.archive.archive_fixture import make_archive
from support.archive.search_fixture import indexed, item

ITEMS = (
    item(1, "Sensoriamento remoto da Amazônia", creator=["Câmara, Gilberto"], date="2011", type="tese",
         description=["Imagens de satélite do uso da terra"], language=["pt"]),
    item(2, "Remote sensing of rivers", subject=["Amazônia", "water"], date="2012", type="article", language=["en"]),
    item(3, "Water and rivers", creator=["Silva, Ana"], date="2012", type="article", language=["en"]),
    item(4, "Waters of winter", date="1999", type="mapa"),
    item(5, "Hidden", contenttype="Metadata"),
)  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    archive = make_archive(tmp_path_factory.mktemp("hints") / "archive", "archive.example", {})
    assert archive.load(*ITEMS).refused == 0
    with closing(indexed(archive)) as found, closing(archive.catalogue):
        yield found


def spellings(index: SearchIndex, **words: str) -> list[tuple[str, int]]:
    return [(each.query.text, each.items) for each in find_hints(index, search_query(words)).spellings]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amazonai", [("amazônia", 2)]),  # two letters exchanged; spelled as the newest item spells it
        ("AMZONIA", [("amazônia", 2)]),  # one missing
        ("ammazônia", [("amazônia", 2)]),  # one too many
        ("Camara Gilbexto", [("Camara gilberto", 1)]),  # one wrong, among others that are known
        ("sensoriamneto remotto", [("sensoriamento remoto", 1)]),  # two words, each with an error
        ('"uso da terrra"', [('"uso da terra"', 1)]),  # within a phrase
        ("watrs", [("waters", 1)]),
        ("wateer", [("water", 3)]),  # whatever finds most: here also the beginning of `waters`
        ("hiden", []),  # of an item that no search finds
        ("rvi", []),  # too short
        ("2021", []),
        ("water satélite", []),  # words that are known, but not together, and nothing near them helps
    ],
)
def test_spellings_one_error_away_are_offered(
    index: SearchIndex, text: str, expected: list[tuple[str, int]]
) -> None:
    assert search(index, search_query({"text": text})).count == 0
    assert spellings(index, text=text) == expected


def test_spellings_find_something_with_the_other_conditions(index: SearchIndex) -> None:
    assert spellings(index, text="rviers", year="1999") == [
        ("rivers", 2)
    ]  # without the year: with it none is found
    [hint] = find_hints(index, search_query({"text": "rviers", "year": "1999"})).spellings
    assert hint.query == search_query({"text": "rivers"})
    assert spellings(index, text="watre", year="2012") == [("water", 2)]
    assert spellings(index, text="rviers", year="2012", person="Silva") == [("rivers", 1)]


def test_at_most_three_spellings_the_most_frequent_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("many")
    archive = make_archive(folder / "archive", "archive.example", {})
    titles = [*["bate"] * 2, *["cate"] * 3, *["date"] * 1, *["fate"] * 4, *["gate"] * 2]
    archive.load(*(item(number, title) for number, title in enumerate(titles, 1)))
    with closing(indexed(archive)) as other, closing(archive.catalogue):
        assert spellings(other, text="xate") == [("fate", 4), ("cate", 3), ("bate", 2)]
        assert MOST_SPELLINGS == 3


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    """An index of words that are one error away from others, some of them in many items."""
    archive = make_archive(tmp_path_factory.mktemp("near") / "archive", "archive.example", {})
    titles = (
        ["rate"] * 8 + ["bate"] * 7 + ["cate"] * 7 + ["date"] * 5 + ["fate"] * 4 + ["gate"] * 3 + ["hate"] * 2
    )
    titles += ["hole", "pole", "role", "sole", "tole", "vole", "hole", "pole bate", "rate mole", "uso 1999"]
    titles += ["alfa beta gama delta iota kapa lima", LONG, f"{LONG}y"]
    archive.load(
        *(item(number, title, date="2000") for number, title in enumerate(titles, 1)),
        *(item(number, "gate", date="2001") for number in (101, 102)),
        item(103, "hate", date="2002"),
    )
    with closing(indexed(archive)) as found, closing(archive.catalogue):
        yield found


LONG = "abcdefghijklmnopqrstuvwx"
SIX, SEVEN = "alfx betx gamx deltx iotx kapx", "alfx betx gamx deltx iotx kapx limx"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"text": "xate", "year": "2001"}, [("gate", 2)]),  # the sixth by its frequency
        # The seventh would be of this year; as it is not looked up, the year is given up.
        ({"text": "xate", "year": "2002"}, [("rate", 9), ("bate", 8), ("cate", 7)]),
        ({"text": "bate mole"}, [("rate mole", 1)]),  # the twelfth attempt
        ({"text": "mole bate"}, []),  # "pole bate" would be the thirteenth
        ({"text": "usu"}, []),  # of three letters
        ({"text": "1998"}, []),
        ({"text": f"z{LONG[1:]}"}, [(LONG, 2)]),
        ({"text": f"z{LONG[1:]}y"}, []),  # of more than 24 letters
        ({"text": SIX}, [("alfa beta gama delta iota kapa", 1)]),
        ({"text": SEVEN}, []),  # the last one is not looked up
    ],
)
def test_so_many_spellings_of_so_many_words_are_looked_up(
    near: SearchIndex, words: dict[str, str], expected: list[tuple[str, int]]
) -> None:
    assert spellings(near, **words) == expected


def test_of_words_that_are_known_but_not_together_one_may_be_wrong(index: SearchIndex) -> None:
    assert spellings(index, text="waters rivers") == [("water rivers", 2)]
    assert spellings(index, text="waters rive") == [
        ("water rive", 2)
    ]  # the last may be the beginning of a word
    assert spellings(index, text="waters river") == [("water rivers", 2), ("water river", 2)]
    assert spellings(index, text="waters rivrs") == []  # what is known stays, where another word is not


def test_a_spelling_may_be_as_long_as_a_text(index: SearchIndex) -> None:
    for length, expected in ((LONGEST_TEXT, [LONGEST_TEXT]), (LONGEST_TEXT + 1, [])):
        text = "amzonia" + " " * (length - len("amazoniaterra")) + "terra"
        found = find_hints(index, search_query({"text": text})).spellings
        assert [len(each.query.text) for each in found] == expected


def test_what_is_found_is_counted_up_to_a_limit_and_then_there_are_many(
    near: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("search", "hints"):
        monkeypatch.setattr(f"ibi.archive.search.{module}.LOOKED_AT", 7)
    found = find_hints(near, search_query({"text": "xate"})).spellings
    # As far as they are counted, two of them are equally frequent: these follow the alphabet.
    assert [(each.query.text, each.items, each.many) for each in found] == [
        ("bate", 7, True), ("rate", 7, True), ("cate", 7, False),
    ]  # fmt: skip


def test_conditions_whose_absence_finds_something_are_named_the_narrowest_first(index: SearchIndex) -> None:
    found = find_hints(index, search_query({"text": "water", "year": "1999", "language": "en"}))
    assert [(each.condition, each.items) for each in found.wider] == [("language", 1), ("year", 2)]
    assert found.wider[0].query == search_query({"text": "water", "year": "1999"})
    both = find_hints(index, search_query({"text": "rivers", "year": "1999"}))
    assert [(each.condition, each.items, each.many) for each in both.wider] == [("year", 2, False)]
    alone = find_hints(index, search_query({"year": "1066"}))
    assert (alone.wider, alone.spellings) == ((), ())


@settings(max_examples=150, deadline=None)
@given(
    text=st.text(max_size=LONGEST_TEXT),
    person=st.text(max_size=20),
    year=st.sampled_from(["", "none", "2012"]),
)
def test_whatever_is_typed_costs_no_more_than_its_budget(
    index: SearchIndex, text: str, person: str, year: str
) -> None:
    try:
        query = search_query({"text": text, "person": person, "year": year})
    except ParseError:
        return
    began = time.thread_time()
    found = find_hints(index, query)
    assert time.thread_time() - began < 2 * LONGEST_HINTING
    assert all(each.items for each in (*found.spellings, *found.wider))


@pytest.mark.parametrize("letter", ["a", "é", "水", "\u0915", "ß", "ﬁ", '"', "*", "\ue000"])
def test_long_and_odd_words_cost_little(index: SearchIndex, letter: str) -> None:
    words = " ".join(letter * 6 + chr(97 + number) * 9 for number in range(MOST_WORDS // 2))
    began = time.thread_time()
    assert spellings(index, text=words) == []
    assert time.thread_time() - began < 2 * LONGEST_HINTING


def test_without_time_there_are_no_hints_and_no_error(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints_module, "LONGEST_HINTING", 0.0)
    monkeypatch.setattr("ibi.archive.search.index.STEPS_PER_CHECK", 1)
    found = find_hints(index, search_query({"text": "amazonai", "year": "2011"}))
    assert (found.spellings, found.wider) == ((), ())
