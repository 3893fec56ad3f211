"""A crawler follows every link of an Archive and a resolver on https, of their administrations and mails, too.

Not one http:// of ours is in a page, feed, sitemap, answer to a harvester, linkset, error, mail or header.
"""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import pytest
import requests

from ibi.accounts.people import Accounts, Role
from ibi.protocol.vocabulary import FORMAT_BY_TYPE
from ibi.runtime.settings import ArchiveSettings, ResolverSettings
from ibi.web.assets import svg as qr_code
from ibi.web.formats import FORMATS, RECORD_FORMATS
from support.cli.archive_commands import ibi, make_archive, serving, until
from support.network.https_crawl import Crawl, in_the_open
from support.network.https_network import HttpsNetwork, Page, https_network, serving_https
from support.ports import free_port
from support.resolver.postbox import Postbox, answering

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.long

PASSWORD = "four words and a horse"
SMALL_PAGES = (
    sys.executable,
    "-c",
    """
import sys
from ibi.archive.search import index_writer
index_writer.SHEET = 10
from ibi.archive.search import resource_sync
resource_sync.EVENTS = 10
from ibi.archive.oai import lists
lists.RECORDS = lists.HEADERS = 10
from ibi.cli import main
sys.exit(main())
""",
)
"""Serves with ten items on a sheet of the sitemap, ten on a page for harvesters, ten events on a list of changes."""
SERVICE = "archive.example/archive"
NAMES = [f"{SERVICE}/2026/03.02.10.{number:02}" for number in range(25)]
FIRST, LAST, COPY, CLOSED, LINKED, RECORD = NAMES[:6]
TWICE = NAMES[8]
"""An original that a second Archive claims, too."""


@dataclass(frozen=True)
class Whole:
    """A network, what its mail server has got, and who has signed in: a cookie and a token by root URL."""

    network: HttpsNetwork
    box: Postbox
    tokens: dict[str, str]

    def signed_in(self, root: str) -> dict[str, str]:
        """The headers of a browser in which root has signed in."""
        page = self.network.post(f"{root}/-/admin/sign-in", {"name": "root", "password": PASSWORD})
        assert page.status == 303, page.body
        return {
            "cookie": "; ".join(line.partition(";")[0] for line in page.headers["set-cookie"].split("\n"))
        }


def _items() -> Iterator[dict[str, Any]]:
    for name in NAMES:
        metadata: dict[str, Any] = {
            "title": [f"Waves {name}"],
            "creator": ["Silva, Maria (0000-0002-1825-0097)"],
            "subject": ["sea"],
            "date": ["2026-03-12"],
        }
        yield {
            "rep": name,
            "metadata": metadata,
            "files": {"a.pdf": "a.pdf"},
            "language": "pt",
        } | _SPECIAL.get(name, {})


