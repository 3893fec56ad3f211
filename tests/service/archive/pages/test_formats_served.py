"""Formats over HTTP: by name, by Accept, at persistent URLs; and their links."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection

import pybtex.database
import pytest

from ibi.archive.model.formats import Format
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory
from ibi.http.server.service import Service
from ibi.web.formats import FORMATS, RECORD_FORMATS
from support.archive.archive_fixture import (
    GONE,
    ITEMS,
    REP,
    Clock,
    NewArchive,
    Served,
    listener,
    serving,
    settings_for,
)
from support.archive.messages import request, url_list
from support.web.html_page import Page
from support.web.unnamed import RENDERER

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
WITH_ITEM = "a.example/b/2013/01.01.00.00"
RECORD = "a.example/b/2013/02.01.00.00"
BARE = "a.example/b/2013/03.01.00.00"
CLOSED = "a.example/b/2013/04.01.00.00"
XML = "a.example/b/2013/05.01.00.00"
PORTUGUESE = "a.example/b/2013/06.01.00.00"
CITED = f'<http://127.0.0.1/{REP}>; rel="cite-as"'
MORE = [
    {"rep": WITH_ITEM, "url": "http://far.example/x", "metadata_item": RECORD},
    {"rep": RECORD, "contenttype": "Metadata", "metadata": {"title": ["Told elsewhere"]}},
    {"rep": BARE, "url": "http://far.example/y"},
    {"rep": CLOSED, "files": {"a.txt": "a.txt"}, "access": "closed", "metadata": {"title": ["Kept back"]}},
    {"rep": XML, "files": {"a.xml": "a.txt"}, "metadata": {"title": ["It is XML"]}},
    {"rep": PORTUGUESE, "url": "http://far.example/z", "metadata": {"title": ["Não é em inglês"]}},
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An Archive with all formats."""
    clock, data = Clock(), tmp_path_factory.mktemp("archive")
    directory = DataDirectory(data, clock.machine)
    directory.reserve()
    settings = settings_for("127.0.0.1")
    directory.create(settings)
    archive = NewArchive(data, settings, directory.open_catalogue(), directory.file_store(), clock)
    for name in ("index.html", "a.txt", "big"):
        (archive.data / name).write_bytes(b"data")
    assert archive.load(*ITEMS, *MORE).added == len(ITEMS) + len(MORE), archive.refused
    app = ArchiveService(
        archive.settings, archive.catalogue, archive.file_store, archive.clock.seconds, RENDERER
    )
    with serving(archive, listener(), Service(app, close=app.close)) as made:
        yield made


