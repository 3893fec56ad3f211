"""The tutorial of a first repository is followed to the letter, on a new server, and takes its own pictures.

Its commands are typed as they stand there; only the address of the documents, which no one has, is another. Debian's
packages and those of Python come from files that were fetched before, and Pebble is what Let's Encrypt is elsewhere.
`make pictures` puts the pictures into docs/images/tutorial; otherwise they go to a temporary directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect, sync_playwright

from support.browser.page_checks import FLAGS
from support.pages.runner import language_of, run_page
from support.servers.acme import NAME, authority
from support.servers.network import INTERNET, Namespace, internet
from support.servers.server import booted, make_server
from support.style.layers import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(900)]

PAGE = ROOT / "docs/pt-BR/tutorial/first-repository.md"
PICTURES = ROOT / "docs/images/tutorial"
SHOWN, ADDRESS = "203.0.113.7", "192.0.43.8"
"""The address of the server on the page, and the one that it has, which counts as public."""
ARCHIVE, RESOLVER = "arquivo.example.org", "resolvedor.example.org"
PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
WORDS = {
    "pt-BR": (
        "Entrar",
        "Depositar",
        "Relatório",
        "Cheias do rio do Vale em 2026",
        "Arquivos do item",
        "Publicação",
    ),
    "en": ("Sign in", "Deposit", "Report", "Floods of the Vale river in 2026", "Files", "Publication"),
}
"""What the page tells to choose, and the title that is written: in each language."""


@contextmanager
def _reader(at: Namespace, chromium_path: str, folder: Path) -> Iterator[Browser]:
    """A browser in another place of the internet, where all names lead to the server."""
    program = folder / "chromium"
    program.write_text(f'#!/bin/sh\nexec {" ".join(at.command(chromium_path))} "$@"\n')
    program.chmod(0o755)
    flags = [*FLAGS, f"--host-resolver-rules=MAP *.example.org {ADDRESS}"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=flags)
        yield browser
        browser.close()


def _take(page: Page, name: str, language: str, folder: Path) -> None:
    page.evaluate("document.fonts.ready")
    page.screenshot(path=folder / f"{name}.{language}.png")


def _deposit(page: Page, language: str, password: str, pictures: Path) -> str:
    """Sign in and deposit an item, as the page tells; the persistent link of the item."""
    sign_in, deposit, report, title, files, publication = WORDS[language]
    page.goto(f"https://{ARCHIVE}/-/admin")
    page.locator("input[name=name]").fill("maria")
    page.locator("input[name=password]").fill(password)
    _take(page, "sign-in", language, pictures)
    page.get_by_role("button", name=sign_in, exact=True).click()
    page.locator("nav.menu").get_by_role("link", name=deposit, exact=True).click()
    for words in (files, publication):
        expect(page.get_by_role("heading", name=words).first).to_be_visible()
    page.locator("#file").set_input_files(
        {"name": "relatorio.pdf", "mimeType": "application/pdf", "buffer": PDF}
    )
    page.locator(".received li").wait_for()
    page.get_by_role("button", name=report, exact=True).click()
    page.locator('[value="kind:report"][aria-current="true"]').wait_for()
    for field, text in {
        "dc.title-1": title,
        "who-1-family": "Silva",
        "who-1-given": "Maria",
        "dc.date-1": "2026",
    }.items():
        page.locator(f'[id="{field}"]').fill(text)
    page.locator("h1").scroll_into_view_if_needed()
    _take(page, "deposit", language, pictures)
    page.get_by_role("button", name=deposit, exact=True).click()
    page.wait_for_url(re.compile("done=deposited"))
    name = page.url.partition("/items/")[2].partition("?")[0]
    page.goto(f"https://{ARCHIVE}/-/item/{name}")
    expect(page.locator("h1")).to_have_text(title)
    _take(page, "item", language, pictures)
    return str(page.locator("section:has(#link) a.name").first.get_attribute("href"))


def _follow(page: Page, link: str) -> list[Response]:
    """Open a link in another window; what was answered, until the document came."""
    answers: list[Response] = []
    page.on("response", answers.append)
    with page.expect_event(
        "response", lambda answer: answer.url.endswith("/relatorio.pdf") and answer.status == 200
    ):
        page.evaluate("(link) => { location.href = link; }", link)
    return answers


def test_the_tutorial_ends_with_an_item_whose_link_is_followed(tmp_path: Path, chromium_path: str) -> None:
    hosts = {ARCHIVE: ADDRESS, RESOLVER: ADDRESS, NAME: INTERNET}
    pictures = Path(os.environ["IBI_PICTURES"]) / "tutorial" if "IBI_PICTURES" in os.environ else tmp_path
    with internet(ADDRESS) as net, authority(net.namespace, tmp_path / "acme", ADDRESS) as roots:
        make_server(tmp_path / "server", hosts, roots)
        with (
            booted(tmp_path / "server", net.servers[ADDRESS], language_of(PAGE)) as shell,
            _reader(net.namespace, chromium_path, tmp_path) as browser,
        ):
            done = run_page(PAGE, shell, tmp_path, {SHOWN: ADDRESS})
            made = next(each.printed for each in done if "ibi init" in each.text)
            (password,) = re.findall(r"^archive  \S+  maria  (\S+)$", made, re.MULTILINE)
            for language in WORDS:
                context = browser.new_context(
                    locale=language, viewport={"width": 1280, "height": 900}, ignore_https_errors=True
                )
                page = context.new_page()
                link = _deposit(page, language, password, pictures)
                assert link.startswith(f"https://{RESOLVER}/")
                answers = _follow(context.new_page(), link)
                assert [answer.status for answer in answers if answer.url == link] == [302]
                assert answers[-1].url.startswith(f"https://{ARCHIVE}/")
                assert answers[-1].headers["content-length"] == str(len(PDF))
                page.goto(link.replace(f"{RESOLVER}/", f"{RESOLVER}/-/explain/"))
                expect(page.locator("main")).to_contain_text(ARCHIVE)
                _take(page, "explain", language, pictures)
            faults = shell.run(
                f"ibi doctor --data /var/lib/ibi/archive/{ARCHIVE} --json | grep -c fault || true"
            )
            assert faults.strip() == "0", shell.run(
                f"ibi doctor --data /var/lib/ibi/archive/{ARCHIVE} || true"
            )


def test_both_languages_type_the_same() -> None:
    """The English page has the commands of the Portuguese one, for other names."""
    english = ROOT / "docs/en/tutorial/first-repository.md"
    commands = [
        re.findall(r"^```(?:sh|console)\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for page in (PAGE, english)
    ]
    typed = [
        [line for block in blocks for line in block.splitlines() if re.match(r"\$ |sudo |    --", line)]
        for blocks in commands
    ]
    assert [
        line.replace("arquivo.", "archive.").replace("resolvedor.", "resolver.") for line in typed[0]
    ] == typed[1]
    shown = {path.name for path in PICTURES.glob("*.png")}
    assert shown == {
        f"{name}.{language}.png" for name in ("sign-in", "deposit", "item", "explain") for language in WORDS
    }
