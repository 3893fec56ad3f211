"""Metadata by content negotiation, as the users of DOIs ask for them: curl follows our resolver to our Archives."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from ibi.protocol.vocabulary import FORMAT_BY_TYPE
from support.network.own_network import RESOLVER, OwnNetwork, Peer
from support.network.read_formats import title

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "archive.example"
SERVICE = f"{HOST}/s/2020/01.01.00.00"
NAME = f"{HOST}/s/2021/01.01.00"
FIRST, LAST, BARE, DESCRIBED, RECORD = (f"{NAME}.{number:02}" for number in range(1, 6))
SUBJECT = f"http://{RESOLVER}/{LAST}"
ITEM_URL = "http://a.example/last"
ITEMS: list[dict[str, object]] = [
    {"rep": FIRST, "url": "http://a.example/first", "next_edition": LAST, "metadata": {"title": ["One"]}},
    {
        "rep": LAST,
        "url": ITEM_URL,
        "metadata": {"title": ["Ondas do mar"], "creator": ["Silva, Maria"], "date": ["2026-03-12"]},
    },
    {"rep": BARE, "url": "http://a.example/bare"},
    {"rep": DESCRIBED, "url": "http://a.example/described", "metadata_item": RECORD},
    {"rep": RECORD, "contenttype": "Metadata", "metadata": {"title": ["Described elsewhere"]}},
]
ZOTERO = (
    "application/vnd.datacite.datacite+json, application/vnd.crossref.unixref+xml, "
    "application/vnd.citationstyles.csl+json"
)
"""Of Zotero's translator "DOI Content Negotiation"."""
CITATION_JS = "application/vnd.citationstyles.csl+json"
"""Of `@citation-js/plugin-doi` 0.7.21, which refuses an answer of another type."""
CHROME = (
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,"
    "application/signed-exchange;v=b3;q=0.7"
)
BROWSERS = (
    CHROME,
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html,application/xhtml+xml,application/xml;q=0.9,image/png,image/svg+xml,*/*;q=0.8",
)
"""Of Chrome, Safari (and Firefox from 132 on), and older versions of Firefox."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnNetwork]:
    lines = tmp_path_factory.mktemp("items") / "items.jsonl"
    lines.write_text("\n".join(json.dumps(item | {"timestamp": "2021-01-01T00:00:00Z"}) for item in ITEMS))
    with OwnNetwork(tmp_path_factory.mktemp("network"), Peer(HOST, SERVICE, (lines,))) as running:
        yield running


def curl(network: OwnNetwork, accept: str, target: str = LAST) -> tuple[int, str, bytes]:
    """`curl -LH "Accept: …"`: how often it was redirected, the type of what it got, and what it got."""
    places = [f"{host}:80:127.0.0.1:{port}" for host, port in network.ports.items()]
    found = [word for place in places for word in ("--connect-to", place)]
    report = "\n%{num_redirects} %{http_code} %{content_type}"
    command = ["curl", "--silent", "--globoff", "--write-out", report, *found, "-LH", f"Accept: {accept}"]
    run = subprocess.run(
        [*command, f"http://{RESOLVER}/{target}"], capture_output=True, check=True, timeout=60
    )
    body, _, end = run.stdout.rpartition(b"\n")
    redirects, status, kind = end.decode().split(" ", 2)
    assert status == "200", run.stdout
    return int(redirects), kind, body


@pytest.mark.proves("URL-17")
@pytest.mark.parametrize("kind", [kind for kind in FORMAT_BY_TYPE if "linkset" not in kind])
def test_curl_gets_each_format_by_its_media_types(network: OwnNetwork, kind: str) -> None:
    redirects, given, body = curl(network, kind)
    assert redirects == 1
    assert FORMAT_BY_TYPE[given.partition(";")[0]] == FORMAT_BY_TYPE[kind]
    assert title(kind, body, SUBJECT) == "Ondas do mar"


@pytest.mark.parametrize("kind", ["application/linkset+json", "application/linkset"])
@pytest.mark.parametrize("target", [LAST, BARE])
def test_curl_gets_the_links_of_an_item_in_both_forms(network: OwnNetwork, kind: str, target: str) -> None:
    redirects, given, body = curl(network, kind, target)
    assert (redirects, given) == (1, kind)
    assert f"http://{RESOLVER}/{target}".encode() in body


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (ZOTERO, "application/vnd.datacite.datacite+json"),
        (CITATION_JS, CITATION_JS),
        ("application/x-bibtex, */*;q=0.1", "application/x-bibtex; charset=utf-8"),
        ("text/html;q=0.3, application/rdf+xml, text/turtle;q=0.9", "application/rdf+xml"),
    ],
)
def test_programs_get_the_format_that_they_prefer(network: OwnNetwork, accept: str, kind: str) -> None:
    redirects, given, body = curl(network, accept)
    assert (redirects, given) == (1, kind)
    assert title(kind.partition(";")[0], body, SUBJECT) == "Ondas do mar"


