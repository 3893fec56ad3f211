"""Every form that readers and strangers meet, sent by a real browser; administrations have a walk of their own.

Forms are known by the templates in which they stand: a new one that no test sends makes this fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, expect

from support.archive.administration_fixture import AdministeredArchive, administered_archive
from support.archive.archive_fixture import REP
from support.archive.search_fixture import item
from support.browser.page_checks import reader
from support.cli.archive_commands import until
from support.resolver.process import ResolverProcess, make, serving

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

SENT_HERE: Final = {"_box.html", "browse.html", "find_form.html", "register.html", "search_form.html"}
"""The templates whose forms are sent below."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("archive")) as made:
        yield made


@pytest.fixture(scope="module")
def resolver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ResolverProcess]:
    data = tmp_path_factory.mktemp("resolver")
    make(data, registration="form")
    with serving(data) as process:
        yield process


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with reader(browser, "en-GB", phone=False) as made:
        yield made


def test_no_other_template_has_a_form() -> None:
    templates = files("ibi.web").joinpath("templates")
    having = {each.name for each in templates.iterdir() if "<form" in each.read_text("utf-8")}
    administration = {name for name in having if name.startswith("admin")} | {"sign_in.html"}
    assert having - administration == SENT_HERE


def test_an_archive_applies_for_registration(
    archive: AdministeredArchive, resolver: ResolverProcess, page: Page
) -> None:
    page.goto(f"{resolver.root}/-/register")
    page.locator("#service_ibi").fill(str(archive.archive.settings.service.main))
    page.locator("#address").fill(f"127.0.0.1:{archive.port}")
    page.locator("#mail").fill("ada@archive.example")
    page.locator("#title").fill("Vale Novo")
    page.get_by_role("button", name="Send the request").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The key of your Archive")
    expect(page.get_by_role("main")).to_contain_text("Vale Novo")
    expect(page.get_by_role("button", name="Copy it")).to_be_visible()


def test_a_fault_in_an_application_is_shown_at_its_field_and_nothing_is_lost(
    resolver: ResolverProcess, page: Page
) -> None:
    page.goto(f"{resolver.root}/-/register?lang=pt-BR")
    page.locator("#service_ibi").fill("archive.example/a/2026/1.2")
    page.locator("#address").fill("archive.example")
    page.locator("#mail").fill("ada@archive.example")
    page.get_by_role("button", name="Enviar a solicitação").click()
    page.get_by_role("link", name="Ir ao campo").click()
    expect(page.locator("#service_ibi")).to_be_focused()
    expect(page.locator("#service_ibi")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#mail")).to_have_value("ada@archive.example")
    assert page.locator("html").get_attribute("lang") == "pt-BR"


def test_an_application_of_another_site_is_refused(
    resolver: ResolverProcess, page: Page, tmp_path: Path
) -> None:
    foreign = tmp_path / "foreign.html"
    form = f'<form action="{resolver.root}/-/register" method="post"><input name="mail"><button>Go</button></form>'
    foreign.write_text(f"<!doctype html><title>Elsewhere</title>{form}")
    page.route("http://127.0.0.1:1/", lambda route: route.fulfill(path=foreign, content_type="text/html"))
    page.goto("http://127.0.0.1:1/")
    page.get_by_role("button").click()
    expect(page.get_by_role("main")).to_contain_text("from another site")


def test_a_link_is_found(resolver: ResolverProcess, page: Page) -> None:
    page.goto(f"{resolver.root}/")
    page.locator("#text").fill(f"see <http://resolver.test/{REP}!>, page 3")
    page.get_by_role("button", name="Find").click()
    expect(page.locator(f'main a[href="/{REP}!"]').first).to_be_visible()


def test_an_item_is_found(archive: AdministeredArchive, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{archive.port}/-/search")
    page.locator("#text").fill("two one")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("main")).to_contain_text("One & <two>")


def test_a_reader_jumps_to_the_beginning_of_a_name(archive: AdministeredArchive, page: Page) -> None:
    assert archive.archive.load(item(77, "By somebody", creator=["Silva, Ana"])).refused == 0
    page.goto(f"http://127.0.0.1:{archive.port}/-/browse?lang=pt-BR")
    until(lambda: page.reload() is not None and page.locator("#letter").is_visible())
    page.get_by_label("Começo do nome").fill("Sil")
    page.get_by_role("button", name="Ir").click()
    expect(page.locator('main a[href^="/-/search?person=Silva"]').first).to_be_visible()
    assert page.locator("html").get_attribute("lang") == "pt-BR"


def test_an_item_is_found_from_any_page(archive: AdministeredArchive, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{archive.port}/-/item/{REP}?lang=pt-BR")
    page.get_by_role("searchbox", name="Palavras, pessoas, assuntos ou um identificador").fill("two one")
    page.get_by_role("button", name="Buscar").click()
    expect(page.get_by_role("main")).to_contain_text("One & <two>")
    assert page.locator("html").get_attribute("lang") == "pt-BR"
