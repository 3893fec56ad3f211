"""The words of an item and of a query, whole: what the index stores, what it is asked for, and every limit of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ibi.archive.search.words import (
    LONGEST_ITEM_TEXT,
    LONGEST_PERSON,
    LONGEST_TEXT,
    MOST_PAGES,
    MOST_PEOPLE,
    MOST_SUBJECTS,
    MOST_WORDS,
    NO_YEAR,
    PRIVATE,
    ItemWords,
    SearchQuery,
    facet_word,
    facet_words,
    has_words,
    match_expression,
    path_with_query,
    read_search_query,
    search_query,
    words_of,
)
from ibi.errors import ParseError
from support.archive.search_fixture import kind_name

WHOLE: dict[str, Any] = {
    "title": [["Sensoriamento\tremoto", "pt"], ["Remote sensing", None]],
    "creator": [["Câmara, Gilberto (https://orcid.org/0000-0002-1825-0097)", None], ["Silva, Ana", None]],
    "contributor": [["SILVA, ANA", None], ["Banon,  Gerald", None]],
    "subject": [["Hidrologia", "pt"], ["hidrologia", None], ["Water", "en"]],
    "coverage": [["Amazônia", None]],
    "source": [["Revista do Mar", None]],
    "publisher": [["INPE", None]],
    "identifier": [["doi:10.1234/abc", None], ["ISBN 85", None]],
    "description": [["Images\u202e of rivers", None], ["and more", None]],
    "date": [["sem data", "pt"], ["12/03/2011", "pt"]],
    "language": [["por", None], ["en", None]],
    "type": [["tese", "pt"]],
}


def words(metadata: object = None, language: str | None = None) -> ItemWords:
    return words_of(json.dumps(metadata) if metadata is not None else None, language, kind_name)


def test_an_item_is_found_by_each_part_of_its_description() -> None:
    assert words(WHOLE) == ItemWords(
        title="Sensoriamento remoto Remote sensing",
        people=("Câmara, Gilberto", "Silva, Ana", "Banon, Gerald"),
        all_people="Câmara, Gilberto (https://orcid.org/0000-0002-1825-0097) Silva, Ana SILVA, ANA Banon,  Gerald",
        subject="Hidrologia hidrologia Water Amazônia Revista do Mar INPE 10.1234/abc ISBN 85",
        abstract="Images  of rivers and more",
        year=2011,
        language="pt",
        kind="Dissertation",
        subjects=("Hidrologia", "Water"),
    )


@pytest.mark.parametrize(
    ("metadata", "language", "year", "code"),
    [
        (None, None, 0, ""),
        (None, "pt-BR", 0, "pt"),
        ({"language": [["en", None]]}, "pt-BR", 0, "pt"),  # what is known of the item comes first
        ({"language": [["unheard of", None]]}, None, 0, ""),
        ({"language": [[" " * 98 + "pt", None]]}, None, 0, "pt"),
        ({"language": [[" " * 99 + "pt", None]]}, None, 0, ""),  # a hundred characters of it are read
        ({"date": [["03/12/2011", "en"]]}, None, 2011, ""),
        ({"date": [["in the years 1999 and 2000", None]]}, "en", 0, "en"),
    ],
)
def test_the_year_and_the_language_of_an_item(
    metadata: object, language: str | None, year: int, code: str
) -> None:
    found = words(metadata, language)
    assert (found.year, found.language) == (year, code)
    assert found.people == found.subjects == ()
    assert found.title == found.subject == found.abstract == found.all_people == ""


@pytest.mark.parametrize(
    ("element", "field", "most"), [("creator", "people", MOST_PEOPLE), ("subject", "subjects", MOST_SUBJECTS)]
)
def test_lists_have_so_many_of_an_item_and_texts_have_all(element: str, field: str, most: int) -> None:
    values = [[f"Name {number}", None] for number in range(most + 1)]
    listed = getattr(words({element: values}), field)
    assert listed == tuple(f"Name {number}" for number in range(most))
    assert getattr(words({element: values[:most]}), field) == listed
    everything = words({element: values})
    assert f"Name {most}" in everything.all_people + everything.subject


@pytest.mark.parametrize(("element", "field"), [("creator", "people"), ("subject", "subjects")])
def test_a_name_is_cut_where_lists_end_it(element: str, field: str) -> None:
    name = "x" * LONGEST_PERSON
    for more in ("", "y"):
        assert getattr(words({element: [[name + more, None]]}), field) == (name,)


@pytest.mark.parametrize(
    ("element", "field"),
    [("title", "title"), ("creator", "all_people"), ("subject", "subject"), ("identifier", "subject"),
     ("description", "abstract")],
)  # fmt: skip
def test_a_text_is_cut_where_searching_ends(element: str, field: str) -> None:
    text = "x" * LONGEST_ITEM_TEXT
    for more in ("", "y"):
        assert getattr(words({element: [[text + more, None]]}), field) == text


def test_the_lists_of_an_item_are_words_that_no_text_can_contain() -> None:
    item = words(
        {"creator": [["Câmara, G.", None]], "subject": [["Uso da terra", None]], "type": [["tese", None]]}
    )
    person, subject = facet_word("person", "camara g"), facet_word("subject", "uso da terra")
    assert (person[:2], subject[:2]) == (f"{PRIVATE}p", f"{PRIVATE}s")
    assert len(person) == len(subject) == 2 + 16
    dissertation = f"{PRIVATE}kdissertation"
    assert facet_words(item) == f"{dissertation} {person} {subject} {PRIVATE}ynone"
    assert facet_words(item._replace(year=2011, language="pt", people=(), subjects=())) == (
        f"{dissertation} {PRIVATE}y2011 {PRIVATE}lpt"
    )
    assert words({"title": [[f"a{PRIVATE}y2011", None]]}).title == "a y2011"


QUERY = SearchQuery(
    text="uso da terra",
    person="Câmara, G.",
    year=2011,
    language="pt",
    kind="Thesis",
    page=2,
    before=12,
    subject="hidrologia",
    order="date",
)
WRITTEN = (
    "text=uso+da+terra&person=C%C3%A2mara%2C+G.&subject=hidrologia&year=2011&language=pt&kind=Thesis&order=date&page=2"
    "&before=12"
)


def test_a_search_is_written_as_the_query_of_a_url_and_read_again() -> None:
    assert QUERY.query_string() == WRITTEN
    assert read_search_query(WRITTEN) == QUERY
    assert path_with_query("/-/search", QUERY) == f"/-/search?{WRITTEN}"
    assert path_with_query("/-/search", SearchQuery()) == "/-/search"
    assert read_search_query("") == search_query({}) == SearchQuery()
    assert read_search_query("language=PT-br&year=none&other=x") == SearchQuery(language="pt", year=NO_YEAR)
    assert SearchQuery(year=NO_YEAR).query_string() == "year=none"


def test_a_changed_search_begins_at_its_first_page() -> None:
    assert QUERY.having(text="x").query_string() == WRITTEN.replace("uso+da+terra", "x").partition("&page")[0]
    assert QUERY.without("year").year == 0
    assert QUERY.without("person").person == ""
    assert (QUERY.conditions, QUERY.is_empty) == (6, False)
    paged = SearchQuery(page=2, before=3, order="date")
    assert (paged.conditions, paged.is_empty) == (0, True)


@pytest.mark.parametrize("name", ["text", "person", "subject"])
def test_a_search_has_so_many_characters_and_words(name: str) -> None:
    longest, most = "x" * LONGEST_TEXT, " ".join("x" * MOST_WORDS)
    for given in (longest, most):
        assert getattr(search_query({name: f" {given}\x07"}), name) == given
    with pytest.raises(ParseError) as long:
        search_query({name: f"{longest}y"})
    error = long.value
    assert (error.what, error.text, str(error)) == (
        name,
        f"{longest}y",
        "a search has at most 500 characters",
    )
    assert (error.start, error.end) == (LONGEST_TEXT, LONGEST_TEXT + 1)
    with pytest.raises(ParseError) as many:
        search_query({name: f"{most} y"})
    assert (many.value.what, many.value.text, str(many.value)) == (
        name, f"{most} y", f"a search has at most {MOST_WORDS} words",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "accepted", "refused", "problem"),
    [
        ("page", ["1", str(MOST_PAGES)], ["0", str(MOST_PAGES + 1)],
         "a search shows at most 50 pages: narrow it down"),
        ("page", ["01"], ["x", "9" * 16], "this is no whole number: page"),
        ("year", ["9" * 15], ["20x", "²", "-1", "9" * 16], "this is no whole number: year"),
        ("before", ["9" * 15], ["x", "-1", "1.0", "9" * 16], "this is no whole number: before"),
        ("language", ["x" * 40], ["x" * 41, "p'", "é"], "this is no language that can be looked for"),
        ("kind", ["x" * 40], ["x" * 41, "a b", "é"], "this is no kind that can be looked for"),
        ("order", ["best", "newest", "date", "title"], ["Best", "x"],
         "the order is one of best, newest, date, title"),
    ],
)  # fmt: skip
def test_each_parameter_is_taken_up_to_its_limit_and_then_refused_by_name(
    name: str, accepted: list[str], refused: list[str], problem: str
) -> None:
    for text in accepted:
        assert str(getattr(search_query({name: text}), name)) == text.lstrip("0")
    for text in refused:
        with pytest.raises(ParseError) as caught:
            search_query({name: text})
        error = caught.value
        assert (error.what, error.text, str(error)) == (name, text, problem)
        assert (error.start, error.end) == (0, len(text))


YEAR = f'("2016" OR "{PRIVATE}y2016")'


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("", ""),
        ("- _", ""),
        ("uso terra", '"uso" AND "terra" *'),
        ("uso t", '"uso" AND "t"'),  # one letter begins too many words
        ("uso terra-", '"uso" AND "terra-"'),  # nothing follows a word that has ended
        ("uso -", '"uso" *'),
        ('"uso da terra"', '"uso da terra"'),
        ('"uso da terra" im', '"uso da terra" AND "im" *'),
        ("terra Terra terra x", '"terra" AND "Terra" AND "x"'),
        ("2016", f'("2016" OR "{PRIVATE}y2016")'.replace('"2016" OR', '"2016" * OR')),
        ("(2016) x", YEAR.replace('"2016" OR', '"(2016)" OR') + ' AND "x"'),
        ("20160 x", '"20160" AND "x"'),
        ("doi:10.1234/abc", '"10.1234/abc" *'),
        ("e\u0301tude", '"\u00e9tude" *'),
    ],
)
def test_a_text_becomes_an_expression_of_the_index(text: str, expression: str) -> None:
    query = search_query({"text": text})
    assert match_expression(query, known=False) == expression
    assert match_expression(query, known=False, begun=False) == expression.replace('" *', '"')


def test_each_condition_becomes_a_part_of_the_expression() -> None:
    subject, person = facet_word("subject", "hidrologia"), facet_word("person", "camara g")
    marked = f'"{subject}" AND "{PRIVATE}y2011" AND "{PRIVATE}lpt" AND "{PRIVATE}kthesis"'
    text = '"uso" AND "da" AND "terra" *'
    near = 'people : NEAR("Câmara" "G", 3)'
    assert match_expression(QUERY, known=False) == f"{text} AND {near} AND {marked}"
    assert match_expression(QUERY, known=True) == f'{text} AND "{person}" AND {marked}'
    alone = SearchQuery(text="uso")
    assert match_expression(alone, known=False, only="title") == '{title} : ("uso" *)'
    of_year = SearchQuery(text="uso 2016", year=NO_YEAR)
    found = f'"uso" AND ("2016" * OR "{PRIVATE}y2016")'
    none = f' AND "{PRIVATE}ynone"'
    assert match_expression(of_year, known=False, only="title") == f"{{title}} : ({found}){none}"
    assert match_expression(of_year, known=False, only="title people subject") == (
        f"{{title people subject marks}} : ({found}){none}"
    )
    assert (
        match_expression(alone, known=False, only="title people subject")
        == '{title people subject} : ("uso" *)'
    )


@pytest.mark.parametrize(
    ("values", "some"),
    [({}, True), ({"year": 2011}, True), ({"text": "x"}, True), ({"text": "-"}, False),
     ({"text": "x", "person": "-"}, False), ({"subject": "-"}, False), ({"person": "x", "subject": "y"}, True)],
)  # fmt: skip
def test_a_search_for_marks_alone_has_no_words(values: dict[str, Any], some: bool) -> None:
    assert has_words(SearchQuery(**values)) is some