def links(served: Served, target: str, accept: str = "*/*") -> list[str]:
    """All links of an answer; several headers of one name stay apart."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request("GET", target, headers={"Host": "127.0.0.1", "Accept": accept})
        return [value for name, value in connection.getresponse().getheaders() if name.lower() == "link"]
    finally:
        connection.close()


@pytest.mark.parametrize("page", ["item", "metadata"])
@pytest.mark.parametrize("page_format", FORMATS, ids=lambda each: each.name)
@pytest.mark.proves("URL-17", "SVC-10")
def test_a_format_is_had_by_name_and_by_accept_with_the_same_words(
    served: Served, page_format: Format, page: str
) -> None:
    name, kind = page_format.name, page_format.media_types[0]
    by_name = served.get(f"/-/{page}/{REP}?format={name}")
    by_type = served.get(f"/-/{page}/{REP}", accept=f"{kind}, */*;q=0.1")
    for answer in (by_name, by_type):
        assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "accept" in answer.headers["vary"].lower()
    found = links(served, f"/-/{page}/{REP}?format={name}")
    assert found[:2] == [CITED, f'</-/item/{REP}>; rel="describes"; type="text/html"']
    assert by_name.body == by_type.body
    assert b"two" in by_name.body


@pytest.mark.parametrize("page_format", FORMATS, ids=lambda each: each.name)
def test_a_format_is_not_sent_again_to_a_client_that_has_it(served: Served, page_format: Format) -> None:
    target = f"/-/metadata/{REP}?format={page_format.name}"
    answer = served.get(target)
    tag = answer.headers["etag"]
    assert answer.headers["cache-control"] == "public, no-cache"
    again = served.get(target, if_none_match=f'"other", {tag}')
    assert (again.status, again.body) == (304, b"")
    for name in ("etag", "cache-control", "vary"):
        assert again.headers[name] == answer.headers[name]
    by_type = served.get(f"/-/item/{REP}", accept=page_format.media_types[0], if_none_match=tag)
    assert by_type.status == 304
    assert served.get(f"/-/metadata/{GONE}?format={page_format.name}", if_none_match=tag).status == 200


@pytest.mark.parametrize("page", ["item", "metadata"])
@pytest.mark.parametrize(
    "accept", ["", BROWSER, "*/*", "text/html, application/ld+json", "image/png, text/*"]
)
def test_a_client_that_prefers_a_page_gets_it(served: Served, page: str, accept: str) -> None:
    answer = served.get(f"/-/{page}/{REP}", **({"accept": accept} if accept else {}))
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "accept" in answer.headers["vary"].lower()


def test_a_page_links_to_its_formats_with_their_types_and_to_what_is_to_be_cited(served: Served) -> None:
    expected = [
        f'</-/metadata/{REP}?format={each.name}>; rel="describedby"; type="{each.media_types[0]}"'
        + (f'; profile="{each.profile}"' if each.profile else "")
        for each in FORMATS
        if each.name not in {"turtle", "rdfxml"}  # the same as JSON-LD
    ]
    for page in ("item", "metadata"):
        found = links(served, f"/-/{page}/{REP}")
        assert found[0] == CITED
        assert [each for each in found if "describedby" in each] == expected
        assert sum(map(len, found)) <= 2000
    assert not [each for each in links(served, f"/-/item/{BARE}") if "describedby" in each]


def test_what_accept_asks_for_in_vain_is_refused_with_those_that_exist(served: Served) -> None:
    answer = served.get(f"/-/item/{REP}", accept="application/marc")
    assert answer.status == 406
    assert answer.text.startswith(
        f"there are no metadata of {REP} in this format; there are: csl, bibtex, ris"
    )
    problem = served.get(f"/-/metadata/{REP}", accept="application/json")
    assert (problem.status, problem.headers["content-type"]) == (406, "application/problem+json")
    styled = served.get(f"/-/item/{REP}", accept="text/x-bibliography; style=chicago")
    assert (styled.status, styled.text) == (406, "there is no style chicago here; there are: abnt, apa\n")
    for answer in (problem, styled):
        assert "accept" in answer.headers["vary"].lower()


@pytest.mark.parametrize("query", ["format=marc", "format=citation&style=chicago"])
def test_an_unknown_name_is_answered_with_those_that_exist(served: Served, query: str) -> None:
    answer = served.get(f"/-/metadata/{REP}?{query}", accept="*/*")
    assert answer.status == 404
    assert "there are: " in answer.text


def test_a_citation_follows_style_and_locale_or_else_the_reader(served: Served) -> None:
    def cited(target: str, **headers: str) -> str:
        answer = served.get(target, **headers)
        assert answer.headers["content-type"] == "text/x-bibliography; charset=utf-8"
        return answer.text

    page = f"/-/item/{REP}"
    by_name = cited(f"{page}?format=citation&style=abnt&locale=pt-BR")
    assert f"Disponível em: http://127.0.0.1/{REP}. Acesso em: 14 nov. 2023." in by_name
    assert cited(page, accept='text/x-bibliography; style="abnt"; locale=pt-BR') == by_name
    assert cited(f"{page}?format=citation&style=ABNT", accept_language="pt") == by_name
    assert cited(f"{page}?format=citation", accept_language="pt").startswith(
        "One & <two>. (2010). 127.0.0.1."
    )
    assert "Available at" in cited(f"{page}?format=citation&style=abnt&locale=xx", accept_language="pt")


# Persistent URLs


@pytest.mark.proves("URL-17")
def test_a_persistent_url_leads_to_the_format_that_is_asked_for(served: Served) -> None:
    answer = served.get(f"/{REP}", accept="application/x-bibtex")
    assert answer.status == 303
    assert answer.headers["location"] == f"/-/metadata/{REP}?format=bibtex"
    assert answer.headers["vary"] == "Accept, Accept-Language"
    assert answer.headers["link"] == CITED
    document = served.get(answer.headers["location"])
    assert len(pybtex.database.parse_string(document.text, "bibtex").entries) == 1


def test_the_options_of_a_citation_go_along(served: Served) -> None:
    answer = served.get(f"/{REP}", accept="text/x-bibliography; style=ab&nt#; locale=pt-BR; other=1")
    assert answer.headers["location"] == f"/-/metadata/{REP}?format=citation&style=ab%26nt%23&locale=pt-br"
    linkset = served.get(f"/{REP}", accept="application/linkset+json; style=x").headers["location"]
    assert (linkset, served.get(linkset).status) == (f"/-/linkset/{REP}?style=x", 200)


@pytest.mark.parametrize("accept", ["", BROWSER, "*/*", "application/marc", "application/pdf"])
def test_a_client_that_asks_for_no_format_is_redirected_to_the_item(served: Served, accept: str) -> None:
    answer = served.get(f"/{REP}", **({"accept": accept} if accept else {}))
    assert (answer.status, answer.headers["location"].endswith("/index.html")) == (302, True)
    assert answer.headers["vary"] == "Accept, Accept-Language"
    assert answer.headers["link"] == CITED


def test_a_format_in_which_the_item_itself_is_kept_means_the_item(served: Served) -> None:
    answer = served.get(f"/{XML}", accept="application/xml")
    assert (answer.status, answer.headers["location"].endswith("/a.xml")) == (302, True)
    assert served.get(f"/{XML}", accept="application/x-bibtex").status == 303


@pytest.mark.parametrize("target", [f"/{REP}/a%20b.txt", f"/{REP}?ibiurl.verblist=GetFileList"])
def test_a_file_and_the_list_of_files_have_no_formats(served: Served, target: str) -> None:
    assert served.get(target, accept="application/x-bibtex").status == 302


# Whose metadata


def test_an_item_whose_metadata_are_an_item_is_told_by_them(served: Served) -> None:
    answer = served.get(f"/-/metadata/{WITH_ITEM}?format=csl")
    metadata = json.loads(answer.body)
    assert (metadata["title"], metadata["id"]) == ("Told elsewhere", WITH_ITEM)


def test_an_item_of_which_nothing_is_said_has_a_page_and_no_formats(served: Served) -> None:
    assert served.get(f"/-/item/{BARE}", accept="application/x-bibtex").status == 200
    refused = served.get(f"/-/metadata/{BARE}?format=bibtex")
    assert (refused.status, "keeps no metadata" in refused.text) == (404, True)


@pytest.mark.proves("SVC-10")
def test_metadata_of_closed_data_are_open_and_name_no_file(served: Served) -> None:
    metadata = json.loads(served.get(f"/-/metadata/{CLOSED}?format=jsonld").body)
    assert (metadata["name"], metadata["isAccessibleForFree"], "encoding" in metadata) == (
        "Kept back",
        False,
        False,
    )
    assert served.get(f"/{CLOSED}", accept="application/ld+json").status == 303


@pytest.mark.proves("ARC-07")
def test_metadata_of_a_removed_item_stay_and_its_page_says_gone(served: Served) -> None:
    page = served.get(f"/-/item/{GONE}?format=bibtex")
    assert page.status == 410
    kept = served.get(f"/-/metadata/{GONE}?format=bibtex")
    assert (kept.status, "removed on 2012-02-01" in kept.text) == (200, True)


# The page


def test_the_page_of_an_item_tells_how_to_cite_it_in_both_languages(served: Served) -> None:
    english = Page(served.get(f"/-/item/{REP}", accept_language="en").body)
    portuguese = Page(served.get(f"/-/item/{REP}", accept_language="pt-BR").body)
    assert {"One & <two>", f". (2010). 127.0.0.1. http://127.0.0.1/{REP}"} <= english.words
    assert any(word.startswith("ONE & <two>. [S. l.]: 127.0.0.1, [s. d.]") for word in portuguese.words)
    links = {"BibTeX": "bibtex", "RIS": "ris", "CSL JSON": "csl", "DataCite (XML)": "datacite-xml"}
    for label, name in links.items():
        assert english.links[f"/-/metadata/{REP}?format={name}"] == label
    listed = Page(served.get(f"/-/metadata/{REP}").body)
    assert listed.links[f"/-/metadata/{REP}?format=oai_dc"] == "oai_dc"


def test_each_format_has_media_types_of_its_own() -> None:
    """Else `Accept` could not choose between two of them."""
    types = Counter(media_type for each in FORMATS for media_type in each.media_types)
    assert [media_type for media_type, formats in types.items() if formats > 1] == []


ELSEWHERE = {
    "csl": (True, False),  # for programs that cite, as the next two
    "bibtex": (True, False),
    "ris": (True, False),
    "datacite-xml": (True, True),
    "datacite-json": (True, False),  # harvesters take XML
    "jsonld": (True, False),  # for search engines, which take it from the page
    "turtle": (True, False),  # for linked data, as the next
    "rdfxml": (True, False),
    "oai_dc": (True, True),
    "citation": (True, False),
}
"""Format -> whether `:(name)` leads to it although no link to it was given, and whether it can be harvested."""


def test_in_which_other_ways_a_format_can_be_had_was_decided(served: Served) -> None:
    namespaces = {each.namespace for each in RECORD_FORMATS}
    found = {
        each.name: (
            f"url.metadata({each.name})"
            in url_list(served.get(request(XML, f"GetMetadata({each.name})"))).pairs,
            each.profile in namespaces,
        )
        for each in FORMATS
    }
    assert found == ELSEWHERE


@pytest.mark.parametrize(
    ("target", "names_it"),
    [
        (f"/{PORTUGUESE}?json", True),
        (f"/-/item/{PORTUGUESE}?format=datacite-json", True),
        (f"/-/item/{PORTUGUESE}?format=jsonld", True),
        (f"/-/timemap/{PORTUGUESE}?format=json", False),
        (f"/-/linkset/{PORTUGUESE}", False),
        ("/-/about", False),
        ("/.well-known/api-catalog", False),
    ],
)
def test_what_programs_get_in_json_can_be_read_by_people(served: Served, target: str, names_it: bool) -> None:
    answer = served.get(target)
    assert answer.status == 200
    assert answer.text.count("\n") > 5
    assert ("Não é em inglês" in answer.text) == names_it
    assert json.loads(answer.body)
