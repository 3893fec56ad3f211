"""The pictures in the documents, taken anew from the samples of `ibi up`: what they show must be there.

`make pictures` puts them into docs/images; otherwise they go to a temporary directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect

from support.archive.administration_fixture import PASSWORD, add_people
from support.network.up import Up
from support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(120)]

DOCUMENTS = Path(__file__).parents[2] / "docs"
PICTURES = DOCUMENTS / "images"


class Picture(NamedTuple):
    """One picture: which service, where, how large, for whom, and words that it must show."""

    service: int
    path: str
    width: int
    height: int
    words: str
    locale: str = "en-GB"
    dark: bool = False


THESIS = "archive.example/first/2026/03.16.14.05"
TAKEN = {
    "front": Picture(1, "/", 1280, 1180, "The research of the valley, open and citable"),
    "item": Picture(1, f"/-/item/{THESIS}", 1280, 1180, "Floods of the Vale river"),
    "search": Picture(1, "/-/search?text=cheias", 1280, 1000, "cheias", "pt-BR"),
    "deposit": Picture(1, "/-/admin/deposit", 1280, 1100, "Depositar", "pt-BR"),
    "resolver": Picture(0, "/", 1280, 1100, "Network of Collections"),
    "explanation": Picture(0, "/-/explain/archive.example/first/2026/03.02.10.15!+(pt)", 1280, 1100, "!+(pt)"),
    "front.pt-BR": Picture(1, "/", 1280, 1180, "Instituto de Pesquisas do Vale", "pt-BR"),
    "item.pt-BR": Picture(1, f"/-/item/{THESIS}", 1280, 1180, "Link permanente", "pt-BR"),
    "resolver.pt-BR": Picture(0, "/", 1280, 1100, "Rede de Acervos", "pt-BR"),
    "explanation.pt-BR": Picture(
        0, "/-/explain/archive.example/first/2026/03.02.10.15!+(pt)", 1280, 1100, "!+(pt)", "pt-BR"
    ),
    "alert": Picture(0, "/archive.example/first/2026/01.01.00.00", 400, 760, "Rede de Acervos", "pt-BR", dark=True),
}  # fmt: skip
IN_BOTH = {"search", "deposit", "alert"}
"""Pictures in Portuguese that English pages show, too."""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    data = tmp_path_factory.mktemp("pictures")
    # The port is in the pictures: the usual one, where it is free.
    with Up("--port", str(free_port(3)), "--data", str(data / "data"), temporary=data) as running:
        add_people(data / "data" / "first")
        yield running


def _signed_in(page: Page, root: str) -> None:
    page.goto(f"{root}/-/admin")
    page.locator("input[name=name]").fill("maria")
    page.locator("input[name=password]").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.locator("nav.menu").wait_for()


@pytest.mark.parametrize("name", TAKEN)
def test_a_picture_shows_what_it_did(up: Up, browser: Browser, name: str, tmp_path: Path) -> None:
    wanted = TAKEN[name]
    roots = [up.root, *re.findall(r"Archives: (http://\S+)/ +(http://\S+)/", up.printed)[0]]
    context = browser.new_context(
        locale=wanted.locale,
        viewport={"width": wanted.width, "height": wanted.height},
        color_scheme="dark" if wanted.dark else "light",
    )
    page = context.new_page()
    if "/-/admin" in wanted.path:
        _signed_in(page, roots[wanted.service])
    page.goto(roots[wanted.service] + wanted.path, wait_until="load")
    page.evaluate("document.fonts.ready")
    expect(page.locator("body")).to_contain_text(wanted.words)
    folder = Path(os.environ.get("IBI_PICTURES", tmp_path))
    page.screenshot(path=folder / f"{name}.png")
    context.close()
    assert (PICTURES / f"{name}.png").is_file()
    trees = ["pt-BR"] if name.endswith(".pt-BR") else ["en"]
    if name in IN_BOTH:
        trees = ["en", "pt-BR"]
    for tree in trees:
        pages = (DOCUMENTS / tree).rglob("*.md")
        assert any(f"/images/{name}.png)" in each.read_text("utf-8") for each in pages)


def test_no_picture_is_left_over() -> None:
    assert {each.stem for each in PICTURES.glob("*.png")} == set(TAKEN)
