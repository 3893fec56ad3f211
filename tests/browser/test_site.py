"""The site of the documents: built without a warning, with links that lead somewhere, searched in both languages."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from lxml import html  # type: ignore[import-untyped]  # it has no types
from playwright.sync_api import Browser, expect

import site_pages

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(600)]

CATALOGUE = site_pages.ROOT / "docs/locale/pt_BR/LC_MESSAGES/sphinx.po"
OF_SPHINX = {"Buscar", "Furo", "Português", "English"}
"""What stands around a Portuguese page, besides the catalogue and the titles of pages."""
SEARCHED = {"pt-BR": ("arquivos cadastrados", "Glossário"), "en": ("depositing items", "Keeping an Archive")}
"""Words in forms that the page which is to be found does not have."""


def _read(page: Path) -> Any:
    return html.document_fromstring(page.read_bytes())


@cache
def _anchors(page: Path) -> set[str]:
    return set(_read(page).xpath("//@id|//@name"))


def _dead_links(site: Path) -> Iterator[str]:
    """Links that lead nowhere within the site, and whatever a page would fetch from elsewhere."""
    for page in sorted(site.rglob("*.html")):
        for element, attribute, link, _ in _read(page).iterlinks():
            target = urlsplit(link)
            if target.scheme or target.netloc:
                if element.tag != "a" and target.scheme != "data":
                    yield f"{page.relative_to(site)} fetches {link}"
                continue
            goal = (page.parent / unquote(target.path)).resolve() if target.path else page
            if not goal.is_file():
                yield f"{page.relative_to(site)}: {attribute} {link}"
            elif target.fragment and unquote(target.fragment) not in _anchors(goal):
                yield f"{page.relative_to(site)}: {link} has no such anchor"


def _around(page: Path) -> set[str]:
    """The texts of a page that the theme wrote: visible ones outside contents, and labels."""
    copy = _read(page)
    for element in copy.xpath(
        "//script|//style|//head|//article[@role='main']//section|//*[contains(@class,'-tree')]"
    ):
        element.drop_tree()
    texts = [*copy.itertext(), *copy.xpath("//@aria-label|//@placeholder|//@title")]
    return {words for text in texts if (words := " ".join(text.split())) and re.search(r"\w", words)}


def _translations() -> dict[str, str]:
    return dict(
        re.findall(r'^msgid "(.+)"\nmsgstr "(.+)"$', CATALOGUE.read_text(encoding="utf-8"), re.MULTILINE)
    )


@contextmanager
def _served(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def _search(browser: Browser, root: str, language: str) -> None:
    words, title = SEARCHED[language]
    page = browser.new_page()
    page.goto(f"{root}/index.html")
    page.get_by_role("link", name="português" if language == "pt-BR" else "English").click()
    page.locator("input[name=q]").fill(words)
    page.keyboard.press("Enter")
    page.locator("#search-results").get_by_role("link", name=title, exact=True).first.click()
    expect(page.locator("h1")).to_contain_text(title)
    expect(page.locator("html")).to_have_attribute("lang", language)
    page.close()


def test_the_site_is_whole_and_searched_in_both_languages(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], browser: Browser
) -> None:
    site = tmp_path / "site"
    assert (site_pages.build(site, tmp_path / "sources"), capfd.readouterr().err) == (0, "")
    assert list(_dead_links(site)) == []
    words = _translations()
    titles = set(_read(site / "pt-BR/index.html").xpath("//*[contains(@class,'sidebar-tree')]//a/text()"))
    for name in ("index", "search", "how-to/keep-an-archive"):
        known = {
            *map(str.strip, words.values()),
            *OF_SPHINX,
            *titles,
            "ibi: nomes que duram mais que endereços",
        }
        assert _around(site / f"pt-BR/{name}.html") - known == set()
    copying = (site / "pt-BR/_static/copybutton.js").read_text(encoding="utf-8")
    assert "Copiar para a área de transferência" in copying
    with _served(site) as root:
        for language in site_pages.LANGUAGES:
            _search(browser, root, language)