def test_a_citation_comes_in_the_style_and_language_that_are_asked_for(network: OwnNetwork) -> None:
    _, _, apa = curl(network, "text/x-bibliography; style=apa; locale=en")
    _, _, abnt = curl(network, 'text/x-bibliography; style="abnt"; locale=pt-BR')
    assert apa.startswith(b"Silva, M. (2026). Ondas do mar.")
    assert abnt.startswith(b"SILVA, Maria.")
    assert "Disponível em:".encode() in abnt


def test_a_format_is_answered_with_303_and_leads_back_to_what_is_cited(network: OwnNetwork) -> None:
    answer = network.resolve(f"/{LAST}?x=1", accept="text/x-bibliography; style=abnt")
    where = f"http://{HOST}/-/metadata/{LAST}?format=citation&x=1&style=abnt"
    assert (answer.status, answer.location) == (303, where)
    assert answer.headers["vary"] == "Accept"
    assert answer.headers["link"].startswith(f'<http://{RESOLVER}/{LAST}?x=1>; rel="cite-as", ')
    assert answer.headers["cache-control"] == "private, no-store"


@pytest.mark.parametrize("target", [f"{FIRST}!", f"{FIRST}?ibiurl.verblist=GetLastEdition", f"{LAST}+"])
def test_the_metadata_are_those_of_the_edition_that_the_url_leads_to(
    network: OwnNetwork, target: str
) -> None:
    answer = network.resolve(f"/{target}", accept="application/x-bibtex")
    assert (answer.status, answer.location) == (303, f"http://{HOST}/-/metadata/{LAST}?format=bibtex")


def test_metadata_that_are_an_item_of_their_own_describe_the_item(network: OwnNetwork) -> None:
    _, _, body = curl(network, CITATION_JS, DESCRIBED)
    assert (json.loads(body)["title"], json.loads(body)["id"]) == ("Described elsewhere", DESCRIBED)


@pytest.mark.parametrize("accept", BROWSERS)
def test_browsers_are_led_to_the_item(network: OwnNetwork, accept: str) -> None:
    answer = network.resolve(f"/{LAST}", accept=accept)
    assert (answer.status, answer.location, answer.headers["vary"]) == (302, ITEM_URL, "Accept")


@pytest.mark.parametrize(
    "accept",
    [
        *("", "*/*", "application/json", "application/xml", "text/xml", "application/pdf", "application/marc"),
        *("bibtex", ";;,,=;q", "application/x-bibtex;q=0", "text/turtle, text/html", "\xff\xfe" * 50, "a" * 9000),
        *("x/y, " * 500 + "text/turtle", '"application/x-bibtex', "application/x-bibtex/", "text/turtle text/html"),
    ],
)  # fmt: skip
def test_no_value_of_accept_hides_an_item(network: OwnNetwork, accept: str) -> None:
    answer = network.resolve(f"/{LAST}", accept=accept)
    assert (answer.status, answer.location) == (302, ITEM_URL)


@pytest.mark.parametrize(
    ("target", "status", "location"),
    [
        (BARE, 302, "http://a.example/bare"),  # nothing is said of it
        (f"{LAST}:(oai_dc)", 302, f"http://{HOST}/-/metadata/{LAST}?format=oai_dc"),
        (f"{LAST}:(turtle)", 302, f"http://{HOST}/-/metadata/{LAST}?format=turtle"),
        (f"{LAST}?ibiurl.verblist=GetFileList", 302, f"http://{HOST}/-/files/{LAST}"),
    ],
)
def test_what_has_no_such_metadata_or_names_them_itself_is_redirected_as_ever(
    network: OwnNetwork, target: str, status: int, location: str
) -> None:
    answer = network.resolve(f"/{target}", accept="application/x-bibtex")
    assert (answer.status, answer.location) == (status, location)


def test_the_readers_query_does_not_replace_the_format(network: OwnNetwork) -> None:
    _, kind, _ = curl(network, "application/x-bibtex", f"{LAST}?format=pdf")
    assert kind == "application/x-bibtex; charset=utf-8"


def test_an_explanation_is_given_whatever_is_accepted(network: OwnNetwork) -> None:
    assert network.resolve(f"/{LAST}?info", accept="application/x-bibtex").status == 200


def test_the_archive_is_acknowledged_for_metadata(network: OwnNetwork) -> None:
    network.forget()
    network.resolve(f"/{LAST}", accept="application/x-bibtex")
    network.wait_for(lambda: bool(network.heard("acknowledgment")), "an acknowledgment")
    [acknowledgment] = network.heard("acknowledgment")
    assert acknowledgment.pairs["contenttype"] == "Metadata"
    assert acknowledgment.pairs["url"] == f"http://{HOST}/-/metadata/{LAST}?format=bibtex"
    assert acknowledgment.pairs["url.persistent"] == f"http://{RESOLVER}/{LAST}:(bibtex)"
    assert acknowledgment.body == "notice {acknowledgment received}"


def test_the_archive_itself_leads_to_metadata_and_links_alike(network: OwnNetwork) -> None:
    for accept, where in [
        ("text/turtle", f"/-/metadata/{LAST}?format=turtle"),
        ("application/linkset", f"/-/linkset/{LAST}"),
    ]:
        answer = network.ask(HOST, f"/{LAST}", accept=accept)
        assert (answer.status, answer.location) == (303, where)
