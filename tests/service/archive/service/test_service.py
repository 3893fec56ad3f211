"""The Archive service over a real socket: its messages, its files and its pages."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ibi.archive.service.service import LONGEST_URL, ArchiveService
from ibi.http.request import Request
from ibi.http.response import Response
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_name
from ibi.protocol.extensions.changes import LONGEST_VALIDITY
from ibi.protocol.messages import Acknowledgment, UrlRequest
from ibi.protocol.url_list import UrlList
from ibi.protocol.verb_list import VerbList
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import (
    GONE,
    LAST,
    REP,
    SERVICE,
    NewArchive,
    Served,
    fill,
    listener,
    serving,
)
from support.oracles.vectors import Vector, runs
from support.web.unnamed import RENDERER

PATH = f"/{SERVICE.rep}"
QUESTION = f"{PATH}?servicesubject=urlRequest&clientinformation.ipaddress=::1&parsedibiurl.ibi="
ABSENT = "a.example/b/2013/01.01.00.00"
BROWSER = {"accept": "text/html,*/*;q=0.8"}


def ask(full: Served, ibi: str, verbs: str = "", path: str = "", *, method: str = "GET") -> UrlList:
    request = UrlRequest(("192.0.2.1",), parse_name(ibi), path, VerbList.parse(verbs))
    answer = full.get(f"{PATH}?{request.query()}", method)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain")
    return UrlList.read(answer.body)


def acknowledge(full: Served, key: str, *, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    message = Acknowledgment(
        ("192.0.2.1",),
        ContentType.DATA,
        ItemState.ORIGINAL,
        "http://far.example/",
        f"http://r.example/{REP}",
        key,
    )
    answer = full.get(f"{PATH}?{message.query()}", method, **headers)
    return answer.status, answer.body


def acknowledged(full: Served, ibi: str, expected: int) -> int:
    """Return how many acknowledgments are counted for an item, once that has settled."""
    catalogue = full.archive.catalogue
    holding = catalogue.holding(parse_name(ibi))
    assert holding is not None
    end = time.monotonic() + 5
    while catalogue.acknowledgments(holding.number) < expected and time.monotonic() < end:
        time.sleep(0.05)
    return catalogue.acknowledgments(holding.number)


# The three subjects


@pytest.mark.proves("SVC-01", "MSG-10", "MSG-23", "MSG-28", "AMB-32")
@runs("service.constant")
def test_fixed_answers(full: Served, vector: Vector) -> None:
    subject = vector.input["servicesubject"]
    if subject == "acknowledgment":
        assert acknowledge(full, "1234567890") == (200, vector.expected.encode())
        return
    answer = full.get(f"{PATH}?servicesubject={subject}")
    assert answer.headers["content-type"] == "text/plain"
    if vector.expected is None:
        assert answer.status == 400
        assert answer.text.startswith("error {")
    else:
        assert (answer.status, answer.text) == (200, vector.expected)
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.proves("MSG-03", "MSG-25", "SVC-03", "ARC-17")
def test_a_url_request_is_answered_at_either_name_of_the_service_in_any_case(full: Served) -> None:
    query = UrlRequest(("192.0.2.1",), parse_name("8jmkd3mgp8w/35mme4e")).query()
    paths = [PATH, PATH.upper(), f"/{SERVICE.ibip}", PATH.replace("/w/", "/%77/")]
    bodies = {full.get(f"{path}?{query}").body.partition(b"urlkey")[0] for path in paths}
    assert len(bodies) == 1
    found = UrlList.read(full.get(f"{PATH}?{query}").body)
    assert found.entry().url == f"http://{full.archive.settings.address}/col/{REP}/doc/index.html"
    assert found.archive_service == SERVICE


@pytest.mark.proves("SVC-03", "SVC-19", "URL-05")
def test_relations_are_answered_over_the_wire(full: Served) -> None:
    assert not ask(full, "a.example/b/2013/01.01.00.00")
    assert ask(full, GONE, "GetTranslation").state is ItemState.DELETED
    address = full.archive.settings.address
    assert (
        ask(full, REP, "GetLastEdition").pairs["url.lastedition"] == f"http://{address}/col/{LAST}/doc/a.txt"
    )
    assert ask(full, REP, "GetTranslation(pt)").pairs["url.translation(pt)"] == "http://far.example/x?y=1"
    assert ask(full, REP, path="/a%20b.txt").entry().url == f"http://{address}/col/{REP}/doc/a%20b.txt"
    assert ask(full, REP, "GetFileList").entry().url == f"http://{address}/-/files/{REP}"


@pytest.mark.proves("SVC-16")
def test_a_chain_that_leaves_the_archive_is_answered_with_the_next_edition_and_beside_it_the_farthest(
    own: Served,
) -> None:
    first, second, third, elsewhere = (f"a.example/b/2014/01.01.00.0{number}" for number in range(4))
    chain = (first, second), (second, third), (third, elsewhere)
    report = own.archive.load(
        *(
            {"rep": name, "next_edition": following, "url": "http://far.example/x"}
            for name, following in chain
        )
    )
    assert (report.added, own.archive.refused) == (3, [])
    for verbs in ("GetLastEdition", "GetLastEdition GetMetadata"):
        for name, following in chain:
            pairs = ask(own, name, verbs).pairs
            assert pairs["ibi.nextedition"] == ("rep", following)
            farthest = None if following == elsewhere else ("rep", elsewhere)
            assert pairs.get("edition.farthest") == farthest
            assert not [pair for pair in pairs if ".lastedition" in pair]


@pytest.mark.proves("AMB-32", "MSG-05")
@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (f"{PATH}?servicesubject=urlRequest", "clientinformation.ipaddress is missing"),
        (f"{PATH}?servicesubject=urlRequest&clientinformation.ipaddress=1&parsedibiurl.ibi={REP}", "IP address"),
        (f"{QUESTION}%ff", "IBI"),
        (f"{QUESTION}{REP}&parsedibiurl.verblist=GetMetadata%20GetLastEdition", "cannot follow"),
        (f"{PATH}?servicesubject=urlRequest&servicesubject=urlRequest", "twice"),
        (f"{PATH}?servicesubject=", "missing"),
        (f"{PATH}?servicesubject=inclusionRequest", "missing"),
        (f"{PATH}?servicesubject=acknowledgment&urlkey=1", "key"),
        (f"/{REP}?servicesubject=inclusionConfirmationRequest", "no Archive service"),
        ("/?servicesubject=urlRequest", "no Archive service"),
        (f"{PATH}/x?servicesubject=inclusionConfirmationRequest", "no Archive service"),
    ],
)  # fmt: skip
def test_what_is_no_request_is_an_error_in_a_pair_list(full: Served, target: str, sentence: str) -> None:
    answer = full.get(target)
    assert answer.status == 400
    assert answer.text.startswith("error {")
    assert sentence in answer.text
    assert UrlList.read(answer.body).state is None


# Acknowledgments


@pytest.mark.proves("SVC-20", "SVC-21", "CON-07", "MSG-27")
def test_acknowledgments_with_a_key_of_ours_count_once_and_any_others_never(own: Served) -> None:
    first, second = ask(own, REP).url_key, ask(own, REP).url_key
    assert first
    assert second
    assert first != second
    replies = [acknowledge(own, key) for key in (first, first, "1234567890-1234567890", f"{first}0", second)]
    assert set(replies) == {(200, b"notice {acknowledgment received}")}
    assert acknowledged(own, REP, 2) == 2
    acknowledge(own, first)
    acknowledge(own, ask(own, REP).url_key or "")
    assert acknowledged(own, REP, 3) == 3


@pytest.mark.proves("SVC-20")
def test_only_a_get_that_is_meant_counts(own: Served) -> None:
    head, guess, meant = (ask(own, REP).url_key or "" for _ in range(3))
    assert acknowledge(own, head, method="HEAD") == (200, b"")
    assert acknowledge(own, guess, sec_purpose="prefetch;anonymous-client-ip")[0] == 200
    acknowledge(own, meant)
    assert acknowledged(own, REP, 1) == 1


def test_a_key_that_is_too_old_counts_no_more(own: Served) -> None:
    old, new = ask(own, REP).url_key or "", ""
    own.archive.clock.now += LONGEST_VALIDITY + 601
    new = ask(own, REP).url_key or ""
    acknowledge(own, old)
    acknowledge(own, new)
    assert acknowledged(own, REP, 1) == 1


def test_what_waits_to_be_counted_is_counted_at_the_end(new_archive: Callable[..., NewArchive]) -> None:
    made = listener()
    archive = new_archive(f"127.0.0.1:{made.getsockname()[1]}")
    fill(archive)
    with serving(archive, made) as served:
        acknowledge(served, ask(served, REP).url_key or "")
    holding = archive.catalogue.holding(parse_name(REP))
    assert holding is not None
    assert archive.catalogue.acknowledgments(holding.number) == 1


# HTTP


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(full: Served, method: str) -> None:
    answer = full.get(f"{PATH}?servicesubject=inclusionConfirmationRequest", method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:1", 200), ("localhost", 200), ("evil.example", 421), ("a.evil.example:80", 421), ("", 200)],
)
def test_only_names_of_ours_are_answered(full: Served, host: str, status: int) -> None:
    assert full.get("/", host=host).status == status
    assert full.get("/-/healthz", host=host).status == 200
    assert full.get("/-/readyz", host=host).body == b"ready\n"


@pytest.mark.parametrize("target", ["/", PATH, f"/col/{REP}/doc/index.html", f"/col/{REP}/doc/@big", "/nothing",
                                    f"/-/files/{REP}", f"/{REP}",
                                    f"{PATH}?servicesubject=inclusionConfirmationRequest"])  # fmt: skip
def test_head_is_get_without_its_body(full: Served, target: str) -> None:
    get, head = full.get(target), full.get(target, "HEAD")
    assert head.body == b""
    assert (head.status, head.headers | {"date": ""}) == (get.status, get.headers | {"date": ""})
    assert int(get.headers["content-length"]) == len(get.body)


@pytest.mark.parametrize(
    "query", ["x=servicesubject", "servicesubjects=urlRequest", "xservicesubject=urlRequest"]
)
def test_a_query_that_only_holds_our_word_is_no_message(full: Served, query: str) -> None:
    address = full.archive.settings.address
    assert full.get(f"{PATH}?{query}").headers["location"] == f"http://{address}/-/item/{SERVICE.rep}?{query}"
    assert full.get(f"/{REP}?{query}").headers["location"].endswith(f"/doc/index.html?{query}")


async def _echo(request: Request, receive: Callable[[], Awaitable[Any]]) -> Response:
    """An interface for programs that echoes its request."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return Response(
                201, f"{request.method} {request.target} {request.peer} ".encode() + body, "text/plain"
            )


