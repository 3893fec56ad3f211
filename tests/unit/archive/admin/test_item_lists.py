"""The list of items: what its address says, which numbers a row has, and its table for spreadsheets, whole."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.admin.item_lists import ItemList, ItemQuery, ListedItem, csv_file, row_number
from ibi.archive.admin.kept_files import named_uploads
from ibi.archive.model.item import Access, Holding, MetadataValue
from ibi.archive.store.tables.listings import ItemStanding
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import NewArchive
from support.archive.search_fixture import indexed, item


@pytest.mark.parametrize(
    ("values", "query", "text"),
    [
        ({}, ItemQuery(), ""),
        ({"name": " a b ", "state": "Copy", "access": "closed", "order": "name", "after": "9"},
         ItemQuery("a b", "Copy", "closed", "name", "9"),
         "?name=a+b&state=Copy&access=closed&after=9&order=name"),
        ({"state": "copy", "access": "x", "order": "x"}, ItemQuery(), ""),
        ({"name": "x" * 513, "after": "y" * 513}, ItemQuery("x" * 512, after="y" * 512),
         f"?name={'x' * 512}&after={'y' * 512}"),
        ({"order": "-added"}, ItemQuery(), ""),
    ],
)  # fmt: skip
def test_the_address_of_a_list_is_read_and_written(
    values: dict[str, str], query: ItemQuery, text: str
) -> None:
    assert ItemQuery.read(values) == query
    assert query.query_string() == text


def test_a_list_may_be_narrow_and_changed_in_its_address() -> None:
    assert not ItemQuery(order="name", after="9").is_narrow
    assert all(each.is_narrow for each in (ItemQuery("a"), ItemQuery(state="Copy"), ItemQuery(access="open")))
    assert ItemQuery("a", after="9").query_string(after="", order="name") == "?name=a&order=name"


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 19, None), ("", None), ("-1", None), ("²", None),
     ("٣", None), ("1.0", None)],
)  # fmt: skip
def test_a_row_has_a_number_that_a_database_can_hold(text: str, number: int | None) -> None:
    assert row_number(text) == number


def test_a_list_is_a_table_in_which_nothing_is_a_formula() -> None:
    def listed(name: str, metadata: dict[str, list[str]] | None = None, **facts: Any) -> ListedItem:
        statements = {each: tuple(map(MetadataValue, values)) for each, values in (metadata or {}).items()}
        holding = Holding(
            forms=IBIForms.parse(f"rep {name}"),
            timestamp="2026-09-15T16:40:00Z",
            metadata=statements or None,
            **facts,
        )
        return ListedItem(holding, ItemStanding("2026-01-01", "2026-02-02"))

    response = csv_file([
        listed(
            "a.example/b/2013/01.01.00.00",
            {"title": ["=1+1", "x"], "creator": ["@a", "b"], "type": ["+c", "d"]},
            language="pt", access=Access.EMBARGOED, embargo="2027-01-01",
        ),
        listed("a.example/b/2013/01.01.00.01", {"title": ['-é,"'], "creator": ["\tx"]}, state=ItemState.DELETED),
        listed("a.example/b/2013/01.01.00.02"),
    ])  # fmt: skip
    assert (response.status, response.content_type) == (200, "text/csv; charset=utf-8")
    assert response.headers == (
        ("content-disposition", 'attachment; filename="items.csv"'), ("cache-control", "no-store"),
    )  # fmt: skip
    assert response.body.startswith(b"\xef\xbb\xbfname,")
    assert response.body.decode("utf-8-sig").split("\r\n") == [
        "name,title,people,kind,language,state,access,embargo,added,changed",
        "a.example/b/2013/01.01.00.00,'=1+1,'@a; b,'+c; d,pt,Original,embargoed,2027-01-01,2026-01-01,2026-02-02",
        'a.example/b/2013/01.01.00.01,"\'-é,""",\'\tx,,,Deleted,,,2026-01-01,2026-02-02',
        "a.example/b/2013/01.01.00.02,,,,,Original,open,,2026-01-01,2026-02-02",
        "",
    ]


def test_files_that_wait_in_a_form_are_named_once_and_the_later_one_counts() -> None:
    assert named_uploads(["1 a.txt", "2 b c.txt", "3 a.txt", "4", "5 "]) == {"a.txt": "3", "b c.txt": "2"}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (ItemQuery("water"), [3, 2, 1]),
        (ItemQuery("water", state="Copy"), [2]),
        (ItemQuery("water", access="closed"), [3]),
        (ItemQuery("nowhere"), []),
        (ItemQuery(order="added"), [0, 1, 2, 3]),
        (ItemQuery(), [3, 2, 1, 0]),
        (ItemQuery(order="name"), [1, 2, 3, 0]),
        (ItemQuery(order="-name"), [0, 3, 2, 1]),
        (ItemQuery(order="changed"), [0, 1, 2, 3]),
        (ItemQuery(order="-changed"), [3, 2, 1, 0]),
    ],
)
def test_a_list_has_each_of_its_items_once_on_pages_of_any_size(
    archive: NewArchive, query: ItemQuery, names: list[int]
) -> None:
    archive.load(
        item(1, "Water"), item(2, "Water") | {"state": "Copy"}, item(3, "Water") | {"access": "closed"}
    )
    known = [str(archive.settings.service.main), *(str(item(number)["rep"]) for number in (1, 2, 3))]
    with closing(indexed(archive)) as index:
        lists = ItemList(archive.catalogue, index)
        for most in (1, 2, 25):
            found, after = list[str](), ""
            while True:
                page = lists.page(replace(query, after=after), most)
                assert len(page.items) <= most
                found += [str(each.holding.forms.main) for each in page.items]
                after = page.after
                if not after:
                    break
            assert found == [known[number] for number in names]
        exported = lists.csv(query).body.decode("utf-8-sig").splitlines()[1:]
        assert [line.partition(",")[0] for line in exported] == [known[number] for number in names]
