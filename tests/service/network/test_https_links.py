"""A crawler follows every link of an Archive and a resolver on https, of their administrations and mails, too.

Not one http:// of ours is in a page, feed, sitemap, answer to a harvester, linkset, error, mail or header.
"""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from ibi.accounts.people import Accounts, Role
from ibi.runtime.settings import ResolverSettings
from ibi.web.formats import FORMATS, RECORD_FORMATS
from support.cli.archive_commands import ibi, make_archive, serving, until
from support.network.https_crawl import Crawl, in_the_open
from support.network.https_network import HttpsNetwork, https_network
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
            mail_from="resolver@resolver.example",
        ).write(folder / "resolver")  # fmt: skip

    with ExitStack() as stack:
        stack.enter_context(answering(box))
        made = stack.enter_context(https_network(tmp_path_factory.mktemp("https"), prepare, SMALL_PAGES))
        by_root = {getattr(made, program): token for program, token in tokens.items()}
        yield Whole(made, box, by_root)


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
    explained = [f"/-/{way}/{FIRST}" for way in ("explain", "api/handles", "timemap", "timegate")]
    return [
        (network.archive, [*common, *shown, *at_archive]),
        (network.resolver, [*common, *shown, *at_resolver, *explained]),
    ]


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
    for status, kind in (
        (404, "application/problem+json"), (404, "text/plain"), (404, "text/html"), (410, "text/html"),
        (410, "application/problem+json"), (400, "text/plain"), (200, "application/atom+xml"),
        (200, "application/linkset+json"), (200, "application/linkset"), (200, "application/x-bibtex"),
        (200, "application/vnd.datacite.datacite+json"), (200, "text/turtle"), (200, "application/link-format"),
        (200, "image/svg+xml"), (303, ""), (302, ""),
    ):  # fmt: skip
        assert crawl.types[status, kind], (status, kind, crawl.types)


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
