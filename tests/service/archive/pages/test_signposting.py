"""FAIR Signposting, levels 1 and 2, as the program of its authors reads it."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from signposting import Signposting, find_signposting_html, find_signposting_linkset
from signposting.linkheader import find_signposting_http_link

from ibi.archive.pages.signposting import LONGEST_LINKS, MOST_IN_HEAD
from ibi.web.formats import FORMATS
from support.archive.archive_fixture import Served
from support.web.landing_fixture import (
    BARE,
    COPY,
    EMBARGOED,
    GONE,
    HIDDEN,
    HOSTILE,
    ITEM,
    LICENCE,
    MANY,
    ORCID,
    RESOLVER,
    landing_archive,
)

JSON, TEXT = "application/linkset+json", "application/linkset"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with landing_archive(tmp_path_factory.mktemp("archive")) as made:
        yield made


def base(served: Served) -> str:
    return f"http://127.0.0.1:{served.port}"


def head(served: Served, target: str, method: str = "HEAD", **headers: str) -> tuple[int, list[str]]:
    """The status of an answer and its headers Link."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.request(method, target, headers={"Accept": "text/html", **headers})
        answer = connection.getresponse()
        answer.read()
        return answer.status, [value for name, value in answer.getheaders() if name.lower() == "link"]
    finally:
        connection.close()


def by_header(served: Served, target: str) -> Signposting:
    status, links = head(served, target)
    assert status == 200
    return find_signposting_http_link(links, base(served) + target)


def by_linkset(served: Served, name: str, kind: str) -> Signposting:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of relations that it leaves out
        return find_signposting_linkset(f"{base(served)}/-/linkset/{name}", kind)


def test_the_page_of_an_item_leads_to_all_that_belongs_to_it(served: Served) -> None:
    found = by_header(served, f"/-/item/{ITEM}")
    assert found.citeAs is not None
    assert found.citeAs.target == f"{RESOLVER}/{ITEM}"
    assert {link.target for link in found.types} == {
        "https://schema.org/AboutPage",
        "https://schema.org/Report",
    }
    assert found.license is not None
    assert found.license.target == LICENCE
    assert [link.target for link in found.authors] == [ORCID]
    items = {link.target.rpartition("/")[2]: link.type for link in found.items}
    assert items == {"a%20b.txt": "text/plain", "index.html": "text/html", "report.pdf": "application/pdf"}
    described = {link.target.partition("format=")[2]: link for link in found.describedBy}
    every = {each.name for each in FORMATS}
    assert set(described) == every - {"turtle", "rdfxml"}  # they say what JSON-LD says, and the head is short
    whole = by_linkset(served, ITEM, JSON).for_context(f"{base(served)}/-/item/{ITEM}").describedBy
    assert {link.target.partition("format=")[2] for link in whole} == every
    assert described["datacite-xml"].type == "application/vnd.datacite.datacite+xml"
    assert {str(p) for p in described["datacite-xml"].profiles} == {"http://datacite.org/schema/kernel-4"}
    assert {link.type for link in found.linksets} == {JSON, TEXT}


def test_the_elements_of_the_page_say_the_same_as_its_head(served: Served) -> None:
    in_page = find_signposting_html(f"{base(served)}/-/item/{ITEM}")
    in_head = by_header(served, f"/-/item/{ITEM}")
    for relation in ("authors", "describedBy", "types", "items", "linksets"):
        assert {link.target for link in getattr(in_page, relation)} == {
            link.target for link in getattr(in_head, relation)
        }
    assert in_page.citeAs is not None
    assert in_page.citeAs.target == f"{RESOLVER}/{ITEM}"


@pytest.mark.parametrize("name", ["report.pdf", "a%20b.txt"])
def test_a_file_leads_to_its_item(served: Served, name: str) -> None:
    found = by_header(served, f"/col/{ITEM}/doc/{name}")
    assert found.citeAs is not None
    assert found.citeAs.target == f"{RESOLVER}/{ITEM}"
    assert found.collection is not None
    assert found.collection.target == f"{base(served)}/-/item/{ITEM}"
    assert [link.target for link in found.types] == ["https://schema.org/DigitalDocument"]
    assert found.license is not None
    assert found.license.target == LICENCE


