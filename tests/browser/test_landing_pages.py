"""The pages of an Archive in a real browser: what they offer to all readers, and what the small script adds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from support.archive.archive_fixture import Served
from support.browser.page_checks import barriers, fits
from support.web.landing_fixture import (
    GONE,
    HOSTILE,
    ITEM,
    MANY,
    RESOLVER,
    landing_archive,
    tell_more,
)

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(180)]

PAGES = [*(f"/-/item/{name}" for name in (ITEM, GONE, HOSTILE, MANY)), f"/-/files/{ITEM}"]
_KINDS = """async () => {
  const [item] = await navigator.clipboard.read();
  const texts = item.types.map(async kind => [kind, await (await item.getType(kind)).text()]);
  return Object.fromEntries(await Promise.all(texts));
}"""
READERS = [("en-GB", 1280, "light"), ("pt-BR", 320, "dark")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with landing_archive(tmp_path_factory.mktemp("archive")) as made:
        tell_more(made.archive)
        yield made


def _open(browser: Browser, served: Served, target: str, *, script: bool = True, **context: object) -> Page:
    page = browser.new_context(java_script_enabled=script, **context).new_page()  # type: ignore[arg-type]  # by name
    page.set_default_timeout(15_000)
    page.goto(f"http://127.0.0.1:{served.port}{target}")
    return page


@pytest.mark.parametrize(("locale", "width", "scheme"), READERS)
def test_axe_finds_no_fault_and_nothing_is_wider_than_the_viewport(
    browser: Browser, served: Served, locale: str, width: int, scheme: str
) -> None:
    page = _open(
        browser, served, "/", locale=locale, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    complaints: list[str] = []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if "status of 4" not in message.text else None,
    )
    for target in PAGES:
        page.goto(f"http://127.0.0.1:{served.port}{target}")
        assert barriers(page) == [], target
        assert fits(page), target
    page.context.close()
    assert complaints == []  # a broken security policy would complain


def test_the_script_adds_buttons_that_copy_and_says_so_politely(browser: Browser, served: Served) -> None:
    page = _open(
        browser, served, f"/-/item/{ITEM}", permissions=["clipboard-read", "clipboard-write"], locale="en-GB"
    )
    page.get_by_role("button", name="Copy it (Persistent link)").click()
    page.get_by_role("status").filter(has_text="Copied: Persistent link").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == f"{RESOLVER}/{ITEM}"
    page.get_by_role("button", name="Copy it (ABNT)").click()
    page.get_by_role("status").filter(has_text="Copied: ABNT").wait_for(state="attached")
    kinds = page.evaluate(_KINDS)
    assert "<strong>" in kinds["text/html"]
    assert kinds["text/plain"] == page.locator("[data-copy=ABNT]").text_content()
    page.get_by_role("radio", name="BibTeX").check()
    page.get_by_role("button", name="Copy it (BibTeX)").click()
    page.get_by_role("status").filter(has_text="Copied: BibTeX").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()").startswith("@techreport{")
    page.context.close()


def test_one_style_of_the_reference_is_shown_and_paper_has_two(browser: Browser, served: Served) -> None:
    page = _open(browser, served, f"/-/item/{ITEM}", script=False, locale="en-GB")
    abnt, apa, bibtex = (page.locator(".cite > div").nth(number) for number in range(3))
    assert [each.is_visible() for each in (abnt, apa, bibtex)] == [True, False, False]
    page.get_by_role("radio", name="APA").check()
    assert [each.is_visible() for each in (abnt, apa, bibtex)] == [False, True, False]
    page.emulate_media(media="print")
    assert [each.is_visible() for each in (abnt, apa, bibtex)] == [True, True, False]
    assert page.locator(".qr img").is_visible()
    assert not page.get_by_role("radio", name="APA").is_visible()
    page.context.close()


@pytest.mark.parametrize("target", [*PAGES, "/", "/-/about", "/-/programs"])
def test_paper_has_nothing_to_click_and_nothing_is_cut(browser: Browser, served: Served, target: str) -> None:
    page = _open(browser, served, target, locale="pt-BR", viewport={"width": 720, "height": 1000})
    page.emulate_media(media="print")
    there = "form.find, form.jump, .links, .actions, .languages, .bottom .columns, button"
    assert [each.get_attribute("class") for each in page.locator(there).all() if each.is_visible()] == []
    cut = page.locator("pre").evaluate_all(
        "all => all.filter(each => each.scrollWidth > each.clientWidth).length"
    )
    assert cut == 0
    page.context.close()


def test_the_search_of_the_header_stays_within_the_margins_of_a_telephone(
    browser: Browser, served: Served
) -> None:
    for locale in ("en-GB", "pt-BR"):
        page = _open(
            browser, served, f"/-/item/{ITEM}", locale=locale, viewport={"width": 320, "height": 800}
        )
        box = page.locator(".top form.find").bounding_box()
        assert box is not None
        assert (box["x"], box["x"] + box["width"]) == (16, 304)
        button = page.locator(".top form.find button").bounding_box()
        assert button is not None
        assert button["x"] + button["width"] <= 304
        languages = page.locator(".languages a").bounding_box()
        assert languages is not None
        assert languages["x"] == 16
        page.context.close()


def test_without_scripts_there_are_no_buttons_and_nothing_else_is_missing(
    browser: Browser, served: Served
) -> None:
    def read(*, script: bool) -> tuple[int, str]:
        page = _open(browser, served, f"/-/item/{ITEM}", script=script, locale="en-GB")
        count = page.get_by_role("button").count()
        words = page.locator("main").inner_text()
        page.context.close()
        return count, " ".join(line for line in words.split("\n") if line.strip() and "Copy" not in line)

    without, with_script = read(script=False), read(script=True)
    assert without[0] == 1  # that of the search
    assert with_script[0] > 1
    assert "SILVA, Maria" in without[1]


def test_the_keyboard_comes_to_the_content_first(browser: Browser, served: Served) -> None:
    page = _open(browser, served, f"/-/item/{ITEM}", locale="en-GB")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.context.close()


def test_every_target_of_a_pointer_is_large_enough_or_stands_in_a_text(
    browser: Browser, served: Served
) -> None:
    """WCAG 2.2, 2.5.8: 24 by 24 pixels, but for links inside of sentences and lists of facts."""
    page = _open(browser, served, f"/-/item/{ITEM}", locale="en-GB")
    small = page.evaluate(
        """[...document.querySelectorAll("button, summary, nav a, .actions a, .skip, .mark")].filter(each => {
            const box = each.getBoundingClientRect();
            return !each.matches(".skip") && box.height && box.height < 24;
        }).map(each => each.outerHTML)"""
    )
    assert small == []
    page.context.close()
