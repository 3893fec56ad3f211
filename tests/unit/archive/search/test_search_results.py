"""The results of a search, whole: which items, how many, in which order, what narrows them, and where they go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.search import search as looking
from ibi.archive.search.index import CpuBudget, IndexEntry, SearchIndex
from ibi.archive.search.index_writer import EntryUpdate
from ibi.archive.search.search import (
    FacetValue,
    SearchHit,
    SearchResults,
    count,
    hits,
    newest,
    numbers_by_change,
    search,
)
from ibi.archive.search.words import NO_YEAR, PER_PAGE, SearchQuery
from ibi.identifier.forms import IBIForms, parse_ibi
from support.archive.archive_fixture import NewArchive
from support.archive.search_fixture import item, numbered, update, words, write_index

Made = Callable[..., SearchIndex]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Made]:
    """A function that makes an index of these entries; further ones come into the same."""
    with closing(SearchIndex(tmp_path)) as index:

        def make(*updates: EntryUpdate) -> SearchIndex:
            write_index(tmp_path, *updates)
            return index

        yield make


def numbers(results: SearchResults) -> list[int]:
    return [each.number for each in results.entries]


def entry(number: int, **more: Any) -> IndexEntry:
    """The entry of an item of `direct_index.update`."""
    plain = IndexEntry(number, number, False, True, "Data", "Other", "", 0, f"a.example/{number}", number, "")
    return plain._replace(**more)


WATER = words("Water", year=2011, language="pt", kind="Text", people=("Silva, Ana",), subjects=("Rivers",))
WATER = WATER._replace(all_people="Silva, Ana", subject="Rivers")
OF_ALL = {
    "year": (FacetValue("2011", "", 2),), "language": (FacetValue("pt", "", 2),), "kind": (FacetValue("Text", "", 2),),
    "person": (FacetValue("Silva, Ana", "", 2),), "subject": (FacetValue("Rivers", "", 2),),
}  # fmt: skip


@pytest.mark.parametrize(
    ("query", "order", "orders", "left_out"),
    [
        (SearchQuery(text="water"), "best", ("best", "newest", "date", "title"), ""),
        (SearchQuery(text="water", order="date"), "date", ("best", "newest", "date", "title"), ""),
        (SearchQuery(text="water", year=2011), "best", ("best", "newest", "date", "title"), "year"),
        (SearchQuery(year=2011), "newest", ("newest", "date", "title"), "year"),
        (SearchQuery(language="pt", order="title"), "title", ("newest", "date", "title"), "language"),
        (SearchQuery(kind="Text", order="newest"), "newest", ("newest", "date", "title"), "kind"),
        (SearchQuery(person="Silva, Ana", order="best"), "newest", ("newest", "date", "title"), "person"),
        (SearchQuery(subject="rivers"), "newest", ("newest", "date", "title"), "subject"),
    ],
    ids=str,
)
def test_all_is_told_of_what_was_found(
    made: Made, query: SearchQuery, order: str, orders: tuple[str, ...], left_out: str
) -> None:
    index = made(*numbered((1, 2), WATER), update(3, words("Fire")))
    of_both = {"kind": "Text", "language": "pt", "year": 2011, "people": "Silva, Ana"}
    facets = {what: values for what, values in OF_ALL.items() if what != left_out}
    results = search(index, query)
    entries = (entry(2, **of_both), entry(1, **of_both))
    if order in {"date", "title"}:
        entries = entries if numbers(results) == [2, 1] else entries[::-1]
    assert results == SearchResults(query, entries, 2, False, facets, None, order, orders)
    assert results.exact
    assert count(index, query, CpuBudget(60)) == 2


@pytest.mark.parametrize(
    "query", [SearchQuery(text="-"), SearchQuery(), SearchQuery(text="nowhere", person="_")]
)
def test_without_a_word_nothing_is_found(made: Made, query: SearchQuery) -> None:
    index = made(*numbered((1, 2), WATER))
    assert search(index, query) == SearchResults(query, (), 0, False, {}, None)
    assert count(index, query, CpuBudget(60)) == 0
    assert query.is_empty or newest(index, query, 9) == ()


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("pages", [1, 2])
def test_a_full_page_leads_further_only_if_more_was_found(made: Made, more: int, pages: int) -> None:
    found = pages * PER_PAGE + more
    index = made(*numbered(range(1, found + 1), WATER))
    for query in (SearchQuery(text="water", page=pages), SearchQuery(year=2011, order="title", page=pages)):
        results = search(index, query)
        assert (results.count, len(results.entries)) == (found, PER_PAGE)
        assert results.next == (replace(query, page=pages + 1) if more else None)
        last = search(index, replace(query, page=pages + 1))
        assert (len(last.entries), last.next, last.count) == (more, None, found)
    listed = search(index, SearchQuery(year=2011))
    assert [each.number for each in listed.entries] == list(range(found, found - PER_PAGE, -1))
    rest = found - PER_PAGE
    further = SearchQuery(year=2011, before=rest + 1)
    assert listed.next == (further if rest else None)
    if rest:
        following = search(index, further)
        assert numbers(following) == list(range(rest, max(rest - PER_PAGE, 0), -1))
        assert (following.count, following.exact, following.order) == (found, False, "newest")


@pytest.mark.parametrize(("found", "many"), [(3, False), (4, False), (5, True), (6, True)])
def test_of_what_was_found_so_many_are_looked_at(
    made: Made, monkeypatch: pytest.MonkeyPatch, found: int, many: bool
) -> None:
    monkeypatch.setattr(looking, "LOOKED_AT", 4)
    index = made(*numbered(range(1, found + 1), WATER))
    first = list(range(found, max(found - 4, 0), -1))
    looked = len(first)
    for query, usual in (
        (SearchQuery(text="water"), "best"),
        (SearchQuery(kind="Text", language="pt"), "newest"),
    ):
        for order in ("", "newest", "date", "title"):
            results = search(index, replace(query, order=order))
            assert (results.count, results.many, results.exact) == (looked, many, not many)
            ordered = ("date", "title") if not many else ()
            assert results.orders == (("best",) if query.text else ()) + ("newest", *ordered)
            assert results.order == (order if order in results.orders else usual)
            assert numbers(results) == first
            assert results.facets["year"] == (FacetValue("2011", "", looked),)
        assert count(index, query, CpuBudget(60)) == min(found, 5)
    # How many items a list has is known, where it has one condition.
    listed = search(index, SearchQuery(kind="Text"))
    assert (listed.count, listed.many, listed.exact) == (found, False, found <= 4)
    before = search(index, SearchQuery(kind="Text", language="pt", before=found))
    assert (numbers(before), before.exact) == (list(range(found - 1, max(found - 5, 0), -1)), False)
    assert before.many == (found > 5)
    assert [each.number for each in newest(index, SearchQuery(text="water"), 9)] == first
    assert [each.number for each in newest(index, SearchQuery(text="water"), 2)] == first[:2]


@pytest.mark.parametrize(
    ("query", "items"),
    [
        (SearchQuery(year=2011), 3), (SearchQuery(year=812), 2), (SearchQuery(year=NO_YEAR), 2),
        (SearchQuery(language="pt"), 3), (SearchQuery(kind="Text"), 3), (SearchQuery(subject="RIVERS"), 3),
        (SearchQuery(year=1999), 0), (SearchQuery(person="Silva, Ana"), 2), (SearchQuery(year=2011, kind="Text"), 2),
    ],
    ids=str,
)  # fmt: skip
def test_a_list_with_one_condition_knows_its_length_however_many_are_looked_at(
    made: Made, monkeypatch: pytest.MonkeyPatch, query: SearchQuery, items: int
) -> None:
    monkeypatch.setattr(looking, "LOOKED_AT", 2)
    early = numbered((4, 5), words("Early", year=812))
    index = made(*numbered((1, 2, 3), WATER), *early, *numbered((6, 7), words("Undated")))
    results = search(index, query)
    assert results.count == items
    assert results.many == bool(query.person or query.conditions > 1)


def test_facets_have_the_twelve_values_that_most_items_have_and_the_latest_years_first(made: Made) -> None:
    def numbered_words(number: int) -> EntryUpdate:
        of = words("Water", year=2000 + number, language=f"l{number:02}", people=(f"P {number:02}",))
        return update(number, of._replace(subjects=(f"S {number:02}", "All")))

    index = made(*map(numbered_words, range(1, 15)), *numbered((15, 16), words("Water", language="l14")))
    facets = {
        what: [tuple(each) for each in values]
        for what, values in search(index, SearchQuery(text="water")).facets.items()
    }
    assert facets == {
        "year": [(f"{2000 + number}", "", 1) for number in range(13, 1, -1)],
        "language": [("l14", "", 3), *((f"l{number:02}", "", 1) for number in range(1, 12))],
        "kind": [("Other", "", 16)],
        "person": [(f"P {number:02}", "", 1) for number in range(1, 13)],
        "subject": [("All", "", 14), *((f"S {number:02}", "", 1) for number in range(1, 12))],
    }


@pytest.mark.parametrize("whole", [1, 2, 3])
def test_a_word_that_very_many_items_have_is_not_taken_as_a_beginning(
    made: Made, monkeypatch: pytest.MonkeyPatch, whole: int
) -> None:
    monkeypatch.setattr(looking, "LOOKED_AT", 2)
    index = made(*numbered(range(1, whole + 1), words("Water")), update(9, words("Waters")))
    searched = list[str]()
    rows = index.rows

    def counted(statement: str, values: Any = (), budget: CpuBudget | None = None) -> list[Any]:
        searched.extend([values["match"]] if "MATCH" in statement else [])
        return rows(statement, values, budget)

    monkeypatch.setattr(index, "rows", counted)
    results = search(index, SearchQuery(text="water"))
    begun = whole <= 2
    assert numbers(results) == [[9, 1], [9, 2], [3, 2]][whole - 1]
    assert [each.number for each in newest(index, SearchQuery(text="water"), 9)] == numbers(results)
    assert results.many == (whole > 1)
    # Those with the word in the title are enough, if more have it than are looked at.
    looked_for = ['"water"', '"water" *'] if begun else ['"water"']
    places = ("title", "title people subject") if whole == 1 else ("title",)
    assert searched[: -len(looked_for)] == [
        *looked_for,
        *(f"{{{place}}} : ({looked_for[-1]})" for place in places),
    ]


def test_of_two_items_the_one_that_is_about_it_comes_first(made: Made) -> None:
    index = made(update(1, words("Water")), update(2, words("Fire", abstract="water")))
    assert numbers(search(index, SearchQuery(text="water"))) == [1, 2]
    assert numbers(search(index, SearchQuery(text="water", order="newest"))) == [2, 1]


def test_what_has_no_title_and_no_year_comes_last(made: Made) -> None:
    titles = {1: "b", 2: "", 3: "Á c", 4: "", 5: "a b"}
    index = made(*(update(number, words(title, year=number % 3)) for number, title in titles.items()))
    assert numbers(search(index, SearchQuery(kind="Other", order="title"))) == [5, 3, 1, 4, 2]
    assert numbers(search(index, SearchQuery(kind="Other", order="date"))) == [5, 2, 4, 1, 3]


def test_the_feed_of_a_search_has_what_changed_last_and_lists_of_changes_go_on_where_they_were(
    made: Made,
) -> None:
    stamps = {1: 50, 2: 40, 3: 40, 4: 60}
    index = made(*(update(number, WATER, changed_at=stamp) for number, stamp in stamps.items()))
    assert [each.number for each in newest(index, SearchQuery(text="water"), 3)] == [4, 1, 3]
    backward = [(60, 4), (50, 1), (40, 3), (40, 2)]
    for number, after in enumerate([(1 << 60, 0), *backward]):
        assert numbers_by_change(index, after, 2, latest_first=True) == backward[number : number + 2]
    forward = backward[::-1]
    for number, after in enumerate([(0, 0), *forward]):
        assert numbers_by_change(index, after, 2, latest_first=False) == forward[number : number + 2]


FORMS = IBIForms.parse("rep a.example/b/2010/01.01.00.00")


def test_a_hit_tells_programs_what_it_is() -> None:
    holding = Holding(forms=FORMS, timestamp="2020-01-01T00:00:00Z")
    titles, abstracts = (
        (MetadataValue("One", "en"), MetadataValue("Um", "pt")),
        (MetadataValue("About", None),),
    )
    known = entry(
        1,
        name="a.example/b c@80+(x)/2010/01.01.00.00",
        people="Silva, Ana\nBanon, G.",
        year=2011,
        language="pt",
    )
    hit = SearchHit(known, holding, {"title": titles, "description": abstracts})
    assert (hit.titles, hit.abstracts) == (titles, abstracts)
    assert hit.facts() == {
        "ibi": "a.example/b c@80+(x)/2010/01.01.00.00",
        "title": "One",
        "people": ["Silva, Ana", "Banon, G."],
        "year": 2011,
        "language": "pt",
        "kind": "Other",
        "state": "Original",
        "timestamp": "2020-01-01T00:00:00Z",
        "page": "/-/item/a.example/b%20c@80+(x)/2010/01.01.00.00",
    }
    bare = SearchHit(entry(1), holding, {})
    assert (bare.titles, bare.abstracts) == ((), ())
    assert bare.facts() == hit.facts() | {
        "ibi": "a.example/1", "title": "", "people": [], "year": None, "language": None, "page": "/-/item/a.example/1",
    }  # fmt: skip


def test_hits_are_what_the_catalogue_has_now(archive: NewArchive) -> None:
    teller = item(1, "Told", contenttype="Metadata")
    described, gone = item(2, metadata_item=teller["rep"]), item(4, "Gone")
    archive.load(teller, described, item(3, "Three"), gone, item(5))
    with archive.item_store.unit_of_work("maria") as work:
        work.remove(work.get(parse_ibi(str(gone["rep"]))))
    entries = [entry(number) for number in (99, 6, 5, 4, 3)]

    def found() -> list[tuple[int, str, list[str]]]:
        held = hits(archive.catalogue, entries)
        assert all(each.entry in entries for each in held)
        return [
            (each.entry.number, str(each.holding.forms.main), [title.value for title in each.titles])
            for each in held
        ]

    names = {number: str(item(number)["rep"]) for number in range(6)}
    shown = [(6, names[5], []), (4, names[3], ["Three"])]
    assert found() == [*shown, (3, names[2], ["Told"])]
    with archive.catalogue.writing() as writer:
        writer.run("UPDATE item SET unsettled = 'x' WHERE number = 2")
    assert found() == [*shown, (3, names[2], [])]
    assert hits(archive.catalogue, []) == ()
