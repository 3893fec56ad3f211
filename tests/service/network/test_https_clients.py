"""Programs that are not ours read an Archive and a resolver on https; only the environment names their authority.

Zotero itself cannot be had here: what its translator "DOI Content Negotiation" sends is sent again by curl.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen
from urllib.robotparser import RobotFileParser
from xml.etree import ElementTree as ET

import feedparser  # type: ignore[import-untyped]  # it has no types
import pytest
import rdflib
import requests
from memento_client import MementoClient  # type: ignore[import-untyped]  # it has no types
from oaipmh_scythe import Scythe
from oaipmh_scythe.models import Identify, Record
from prometheus_client.parser import text_string_to_metric_families

from ibi.client import Archive, AsyncArchive, AsyncResolver, Resolver
from ibi.protocol.vocabulary import FORMAT_BY_TYPE, LINKSET
from ibi.web.formats import RECORD_FORMATS
from support.cli.archive_commands import ibi
from support.network.https_network import HttpsNetwork, https_network
from support.network.read_formats import title

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]
PACKAGES = ROOT / "build/npm/node_modules"
"""Where `./test.sh` puts what `requirements/npm` names."""
SERVICE = "archive.example/archive"
FIRST, LAST = f"{SERVICE}/2026/03.02.10.15", f"{SERVICE}/2026/09.14.16.40"
TITLE = "Ondas do mar"
OTHERS = 120
"""Items besides, more than there are records on a page for harvesters."""
TRUST = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE")
"""What tells Python, requests, node and curl whom to trust."""
ZOTERO = (
    "application/vnd.datacite.datacite+json, application/vnd.crossref.unixref+xml, "
    "application/vnd.citationstyles.csl+json"
)
BOTH = pytest.mark.parametrize("at", ["archive", "resolver"])


def _fill(folder: Path) -> None:
    """Two editions, and many items besides."""
    facts: dict[str, Any] = {
        "creator": ["Silva, Maria"],
        "date": ["2026-03-12"],
        "type": ["report"],
        "language": ["pt"],
    }
    items: list[dict[str, Any]] = [
        {
            "rep": FIRST,
            "next_edition": LAST,
            "metadata": {"title": ["Ondas"], **facts},
            "files": {"a.txt": "a.txt"},
        },
        {"rep": LAST, "metadata": {"title": [TITLE], **facts}, "files": {"a.txt": "a.txt"}},
        *(
            {
                "rep": f"{SERVICE}/2025/01.01.{number // 60:02}.{number % 60:02}",
                "metadata": {"title": [f"Number {number}"]},
            }
            for number in range(OTHERS)
        ),
    ]
    (folder / "a.txt").write_text("to be read")
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
    ibi("archive", "import", "--data", folder / "archive", folder / "items.jsonl")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpsNetwork]:
    with (
        https_network(tmp_path_factory.mktemp("https"), _fill) as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in TRUST:
            patch.setenv(name, str(made.authority.file))
        yield made


def _url(network: HttpsNetwork, at: str, name: str = LAST) -> str:
    """The persistent URL at the resolver, or the same at the Archive, which resolves what it holds."""
    return f"{getattr(network, at)}/{name}"


def _run(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, capture_output=True, check=False, timeout=120, env={**os.environ, **environment}, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _curl(url: str, accept: str) -> tuple[int, str, str, bytes]:
    """`curl -LH "Accept: …"` without http: how often it was redirected, where it came, the type, and the body."""
    report = "\n%{num_redirects} %{http_code} %{url_effective} %{content_type}"
    words = ["curl", "--silent", "--show-error", "--globoff", "--proto", "=https", "--write-out", report]
    done = subprocess.run(
        [*words, "-LH", f"Accept: {accept}", url], capture_output=True, check=True, timeout=60
    )
    body, _, end = done.stdout.rpartition(b"\n")
    redirects, status, where, kind = end.decode().split(" ", 3)
    assert status == "200", done.stdout
    return int(redirects), where, kind, body


@BOTH
@pytest.mark.parametrize("kind", FORMAT_BY_TYPE)
def test_curl_gets_each_format_that_can_be_negotiated(network: HttpsNetwork, at: str, kind: str) -> None:
    redirects, where, given, body = _curl(_url(network, at), kind)
    assert (redirects, where.startswith(f"{network.archive}/-/")) == (1, True)
    assert FORMAT_BY_TYPE[given.partition(";")[0]] == FORMAT_BY_TYPE[kind]
    subject = f"{network.resolver}/{LAST}"
    if FORMAT_BY_TYPE[kind] != LINKSET:
        assert title(kind, body, subject) == TITLE
    assert subject.encode() in body.replace(b"\\/", b"/")


@BOTH
@pytest.mark.parametrize("accept", ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "*/*"])
def test_curl_gets_the_item_itself(network: HttpsNetwork, at: str, accept: str) -> None:
    _, where, _, body = _curl(_url(network, at), accept)
    assert where.startswith(f"{network.archive}/")
    assert TITLE.encode() in body or body == b"to be read"


@BOTH
def test_a_checker_of_links_is_answered_by_headers_alone(network: HttpsNetwork, at: str) -> None:
    words = ("--silent", "--show-error", "--globoff", "--proto", "=https", "--head", "--location")
    heads = _run("curl", *words, _url(network, at)).lower().split("\n\n")[:-1]
    assert [head.split()[1] for head in heads] == ["302", "200"]
    assert f'<{network.resolver}/{LAST}>; rel="cite-as"' in heads[0]


@BOTH
def test_what_zotero_asks_for_is_answered_in_the_format_that_it_names_first(
    network: HttpsNetwork, at: str
) -> None:
    _, _, kind, body = _curl(_url(network, at), ZOTERO)
    assert kind == "application/vnd.datacite.datacite+json"
    value = json.loads(body)
    assert (value["url"], value["creators"][0]["name"]) == (f"{network.resolver}/{LAST}", "Silva, Maria")


@pytest.mark.parametrize("at", ["archive", "resolver"])
def test_curl_refuses_both_where_the_environment_names_no_authority(network: HttpsNetwork, at: str) -> None:
    without = {name: value for name, value in os.environ.items() if name not in TRUST}
    done = subprocess.run(["curl", "-sS", _url(network, at)], capture_output=True, check=False, env=without)
    assert (done.returncode, b"certificate" in done.stderr) == (60, True)


def _needs_citation_js() -> None:
    for command in ("node", "npm"):
        if shutil.which(command) is None:
            pytest.skip(f"needs {command}, to run citation.js")
    if not (PACKAGES.parent / "stamp").exists():
        pytest.skip("needs citation.js in build/npm: ./test.sh fetches it, by the lock in requirements/npm")


def test_citation_js_cites_what_it_reads_in_three_formats(network: HttpsNetwork) -> None:
    _needs_citation_js()
    script = str(ROOT / "tests/support/network/cite.js")
    lines = _run(
        "node", script, *(_url(network, at) for at in ("resolver", "archive")), NODE_PATH=str(PACKAGES)
    )
    url = f"{network.resolver}/{LAST}"
    assert len(lines.splitlines()) == 2
    for line in lines.splitlines():
        read = json.loads(line)
        assert set(read) == {"csl", "bibtex", "ris"}
        for name, each in read.items():
            assert each["item"]["author"] == [{"family": "Silva", "given": "Maria"}], name
            assert (each["item"]["title"], each["item"]["URL"]) == (TITLE, url), name
            assert each["item"]["issued"]["date-parts"][0][0] == 2026, name
            assert each["apa"].startswith("Silva, M. (2026"), name
            assert TITLE in each["apa"], name
            assert each["apa"].strip().endswith(url), name


@BOTH
def test_the_program_of_fair_signposting_finds_what_belongs_to_an_item(
    network: HttpsNetwork, at: str
) -> None:
    command = str(Path(sys.executable).with_name("signposting"))
    texts = [_run(command, url) for url in (_url(network, at), f"{network.archive}/-/item/{LAST}")]
    for text in texts:
        assert f"{network.resolver}/{LAST}" in text
        assert "http://127" not in text
    linkset = f"{network.archive}/-/linkset/{LAST}"
    assert linkset in texts[1]
    assert f"{network.archive}/-/metadata/{LAST}?format=csl" in texts[1]


@pytest.mark.parametrize("prefix", [each.prefix for each in RECORD_FORMATS])
def test_a_harvester_gets_every_record_page_by_page(network: HttpsNetwork, prefix: str) -> None:
    with Scythe(f"{network.archive}/-/oai") as client:
        who = client.identify()
        assert isinstance(who, Identify)
        assert who.xml.findtext("{*}baseURL", namespaces=None) == f"{network.archive}/-/oai"
        records = [each for each in client.list_records(metadata_prefix=prefix) if isinstance(each, Record)]
    names = {record.header.identifier for record in records}
    assert len(names) == len(records) == OTHERS + 2
    [last] = [record for record in records if str(record.header.identifier).endswith(LAST)]
    assert f"{network.resolver}/{LAST}" in last.raw


@BOTH
@pytest.mark.parametrize(("wanted", "edition"), [("2026-05-01", FIRST), ("2026-12-01", LAST)])
def test_a_client_of_memento_finds_the_edition_of_a_time(
    network: HttpsNetwork, at: str, wanted: str, edition: str
) -> None:
    with requests.Session() as session:
        info = MementoClient(session=session).get_memento_info(
            _url(network, at, FIRST), datetime.fromisoformat(wanted)
        )
    assert info["mementos"]["closest"]["uri"] == [f"{network.archive}/-/item/{edition}"]
    assert {
        urlsplit(info[key]).scheme for key in ("original_uri", "timegate_uri", "timemap_uri") if info.get(key)
    } == {"https"}


@pytest.mark.parametrize(("words", "number"), [("", 50), ("?text=ondas", 2)])
def test_a_reader_of_feeds_gets_entries_that_lead_to_pages(
    network: HttpsNetwork, words: str, number: int
) -> None:
    feed = feedparser.parse(f"{network.archive}/-/feed{words}")
    assert (feed.status, feed.bozo, len(feed.entries)) == (200, False, number)
    links = {link.href for entry in feed.entries for link in entry.links} | {
        link.href for link in feed.feed.links
    }
    assert {link.partition("://")[0] for link in links} == {"https"}
    with urlopen(feed.entries[0].link, timeout=60) as page:  # noqa: S310 - https, as was just checked
        assert page.status == 200


@BOTH
def test_the_record_of_a_handle_is_read_as_pyhandle_reads_it(network: HttpsNetwork, at: str) -> None:
    """PyHandle 1.5 asks so (of a server "https://resolver.example/-"), and reads `responseCode` and `values`."""
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    url = f"{getattr(network, at)}/-/api/handles/{LAST}"
    with urlopen(Request(url, headers=headers), timeout=60) as reply:  # noqa: S310 - https
        record = json.load(reply)
    assert (record["responseCode"], record["handle"]) == (1, LAST)
    values = {value["type"]: value["data"]["value"] for value in record["values"]}
    assert values["URL"].startswith("https://")
    assert all("http://127" not in str(value) for value in values.values())


@BOTH
def test_rdflib_reads_a_persistent_url_by_its_own_negotiation(network: HttpsNetwork, at: str) -> None:
    graph = rdflib.Graph().parse(_url(network, at))
    subject = rdflib.URIRef(f"{network.resolver}/{LAST}")
    assert str(graph.value(subject, rdflib.URIRef("http://schema.org/name"))) == TITLE


def test_the_client_of_java_is_answered_with_and_without_tls(network: HttpsNetwork, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("needs javac, from a Java development kit")
    trusted = str(tmp_path / "trusted.p12")
    words = ("-noprompt", "-file", str(network.authority.file), "-keystore", trusted, "-storepass", "secret")
    _run("keytool", "-importcert", "-alias", "authority", *words)
    trust = ("-Djavax.net.ssl.trustStore=" + trusted, "-Djavax.net.ssl.trustStorePassword=secret")
    roots = (f"http://127.0.0.1:{network.archive_port}", network.archive)
    lines = _run("java", *trust, str(ROOT / "tests/support/network/Ask.java"), *roots).splitlines()
    verbs = ("Identify", "ListSets", "ListMetadataFormats")
    assert lines == [f"200 HTTP_1_1 {verb}" for verb in verbs] * 2


def test_our_own_client_reads_both(network: HttpsNetwork) -> None:
    with Resolver(network.resolver) as resolver, Archive(network.archive) as archive:
        assert resolver.resolve(LAST).url.startswith(f"{network.archive}/")
        assert TITLE.encode() in resolver.metadata(LAST, "bibtex").content
        values = {each.type: each.data for each in resolver.handle_values(LAST)}
        assert values["URL"].startswith("https://")
        assert archive.item(LAST).title == TITLE
        found = list(archive.search("ondas"))
        assert {each.page for each in found} == {f"{network.archive}/-/item/{name}" for name in (FIRST, LAST)}


def test_our_own_client_deposits_and_follows_changes(network: HttpsNetwork) -> None:
    with redirect_stdout(io.StringIO()) as printed:
        ibi("archive", "token", "add", "t", "--data", network.folder / "archive", "--scope", "deposit")
    token = printed.getvalue().split()[-1]
    with Archive(network.archive, token=token) as archive:
        before = list(archive.changes())
        made = archive.deposit("Another one", files={"a.txt": b"new"})
        [change] = archive.changes(before[-1].cursor)
    assert (change.ibi, change.what) == (made.rep, "added")
    assert change.page == f"{network.archive}/-/item/{made.rep}"


def test_a_search_engine_finds_every_page_by_robots_txt_alone(network: HttpsNetwork) -> None:
    with requests.Session() as session:
        rules = RobotFileParser()
        rules.parse(session.get(f"{network.archive}/robots.txt", timeout=60).text.splitlines())
        pages = list[str]()
        for found in rules.site_maps() or []:
            for sheet in _locations(session.get(found, timeout=60)):
                pages += _locations(session.get(sheet, timeout=60))
        assert len(set(pages)) == len(pages) >= OTHERS + 2
        assert {page.partition("/-/item/")[0] for page in pages} == {network.archive}
        assert all(rules.can_fetch("any", page) for page in pages)
        text = session.get(
            f"{network.archive}/-/item/{LAST}", timeout=60, headers={"Accept": "text/html"}
        ).text
    tags = dict(re.findall(r'<meta name="(citation_[a-z_]+)" content="([^"]*)">', text))
    assert (tags["citation_title"], tags["citation_author"]) == (TITLE, "Silva, Maria")
    assert {url.partition("://")[0] for url in tags.values() if "://" in url} == {"https"}
    [described] = re.findall(r'<script type="application/ld\+json">(.*?)</script>', text, re.DOTALL)
    assert json.loads(described)["url"] == f"{network.resolver}/{LAST}"


def _locations(reply: requests.Response) -> list[str]:
    """The URLs in a sitemap, or in the index of several."""
    reply.raise_for_status()
    space = "{http://www.sitemaps.org/schemas/sitemap/0.9}loc"
    return [str(each.text) for each in ET.fromstring(reply.content).iter(space)]  # noqa: S314 - of our own server


def test_a_program_finds_the_interfaces_of_both(network: HttpsNetwork) -> None:
    """RFC 9727: by the catalogue, each interface, and what describes it."""
    for root in (network.archive, network.resolver):
        catalog = requests.get(f"{root}/.well-known/api-catalog", timeout=60).json()["linkset"]
        described = [link["href"] for each in catalog for link in each.get("service-desc", ())]
        assert all(url.startswith(f"{root}/") for url in described)
        assert {requests.get(url, timeout=60).status_code for url in described} == {200}


def test_curl_gets_a_part_of_a_file_and_can_check_the_whole(network: HttpsNetwork) -> None:
    url = f"{network.archive}/col/{LAST}/doc/a.txt"
    words = ("--silent", "--show-error", "--globoff", "--proto", "=https")
    assert _run("curl", *words, "--range", "0-3", url) == "to b"
    digest = base64.b64encode(sha256(b"to be read").digest()).decode()
    assert f"repr-digest: sha-256=:{digest}:" in _run("curl", *words, "--head", url).lower().replace(
        digest.lower(), digest
    )


@BOTH
def test_the_parser_of_prometheus_reads_the_metrics(network: HttpsNetwork, at: str) -> None:
    text = requests.get(f"{getattr(network, at)}/-/metrics", timeout=60).text
    names = [each.name for each in text_string_to_metric_families(text)]
    assert sum(name.startswith(f"ibi_{at}") for name in names) > 10


def test_our_own_client_reads_both_asynchronously(network: HttpsNetwork) -> None:
    async def run() -> tuple[str, str]:
        async with AsyncResolver(network.resolver) as resolver, AsyncArchive(network.archive) as archive:
            return (await resolver.resolve(LAST)).url, (await archive.item(LAST)).title

    where, name = asyncio.run(run())
    assert (where.startswith(f"{network.archive}/"), name) == (True, TITLE)
