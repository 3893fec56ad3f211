"""What an Archive answers besides messages, as whole responses: refusals, redirects, editions and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ibi.archive.pages.models import CollectionFacts
from ibi.archive.pages.site import Site
from ibi.archive.preservation.audit import fault_message
from ibi.archive.store.data_directory import identity_of
from ibi.archive.store.tables import fixity
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.archive.store.tables.rows import ListedFile
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.identifier.forms import parse_name
from support.archive.archive_fixture import GONE, LAST, LINKED, REP, NewArchive, fill
from support.web.unnamed import RENDERER

HERE, THERE = "http://archive.example", "http://resolver.example"
ABSENT = "a.example/b/1999/01.01.00.00"
LATER = "a.example/b/2013/01.01.00.00"
NO_STORE = ("cache-control", "no-store")
TEXT = "text/plain; charset=utf-8"
IN_ENGLISH = (NO_STORE, ("content-language", "en"))
STAMP = ("last-modified", "Tue, 14 Nov 2023 22:13:20 GMT")
AAA = "9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"
DIGEST = "sha-256=:mDSHbc+wXLFnpcJJU+uljErImxrfV/KPL50JrxB+6PA=:"
VALIDATORS = (("etag", f'"{AAA}"'), ("cache-control", "public, no-cache"), STAMP)
DESCRIBED = (("accept-ranges", "bytes"), ("repr-digest", DIGEST))
SANDBOX = "sandbox allow-downloads allow-popups; object-src 'none'; base-uri 'none'; form-action 'none'"

Answer = Callable[..., Response]


def site_of(archive: NewArchive, **more: Any) -> Answer:
    """What asks the site of an Archive: (target, header=...)."""
    identity = identity_of(archive.settings)
    stores = archive.catalogue, archive.file_store
    site = Site(archive.settings, identity, *stores, RENDERER, archive.clock.seconds, **more)

    def ask(target: str, method: str = "GET", **headers: str) -> Response:
        path, _, query = target.partition("?")
        sent = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        return site.answer(Request(method, path, query, sent))

    return ask


@pytest.fixture
def alone(archive: NewArchive) -> Answer:
    """An Archive without a resolver."""
    fill(archive)
    return site_of(archive)


@pytest.fixture
def joined(new_archive: Callable[..., NewArchive]) -> Answer:
    """An Archive with a resolver."""
    archive = new_archive(resolver=f"{THERE}/")
    fill(archive)
    return site_of(archive)


def whole(response: Response) -> tuple[Any, ...]:
    return response.status, response.content_type, response.body.decode(), tuple(response.headers)


def to(place: str, *headers: tuple[str, str]) -> tuple[Any, ...]:
    """A redirect."""
    return 302, "", "", (("location", place), ("cache-control", "private, no-store"), *headers)


def gates(name: str, root: str = HERE) -> str:
    """The links to the gates of an item."""
    return (
        f'<{root}/{name}>; rel="original", <{HERE}/-/timegate/{name}>; rel="timegate", '
        f'<{HERE}/-/timemap/{name}>; rel="timemap"; type="application/link-format"'
    )


HELD = f"this Archive holds {REP}, but not what the URL asks for"
NOT_HELD = f"this Archive does not hold {ABSENT}"
REMOVED = f"{GONE} was removed on 2012-02-01T00:00:00Z"
LISTING = f"access to the list of the files of {LAST} is not permitted"
PAGE = "there is no such page here"
NO_NAME = "an IBIp is two words with one slash between them\nx\n ^"
PICTURE = "the picture of a persistent URL has a name like <identifier>.svg\nx\n^"
DATE = "a date is written like Thu, 31 May 2007 20:35:00 GMT"


REFUSED = [
    ("/col/x", 400, NO_NAME),
    (f"/col/{REP}/doc/none", 404, f"{REP} has no such file"),
    (f"/col/{LAST}/doc/b.txt", 404, f"{LAST} has no such file"),
    (f"/-/item/{ABSENT}", 404, NOT_HELD),
    ("/-/item/x", 400, NO_NAME),
    *((path, 404, PAGE) for path in ("/-/nothing", "/-/item/", "/-/item", "/favicon.ico", "/.well-known/x")),
    (f"/-/files/{LAST}", 403, LISTING),
    (f"/-/zip/{LAST}", 403, LISTING),
    (f"/-/zip/{LINKED}", 404, f"this Archive keeps no files of {LINKED}"),
    *((f"/-/{word}/{GONE}", 410, REMOVED) for word in ("item", "files", "zip", "timemap", "timegate")),
    ("/-/qr/x", 400, PICTURE),
]


def test_a_program_is_told_in_a_sentence_why_it_gets_nothing(alone: Answer, joined: Answer) -> None:
    for target, status, text in REFUSED:
        for ask in (alone, joined):
            assert whole(ask(target)) == (status, TEXT, f"{text}\n", IN_ENGLISH), target


def test_a_browser_is_shown_what_is_left_of_a_removed_item(alone: Answer) -> None:
    page = alone(f"/-/item/{GONE}", accept="text/html")
    assert (page.status, page.content_type) == (410, "text/html; charset=utf-8")
    assert b"It was here" in page.body
    problem = alone(f"/-/zip/{GONE}", accept="application/problem+json")
    assert (problem.status, json.loads(problem.body)) == (
        410, {"type": "about:blank", "status": 410, "detail": REMOVED},
    )  # fmt: skip


def test_a_persistent_url_leads_to_what_is_here_and_else_to_the_resolver(
    alone: Answer, joined: Answer
) -> None:
    index, last = f"{HERE}/col/{REP}/doc/index.html", f"{HERE}/col/{LAST}/doc/a.txt"
    far = "http://far.example/x?y=1"
    for ask, root in ((alone, HERE), (joined, THERE)):
        for target, place, name, cited in (
            (REP, index, REP, True),
            (f"{REP}?x=y", f"{index}?x=y", REP, True),
            (f"{REP}!", last, REP, False),
            (f"{REP}+(pt)", far, REP, False),
            (LINKED, far, LINKED, True),
        ):
            cite = [("link", f'<{root}/{name}>; rel="cite-as"')] if cited else []
            vary = ("vary", "Accept, Accept-Language")
            assert whole(ask(f"/{target}")) == to(place, vary, ("link", gates(name, root)), *cite)
    for target, status, text in (
        (f"/{REP}/none", 404, HELD), (f"/{REP}+(fr)", 404, HELD), (f"/{LAST}:", 404, HELD.replace(REP, LAST)),
        (f"/{GONE}", 410, REMOVED), (f"/{ABSENT}", 404, NOT_HELD),
    ):  # fmt: skip
        assert whole(alone(target)) == (status, TEXT, f"{text}\n", IN_ENGLISH)
        assert whole(joined(f"{target}?a=b")) == to(f"{THERE}{target}?a=b")


def test_a_file_of_an_item_that_is_not_here_is_looked_for_at_the_resolver(
    alone: Answer, joined: Answer
) -> None:
    for path, place in (("/doc/x/y", f"{ABSENT}/x/y"), ("/doc/", ABSENT)):
        assert whole(joined(f"/col/{ABSENT}{path}")) == to(f"{THERE}/{place}")
    for target in (f"/col/{ABSENT}/doc/x", f"/col/{ABSENT}/x"):
        assert alone(target).status == 404 if "/doc/" in target else 400
    assert whole(alone(f"/col/{ABSENT}/doc/x")) == (404, TEXT, f"{NOT_HELD}\n", IN_ENGLISH)
    assert whole(alone(f"/col/{GONE}/doc/x")) == (410, TEXT, f"{REMOVED}\n", IN_ENGLISH)
    for ask in (alone, joined):
        assert whole(ask(f"/col/{REP}/doc/")) == to(f"/col/{REP}/doc/index.html")


def test_a_name_in_another_encoding_leads_to_the_only_file_that_it_means(archive: NewArchive) -> None:
    (archive.data / "x").write_bytes(b"x")
    name = "a.example/b/2014/01.01.00.00"
    files = {"caf%C3%A9.txt": "x", "b.txt": "x"}
    assert archive.load({"rep": name, "files": files}).added == 1
    ask = site_of(archive)
    for spelt in ("caf%E9.txt", "cafe%CC%81.txt"):
        assert whole(ask(f"/col/{name}/doc/{spelt}")) == to(f"/col/{name}/doc/caf%C3%A9.txt")
    for spelt in ("caf%E8.txt", "", "/"):  # no file is called so, and none opens first
        assert whole(ask(f"/col/{name}/doc/{spelt}")) == (404, TEXT, f"{name} has no such file\n", IN_ENGLISH)


def test_a_file_is_given_whole_or_in_part_with_its_digest_and_its_links(alone: Answer) -> None:
    target = f"/col/{LAST}/doc/a.txt"
    links = (
        f'<{HERE}/{LAST}>; rel="cite-as", </-/item/{LAST}>; rel="collection"; type="text/html", '
        f'<https://schema.org/DigitalDocument>; rel="type", '
        f'</-/linkset/{LAST}?format=json>; rel="linkset"; type="application/linkset+json", '
        f'</-/linkset/{LAST}?format=text>; rel="linkset"; type="application/linkset", {gates(LAST)}'
    )
    found = alone(target)
    assert whole(found) == (
        200, TEXT, "", (*VALIDATORS, *DESCRIBED, ("content-digest", DIGEST), ("link", links)),
    )  # fmt: skip
    assert (found.size, found.start, found.file is not None) == (3, 0, True)
    part = alone(target, range="bytes=1-1")
    expected = (*VALIDATORS, *DESCRIBED, ("content-range", "bytes 1-1/3"), ("link", links))
    assert (whole(part), part.size, part.start) == ((206, TEXT, "", expected), 1, 1)
    assert whole(alone(target, if_none_match=f'"{AAA}"')) == (304, "", "", (*VALIDATORS, ("link", links)))
    beyond = (*VALIDATORS, *DESCRIBED, ("content-range", "bytes */3"))
    assert whole(alone(target, range="bytes=9-")) == (416, "", "", beyond)
    for each in (found, part):
        assert each.file is not None
        each.file.close()


def test_a_page_among_the_files_is_served_in_a_sandbox_in_its_language(alone: Answer) -> None:
    page = alone(f"/col/{REP}/doc/index.html")
    headers = dict(page.headers)
    assert (page.status, page.content_type) == (200, "text/html; charset=utf-8")
    assert (headers["content-security-policy"], headers["content-language"]) == (SANDBOX, "en")
    big = alone(f"/col/{REP}/doc/@big")
    assert (big.content_type, "content-security-policy" in dict(big.headers)) == (
        "application/octet-stream",
        False,
    )
    for each in (page, big):
        assert each.file is not None
        each.file.close()


def test_nginx_sends_what_the_setting_names(new_archive: Callable[..., NewArchive]) -> None:
    archive = new_archive(accel_prefix="/inside/")
    fill(archive)
    found = site_of(archive)(f"/col/{LAST}/doc/a.txt")
    there = ("x-accel-redirect", f"/inside/{LAST}/doc/a.txt")
    assert whole(found)[:3] == (200, TEXT, "")
    assert tuple(found.headers)[:-1] == (*VALIDATORS, DESCRIBED[1], there)
    assert found.file is None


def test_all_files_come_in_a_zip_whose_tag_changes_with_the_item(alone: Answer) -> None:
    found = alone(f"/-/zip/{REP}")
    tag, kept, stamp, ranges, name = found.headers
    assert (found.status, found.content_type, kept, stamp) == (200, "application/zip", VALIDATORS[1], STAMP)
    assert (ranges, name) == (
        ("accept-ranges", "none"),
        ("content-disposition", 'attachment; filename="a.example-b-80-2010-01.01.00.00.zip"'),
    )  # fmt: skip
    assert tag[1].startswith('W/"')
    assert whole(alone(f"/-/zip/{REP}", if_none_match=tag[1])) == (304, "", "", (tag, kept, stamp))
    assert alone(f"/-/zip/{REP}", "HEAD").size == found.size > 1 << 20


def test_a_file_that_an_audit_found_damaged_is_not_given(archive: NewArchive) -> None:
    fill(archive)
    held = archive.catalogue.settled(parse_name(LAST))
    listed = ListedFile(held.number, held.forms, held.files[0])
    with archive.catalogue.writing() as writer:
        fixity.record_results(writer.run, [AuditResult(listed, FileFault.DIGEST, "2024-01-01T00:00:00Z")])
    found = site_of(archive)(f"/col/{LAST}/doc/a.txt")
    sentence = (
        f"this file cannot be given out until it is repaired: {fault_message(listed, FileFault.DIGEST)}\n"
    )
    assert whole(found) == (503, TEXT, sentence, (NO_STORE, ("retry-after", "10"), IN_ENGLISH[1]))


EDITIONS = f"""<{HERE}/{REP}!>; rel="original",
<{HERE}/-/timegate/{REP}>; rel="timegate",
<{HERE}/-/timemap/{REP}>; rel="self"; type="application/link-format"; \
from="Fri, 01 Jan 2010 00:00:00 GMT"; until="Tue, 01 Jan 2013 00:00:00 GMT",
<{HERE}/-/timemap/{ABSENT}>; rel="timemap"; type="application/link-format",
<{HERE}/-/item/{REP}>; rel="first memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT",
<{HERE}/-/item/{LAST}>; rel="memento"; datetime="Sat, 01 Jan 2011 00:00:00 GMT",
<{HERE}/-/item/{LATER}>; rel="last memento"; datetime="Tue, 01 Jan 2013 00:00:00 GMT"
"""


@pytest.fixture
def series(archive: NewArchive) -> Answer:
    """Three editions, of which another Archive holds the next one."""
    lines = [
        {"rep": name, "next_edition": following, "url": "http://far.example/"}
        for name, following in ((LATER, ABSENT), (LAST, LATER), (REP, LAST))
    ]
    assert (archive.load(*lines).added, archive.refused) == (3, [])
    return site_of(archive)


def test_the_map_of_editions_names_each_of_them_and_where_it_goes_on(series: Answer) -> None:
    headers = (("vary", "accept"), ("cache-control", "public, max-age=60"))
    for name in (REP, LAST, LATER):
        assert whole(series(f"/-/timemap/{name}")) == (200, "application/link-format", EDITIONS, headers)
    dates = {REP: "Fri, 01 Jan 2010", LAST: "Sat, 01 Jan 2011", LATER: "Tue, 01 Jan 2013"}
    listed = [
        {"datetime": f"{day} 00:00:00 GMT", "uri": f"{HERE}/-/item/{name}"} for name, day in dates.items()
    ]
    times = f"{HERE}/-/timemap/{REP}"
    found = series(f"/-/timemap/{LAST}?format=json")
    assert (found.status, found.content_type, tuple(found.headers)) == (200, "application/json", headers)
    assert json.loads(found.body) == {
        "original_uri": f"{HERE}/{REP}!",
        "timegate_uri": f"{HERE}/-/timegate/{REP}",
        "timemap_uri": {"link_format": times, "json_format": f"{times}?format=json"},
        "mementos": {"first": listed[0], "last": listed[2], "list": listed},
        "beyond": f"{HERE}/-/timemap/{ABSENT}",
    }
    assert found.body == series(f"/-/timemap/{REP}", accept="application/json").body


def test_the_gate_leads_to_the_edition_of_a_time(series: Answer) -> None:
    ends = ", ".join(EDITIONS.rstrip().split(",\n")[each] for each in (4, 6))
    links = f"{gates(REP).replace('>', '!>', 1)}, {ends}"
    for wanted, name in (
        ("", LATER), ("Fri, 01 Jan 2010 00:00:00 GMT", REP), ("Thu, 31 Dec 2009 23:59:59 GMT", REP),
        ("Sat, 01 Jan 2011 00:00:00 GMT", LAST), ("Fri, 31 Dec 2010 23:59:59 GMT", REP),
        ("Mon, 31 Dec 2012 23:59:59 GMT", LAST), ("Tue, 01 Jan 2030 00:00:00 GMT", LATER),
    ):  # fmt: skip
        headers = (
            ("location", f"{HERE}/-/item/{name}"),
            ("vary", "accept-datetime"),
            ("link", links),
            NO_STORE,
        )
        assert whole(series(f"/-/timegate/{LAST}", accept_datetime=wanted)) == (302, "", "", headers), wanted
    for text in ("x", "Fri, 01 Jan 2010 00:00:00 +0000", "2010", "GMT", "x" * 101 + "GMT"):
        status, kind, sentence, head = whole(series(f"/-/timegate/{LAST}", accept_datetime=text))
        assert (status, kind, head) == (400, TEXT, IN_ENGLISH)
        assert sentence.splitlines()[:2] == [DATE, text[:100]]


def test_the_only_edition_is_the_first_and_the_last_and_of_removed_ones_there_is_none(
    archive: NewArchive,
) -> None:
    lines = [
        {"rep": REP, "url": "http://far.example/"},
        {"rep": LATER, "next_edition": GONE, "url": "http://far.example/", "state": "Copy"},
    ]
    assert archive.load(*lines).added == 2
    ask = site_of(archive)
    name = LINKED
    assert archive.load({"ibip": name, "url": "http://far.example/"}).added == 1
    links = dict(ask(f"/-/timegate/{REP}").headers)["link"]
    assert links.endswith(
        f'<{HERE}/-/item/{REP}>; rel="first last memento"; datetime="Fri, 01 Jan 2010 00:00:00 GMT"'
    )
    assert json.loads(ask(f"/-/timemap/{REP}?format=json").body)["beyond"] is None


def test_robots_and_programs_find_what_is_there(archive: NewArchive) -> None:
    ask, searching = site_of(archive), site_of(archive, facts=CollectionFacts)
    robots = (
        "User-agent: *\nDisallow: /-/zip/\nDisallow: /-/qr/\nDisallow: /-/timegate/\nDisallow: /-/timemap/\n"
        "Disallow: /-/oai\nDisallow: /-/api/\nDisallow: /-/admin\n"
    )
    assert whole(ask("/robots.txt")) == (200, TEXT, robots, (("cache-control", "public, max-age=86400"),))
    found = ask("/.well-known/api-catalog")
    own = f"{HERE}/.well-known/api-catalog"
    assert tuple(found.headers) == (
        ("cache-control", "public, max-age=3600"),
        ("link", f'<{own}>; rel="api-catalog"'),
    )
    api, oai = f"{HERE}/-/api/", f"{HERE}/-/oai"
    assert (found.status, json.loads(found.body)) == (200, {"linkset": [
        {"anchor": own, "item": [{"href": api}, {"href": oai}]},
        {"anchor": api,
         "service-desc": [{"href": f"{api}openapi.json", "type": "application/json"}],
         "service-meta": [{"href": f"{HERE}/-/about", "type": "application/json"}],
         "status": [{"href": f"{HERE}/-/readyz", "type": TEXT}]},
        {"anchor": oai, "service-desc": [{"href": f"{oai}?verb=Identify", "type": "text/xml"}]},
    ]})  # fmt: skip
    found_by = f"Disallow: /-/search?*text=\n\nSitemap: {HERE}/sitemap.xml\n"
    assert searching("/robots.txt").body.decode() == robots + found_by
    *_, item, more = json.loads(searching("/.well-known/api-catalog").body)["linkset"]
    assert item == json.loads(found.body)["linkset"][-1]
    assert more == {
        "anchor": f"{HERE}/-/resourcesync/capabilitylist.xml",
        "service-desc": [{"href": f"{HERE}/.well-known/resourcesync", "type": "application/xml"}],
    }
    contact = (
        "Contact: mailto:admin@archive.example\nExpires: 2024-05-12T00:00:00Z\nPreferred-Languages: en, pt\n"
    )
    day = (("cache-control", "public, max-age=86400"),)
    assert whole(ask("/.well-known/security.txt")) == (200, TEXT, contact, day)


def test_the_pages_of_the_archive_itself_are_there_and_name_its_service(archive: NewArchive) -> None:
    fill(archive)
    ask = site_of(archive)
    for path in ("/", "/-/about", "/-/programs"):
        page = ask(path, accept="text/html")
        assert (page.status, page.content_type) == (200, "text/html; charset=utf-8"), path
        assert b"archive.example" in page.body
    assert b"/-/search" in site_of(archive, facts=CollectionFacts)("/", accept="text/html").body


def test_a_gate_may_be_asked_for_a_whole_persistent_url_of_its_own_hosts(joined: Answer) -> None:
    for host in ("archive.example", "resolver.example"):
        found = joined(f"/-/timegate/http://{host}/{REP}")
        assert (found.status, dict(found.headers)["location"]) == (302, f"{HERE}/-/item/{LAST}")
    assert joined(f"/-/timegate/http://other.example/{REP}").status == 400


def test_at_the_address_of_the_files_there_is_nothing_else(archive: NewArchive) -> None:
    fill(archive)
    site = Site(
        archive.settings, identity_of(archive.settings), archive.catalogue, archive.file_store, RENDERER,
        archive.clock.seconds,
    )  # fmt: skip
    for path, status, text in (
        ("/", 404, "there is nothing but files at this address"),
        ("/col/x", 400, NO_NAME),
        (f"/col/{REP}/doc/none", 404, f"{REP} has no such file"),
    ):
        assert whole(site.only_file(Request("GET", path, "", {}))) == (status, TEXT, f"{text}\n", IN_ENGLISH)
    found = site.only_file(Request("GET", f"/col/{LAST}/doc/a.txt", "", {}))
    assert (found.status, found.size) == (200, 3)
    assert found.file is not None
    found.file.close()
