"""Feeds and the documents of ResourceSync, whole; the facts of a hit for programs."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.search import resource_sync
from ibi.archive.search.feeds import LONGEST_SUMMARY, LONGEST_TITLE, Feed, best_value, write_feed
from ibi.archive.search.index import IndexEntry
from ibi.archive.search.search import SearchHit, page_of
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState

NAME = "a.example/b/2013/01.01.00.00"
FEED = Feed(
    base="http://archive.example",
    root="http://resolver.example",
    path="/-/feed?text=a&year=2011",
    page="/-/search?text=a&year=2011",
    title="Search: <a>",
    language="pt-BR",
    updated=1_700_000_000,
    author="The archive",
    publisher="The institution",
)


Statements = dict[str, list[tuple[str, str | None]]]


def hit(metadata: Statements, people: str = "", **facts: Any) -> SearchHit:
    entry = IndexEntry(
        1, 1_600_000_000, False, True, "Data", "Thesis", "pt", 2011, NAME, 1_500_000_000, people
    )
    holding = Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="2017-07-14T02:40:00Z", **facts)
    statements = {
        name: tuple(MetadataValue(value, language) for value, language in values)
        for name, values in metadata.items()
    }
    return SearchHit(entry, holding, statements)


WHOLE = hit(
    {
        "title": [("First & <best>", "en"), ("O primeiro", "pt")],
        "description": [("Um\u202e resumo \x00", "pt")],
        "publisher": [("INPE", None)],
    },
    "Câmara, G.\nSilva, Ana",
)


def test_a_feed_is_written_whole() -> None:
    bare = hit({})
    bare = bare._replace(entry=bare.entry._replace(stamp=1_650_000_000))
    assert write_feed(FEED, [WHOLE, bare]).decode().split("\n") == [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:dc="http://purl.org/dc/elements/1.1/" xml:lang="pt-BR">',
        "<id>http://archive.example/-/feed?text=a&amp;year=2011</id>",
        "<title>Search: &lt;a&gt;</title>",
        "<updated>2022-04-15T05:20:00Z</updated>",
        (
            '<link rel="self" type="application/atom+xml"'
            ' href="http://archive.example/-/feed?text=a&amp;year=2011"/>'
        ),
        (
            '<link rel="alternate" type="text/html"'
            ' href="http://archive.example/-/search?text=a&amp;year=2011"/>'
        ),
        "<author><name>The archive</name><uri>http://archive.example/</uri></author>",
        "<dc:publisher>The institution</dc:publisher>",
        (
            f"<entry><id>http://resolver.example/{NAME}</id><title>O primeiro</title>"
            "<updated>2020-09-13T12:26:40Z</updated>"
            f'<link rel="alternate" type="text/html" href="http://archive.example/-/item/{NAME}"/>'
            "<author><name>Câmara, G.</name></author><author><name>Silva, Ana</name></author>"
            "<summary>Um resumo \ufffd</summary><dc:publisher>INPE</dc:publisher></entry>"
        ),
        (
            f"<entry><id>http://resolver.example/{NAME}</id><title>{NAME}</title>"
            "<updated>2022-04-15T05:20:00Z</updated>"
            f'<link rel="alternate" type="text/html" href="http://archive.example/-/item/{NAME}"/>'
            "<dc:publisher>The institution</dc:publisher></entry>"
        ),
        "</feed>",
        "",
    ]
    assert b"<updated>2023-11-14T22:13:20Z</updated>" in write_feed(FEED, [])


def test_long_texts_of_a_feed_are_cut_and_twenty_people_are_named() -> None:
    title, summary = "t" * LONGEST_TITLE, "s" * LONGEST_SUMMARY
    people = [f"Name {number}" for number in range(21)]
    for more in ("", "x"):
        metadata: Statements = {
            "title": [(title + more, None)],
            "description": [(summary + more, None)],
            "publisher": [(title + more, None)],
        }
        written = write_feed(FEED, [hit(metadata, "\n".join(people))]).decode()
        assert f"<title>{title}</title>" in written
        assert f"<summary>{summary}</summary>" in written
        assert f"<dc:publisher>{title}</dc:publisher></entry>" in written
        assert "Name 19<" in written
        assert "Name 20" not in written


@pytest.mark.parametrize(
    ("institution", "publisher"),
    [
        ({"pt": "Uma universidade", "": "A university"}, "Uma universidade"),
        ({"en": "An institute", "": "A university"}, "A university"),
        ({"en": "An institute"}, "The institution"),
        ({}, "The institution"),
    ],
)
def test_the_publisher_of_an_item_is_named_in_the_language_of_the_feed(
    institution: dict[str, str], publisher: str
) -> None:
    written = write_feed(FEED, [hit({}, institution=institution)]).decode()
    assert f"<dc:publisher>{publisher}</dc:publisher></entry>" in written


@pytest.mark.parametrize(
    ("languages", "language", "chosen"),
    [
        ([], "pt", None),
        (["en"], "pt", 0),
        (["en", "pt"], "pt-BR", 1),
        (["en", "pt"], "de", 0),
        ([None, "pt"], "pt", 1),
        ([None, "pt"], "en", 0),
        (["en", "pt", "pt"], "pt", 1),  # the first of several in a language
        ([None, None], "pt", 0),
    ],
)
def test_readers_get_a_value_in_their_language(
    languages: list[str | None], language: str, chosen: int | None
) -> None:
    values = [MetadataValue(str(number), each) for number, each in enumerate(languages)]
    assert best_value(values, language) == (None if chosen is None else values[chosen])


def test_programs_are_given_the_facts_of_a_hit() -> None:
    whole = {
        "ibi": NAME,
        "title": "First & <best>",
        "people": ["Câmara, G.", "Silva, Ana"],
        "year": 2011,
        "language": "pt",
        "kind": "Thesis",
        "state": "Original",
        "timestamp": "2017-07-14T02:40:00Z",
        "page": f"/-/item/{NAME}",
    }
    assert WHOLE.facts() == whole
    unknown = hit({}, state=ItemState.COPY)
    bare = unknown._replace(entry=unknown.entry._replace(year=0, language=""))
    assert bare.facts() == whole | {
        "title": "", "people": [], "year": None, "language": None, "state": "Copy",
    }  # fmt: skip
    assert page_of("a b/c:@.-_~!$&()*+,;=?#%") == "/-/item/a%20b/c:@.-_~!$&()*+,;=%3F%23%25"


SPACES = (
    'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"'
)
BASE = "http://archive.example/a&b"
WRITTEN = "http://archive.example/a&amp;b"


def document(*lines: str) -> list[str]:
    return ['<?xml version="1.0" encoding="UTF-8"?>', f"<urlset {SPACES}>", *lines, "</urlset>", ""]


def capability(path: str, name: str) -> str:
    return f'<url><loc>{WRITTEN}{path}</loc><rs:md capability="{name}"/></url>'


def test_the_source_and_the_capabilities_are_written_whole() -> None:
    assert resource_sync.write_source(BASE).decode().split("\n") == document(
        f'<rs:ln rel="describedby" href="{WRITTEN}/-/about"/>',
        '<rs:md capability="description"/>',
        capability("/-/resourcesync/capabilitylist.xml", "capabilitylist"),
    )
    assert resource_sync.write_capabilities(BASE).decode().split("\n") == document(
        f'<rs:ln rel="up" href="{WRITTEN}/.well-known/resourcesync"/>',
        '<rs:md capability="capabilitylist"/>',
        capability("/sitemap.xml", "resourcelist"),
        capability("/-/resourcesync/changelist.xml", "changelist"),
    )


def test_the_head_of_a_resource_list_leads_up_and_to_its_index() -> None:
    up = f'<rs:ln rel="up" href="{WRITTEN}/-/resourcesync/capabilitylist.xml"/>'
    facts = '<rs:md capability="resourcelist" at="2023-11-14T22:13:20Z"/>'
    assert resource_sync.of_resource_list(BASE, 1_700_000_000.9) == (up, facts)
    assert resource_sync.of_resource_list(BASE, 1_700_000_000, resource_sync.SITEMAP) == (
        up, f'<rs:ln rel="index" href="{WRITTEN}/sitemap.xml"/>', facts,
    )  # fmt: skip
    assert resource_sync.facts(from_="a", until="", change='"') == '<rs:md from="a" change=\'"\'/>'