_SPECIAL: dict[str, dict[str, Any]] = {
    FIRST: {"next_edition": LAST, "translations": {"en": NAMES[6]}},
    COPY: {"files": {"a.pdf": "a.pdf", "b.txt": "a.pdf"}},
    CLOSED: {"access": "closed", "licence": "https://creativecommons.org/licenses/by/4.0/"},
    LINKED: {"files": {}, "url": "https://elsewhere.example/x"},
    RECORD: {"contenttype": "Metadata", "files": {}},
    NAMES[6]: {"language": "en", "metadata_item": RECORD},
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    box, tokens = Postbox(), dict[str, str]()

    def prepare(folder: Path) -> None:
        (folder / "a.pdf").write_bytes(b"%PDF-1.4\n")
        (folder / "items.jsonl").write_text("\n".join(map(json.dumps, _items())))
        ibi("archive", "import", "--data", folder / "archive", folder / "items.jsonl")
        ibi("archive", "delete", "--data", folder / "archive", "--reason", "by mistake", NAMES[7])
        for program in ("archive", "resolver"):
            Accounts(folder / program).add("root", Role.ADMINISTRATOR, PASSWORD, "2026-11-28T10:00:00Z")
            with redirect_stdout(io.StringIO()) as printed:
                words = ("add", "t") if program == "resolver" else ("--name", "t")
                ibi(program, "token", *words, "--data", folder / program, "--scope", "admin", "--json")
            tokens[program] = json.loads(printed.getvalue())["token"]
        settings = ResolverSettings.read(folder / "resolver")
        replace(
            settings, admin="root@resolver.example", registration="form", smtp=f"127.0.0.1:{box.port}",
            mail_from="resolver@resolver.example", request_rate=0,
        ).write(folder / "resolver")  # fmt: skip

    with ExitStack() as stack:
        stack.enter_context(answering(box))
        made = stack.enter_context(https_network(tmp_path_factory.mktemp("https"), prepare, SMALL_PAGES))
        by_root = {getattr(made, program): token for program, token in tokens.items()}
        stack.enter_context(_second(made))
        yield Whole(made, box, by_root)


@contextmanager
def _second(network: HttpsNetwork) -> Iterator[None]:
    """An Archive that claims one of the items, too, for the alert of two originals."""
    data, tls, plain = network.folder / "second", free_port(), free_port()
    service = make_archive(data, plain, "--resolver", network.resolver)
    line = {"rep": TWICE, "metadata": {"title": ["Waves"]}, "files": {"a.pdf": "a.pdf"}}
    (network.folder / "twice.jsonl").write_text(json.dumps(line))
    ibi("archive", "import", "--data", data, network.folder / "twice.jsonl")
    words = ("--archive-service", service, "--key", ArchiveSettings.read(data).key)
    ibi("resolver", "register", "--data", network.folder / "resolver", *words)
    with serving_https(network.authority, "archive", data, tls, plain):
        until(lambda: b'"archives": 2' in network.get(f"{network.resolver}/-/about").body)
        yield


_SEARCHES = (
    "", "text=waves", "text=nothing+of+this", "subject=sea", "person=Silva,+Maria", "year=2026", "language=pt",
    "text=%22", "text=waves&after=10", "text=waves&order=title", "text=" + "a" * 3000,
)  # fmt: skip


def _roots(network: HttpsNetwork) -> list[tuple[str, list[str]]]:
    """Where a crawl begins at each of the two: what no page of theirs leads to."""
    common = [
        "/",
        "/robots.txt",
        "/.well-known/api-catalog",
        "/.well-known/security.txt",
        "/-/about",
        "/-/nothing",
    ]
    common += ["/-/api/openapi.json", "/-/api/items/x", "/-/admin", "/-/healthz", "/-/readyz", "/!!!"]
    shown = [
        f"/{name}{end}"
        for name in (FIRST, LAST, NAMES[7], COPY)
        for end in ("", ":", "!", "+(de)", "?info", "?json")
    ]
    at_resolver = [
        "/-/register",
        "/-/status",
        "/-/registry",
        f"/-/find?text={FIRST}",
        f"/{SERVICE}/2026/01.01.00.00",
    ]
    ways = ["item", "metadata", "files", "linkset", "api/handles", "timemap", "timegate"]
    at_archive = [
        *(f"/-/{way}/{name}" for way in ways for name in (FIRST, COPY, CLOSED, LINKED, RECORD, NAMES[7])),
        *(f"/-/metadata/{FIRST}?format={each.name}" for each in (*FORMATS, replace(FORMATS[0], name="none"))),
        *(f"/-/oai?verb=ListRecords&metadataPrefix={each.prefix}" for each in RECORD_FORMATS),
        *(f"/-/oai?verb={verb}" for verb in ("Identify", "ListSets", "ListMetadataFormats", "ListRecords")),
        *(f"/-/{way}" for way in ("search?text=waves", "browse", "feed", "feed?text=waves", "api/search?text=waves")),
        "/sitemap.xml", "/.well-known/resourcesync", f"/-/qr/{FIRST}.svg", f"/-/zip/{COPY}",
        f"/-/linkset/{FIRST}?format=linkset",
    ]  # fmt: skip
    at_archive += [
        *(f"/-/search?{words}" for words in _SEARCHES),
        *(f"/-/oai?verb=GetRecord&metadataPrefix={each.prefix}&identifier=oai:127.0.0.1:{FIRST}"
          for each in RECORD_FORMATS),
        *(f"/-/oai?{words}" for words in ("", "verb=GetRecord", "verb=ListRecords&metadataPrefix=none")),
        "/-/oai?verb=ListIdentifiers&metadataPrefix=oai_dc", f"/-/timemap/{FIRST}?format=json",
        f"/col/{CLOSED}/doc/a.pdf",
        f"/-/timegate/{network.resolver}/{FIRST}", "/-/statistics", "/-/statistics?format=csv", "/-/browse?letter=s",
        *(f"/-/item/{FIRST}?lang={each}" for each in ("en", "pt-BR")), "/-/programs?lang=pt-BR", "/?lang=pt-BR",
        f"/-/api/items/{NAMES[7]}", "/-/api/changes?limit=3", f"/-/api/items/{FIRST}/statistics", "/favicon.ico",
        "/-/api/statistics", "/-/api/transfers/x", "/-/api/transfers/x/files/a",
    ]  # fmt: skip
    at_resolver += [
        f"/{TWICE}?ibiurl.requireditemstatus=Original", f"/{COPY}:(none)", f"/{FIRST}+", f"/{FIRST}/none.txt",
        f"/-/explain/{TWICE}?ibiurl.requireditemstatus=Original", "/-/find?text=Silva%202016", "/-/find",
        "/-/registry?format=json", "/-/about?format=html", f"/-/api/handles/{COPY}?all", "/-/api/holders",
        "/-/programs", "/?lang=pt-BR", "/-/programs?lang=pt-BR", f"/{SERVICE}/2026/03.02.10.1", "/" + "x" * 9000,
    ]  # fmt: skip
    explained = [f"/-/{way}/{FIRST}" for way in ("explain", "api/handles", "timemap", "timegate")]
    return [
        (network.archive, [*common, *shown, *at_archive]),
        (network.resolver, [*common, *shown, *at_resolver, *explained]),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "see http://127.0.0.1:80/x",
        "http:\\/\\/127.0.0.1:80",
        "http:\\u002f\\u002F127.0.0.1:80",
        "http:&#x2F;&#47;127.0.0.1:80",
        "?url=http%3A%2F%2Flocalhost%3A80",
        "?url=http%253A%252F%252Flocalhost%253A80",
    ],
)
def test_an_address_that_is_no_https_is_seen_however_it_is_written(text: str) -> None:
    assert in_the_open(text)
    assert not in_the_open(text.replace("http:", "https:").replace("http%", "https%"))