def test_what_is_below_the_interface_for_programs_is_passed_on_whatever_the_method(
    new_archive: Callable[..., NewArchive],
) -> None:
    made = listener()
    archive = new_archive(f"127.0.0.1:{made.getsockname()[1]}")
    app = ArchiveService(
        archive.settings,
        archive.catalogue,
        archive.file_store,
        archive.clock.seconds,
        RENDERER,
        api=_echo,
    )
    with serving(archive, made, Service(app, close=app.close)) as served:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            answer = served.get("/-/api/items?servicesubject=x", method, content_length="0")
            assert (answer.status, answer.text) == (201, f"{method} /-/api/items?servicesubject=x 127.0.0.1 ")
        assert served.get("/-/api/items", "HEAD").body == b""
        assert served.get("/-/api/items", host="evil.example").status == 421
        assert served.get("/-/api/" + "x" * LONGEST_URL).status in {414, 431}
        assert served.get("/-/apis", "POST").status == 405
    with serving(archive, listener()) as served:
        assert served.get("/-/api/items").status == 404
        assert served.get("/-/api/items", "POST").status == 405


# Files


@pytest.mark.proves("SVC-11", "URL-19")
def test_stored_files_are_served_with_digest_and_type(full: Served) -> None:
    answer = full.get(f"/col/{REP}/doc/a%20b.txt")
    assert (answer.status, answer.body) == (200, b"aaa")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-language"] == "en"
    tag = answer.headers["etag"]
    assert tag == '"9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0"'
    again = full.get(f"/col/{REP}/doc/a%20b.txt", if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    assert full.get("/col/8jmkd3mgp8w/35mme4e/doc/@big").body == bytes(range(256)) * 4096


def test_a_page_that_was_deposited_cannot_act_for_the_archive(full: Served) -> None:
    policy = full.get(f"/col/{REP}/doc/index.html").headers["content-security-policy"]
    assert policy.startswith("sandbox ")
    assert "allow-scripts" not in policy
    assert "allow-same-origin" not in policy


@pytest.mark.proves("SVC-13")
@pytest.mark.parametrize("path", ["../../../../../../archive.toml", "..%2f..%2farchive.toml", "%2e%2e/index.html",
                                  "./index.html", "index.html/", "index.html%00", "INDEX.HTML", "a%2520b.txt",
                                  "a+b.txt", "..\\index.html", "x" * 2000])  # fmt: skip
def test_a_file_that_is_not_listed_does_not_exist(full: Served, path: str) -> None:
    answer = full.get(f"/col/{REP}/doc/{path}")
    assert (answer.status, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")


def test_a_listed_file_that_is_not_there_is_said_so(own: Served) -> None:
    (own.archive.data / "col" / REP / "doc" / "a b.txt").unlink()
    answer = own.get(f"/col/{REP}/doc/a%20b.txt")
    assert answer.status == 503
    assert "a%20b.txt" in answer.text


# Persistent URLs at the Archive's own address


@pytest.mark.proves("URL-02", "URL-05", "URL-11", "URL-13", "URL-15", "URL-19")
@pytest.mark.parametrize(
    ("target", "accepted", "expected"),
    [
        (f"/{REP}", "", f"BASE/col/{REP}/doc/index.html"),
        (f"/ibi/{REP}", "", f"BASE/col/{REP}/doc/index.html"),
        ("/rep/8JMKD3MGP8W/35MME4E", "", f"BASE/col/{REP}/doc/index.html"),
        ("/ibi:8JMKD3MGP8W/35MME4E", "", f"BASE/col/{REP}/doc/index.html"),
        (f"/IBI:{REP}!", "", f"BASE/col/{LAST}/doc/a.txt"),
        (f"/{REP}!", "", f"BASE/col/{LAST}/doc/a.txt"),
        (f"/{REP}+", "pt-BR,en;q=0.5", "http://far.example/x?y=1"),
        (f"/{REP}+", "en", f"BASE/col/{REP}/doc/index.html"),
        (f"/{REP}+(pt)?z=%20&ibiurl.x=1", "", "http://far.example/x?y=1&z=%20"),
        (f"/{REP}:", "", f"BASE/-/metadata/{REP}"),
        (f"/{REP}/a%20b.txt", "", f"BASE/col/{REP}/doc/a%20b.txt"),
        (f"/{REP}?ibiurl.verblist=GetFileList", "", f"BASE/-/files/{REP}"),
        (f"/{REP}?ibiurl.requireditemstatus=Original", "", f"BASE/col/{REP}/doc/index.html"),
        (f"/{SERVICE.rep}", "", f"BASE/-/item/{SERVICE.rep}"),
        (f"/col/{REP}/doc/", "", f"/col/{REP}/doc/index.html"),
    ],
)
def test_a_persistent_url_of_an_item_that_is_held_is_resolved_here(
    full: Served, target: str, accepted: str, expected: str
) -> None:
    answer = full.get(target, accept_language=accepted)
    assert answer.status == 302, answer.text
    assert answer.headers["location"] == expected.replace("BASE", f"http://{full.archive.settings.address}")
    assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize(("target", "status"), [
    (f"/{ABSENT}", 404), (f"/{REP}+(fr)", 404), (f"/{REP}/absent.txt", 404), (f"/{GONE}", 410),
    (f"/col/{GONE}/doc/a.txt", 410), (f"/-/item/{GONE}", 410), ("/nonsense", 400), (f"/{REP}::", 400),
    ("/-/item/nonsense", 400), (f"/-/item/{ABSENT}", 404), ("/-/nothing", 404), ("/favicon.ico", 404),
    (f"/{REP}?ibiurl.requireditemstatus=Copy", 400), ("/col/", 400), ("//", 400), ("/%ff%00", 400),
    (f"/-/metadata/{LAST}", 404), (f"/-/metadata/{REP}?format=BibINPE", 404), (f"/-/files/{LAST}", 403),
    ("/" + "a" * 9000, 400), ("/?" + "&" * 300, 200), (f"/-/metadata/{REP}?" + "a=b&" * 300, 400),
])  # fmt: skip
@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*"])
def test_what_cannot_be_had_here_is_said_in_the_form_that_suits(
    full: Served, target: str, status: int, accept: str
) -> None:
    answer = full.get(target, accept=accept)
    assert answer.status == status
    if status != 200:
        forms = {"text/html": "text/html; charset=utf-8", "application/json": "application/problem+json"}
        assert answer.headers["content-type"] == forms.get(accept, "text/plain; charset=utf-8")
    assert b"Traceback" not in answer.body
    assert answer.body


@pytest.mark.proves("RES-01")
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (f"/{ABSENT}!?x=%20", f"/{ABSENT}!?x=%20"),
        (f"/{REP}+(fr)", f"/{REP}+(fr)"),
        (f"/{GONE}", f"/{GONE}"),
        (f"/col/{ABSENT}/doc/x%20y.pdf", f"/{ABSENT}/x%20y.pdf"),
    ],
)
def test_what_is_not_held_is_asked_of_the_resolver(joined: Served, target: str, expected: str) -> None:
    answer = joined.get(target)
    assert (answer.status, answer.headers["location"]) == (302, f"http://resolver.example{expected}")


