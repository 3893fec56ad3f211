"""`ibi up`, then a real browser on the printed URLs, as two readers: one English, one Brazilian on a phone at night."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from support.browser.page_checks import fits, reader
from support.network.up import Up
from support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

FIRST, LAST = "archive.example/first/2026/03.02.10.15", "archive.example/first/2026/09.14.16.40"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield running


@pytest.fixture
def english(browser: Browser) -> Iterator[Page]:
    with reader(browser, "en-GB", phone=False) as page:
        yield page


@pytest.fixture
def brazilian(browser: Browser) -> Iterator[Page]:
    with reader(browser, "pt-BR", phone=True) as page:
        yield page


def _text(page: Page, what: str = "main") -> str:
    return " ".join(page.locator(what).inner_text().split())


def test_a_persistent_url_becomes_the_document_itself(up: Up, english: Page) -> None:
    english.goto(up.link("a text"))
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/col/" + FIRST + "/doc/index.html", english.url)
    assert _text(english, "h1") == "Names that stay"
    assert "First edition" in _text(english, "body")


def test_the_last_edition_and_its_style_sheet(up: Up, english: Page) -> None:
    english.goto(up.link("its last edition"))
    assert "Second edition" in _text(english, "body")
    assert "Georgia" in english.evaluate("getComputedStyle(document.body).fontFamily")
    english.get_by_role("link", name="some notes").click()
    assert english.url.endswith("/doc/notes.txt")
    assert "Notes to the second edition" in _text(english, "body")


@pytest.mark.proves("URL-11")
def test_the_translation_follows_the_language_of_the_browser(up: Up, english: Page, brazilian: Page) -> None:
    url = up.link("its translation")
    english.goto(url)
    brazilian.goto(url)
    assert (_text(english, "h1"), _text(brazilian, "h1")) == ("Names that stay", "Nomes que ficam")


def test_the_portuguese_translation_comes_whatever_the_browser_prefers(up: Up, english: Page) -> None:
    english.goto(up.link("the Portuguese translation"))
    assert "Segunda edição, setembro de 2026" in _text(english, "body")


def test_metadata_can_be_read_in_both_languages(up: Up, english: Page, brazilian: Page) -> None:
    english.goto(up.link("its metadata"))
    brazilian.goto(up.link("its metadata"))
    assert {"Title", "Creator", "Rights"} <= set(english.locator("dt").all_inner_texts())
    assert {"Título", "Autor", "Direitos de uso"} <= set(brazilian.locator("dt").all_inner_texts())
    english.get_by_role("link", name=LAST).click()
    assert english.url.endswith(f"/-/item/{LAST}")
    assert "How to cite" in _text(english)
    english.get_by_role("link", name=f"{up.root}/{LAST}", exact=True).click()
    assert "Second edition" in _text(english, "body")


@pytest.mark.proves("SVC-11", "URL-20")
def test_the_list_of_files_leads_to_each_of_them(up: Up, english: Page, brazilian: Page) -> None:
    english.goto(up.link("the list of its files"))
    assert english.locator("tbody tr").count() == 4
    english.get_by_role("link", name="notes.txt").click()
    assert "Notes to the second edition" in _text(english, "body")
    brazilian.goto(up.link("the list of its files"))
    assert "Tamanho" in _text(brazilian)
    assert "mostrado primeiro" in _text(brazilian)


@pytest.mark.proves("RES-13", "SVC-12")
@pytest.mark.parametrize(
    ("words", "status", "english_title", "portuguese_title"),
    [
        ("an item that was removed", 410, "This item was removed", "Este item foi removido"),
        ("an item that no Archive holds", 404, "No Archive holds this item", "Nenhum Arquivo tem este item"),
        (
            "a translation that does not exist",
            404,
            "This translation does not exist",
            "Esta tradução não existe",
        ),
        ("an original that two", 409, "Two or more Archives claim", "Dois ou mais Arquivos afirmam"),
        ("a letter O", 400, "This is not a persistent URL", "Esta não é uma URL persistente"),
    ],
)
def test_an_alert_is_clear_in_both_languages(
    up: Up, english: Page, brazilian: Page, words: str, status: int, english_title: str, portuguese_title: str,
    tmp_path: Path,
) -> None:  # fmt: skip
    for page, title, language in ((english, english_title, "en"), (brazilian, portuguese_title, "pt-BR")):
        answer = page.goto(up.link(words))
        assert answer is not None
        assert answer.status == status
        assert _text(page, "h1").startswith(title)
        assert page.locator("html").get_attribute("lang") == language
        assert fits(page)
        page.screenshot(path=tmp_path / f"{status}.{language}.png", full_page=True)


def test_a_wrong_letter_is_pointed_at_and_the_right_name_is_one_click_away(up: Up, english: Page) -> None:
    english.goto(up.link("a letter O"))
    text, carets = english.locator("pre").inner_text().rstrip().split("\n")
    fault = text[carets.index("^") : carets.rindex("^") + 1]
    assert fault.startswith("O3")
    assert f"{up.root}/{FIRST}" in _text(english)
    english.get_by_role("link", name="Open the corrected link").click()
    assert "First edition" in _text(english, "body")


def test_both_claimants_of_an_original_are_named(up: Up, english: Page) -> None:
    english.goto(up.link("an original that two"))
    assert {"archive.example/first/2026/02.01.09.00", "archive.example/second/2026/02.01.09.30"} <= set(
        english.locator("dd").all_inner_texts()
    )


def test_an_alert_is_read_in_the_other_language_and_stays_the_same_alert(up: Up, english: Page) -> None:
    english.goto(up.link("an original that two"))
    english.get_by_role("link", name="português (Brasil)").click()
    assert _text(english, "h1").startswith("Dois ou mais Arquivos afirmam")
    assert "o original, nunca uma cópia" in _text(english)
    english.get_by_role("link", name="Rede", exact=True).click()
    assert _text(english, "h1") == "Estado da rede"
    assert english.url.endswith("/-/status?lang=pt-BR")


def test_archives_are_shown_by_the_names_of_their_institutions(up: Up, english: Page) -> None:
    english.goto(f"{up.root}/")
    named = english.locator(".names a").all_inner_texts()
    english.goto(f"{up.root}/-/status")
    assert set(named) <= set(english.locator(".said a").all_inner_texts())
    assert not [each for each in named if each.startswith("127.")]


def test_the_box_on_the_front_page_finds_the_identifier_in_a_citation(up: Up, brazilian: Page) -> None:
    brazilian.goto(up.root)
    assert fits(brazilian)
    brazilian.get_by_role("searchbox").fill(f"(ver http://urlib.net/rep/{FIRST}!, acesso em: 2 mar. 2026).")
    brazilian.get_by_role("button", name="Buscar", exact=True).click()
    assert fits(brazilian)
    assert "Nomeado em" in _text(brazilian)
    brazilian.locator("h1 a").click()
    assert "Second edition" in _text(brazilian, "body")


def test_an_explanation_tells_who_was_asked_and_who_said_what(up: Up, english: Page, brazilian: Page) -> None:
    for page, knows in ((english, "It knows the item"), (brazilian, "Conhece o item")):
        page.goto(up.link("who was queried"))
        assert knows in _text(page)
        assert fits(page)


def test_a_forbidden_file_list_says_so(up: Up, brazilian: Page) -> None:
    brazilian.goto(f"{up.root}/archive.example/first/2026/06.11.14.30?ibiurl.verblist=GetFileList")
    assert "não é permitido" in _text(brazilian)


def test_an_archive_introduces_itself(up: Up, brazilian: Page) -> None:
    first = re.findall(r"Archives: (http://\S+)/ ", up.printed)[0]
    brazilian.goto(first)
    assert "Instituto de Pesquisas do Vale" in _text(brazilian, "header")
    assert _text(brazilian, "h1") == "A pesquisa do vale, aberta e citável"
    assert fits(brazilian)
    dark = "rgb(18, 21, 20)"
    assert brazilian.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    logo = brazilian.locator("header img")
    assert logo.evaluate("(picture) => picture.complete && picture.naturalWidth > 0")
    family = 'document.fonts.ready.then(() => document.fonts.check("16px Atkinson Hyperlegible Next"))'
    assert brazilian.evaluate(family)
