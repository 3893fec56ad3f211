"""A page of another origin reads, in a real browser, what is public, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, Page

from support.cli.archive_commands import ibi
from support.network.https_network import https_network
from support.network.up import Up
from support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

_READ = """async ([url, accept]) => {
    try {
        const reply = await fetch(url, {headers: {Accept: accept}});
        const names = [...reply.headers.keys()];
        return {url: reply.url, status: reply.status, text: await reply.text(), names};
    } catch (error) {
        return {refused: String(error)};
    }
}"""


class _Elsewhere(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Serve an empty page."""
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Elsewhere</title>")

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Elsewhere) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.fixture
def page(browser: Browser, elsewhere: str) -> Iterator[Page]:
    context = browser.new_context()
    made = context.new_page()
    made.goto(elsewhere)
    yield made
    context.close()


def test_a_page_reads_a_citation_by_persistent_url(up: Up, page: Page) -> None:
    url = up.link("its metadata")
    for _ in range(3):  # the last time from the fast path
        found = page.evaluate(_READ, [url, "application/vnd.citationstyles.csl+json"])
        assert found["status"] == 200
        assert json.loads(found["text"])["title"] == "Names that stay"
        assert "/-/metadata/" in found["url"]
        assert {"link", "etag"} <= set(found["names"])


def test_a_page_reads_a_citation_where_all_is_https(
    browser: Browser, elsewhere: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The certificates are those of an authority that this browser does not know: it is the one thing overlooked."""
    name = "archive.example/archive/2026/03.02.10.15"

    def fill(folder: Path) -> None:
        item = {"rep": name, "metadata": {"title": ["Waves"]}, "url": "https://far.example/x"}
        (folder / "items.jsonl").write_text(json.dumps(item))
        ibi("archive", "import", "--data", folder / "archive", folder / "items.jsonl")

    with https_network(tmp_path_factory.mktemp("https"), fill) as network:
        context = browser.new_context(ignore_https_errors=True)
        page = context.new_page()
        page.goto(elsewhere)
        for root in (network.resolver, network.archive):
            found = page.evaluate(_READ, [f"{root}/{name}", "application/vnd.citationstyles.csl+json"])
            assert (found["status"], json.loads(found["text"])["title"]) == (200, "Waves")
            assert found["url"].startswith(f"{network.archive}/-/metadata/")
        context.close()


def test_a_page_reads_errors_and_explanations(up: Up, page: Page) -> None:
    unknown = f"{up.root}/archive.example/none/2010/01.01.00.00"
    alert = page.evaluate(_READ, [unknown, "application/json"])
    assert (alert["status"], json.loads(alert["text"])["kind"]) == (404, "not-found")
    name = up.link("a text").removeprefix(f"{up.root}/")
    assert page.evaluate(_READ, [f"{up.root}/-/explain/{name}", "application/json"])["status"] == 200


def test_a_page_reads_no_file_and_no_administration(up: Up, page: Page) -> None:
    assert "refused" in page.evaluate(_READ, [up.link("a text"), "text/html"])  # it leads to a file
    assert "refused" in page.evaluate(_READ, [f"{up.root}/-/admin", "text/html"])