# Pages


@pytest.mark.proves("SVC-12", "ARC-16", "URL-20")
def test_a_file_list_is_shown_or_openly_refused(full: Served) -> None:
    shown = full.get(f"/-/files/{REP}", **BROWSER)
    assert shown.status == 200
    assert f"/col/{REP}/doc/a%20b.txt" in shown.text
    refused = full.get(f"/-/files/{LAST}", accept_language="pt-BR", **BROWSER)
    assert refused.status == 403
    assert (
        full.get(f"/-/files/{LAST}").text.strip()
        == f"access to the list of the files of {LAST} is not permitted"
    )


def test_pages_escape_what_others_wrote_and_run_nothing(full: Served) -> None:
    for target in (f"/-/item/{REP}", f"/-/metadata/{REP}", f"/-/files/{REP}"):
        page = full.get(target, **BROWSER)
        assert page.status == 200
        assert "One &amp; &lt;two&gt;" in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]


@pytest.mark.proves("URL-17")
def test_metadata_come_as_a_page_and_in_oai_dc_and_stay_after_removal(full: Served) -> None:
    document = full.get(f"/-/metadata/{REP}?format=oai_dc")
    assert document.headers["content-type"] == "application/xml"
    assert "<dc:title>One &amp; &lt;two&gt;</dc:title>" in document.text
    assert "It was here" in full.get(f"/-/metadata/{GONE}", **BROWSER).text


@pytest.mark.proves("ARC-07")
def test_what_was_removed_is_remembered_with_its_date(full: Served) -> None:
    page = full.get(f"/{GONE}", **BROWSER)
    assert page.status == 410
    assert "2012-02-01T00:00:00Z" in page.text


def test_the_archive_tells_who_it_is(full: Served) -> None:
    assert full.get("/", **BROWSER).status == 200
    about = full.get("/-/about")
    assert about.headers["content-type"] == "application/json"
    assert f'"service_ibi": "{SERVICE.rep}"' in about.text
    assert full.archive.settings.key not in about.text
    assert full.archive.settings.secret not in about.text
