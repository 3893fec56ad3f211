"""What the page of an item shows, up to which limit; titles in lists: in one line, no longer than they may be."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.archive.model.editions import ItemVersion, Timeline
from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.pages.models import ItemPage, SiteContext
from ibi.archive.pages.signposting import Link
from ibi.archive.store.tables.history import ItemEvent
from ibi.archive.store.tables.listings import FixityRecord
from ibi.archive.store.tables.usage import UsageCounts
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState
from ibi.web.formats import embedded
from ibi.web.item_values import (
    LONGEST_TEXT,
    LONGEST_TITLE,
    MOST_FILES,
    MOST_PEOPLE,
    bars,
    labelled,
    link_elements,
    short_title,
    shortened,
    tag_elements,
    title,
    values,
)

NAME = "a.example/b/2013/01.02.00.00"
OTHER = "a.example/b/2014/02.03.04.05"
ROOT = "http://resolver.example"
PLACE = SiteContext("http://archive.example", ROOT)
Statements = dict[str, list[tuple[str, str | None]]]


def read(metadata: Statements) -> dict[str, tuple[MetadataValue, ...]]:
    return {name: tuple(MetadataValue(*value) for value in values) for name, values in metadata.items()}


def held(name: str = NAME, **facts: Any) -> Holding:
    return Holding(forms=IBIForms.parse(f"rep {name}"), timestamp="2026-09-15T16:40:00Z", **facts)


def shown(
    metadata: Statements | None = None, language: str = "en", page: Any = None, **facts: Any
) -> dict[str, Any]:
    holding = held(**facts)
    described = None
    if metadata is not None:
        described = DescribedItem(
            holding, read(metadata), PLACE.base, ROOT, "archive.example", "2026-11-22", "The institution"
        )
    return values(ItemPage(holding, None, PLACE, described=described, **(page or {})), language)


def test_titles_of_other_languages_are_below_the_one_of_the_reader() -> None:
    titles: list[tuple[str, str | None]] = [
        ("Water", "en"),
        ("Água", "pt"),
        (" Water", "de"),
        (" ", "fr"),
        ("Agua", "es"),
        ("Wasser", "de"),
        ("Acqua", "it"),
    ]
    found = shown({"title": titles})
    assert (found["title"], found["title_language"]) == ("Water", "en")
    assert [each.value for each in found["translated"]] == ["Água", "Agua", "Wasser"]
    found = shown({"title": titles}, "pt-BR")
    assert (found["title"], found["title_language"]) == ("Água", "pt")
    assert [each.value for each in found["translated"]] == ["Water", " Water", "Agua"]
    nameless = shown({"title": [(" ", None)]})
    assert (nameless["title"], nameless["title_language"], nameless["translated"]) == (NAME, "", [])


@pytest.mark.parametrize("more", ["", "y"])
def test_an_abstract_is_cut(more: str) -> None:
    found = shown({"description": [("x" * LONGEST_TEXT + more, "en")]})
    assert found["abstract"] == MetadataValue("x" * LONGEST_TEXT + ("…" if more else ""), "en")
    found = shown({"description": [("x" * 299 + " " + more, None)]})
    assert found["preview"] == "x" * 299 + (f" {more}"[:0] + "…" if more else "")
    assert shown({"title": [("x", None)]})["abstract"] is None
    assert shown({"title": [("x", None)]})["preview"] == ""


def test_people_are_told_apart_by_what_they_did() -> None:
    found = shown({
        "creator": [("Silva, Ana", None), ("Silva, Ana", None), (" ", None)],
        "contributor": [("Banon, Gerald (orientador)", None), ("Souza, Rui", None)],
    })  # fmt: skip
    assert [each.name for each in found["people"]] == ["Silva, Ana"]
    assert [each.name for each in found["advisers"]] == ["Banon, Gerald"]
    assert [each.name for each in found["helpers"]] == ["Souza, Rui"]


def test_a_page_shows_so_much_and_no_more() -> None:
    def many(word: str, number: int) -> list[tuple[str, str | None]]:
        return [(f"{word} {each}", None) for each in range(number)]

    found = shown({
        "title": many("Title", 11),
        "creator": many("Author", embedded.MOST + 1),
        "contributor": many("Helper", MOST_PEOPLE + 1),
        "subject": many("Subject", 31),
        "description": [("d" * 1501, None), ("e" * 1500, None), ("f", None)],
        "relation": many("Relation", 21),
    }, files=tuple(StoredFile(str(each), 2, "0" * 64, "x/y") for each in range(MOST_FILES + 1)))  # fmt: skip
    record = found["record"]
    assert len(record.titles) == 10
    assert len(record.creators) == embedded.MOST
    assert len(record.contributors) == MOST_PEOPLE
    assert len(record.subjects) == 30
    assert [each.value for each in record.descriptions] == ["d" * 1500 + "…", "e" * 1500]
    assert len(record.files) == len(found["files"]) == MOST_FILES
    assert len(found["relations"]) == 20
    assert found["size_of_all"] == 2 * (MOST_FILES + 1)
    assert len(found["translated"]) == 3


def test_without_metadata_there_is_nothing_to_cite() -> None:
    found = shown()
    assert {name: found[name] for name in ("record", "citations", "references", "tags", "json_ld")} == {
        "record": None, "citations": (), "references": (), "tags": "", "json_ld": "",
    }  # fmt: skip
    cited = shown({"title": [("Water", "en")]})
    assert [name for name, _ in cited["citations"]] == ["ABNT", "APA"]
    assert [name for name, _ in cited["references"]] == ["BibTeX"]
    assert f'content="http://archive.example/-/item/{NAME}"' in cited["tags"]
    assert "\n " not in cited["json_ld"]


def test_related_items_and_pages_are_linked_and_other_words_are_not() -> None:
    relations: list[tuple[str, str | None]] = [
        (f"IBI {OTHER}", None), (" https://far.example/x ", None), ("see \x00 there", None),
    ]  # fmt: skip
    assert shown({"relation": relations})["relations"] == [
        (f"IBI {OTHER}", f"{ROOT}/{OTHER}"),
        ("https://far.example/x", "https://far.example/x"),
        ("see there", ""),
    ]
    bare = ItemPage(held(metadata=read({"relation": relations[:1]})), None)
    assert values(bare, "en")["relations"] == [(f"IBI {OTHER}", "")]


def test_the_addresses_of_an_item() -> None:
    found = shown()
    assert found["main"] == NAME
    assert found["persistent"] == [f"{ROOT}/{NAME}"]
    assert found["last_edition"] == f"{ROOT}/{NAME}?ibiurl.verblist=GetLastEdition"
    assert values(ItemPage(held(), None), "en")["persistent"] == []


@pytest.mark.parametrize(
    ("facts", "access", "words", "chip", "name"),
    [
        ({}, Access.OPEN, "Open access", "Open access", "open"),
        ({"access": Access.CLOSED}, Access.CLOSED, "Closed", "Closed", "closed"),
        ({"access": Access.RESTRICTED}, Access.OPEN, "Restricted (licensed networks)",
         "Restricted (licensed networks)", "restricted"),
        ({"access": Access.EMBARGOED, "embargo": "2031-01-31"}, Access.EMBARGOED,
         "Embargoed until January 31, 2031", "Embargoed until January 31, 2031", "embargoed"),
        ({"access": Access.EMBARGOED, "embargo": "2021-01-31"}, Access.OPEN, "Open access", "Open access", "open"),
        ({"state": ItemState.DELETED}, Access.OPEN, "", "Open access", "open"),
    ],
)  # fmt: skip
def test_who_may_have_the_data(
    facts: dict[str, Any], access: Access, words: str, chip: str, name: str
) -> None:
    found = shown(page={"access": access}, **facts)
    assert (found["access"], found["chip"], found["chip_class"]) == (words, chip, name)


def test_an_edition_is_described_by_what_is_known_of_it() -> None:
    here = ItemVersion(held().forms, held(), here=True)
    newer = held(
        OTHER, metadata=read({"title": [("y" * LONGEST_TITLE + " z", "pt")], "date": [("2015-06", None)]})
    )
    away = IBIForms.parse("rep far.example/b/2016/02.03.04.05")
    versions = (here, ItemVersion(newer.forms, newer), ItemVersion(away, None))
    found = shown(page={"editions": Timeline(versions), "lang": "?lang=en"})
    first, second, third = found["editions"]
    assert first == {
        "version": here, "date": "2013-01-02T00:00:00Z", "title": "", "title_language": "",
        "url": f"/-/item/{NAME}?lang=en", "ours": True,
    }  # fmt: skip
    assert second == {
        "version": versions[1], "date": "2015-06", "title": "y" * LONGEST_TITLE + " …", "title_language": "pt",
        "url": f"/-/item/{OTHER}?lang=en", "ours": True,
    }  # fmt: skip
    assert third == {
        "version": versions[2], "date": "2016-02-03T04:05:00Z", "title": "", "title_language": "",
        "url": f"{ROOT}/far.example/b/2016/02.03.04.05", "ours": False,
    }  # fmt: skip
    assert found["newer"] == third
    assert shown(page={"editions": Timeline((here,))})["newer"] is None
    assert shown()["newer"] is None
    assert shown(page={"translations": versions[1:2]})["translations"][0]["title_language"] == "pt"
    for tag, language, date in (
        ("en-US", "pt", "2015-03-04"),
        (None, "en-US", "2015-03-04"),
        (None, None, "2015-04-03"),
    ):
        dated = held(OTHER, metadata=read({"date": [("03/04/2015", tag)]}), language=language)
        edition = ItemVersion(dated.forms, dated)
        assert shown(page={"translations": (edition,)})["translations"][0]["date"] == date


def test_what_happened_is_worded_and_the_last_change_is_the_newest() -> None:
    events = (
        ItemEvent("2026-10-01T00:00:00Z", "", "deposited", {}),
        ItemEvent("2026-09-01T00:00:00Z", "", "unheard", {}),
    )
    found = shown(page={"history": events})
    assert found["changed"] == "2026-10-01T00:00:00Z"
    assert found["happened"] == [("2026-10-01T00:00:00Z", "deposited"), ("2026-09-01T00:00:00Z", "unheard")]
    assert shown()["changed"] == "2026-09-15T16:40:00Z"


def test_files_are_checked_when_all_of_them_were_good() -> None:
    files = tuple(StoredFile(name, 1, name * 64, "x/y") for name in "ab")
    good = {
        name: FixityRecord(name * 64, "2026-02-01", f"2026-01-0{number}", "")
        for number, name in enumerate("ab", 1)
    }
    assert shown(files=files, page={"fixity": good})["checked"] == "2026-01-01"
    for changed in ({"sha256": "c" * 64}, {"fault": "missing"}):
        fixity = {**good, "b": good["b"]._replace(**changed)}
        assert shown(files=files, page={"fixity": fixity})["checked"] == ""
    assert shown(files=files, page={"fixity": {"a": good["a"]}})["checked"] == ""
    assert shown()["checked"] == ""


def test_visits_are_added_up_and_drawn_against_the_largest_month() -> None:
    figures = (("2026-10", UsageCounts(30, 0, 15, 0)), ("2026-11", UsageCounts(10, 0, 90, 0)))
    found = shown(page={"figures": figures})
    assert (found["views"], found["downloads"]) == (40, 105)
    assert found["chart"] == [
        {"month": "2026-10", "counts": figures[0][1], "x": 0, "looked": 60, "fetched": 30},
        {"month": "2026-11", "counts": figures[1][1], "x": 20, "looked": 20, "fetched": 60},
    ]
    assert bars([("2026-11", UsageCounts())])[0]["looked"] == 0
    assert bars([]) == []


def test_elements_of_a_page_are_escaped_and_lead_to_the_web_alone() -> None:
    links = [
        Link("/-/x?a&b", "item", "text/html"),
        Link('https://far.example/"', "author"),
        Link("javascript:alert(1)", "item"),
        Link("/y", "type", 'a"b'),
    ]
    assert str(link_elements(links)).split("\n") == [
        '<link rel="item" href="/-/x?a&amp;b" type="text/html">',
        '<link rel="author" href="https://far.example/&#34;">',
        '<link rel="type" href="/y" type="a&#34;b">',
    ]
    assert str(tag_elements([("a", "<"), ("b", "c")])) == (
        '<meta name="a" content="&lt;">\n<meta name="b" content="c">'
    )


def test_formats_are_labelled_and_lead_here_or_to_the_web() -> None:
    formats = {
        "bibtex": "/-/metadata/x",
        "unheard": "https://far.example/",
        "bad": "javascript:x",
        "citation": "/-/c",
    }
    assert labelled(formats) == [
        ("BibTeX", "/-/metadata/x"),
        ("unheard", "https://far.example/"),
        ("bad", ""),
    ]


def test_a_title_is_that_of_the_metadata_or_the_name() -> None:
    titled = held(metadata=read({"title": [("t" * LONGEST_TITLE + " u", None)]}))
    assert title(titled, "en") == "t" * LONGEST_TITLE + " u"
    assert title(titled, "en", read({"title": [("other", None)]})) == "other"
    assert short_title(titled, "en") == "t" * LONGEST_TITLE + " …"
    assert title(held(), "en") == short_title(held(), "en") == NAME
    assert short_title(held(metadata=read({"title": [("\x00", None)]})), "en") == NAME


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a b", "a b"),
        ("1234567890", "1234567890"),
        ("12345678901", "1234567890 …"),
        ("123 567 901", "123 567 …"),
        ("123 5678901", "123 …"),
        ("1234567890 2", "1234567890 …"),
        (" a \n b ", "a b"),
        ("a" + " " * 30 + "b", "a b"),
        ("a" + " " * 39 + "b", "a"),
    ],
)
def test_a_text_is_cut_after_a_word_to_ten_characters(text: str, shown: str) -> None:
    assert shortened(text, 10) == shown
