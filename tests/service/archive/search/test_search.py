"""What readers look for is found: by words, people, years, languages and kinds, page by page, whatever they type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.search import index as index_module
from ibi.archive.search import search as looking
from ibi.archive.search.index import CpuBudget, SearchIndex
from ibi.archive.search.search import SearchResults, newest, search
from ibi.archive.search.words import (
    MOST_IN_PHRASE,
    MOST_WORDS,
    SearchQuery,
    match_expression,
    read_search_query,
    search_query,
)
from ibi.errors import ParseError
from support.archive.archive_fixture import NewArchive, make_archive
from support.archive.search_fixture import indexed, item

ITEMS = (
    item(1, "Sensoriamento remoto da Amazônia", creator=["Câmara, Gilberto", "Banon, Gerald Jean Francis"],
         subject=["florestas"], description=["Imagens de satélite do uso da terra"], date="2011-05", type="tese",
         language=["pt"]),
    item(2, "Remote sensing of rivers", creator=["Banon, Gerald Jean Francis"], subject=["Amazônia", "water"],
         date="2012", type="article", language=["en"]),
    item(3, "Water quality", creator=["Silva, Ana", "Banon, Lise Christine"],
         description=["Rivers of the Amazonia region; self-archiving"], date="2012", type="article",
         language=["en-GB"]),
    item(4, "Da terra ao uso", creator=["Silva, Ana"], date="12/03/1999", type="mapa"),
    item(5, "Hidden metadata of the Amazônia", contenttype="Metadata"),
    item(6),
)  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    archive = make_archive(tmp_path_factory.mktemp("search") / "archive", "archive.example", {})
    assert archive.load(*ITEMS).refused == 0
    with closing(indexed(archive)) as found, closing(archive.catalogue):
        yield found


def found(index: SearchIndex, **words: str) -> list[int]:
    """The items that are found, by the numbers that they have above."""
    return [each.number - 1 for each in search(index, search_query(words)).entries]


def look(index: SearchIndex, **words: str) -> SearchResults:
    return search(index, search_query(words))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("amazonia", [1, 2, 3]),  # in the title, among the subjects, in the abstract
        ("AMAZÔNIA", [1, 2, 3]),
        ("remot", [2, 1]),  # the beginning of a word; equally good ones: the newest first
        ("remote sens", [2]),  # all words, of which only the last one may be cut
        ("remot sens", []),
        ('"uso da terra"', [1]),
        ("uso da terra", [4, 1]),
        ('"da uso"', []),
        ("self-archiving", [3]),
        ("gerald banon", [2, 1]),
        ("hidden", []),
        ("a", []),
        ("2012", [3, 2]),  # a year: the items of that year, too
        ("silva 2012", [3]),
        ("Banon, Gerald (2011)", [1]),
        ('"2012"', [3, 2]),
        ("1066", []),
        ("201", []),
    ],
)
def test_words_are_found_wherever_they_stand(index: SearchIndex, text: str, numbers: list[int]) -> None:
    assert found(index, text=text) == numbers


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ({"person": "Banon, Gerald Jean Francis"}, [2, 1]),
        ({"person": "gerald banon"}, [2, 1]),
        ({"person": "Banon"}, [3, 2, 1]),
        ({"person": "Silva Gerald"}, []),
        ({"person": "CAMARA, GILBERTO"}, [1]),
        ({"year": "2012"}, [3, 2]),
        ({"year": "2012", "language": "en", "text": "water"}, [3, 2]),
        ({"language": "pt-BR"}, [1]),
        ({"kind": "dissertation"}, [1]),
        ({"kind": "JournalArticle", "person": "Silva"}, [3]),
        ({"year": "1066"}, []),
        ({"year": "1999"}, [4]),
        ({"kind": "Other"}, [6]),
        ({"subject": "Amazônia"}, [2]),
        ({"subject": "AMAZONIA", "year": "2012"}, [2]),
        ({"subject": "amaz"}, []),
        ({"subject": "-"}, []),
        ({"year": "none"}, [6]),
        ({"year": "none", "kind": "Other"}, [6]),
    ],
)
def test_lists_are_narrowed_down(index: SearchIndex, words: dict[str, str], numbers: list[int]) -> None:
    assert found(index, **words) == numbers


def test_a_year_finds_what_tells_of_it_before_what_is_of_it(archive: NewArchive) -> None:
    dated = [item(number, f"Item {number}", date="1888") for number in (1, 2)]
    archive.load(*dated, item(3, "The law of 1888", date="1990"), item(4, "Another", description=["of 1888"]))
    with closing(indexed(archive)) as index:
        assert found(index, text="1888") == [3, 2, 1, 4]


@pytest.mark.parametrize(
    ("words", "usual", "numbers"),
    [
        ({"person": "Banon"}, "newest", {"newest": [3, 2, 1], "date": [3, 2, 1], "title": [2, 1, 3]}),
        ({"text": "amazonia"}, "best", {"newest": [3, 2, 1], "date": [3, 2, 1], "title": [2, 1, 3]}),
        ({"text": "uso da terra"}, "best", {"newest": [4, 1], "date": [1, 4], "title": [4, 1]}),
        ({"kind": "Other"}, "newest", {"newest": [6], "date": [6], "title": [6]}),
    ],
)
def test_results_come_in_the_order_that_is_chosen(
    index: SearchIndex, words: dict[str, str], usual: str, numbers: dict[str, list[int]]
) -> None:
    assert look(index, **words).order == usual
    assert set(look(index, **words).orders) == {usual, *numbers}
    assert {order: found(index, **words, order=order) for order in numbers} == numbers
    with pytest.raises(ParseError, match="the order is one of"):
        look(index, **words, order="random")


def test_what_is_more_than_is_looked_at_stays_in_its_usual_order(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.load(*(item(n, f"Water {9 - n}", date=str(2000 - n), type="map") for n in range(1, 8)))
    with closing(indexed(archive)) as index:
        assert found(index, kind="Image", order="title") == [7, 6, 5, 4, 3, 2, 1]
        assert found(index, kind="Image", order="date") == [1, 2, 3, 4, 5, 6, 7]
        monkeypatch.setattr(looking, "LOOKED_AT", 4)
        for words in ({"kind": "Image"}, {"text": "water"}):
            answer = look(index, **words, order="date")
            assert (answer.order, "date" in answer.orders) == (look(index, **words).order, False)
            assert [each.number for each in answer.entries] == [8, 7, 6, 5]


def test_pages_in_an_order_follow_each_other(archive: NewArchive) -> None:
    archive.load(*(item(n, f"Water {n:02}", date="2000", type="map") for n in range(1, 46)))
    with closing(indexed(archive)) as index:
        pages = [look(index, kind="Image", order="title")]
        while pages[-1].next:
            pages.append(search(index, pages[-1].next))
        assert [each.number - 1 for page in pages for each in page.entries] == list(range(1, 46))
        assert [page.query.page for page in pages] == [1, 2, 3]


def test_facets_count_what_was_found_and_lead_further(index: SearchIndex) -> None:
    answer = look(index, text="amazonia")
    assert (answer.count, answer.many, answer.exact, answer.next) == (3, False, True, None)
    facets = {what: [(each.value, each.items) for each in values] for what, values in answer.facets.items()}
    assert facets == {
        "year": [("2012", 2), ("2011", 1)],
        "language": [("en", 2), ("pt", 1)],
        "kind": [("JournalArticle", 2), ("Dissertation", 1)],
        "person": [
            ("Banon, Gerald Jean Francis", 2), ("Câmara, Gilberto", 1), ("Silva, Ana", 1), ("Banon, Lise Christine", 1),
        ],
        "subject": [("florestas", 1), ("Amazônia", 1), ("water", 1)],
    }  # fmt: skip
    for what, values in answer.facets.items():
        for each in values:
            assert look(index, text="amazonia", **{what: each.value}).count == each.items
    assert "year" not in look(index, text="amazonia", year="2012").facets


def test_everything_can_be_walked_through(index: SearchIndex) -> None:
    assert {each.label for each in looking.subjects(index, 9)} == {"florestas", "Amazônia", "water"}
    assert len(looking.subjects(index, 1)) == 1
    assert looking.undated(index) == look(index, year="none").count == 1
    assert look(index, subject="Water").count == 1
    assert [tuple(each)[::2] for each in looking.facet_values(index, "year", 9)] == [
        ("2012", 2),
        ("2011", 1),
        ("1999", 1),
    ]
    assert [tuple(each)[::2] for each in looking.facet_values(index, "language", 9)] == [("en", 2), ("pt", 1)]
    assert [each.value for each in looking.facet_values(index, "kind", 1)] == ["JournalArticle"]
    assert [tuple(each)[::2] for each in looking.facet_values(index, "letter", 9)] == [
        ("b", 3),
        ("c", 1),
        ("s", 2),
    ]
    first = looking.people(index, "b", "", 1)
    assert [tuple(each) for each in first] == [("banon gerald jean francis", "Banon, Gerald Jean Francis", 2)]
    further = looking.people(index, "b", first[-1].value, 9)
    assert [each.label for each in further] == ["Banon, Lise Christine"]
    assert looking.people(index, "b", further[-1].value, 9) == looking.people(index, "%", "", 9) == []


def test_the_people_of_one_letter_are_looked_up_and_those_of_later_letters_not_passed_over(
    index: SearchIndex,
) -> None:
    statements: list[tuple[str, Any]] = []

    class Recorded:
        def rows(self, statement: str, values: Any) -> Any:
            statements.append((statement, values))
            return index.rows(statement, values)

    assert len(looking.people(Recorded(), "b", "", 9)) == 2  # type: ignore[arg-type]  # it is only asked for rows
    [(statement, values)] = statements
    [plan] = index.rows(f"EXPLAIN QUERY PLAN {statement}", values)
    assert "value>? AND value<?" in plan[3]


def test_a_long_list_is_paged_without_end_and_a_search_up_to_a_bound(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.load(
        *(item(number, "Water" if number % 2 else "About water", date="2012") for number in range(90))
    )
    monkeypatch.setattr(looking, "LOOKED_AT", 50)
    with closing(indexed(archive)) as index:
        question: SearchQuery | None = search_query({"year": "2012"})
        walked = []
        while question is not None:
            answer = search(index, question)
            assert (answer.count, answer.many) == (90, False)
            walked += [each.number for each in answer.entries]
            question = answer.next
        assert walked == list(range(91, 1, -1))
        answer = look(index, text="water")
        assert (answer.count, answer.many, answer.exact, len(answer.entries)) == (50, True, False, 20)
        pages = [answer]
        while pages[-1].next is not None:
            pages.append(search(index, pages[-1].next))
        seen = [each.number for page in pages for each in page.entries]
        assert len(seen) == len(set(seen)) == 50
        assert [each.number for each in newest(index, search_query({"text": "water"}), 3)] == [91, 90, 89]


@pytest.mark.parametrize(
    "text",
    ['"', '""', "*", "a* OR b*", "NOT x", "title:water", "{title}", "NEAR(a b, 2)", "^water", "water AND", "(", "+ -",
     "a\x00b", "'; DROP TABLE entry; --", "water\ue000", "\ud800", "%", "日本語", "e\u0301", '"unclosed phrase', "-",
     "_", "\u19b0", "a\u19b0 -", "\U000f0000", "x" * 500, "a " * 32],
)  # fmt: skip
def test_no_operator_of_the_index_is_within_reach(index: SearchIndex, text: str) -> None:
    assert look(index, text=text).count in {0, 1, 2}
    assert look(index, person=text).count in {0, 1, 2}


def test_a_long_phrase_is_looked_for_in_parts_that_a_phrase_may_have() -> None:
    words = [f"w{number}" for number in range(MOST_WORDS)]
    text = " ".join(words)
    for text_of_search in (f'"{text}"', "-".join(words)):
        phrases = re.findall(
            '"([^"]*)"', match_expression(search_query({"text": text_of_search}), known=False)
        )
        assert [word for phrase in phrases for word in re.findall(r"\w+", phrase)] == words
        assert [len(re.findall(r"\w+", phrase)) for phrase in phrases] == [MOST_IN_PHRASE] * 4


def test_what_is_said_twice_is_looked_for_once() -> None:
    query = search_query({"text": '"de da" ' * 8, "person": "Ana Silva " * 8})
    assert match_expression(query, known=False) == '"de da" AND people : NEAR("Ana" "Silva", 3)'


def test_a_phrase_longer_than_one_may_be_is_still_found(archive: NewArchive) -> None:
    title = "Nine words and one more make a phrase of many"
    archive.load(item(1, title), item(2, "Many of phrase a make more one and words nine"))
    with closing(indexed(archive)) as index:
        assert found(index, text=f'"{title}"') == found(index, text="-".join(title.split())) == [1]


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ('"da uso"', 1),  # nothing found: nothing is better
        ('nowhere "da uso"', 1),
        ("nowhere", 2),  # also what begins with it
        ('"uso da terra"', 1),  # one found: it is the best
        ('"water"', 3),  # all, and those at a better place
    ],
)
def test_the_index_is_not_asked_again_for_what_it_has_told(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch, text: str, lists: int
) -> None:
    text_of_search: list[str] = []
    rows = index.rows

    def counted(statement: str, values: Any = (), limit: CpuBudget | None = None) -> list[Any]:
        if "MATCH" in statement:
            text_of_search.append(values["match"])
        return rows(statement, values, limit)

    monkeypatch.setattr(index, "rows", counted)
    look(index, text=text)
    assert len(text_of_search) == len(set(text_of_search)) == lists


def test_operators_are_words(index: SearchIndex) -> None:
    assert found(index, text="water OR sensoriamento") == []
    assert found(index, text="title:water") == []
    assert found(index, text="-water") == found(index, text="water") == [3, 2]
    assert found(index, person="Silva, Ana' OR 1=1") == []


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from(["text", "person"]), st.text(max_size=60)))
def test_whatever_is_typed_has_an_answer(index: SearchIndex, words: dict[str, str]) -> None:
    answer = look(index, **words)
    assert answer.count <= 6
    if not answer.query.is_empty:
        assert read_search_query(answer.query.query_string()) == answer.query


@pytest.mark.parametrize(
    "words",
    [{"year": "20x"}, {"year": "²"}, {"page": "0"}, {"page": "51"}, {"language": "p'"}, {"kind": "a b"},
     {"before": "-1"}, {"text": "x" * 501}, {"person": "y" * 501}, {"text": "a " * 33}, {"person": "a " * 33},
     {"text": f'"{"de da " * 17}"'}, {"text": f'"{"de da " * 8}" ' * 3}, {"text": "de-da-" * 17},
     {"text": "de\u19b0da\u19b0" * 17}, {"year": "9" * 30}],
)  # fmt: skip
def test_what_cannot_be_looked_for_is_refused_with_its_fault(words: dict[str, str]) -> None:
    with pytest.raises(ParseError):
        search_query(words)


# What takes too long


class StepsForSeconds:
    """A clock that goes by what was done: how long something takes is the same on every machine."""

    def __init__(self) -> None:
        self.now = 0.0

    def thread_time(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SearchIndex]:
    """Very many words that begin with the same letters, and one item with just these."""
    archive = make_archive(tmp_path_factory.mktemp("endings") / "archive", "archive.example", {})
    words = [
        " ".join(f"inte{number:x}" for number in range(begin, begin + 2000))
        for begin in range(0, 40_000, 2000)
    ]
    lines = [
        item(number, f"Title {number}", description=[words[number]], subject=[words[-number - 1]])
        for number in range(10)
    ]
    assert archive.load(*lines, item(30, "Of inte and others")).refused == 0
    with closing(indexed(archive)) as found, closing(archive.catalogue):
        yield found


def test_where_very_many_words_begin_so_the_word_alone_is_looked_for(
    endings: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(found(endings, text="inte")) == 11
    assert len(found(endings, text="others inte")) == 1
    monkeypatch.setattr(index_module, "time", StepsForSeconds())
    monkeypatch.setattr(index_module, "STEPS_PER_CHECK", 1)
    monkeypatch.setattr(looking, "LONGEST_LOOK", 250.0)
    assert [each.name for each in search(endings, search_query({"text": "inte"})).entries] == [
        item(30)["rep"]
    ]
    assert [each.name for each in newest(endings, search_query({"text": "inte"}), 10)] == [item(30)["rep"]]
    assert len(found(endings, text="title")) == 10  # in time
    with pytest.raises(ParseError, match="takes too long: write the words whole"):
        found(endings, text="int")
    with pytest.raises(ParseError, match="takes too long"):
        newest(endings, search_query({"text": "int"}), 10)


def test_after_what_took_too_long_everything_is_found_as_before(
    endings: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = found(endings, text="inte")
    with monkeypatch.context() as short:
        short.setattr(index_module, "STEPS_PER_CHECK", 1)
        short.setattr(looking, "LONGEST_LOOK", -1.0)
        for words in ({"text": "title"}, {"person": "somebody"}, {"year": "2012"}, {"text": '"a b" "c d"'}):
            with pytest.raises(ParseError, match="takes too long"):
                found(endings, **words)
    assert found(endings, text="inte") == before


def test_where_it_takes_too_long_to_tell_the_best_they_are_the_newest(
    index: SearchIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert found(index, text="amazonia") == [1, 2, 3]
    monkeypatch.setattr(index_module, "STEPS_PER_CHECK", 1)
    monkeypatch.setattr(looking, "LONGEST_RANKING", -1.0)
    assert found(index, text="amazonia") == [3, 2, 1]