@pytest.mark.parametrize(
    ("kind", "headers", "body", "found"),
    [
        ("text/html", {}, '<form action="/b"><button formaction="/c"></form>', "bc"),
        ("text/html", {}, '<a href="b"></a><img srcset="/c 2x, /d">', "bcd"),
        ("text/css", {}, 'a{background:url("/b")} i{background:url(/c)}', "bc"),
        ("application/json", {}, '{"next": "/b", "path": "/items/{ibi}"}', "b"),
        ("text/plain", {"link": '</b>; rel="next", <c>; rel="up"'}, "", "bc"),
        ("application/linkset", {}, '<b>; rel="item"; anchor="c"', "b"),
        ("", {"location": "/b"}, "", "b"),
    ],
)
def test_a_relative_link_is_followed_in_each_kind_of_answer(
    kind: str, headers: dict[str, str], body: str, found: str
) -> None:
    class Pages:
        archive = resolver = "https://127.0.0.1:1"

        def get(self, url: str, **_: str) -> Page:
            first = {"content-type": kind, **headers} if url.endswith("/a") else {}
            head = {"strict-transport-security": "max-age=31536000", **first}
            return Page(url, 200, head, body.encode() if first else b"")

    crawl = Crawl(Pages())  # type: ignore[arg-type]  # all that it needs of a network
    crawl.follow(["https://127.0.0.1:1/a"])
    assert crawl.seen == {f"https://127.0.0.1:1/{letter}" for letter in f"a{found}"}


