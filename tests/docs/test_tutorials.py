"""The tutorials are followed to the letter, on new servers, and the first one takes its own pictures.

Its commands are typed as they stand there; only the addresses, which no one has, are others, and
what one server printed is sent to the other. Debian's
packages and those of Python come from files that were fetched before, and Pebble is what Let's Encrypt is elsewhere.
`make pictures` puts the pictures into docs/images/tutorial; otherwise they go to a temporary directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Response, expect, sync_playwright

from support.browser.page_checks import FLAGS
from support.pages.blocks import blocks
from support.pages.machine import ADDRESSES
from support.pages.runner import Shell, language_of, run_block, run_page
from support.servers.acme import NAME, authority
from support.servers.network import INTERNET, Namespace, internet
from support.servers.server import booted, make_server
from support.style.layers import ROOT

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(900)]

FIRST, SECOND = (
    ROOT / f"docs/pt-BR/tutorial/{name}.md" for name in ("first-repository", "institution-resolver")
)
PICTURES = ROOT / "docs/images/tutorial"
HERE, THERE = ADDRESSES.values()
ARCHIVE, RESOLVER, MUSEUM = "arquivo.example.org", "resolvedor.example.org", "museu.example.org"
TRANSLATED = {
    "arquivo.": "archive.",
    "resolvedor.": "resolver.",
    "museu": "museum",
    "anfora": "amphora",
    "Ânfora de barro, encontrada em": "An amphora of clay, found in",
    "Ânfora": "Amphora",
}
_TYPED = re.compile(r"\$ |sudo |    --|until |included|name=|echo ")
_APPLICATION = re.compile(r"--archive-service (\S+/\S+) --key (\d{20})")
"""What the one who registers an Archive is told."""
PDF = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
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
    flags = [*FLAGS, f"--host-resolver-rules=MAP *.example.org {HERE}"]
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
    page.locator(".received li").wait_for(timeout=120_000)
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

    def add(answer: Response) -> None:
        answers.append(answer)

    page.on("response", add)
    with page.expect_event(
        "response", lambda answer: answer.url.endswith("/relatorio.pdf") and answer.status == 200
    ):
        page.evaluate("(link) => { location.href = link; }", link)
    return answers


def _first_repository(shell: Shell, browser: Browser, folder: Path, pictures: Path) -> None:
    """Follow the first page; in its last parts with a browser, in both languages."""
    printed = "".join(each.printed for each in run_page(FIRST, shell, folder, ADDRESSES))
    (password,) = re.findall(r"^archive  \S+  maria  (\S+)$", printed, re.MULTILINE)
    for language in WORDS:
        context = browser.new_context(
            locale=language, viewport={"width": 1280, "height": 1180}, ignore_https_errors=True
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
        context.close()
    findings = shell.run(f"ibi doctor --data /var/lib/ibi/archive/{ARCHIVE} || true")
    assert not re.search(r"^(falha|fault) ", findings, re.MULTILINE), findings


def _second_archive(shells: Mapping[str, Shell], folder: Path) -> None:
    """Follow the second page, on two servers; what one of them prints is sent to the other."""
    replaced = dict(ADDRESSES)
    for block in (each for each in blocks(SECOND) if each.is_run):
        at = shells[block.notes.get("on", RESOLVER)]
        for typed in run_block(SECOND, replace(block, notes={}), at, folder, replaced):
            if "ibi init" in typed.text:
                (given,) = _APPLICATION.findall(typed.printed)
                (shown,) = _APPLICATION.findall(SECOND.read_text("utf-8"))
                replaced |= dict(zip(shown, given, strict=True))
    findings = shells[RESOLVER].run(f"ibi doctor --data /var/lib/ibi/resolver/{RESOLVER} || true")
    assert not re.search(r"^(falha|fault) ", findings, re.MULTILINE), findings


def test_the_tutorials_end_with_items_whose_links_are_followed(tmp_path: Path, chromium_path: str) -> None:
    hosts = {ARCHIVE: HERE, RESOLVER: HERE, MUSEUM: THERE}
    pictures = Path(os.environ["IBI_PICTURES"]) / "tutorial" if "IBI_PICTURES" in os.environ else tmp_path
    with ExitStack() as stack:
        net = stack.enter_context(internet(HERE, THERE))
        roots = stack.enter_context(authority(net.namespace, tmp_path / "acme", hosts))
        shells = {}
        for name, address in ((RESOLVER, HERE), (MUSEUM, THERE)):
            make_server(tmp_path / name, hosts | {NAME: INTERNET}, roots)
            server = booted(tmp_path / name, net.servers[address], language_of(FIRST))
            shells[name] = stack.enter_context(server)
        browser = stack.enter_context(_reader(net.namespace, chromium_path, tmp_path))
        _first_repository(shells[RESOLVER], browser, tmp_path, pictures)
        _second_archive(shells, tmp_path)


@pytest.mark.parametrize("name", [FIRST.name, SECOND.name])
def test_both_languages_type_the_same(name: str) -> None:
    """The English page has the commands of the Portuguese one, with other names and words."""
    typed = []
    for tree in ("pt-BR", "en"):
        text = "".join(
            block.text for block in blocks(ROOT / "docs" / tree / "tutorial" / name) if block.is_run
        )
        for portuguese, english in TRANSLATED.items() if tree == "pt-BR" else ():
            text = text.replace(portuguese, english)
        typed.append([line for line in text.splitlines() if _TYPED.match(line)])
    assert typed[0] == typed[1] != []


def test_each_picture_of_the_tutorial_is_there() -> None:
    shown = {path.name for path in PICTURES.glob("*.png")}
    assert shown == {
        f"{name}.{language}.png" for name in ("sign-in", "deposit", "item", "explain") for language in WORDS
    }
