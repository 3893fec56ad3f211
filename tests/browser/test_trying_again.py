"""A page that refuses for a while says in words when to come back, and comes back by itself where nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from ibi.archive.service.service import ArchiveService
from ibi.http.server.service import Service
from ibi.web.assets import WithAssets
from support.archive.archive_fixture import REP, Served, fill, listener, make_archive, serving
from support.browser.page_checks import reader
from support.web.unnamed import RENDERER

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = {"trusted_proxies": ("127.0.0.0/8",), "page_rate": 0.25, "page_burst": 1}
    with listener() as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        made = make_archive(tmp_path_factory.mktemp("limited") / "archive", address, limits)
        fill(made)
        app = ArchiveService(made.settings, made.catalogue, made.file_store, made.clock.seconds, RENDERER)
        with serving(made, listening, Service(WithAssets(app), close=app.close)) as served:
            yield served


@pytest.fixture(params=["en-GB", "pt-BR"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    with reader(browser, request.param, phone=request.param == "pt-BR") as made:
        made.set_extra_http_headers({"X-Forwarded-For": f"192.0.2.{len(request.param)}"})
        yield made


def test_it_counts_down_and_then_reads_the_page_again(archive: Served, page: Page) -> None:
    portuguese = page.evaluate("navigator.language") == "pt-BR"
    words = "Tente de novo em {} segundos." if portuguese else "Please try again in {} seconds."
    page.goto(f"http://127.0.0.1:{archive.port}/-/item/{REP}")
    refused = page.goto(f"http://127.0.0.1:{archive.port}/-/item/{REP}")
    assert refused is not None
    assert (refused.status, refused.headers["retry-after"]) == (429, "4")
    line = page.locator("p.again")
    expect(line.locator("span")).to_have_text(words.format(4))
    expect(line.locator("span")).to_have_text(words.format(2))
    archive.archive.clock.now += 10
    expect(line).to_have_count(0)  # it has read the page again
    page.goto(f"http://127.0.0.1:{archive.port}/-/item/{REP}")
    page.get_by_role("button", name="Não tentar" if portuguese else "Do not try").click()
    expect(line.locator("span")).to_be_focused()
    expect(line.get_by_role("button")).to_have_count(0)
    expect(line.get_by_role("link")).to_have_attribute("href", "")