def test_every_link_that_readers_and_programs_get_is_https(whole: Whole) -> None:
    crawl = Crawl(whole.network)
    crawl.follow(f"{root}{path}" for root, paths in _roots(whole.network) for path in paths)
    assert crawl.wrong == set()
    seen = "\n".join(sorted(crawl.seen))
    archive, resolver = whole.network.archive, whole.network.resolver
    for way in (
        "/-/item/",
        "/-/metadata/",
        "/-/files/",
        "/col/",
        "/-/linkset/",
        "/-/static/",
        "/-/feed",
        "/-/browse",
    ):
        assert f"{archive}{way}" in seen, way
    for way in ("/-/explain/", "/-/register", "/-/admin/sign-in", "/-/api/handles/", "/-/status"):
        assert f"{resolver}{way}" in seen, way
    assert [url for url in crawl.seen if "/-/sitemap/" in url and not url.startswith(archive)] == []
    assert {f"{archive}/-/sitemap/{number}.xml" for number in (1, 2, 3)} <= crawl.seen
    assert any("resumptionToken=" in url for url in crawl.seen)
    lists = ("capabilitylist.xml", "changelist.xml", "changes/1.xml", "changes/2.xml")
    assert {f"{archive}/-/resourcesync/{each}" for each in lists} <= crawl.seen
    for root in (archive, resolver):
        assert _unseen(whole.network, root, crawl.seen) == []
    for status, kind in (
        (404, "application/problem+json"), (404, "text/plain"), (404, "text/html"), (410, "text/html"),
        (410, "application/problem+json"), (400, "text/plain"), (200, "application/atom+xml"),
        (200, "application/linkset+json"), (200, "application/linkset"), (200, "application/x-bibtex"),
        (200, "application/vnd.datacite.datacite+json"), (200, "text/turtle"), (200, "application/link-format"),
        (200, "image/svg+xml"), (303, ""), (302, ""), (409, "text/html"), (409, "application/problem+json"),
        (414, "text/plain"), (400, "text/html"), (200, "application/zip"), (200, "text/csv"), (200, "text/xml"),
    ):  # fmt: skip
        assert crawl.types[status, kind], (status, kind, crawl.types)


def _unseen(network: HttpsNetwork, root: str, seen: set[str]) -> list[str]:
    """The described routes that need no token and at which the crawler has not been."""
    described = json.loads(network.get(f"{root}/-/api/openapi.json").body)
    missed = []
    for path, acts in described["paths"].items():
        if "get" not in acts or {} not in acts["get"].get("security", [{}]):
            continue
        below = acts.get("servers", described["servers"])[0]["url"].rstrip("/")
        pattern = root + below + re.sub(r"\\{[^}]*\\}", ".+", re.escape(path))
        missed += [] if any(re.match(pattern, url) for url in seen) else [below + path]
    return missed


@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_every_link_of_a_format_that_is_negotiated_is_https(whole: Whole, program: str) -> None:
    crawl, root = Crawl(whole.network), getattr(whole.network, program)
    for name in (FIRST, COPY, CLOSED, LINKED, RECORD, NAMES[6], NAMES[7]):
        for kind in FORMAT_BY_TYPE:
            page = whole.network.get(f"{root}/{name}", accept=kind)
            crawl.look(page)
            if "location" in page.headers:
                crawl.look(whole.network.get(urljoin(page.url, page.headers["location"]), accept=kind))
    assert crawl.wrong == set()
    found = {FORMAT_BY_TYPE[kind] for status, kind in crawl.types if status == 200 and kind in FORMAT_BY_TYPE}
    assert found == set(FORMAT_BY_TYPE.values())


def test_the_picture_of_a_name_leads_to_https(whole: Whole) -> None:
    picture = whole.network.get(f"{whole.network.archive}/-/qr/{FIRST}.svg")
    assert picture.body == qr_code(f"{whole.network.resolver}/{FIRST}")


