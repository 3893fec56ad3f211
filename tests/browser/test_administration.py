"""A librarian who has never seen a terminal, in a real browser, by keyboard alone and in Portuguese."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from ibi.runtime.i18n import say
from support.archive.administration_fixture import PASSWORD, AdministeredArchive, administered_archive

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path_factory.mktemp("office")) as made:
        yield made


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must not complain: a broken security policy would."""
    context = browser.new_context(locale="pt-BR", viewport={"width": 1000, "height": 900})
    made = context.new_page()
    made.set_default_timeout(30_000)
    expect.set_options(timeout=30_000)
    complaints: list[str] = []
    made.on("console", lambda each: complaints.append(each.text) if "status of 4" not in each.text else None)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    yield made
    context.close()
    assert complaints == []


def pt(sentence: str, **details: object) -> str:
    return say(sentence, "pt-BR", **details)


def to(page: Page, target: Locator) -> None:
    """Go to something by the key Tab alone."""
    target.wait_for()
    for _ in range(160):
        page.keyboard.press("Tab")
        if target.evaluate("each => each === document.activeElement"):
            return
    pytest.fail(f"no key leads to {target}")


def follow(page: Page, name: str) -> None:
    """Follow a link by keyboard."""
    to(page, page.get_by_role("main").get_by_role("link", name=name, exact=True))
    page.keyboard.press("Enter")


def press(page: Page, name: str) -> None:
    """Press a button by keyboard."""
    to(page, page.get_by_role("button", name=name, exact=True))
    page.keyboard.press("Enter")


def write(page: Page, label: str, text: str) -> None:
    """Write into a field by keyboard."""
    to(page, page.get_by_label(label, exact=True))
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def fill(page: Page, field: str, text: str) -> None:
    """Write into the field with this id by keyboard."""
    to(page, page.locator(f'[id="{field}"]'))
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def test_a_librarian_deposits_makes_an_edition_and_deletes_by_keyboard_alone(
    served: AdministeredArchive, page: Page, tmp_path: Path
) -> None:
    paper = tmp_path / "artigo <1>.txt"
    paper.write_bytes(b"palavras")
    page.goto(f"http://127.0.0.1:{served.port}/-/admin")
    write(page, pt("Name of the account"), "maria")
    page.keyboard.press("Tab")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")

    follow(page, pt("Deposit"))
    assert page.locator("html").get_attribute("lang") == "pt-BR"
    to(page, page.locator("#file"))
    page.set_input_files("#file", paper)  # the window in which files are chosen is the system's
    to(page, page.locator('[value="kind:report"]'))
    page.keyboard.press("Enter")
    page.locator('[value="kind:report"][aria-current="true"]').wait_for()
    fill(page, "dc.title-1", HOSTILE)
    fill(page, "who-1-family", "Silva")
    fill(page, "who-1-given", "Maria")
    to(page, page.locator('button[value="person"]'))
    page.keyboard.press("Enter")
    fill(page, "who-2-family", "Souza")
    fill(page, "who-2-given", "José")
    fill(page, "dc.date-1", "12/03/2026")
    to(page, page.locator("button.main"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("done=deposited"))
    assert page.get_by_role("heading", level=1).inner_text() == HOSTILE
    first = page.url.partition("/items/")[2].partition("?")[0]

    follow(page, pt("Deposit a new edition"))
    expect(page.locator('[id="who-2-family"]')).to_have_value("Souza")
    fill(page, "dc.title-1", "Segunda edição")
    fill(page, "dc.date-1", "2026")
    to(page, page.locator("button.main"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("done=deposited"))
    second = page.url.partition("/items/")[2].partition("?")[0]
    assert second != first

    follow(page, pt("Remove it for ever"))
    write(page, pt("Reason for the removal"), "Depositado por engano")
    to(page, page.get_by_label(pt("I confirm: remove this item for ever")))
    page.keyboard.press("Space")
    press(page, pt("Remove it for ever"))
    page.wait_for_url(re.compile("done=removed"))
    expect(page.get_by_role("main")).to_contain_text("Depositado por engano")

    answer = page.request.get(f"http://127.0.0.1:{served.port}/{second}")
    assert answer.status == 410
    assert page.request.get(f"http://127.0.0.1:{served.port}/{first}").body() == b"palavras"