def test_a_part_of_a_file_and_one_that_is_known_already_lead_there_too(served: Served) -> None:
    target = f"/col/{ITEM}/doc/report.pdf"
    status, links = head(served, target, "GET", Range="bytes=0-1")
    assert (status, 'rel="collection"' in links[0]) == (206, True)
    status, links = head(served, target, "GET", Range="bytes=99-")
    assert (status, links) == (416, [])


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_metadata_say_what_they_describe(served: Served, each: object) -> None:
    found = by_header(served, f"/-/metadata/{ITEM}?format={each.name}")  # type: ignore[attr-defined]  # of FORMATS
    assert [link.target for link in found.signposts if link.rel == "describes"] == [
        f"{base(served)}/-/item/{ITEM}"
    ]
    assert found.citeAs is not None


@pytest.mark.parametrize("kind", [JSON, TEXT])
def test_the_linkset_holds_all_links_of_the_item_its_files_and_its_metadata(
    served: Served, kind: str
) -> None:
    links = by_linkset(served, ITEM, kind)
    page = links.for_context(f"{base(served)}/-/item/{ITEM}")
    assert len(page.items) == 3
    assert len(page.describedBy) == len(FORMATS)
    for item in page.items:
        file = links.for_context(item.target)
        assert file.collection is not None
        assert file.collection.target == f"{base(served)}/-/item/{ITEM}"
        assert file.citeAs is not None
    described = {(str(link.context), link.target) for link in links.signposts if link.rel == "describes"}
    assert described == {(each.target, f"{base(served)}/-/item/{ITEM}") for each in page.describedBy}


@pytest.mark.parametrize("kind", [JSON, TEXT])
def test_of_many_files_the_head_names_some_and_the_linkset_all(served: Served, kind: str) -> None:
    status, links = head(served, f"/-/item/{MANY}")
    assert status == 200
    assert sum(map(len, links)) <= LONGEST_LINKS
    assert 0 < sum('rel="item"' in link or 'rel="author"' in link for link in links) <= MOST_IN_HEAD
    page = by_linkset(served, MANY, kind).for_context(f"{base(served)}/-/item/{MANY}")
    assert len(page.items) == 400


def test_the_form_of_a_linkset_is_had_by_name_and_by_accept(served: Served) -> None:
    path = f"/-/linkset/{ITEM}"
    for target, accept, kind in (
        (path, "", JSON),
        (path, "*/*", JSON),
        (path, TEXT, TEXT),
        (path, f"{JSON}, {TEXT};q=0.5", JSON),
        (f"{path}?format=text", JSON, TEXT),
        (f"{path}?format=json", TEXT, JSON),
    ):
        answer = served.get(target, **({"accept": accept} if accept else {}))
        assert (answer.status, answer.headers["content-type"]) == (200, kind)
        assert answer.headers["vary"] == "Accept"
    answer = served.get(path)
    assert set(json.loads(answer.body)) == {"linkset"}
    assert len(answer.text.splitlines()) > 20, "a person can hardly read it"
    again = served.get(path, if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@pytest.mark.proves("SVC-10", "SVC-12")
@pytest.mark.parametrize("name", [EMBARGOED, HIDDEN, GONE])
def test_files_that_are_not_open_or_not_listed_are_named_nowhere(served: Served, name: str) -> None:
    assert "/doc/" not in "".join(head(served, f"/-/item/{name}")[1])
    for kind in (JSON, TEXT):
        answer = served.get(f"/-/linkset/{name}", accept=kind)
        assert answer.status == 200
        assert b"/doc/" not in answer.body
        assert f"{RESOLVER}/{name}".encode() in answer.body


def test_an_item_that_lives_elsewhere_leads_there(served: Served) -> None:
    found = by_header(served, f"/-/item/{BARE}")
    assert [link.target for link in found.items] == ["http://far.example/y"]
    assert not found.describedBy


def test_nothing_that_others_wrote_ends_a_link(served: Served) -> None:
    for name in (HOSTILE, COPY):
        status, links = head(served, f"/-/item/{name}")
        assert status == 200
        for link in links:
            assert re.fullmatch(
                r"<[^<>\"\s]+>; [a-z-]+=\"[^\"<>]*\"(; [a-z-]+=\"[^\"<>]*\")*(, <.*)?", link
            ), link
        assert by_linkset(served, name, JSON).for_context(f"{base(served)}/-/item/{name}").items
        assert by_linkset(served, name, TEXT).for_context(f"{base(served)}/-/item/{name}").items