def test_what_a_program_that_writes_is_answered_is_https(whole: Whole) -> None:
    root = whole.network.archive
    crawl = Crawl(whole.network, {"authorization": f"Bearer {whole.tokens[root]}"})
    with requests.Session() as session:
        session.headers.update(crawl.headers)
        session.trust_env = False  # its variables would win
        session.verify = str(whole.network.authority.file)
        made = session.post(
            f"{root}/-/api/items",
            json={"metadata": {"title": ["New"]}, "url": "https://far.example/"},
            timeout=60,
        )
        name = made.json()["rep"]
        answers = [
            made,
            session.post(f"{root}/-/api/items", json={"url": 1}, timeout=60),
            session.post(f"{root}/-/api/uploads", headers={"Upload-Length": "5"}, timeout=60),
            session.patch(
                f"{root}/-/api/items/{name}", json={"language": "en"}, headers={"If-Match": "*"}, timeout=60
            ),
            session.patch(
                f"{root}/-/api/items/{name}", json={"language": "en"}, headers={"If-Match": '"x"'}, timeout=60
            ),
            session.post(f"{root}/-/api/imports", json={"items": []}, timeout=60),
            session.post(f"{root}/-/api/audit", json={}, timeout=60),
            session.delete(f"{root}/-/api/items/{name}", params={"reason": "a test"}, timeout=60),
            session.delete(f"{root}/-/api/items/{name}", params={"reason": "a test"}, timeout=60),
        ]
    for each in answers:
        names = {key.lower(): value for key, value in each.headers.items()}
        crawl.look(Page(each.url, each.status_code, names, each.content))
    assert crawl.wrong == set()
    statuses = [each.status_code for each in answers]
    assert {200, 201, 412, 422} <= set(statuses), statuses
    assert answers[0].headers["location"].startswith(("https://", "/"))


@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_every_link_of_an_administration_is_https(whole: Whole, program: str) -> None:
    root = getattr(whole.network, program)
    crawl = Crawl(whole.network, whole.signed_in(root))
    crawl.follow([f"{root}/-/admin", f"{root}/-/admin/sign-in"], within="-/admin")
    assert crawl.wrong == set()
    words = {
        "archive": [
            "deposit",
            "membership",
            f"items/{SERVICE}",
            f"edit/{SERVICE}",
            "import",
            "do/",
            "statistics",
        ],
        "resolver": ["applications", "archives", "alerts", "log", "policies", "accounts"],
    }
    for word in words[program]:
        assert any(url.startswith(f"{root}/-/admin/{word}") for url in crawl.seen), (word, crawl.seen)


@pytest.mark.parametrize("program", ["archive", "resolver"])
def test_every_link_of_a_json_interface_is_https(whole: Whole, program: str) -> None:
    root = getattr(whole.network, program)
    described = json.loads(whole.network.get(f"{root}/-/api/openapi.json").body)
    paths = {path: acts for path, acts in described["paths"].items() if "get" in acts}
    crawl = Crawl(whole.network, {"authorization": f"Bearer {whole.tokens[root]}"})
    for path, acts in paths.items():
        below = acts.get("servers", described["servers"])[0]["url"].rstrip("/")
        url = root + below + re.sub("{[^}]*}", FIRST, path)
        crawl.look(whole.network.get(url, accept="application/json", **crawl.headers))
    assert crawl.wrong == set()
    assert crawl.types[200, "application/json"] >= len(paths) // 2, (crawl.types, paths)


def test_the_mails_and_pages_of_a_registration_lead_to_https(whole: Whole, tmp_path: Path) -> None:
    network, port = whole.network, free_port()
    service = make_archive(tmp_path / "stranger", port)
    fields = {"service_ibi": service, "address": f"127.0.0.1:{port}", "mail": "admin@archive.example"}
    crawl = Crawl(network)
    with serving("--data", tmp_path / "stranger", "--bind", f"127.0.0.1:{port}"):
        refused = network.post(
            f"{network.resolver}/-/register", fields | {"mail": "none"}, accept="text/html"
        )
        applied = network.post(f"{network.resolver}/-/register", fields, accept="text/html")
        assert (refused.status, applied.status) == (422, 200)
        ibi("resolver", "approve", "--data", network.folder / "resolver", service)
        until(lambda: len(whole.box.letters) == 2)
    for page in (refused, applied):
        crawl.look(page)
    assert crawl.wrong == set()
    assert {letter["To"] for letter in whole.box.letters} == {
        "root@resolver.example",
        "admin@archive.example",
    }
    texts = [letter.get_content() for letter in whole.box.letters]
    assert set().union(*map(in_the_open, texts)) == set()
    assert all(network.resolver.removeprefix("https://").rpartition(":")[0] in text for text in texts)
