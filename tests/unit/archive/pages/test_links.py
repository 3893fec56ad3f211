"""The links of an item for programs, whole, and how many of them the head of an answer has."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ibi.archive.model.formats import DescribedItem, Format
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.pages.signposting import (
    LINKSET_JSON,
    LINKSET_TEXT,
    LONGEST_LINKS,
    MOST_IN_HEAD,
    MOST_IN_LINKSET,
    Link,
    Signposting,
    header,
    headers,
    in_head,
    joined,
)
from ibi.identifier.forms import IBIForms

NAME = "a.example/b/2013/01.01.00.00"
URL = f"http://archive.example/-/item/{NAME}"
CITED = f"http://resolver.example/{NAME}"
DAY = "2026-11-22"
SCHEMA = "https://schema.org"


def write(_item: DescribedItem, _options: object) -> bytes:
    return b""


SIGNPOSTING = Signposting(
    "http://archive.example",
    "http://resolver.example",
    (
        Format(
            "jsonld", "JSON-LD", ("application/ld+json", "application/json"), write, "https://profile.example"
        ),
        Format("bibtex", "BibTeX", ("application/x-bibtex",), write),
    ),
    lambda item: f"Kind{len(item.metadata)}",
)


def file(name: str, kind: str = "application/pdf") -> StoredFile:
    return StoredFile(name, 1, "0" * 64, kind)


def held(**facts: Any) -> Holding:
    return Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="2026-09-15T16:40:00Z", **facts)


def described(holding: Holding, *creators: str) -> DescribedItem:
    metadata = {"creator": tuple(map(MetadataValue, creators))}
    return DescribedItem(
        holding, metadata, "http://archive.example", "http://resolver.example", "archive.example", DAY
    )


WHOLE = held(
    files=(file("a%20b.txt", "text/plain; charset=utf-8"), file("c.png", "image/png"), file("d", "video/mp4"),
           file("e", "audio/ogg")),
    licence='https://licence.example/"by"',
)  # fmt: skip
ORCID = "https://orcid.org/0000-0002-1825-0097"


def test_the_linkset_of_an_item_is_written_whole() -> None:
    item = described(WHOLE, f"Silva, Ana ({ORCID})", "Nameless", f"Silva, A. ({ORCID})")
    cite = {"href": CITED}
    linksets = [
        {"href": f"http://archive.example/-/linkset/{NAME}?format={name}", "type": kind}
        for name, kind in (("json", LINKSET_JSON), ("text", LINKSET_TEXT))
    ]
    licence = [{"href": "https://licence.example/%22by%22"}]
    metadata = f"http://archive.example/-/metadata/{NAME}?format"
    files = f"http://archive.example/col/{NAME}/doc"

    def of_file(name: str, kind: str) -> dict[str, Any]:
        return {
            "anchor": f"{files}/{name}",
            "cite-as": [cite],
            "collection": [{"href": URL, "type": "text/html"}],
            "type": [{"href": f"{SCHEMA}/{kind}"}],
            "license": licence,
            "linkset": linksets,
        }

    def of_metadata(name: str) -> dict[str, Any]:
        return {
            "anchor": f"{metadata}={name}",
            "cite-as": [cite],
            "describes": [{"href": URL, "type": "text/html"}],
            "linkset": linksets,
        }

    page = {
        "anchor": URL,
        "cite-as": [cite],
        "linkset": linksets,
        "type": [{"href": f"{SCHEMA}/AboutPage"}, {"href": f"{SCHEMA}/Kind1"}],
        "license": licence,
        "describedby": [
            {
                "href": f"{metadata}=jsonld",
                "type": "application/ld+json",
                "profile": "https://profile.example",
            },
            {"href": f"{metadata}=bibtex", "type": "application/x-bibtex"},
        ],
        "author": [{"href": ORCID}],
        "item": [
            {"href": f"{files}/a%20b.txt", "type": "text/plain"},
            {"href": f"{files}/c.png", "type": "image/png"},
            {"href": f"{files}/d", "type": "video/mp4"},
            {"href": f"{files}/e", "type": "audio/ogg"},
        ],
    }
    whole = [
        page,
        of_file("a%20b.txt", "DigitalDocument"),
        of_file("c.png", "ImageObject"),
        of_file("d", "VideoObject"),
        of_file("e", "AudioObject"),
        of_metadata("jsonld"),
        of_metadata("bibtex"),
    ]
    assert json.loads(SIGNPOSTING.linkset(WHOLE, item, DAY, LINKSET_JSON)) == {"linkset": whole}
    text = SIGNPOSTING.linkset(WHOLE, item, DAY, LINKSET_TEXT).decode()
    assert text.endswith("\n")
    lines = text.removesuffix("\n").split(",\n")
    assert lines == [
        f'<{link["href"]}>; rel="{relation}"; anchor="{context["anchor"]}"'
        + "".join(f'; {name}="{link[name]}"' for name in ("type", "profile") if name in link)
        for context in whole
        for relation, links in context.items()
        if relation != "anchor"
        for link in links
    ]


def test_an_item_without_metadata_has_no_links_to_any() -> None:
    bare = held()
    assert [*map(header, SIGNPOSTING.of_page(bare, None, DAY))] == [
        f'<{CITED}>; rel="cite-as"',
        f'</-/linkset/{NAME}?format=json>; rel="linkset"; type="application/linkset+json"',
        f'</-/linkset/{NAME}?format=text>; rel="linkset"; type="application/linkset"',
        f'<{SCHEMA}/AboutPage>; rel="type"',
        f'<{SCHEMA}/CreativeWork>; rel="type"',
    ]
    assert SIGNPOSTING.of_metadata_page(bare, None) == SIGNPOSTING.of_metadata(bare)
    assert Link(f"{SCHEMA}/Collection", "type") in SIGNPOSTING.of_file(bare, None)
    assert SIGNPOSTING.of_metadata_page(bare, described(bare))[-1] == Link(
        f"/-/metadata/{NAME}?format=bibtex", "describedby", "application/x-bibtex"
    )


@pytest.mark.parametrize(
    ("facts", "targets"),
    [
        ({"files": (file("a"),)}, [f"/col/{NAME}/doc/a"]),
        ({"files": (file("a"),), "file_list_public": False}, []),
        ({"files": (file("a"),), "access": Access.CLOSED}, []),
        ({"files": (file("a"),), "access": Access.EMBARGOED, "embargo": DAY}, [f"/col/{NAME}/doc/a"]),
        ({"files": (file("a"),), "access": Access.EMBARGOED, "embargo": "2026-11-23"}, []),
        ({"url": "HTTPS://far.example/x"}, ["HTTPS://far.example/x"]),
        ({"url": "http://far.example/x"}, ["http://far.example/x"]),
        ({"url": "ftp://far.example/x"}, []),
        ({"url": "http://far.example/x", "file_list_public": False}, []),
    ],
)
def test_links_lead_only_to_files_that_every_reader_may_have(
    facts: dict[str, Any], targets: list[str]
) -> None:
    links = SIGNPOSTING.of_page(held(**facts), None, DAY)
    assert [link.target for link in links if link.relation == "item"] == targets


@pytest.mark.parametrize(
    ("licence", "linked"),
    [
        ("HTTP://licence.example", True),
        ("https://licence.example", True),
        ("all rights reserved", False),
        ("", False),
    ],
)
def test_a_licence_in_words_is_no_target(licence: str, linked: bool) -> None:
    found = [link for link in SIGNPOSTING.of_file(held(licence=licence), None) if link.relation == "license"]
    assert found == ([Link(licence, "license")] if linked else [])


def of(relation: str, number: int) -> list[Link]:
    return [Link(f"http://{relation}.example/{each}", relation) for each in range(number)]


@pytest.mark.parametrize(
    ("authors", "items", "kept"),
    [(10, 0, (10, 0)), (11, 0, (10, 0)), (11, 2, (8, 2)), (11, 11, (5, 5)), (3, 11, (3, 7)), (0, 11, (0, 10)),
     (5, 5, (5, 5)), (6, 5, (5, 5))],
)  # fmt: skip
def test_the_head_shares_its_places_among_authors_and_files(
    authors: int, items: int, kept: tuple[int, int]
) -> None:
    cite = Link("http://resolver.example/x", "cite-as")
    assert MOST_IN_HEAD == 10
    assert in_head([*of("author", authors), *of("item", items), cite]) == (
        cite, *of("author", kept[0]), *of("item", kept[1]),
    )  # fmt: skip


def test_the_head_has_links_up_to_its_length_and_of_one_profile_the_first() -> None:
    first = Link("http://x.example/" + "x" * 1500, "type")
    length = LONGEST_LINKS - len(header(first)) - len('<>; rel="item"')
    fits, longer = Link("y" * length, "item"), Link("y" * (length + 1), "item")
    assert in_head([first, fits]) == (first, fits)
    assert in_head([first, longer]) == (first,)
    profiled = [Link(f"/{kind}", "describedby", kind, "https://profile.example") for kind in "ab"]
    assert in_head([*profiled, *profiled[:1], Link("/c", "describedby")]) == (
        profiled[0],
        Link("/c", "describedby"),
    )
    page = SIGNPOSTING.of_page(held(files=tuple(file(str(each)) for each in range(11))), None, DAY)
    assert len([link for link in page if link.relation == "item"]) == 10


def test_links_of_the_files_of_a_large_item_are_bounded() -> None:
    large = held(files=tuple(file(f"{each}") for each in range(MOST_IN_LINKSET + 1)))
    written = json.loads(SIGNPOSTING.linkset(large, None, DAY, LINKSET_JSON))["linkset"]
    assert len(written[0]["item"]) == MOST_IN_LINKSET + 1
    assert len(written) == 1 + MOST_IN_LINKSET


def test_links_are_headers_of_their_own_or_one() -> None:
    links = [Link('/a<b>\\"c é', "item", 'x"y', "p"), Link("/d", "type")]
    written = ['</a%3Cb%3E%5C%22c%20%E9>; rel="item"; type="x%22y"; profile="p"', '</d>; rel="type"']
    assert headers(links) == tuple(("link", each) for each in written)
    assert joined(links) == ("link", ", ".join(written))
    assert header(links[1], 'http://x.example/"') == '</d>; rel="type"; anchor="http://x.example/%22"'
