"""A walk through an administration that checks each page it reaches, and keeps account of pages and forms."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page

from ibi.web.assets import assets
from ibi.web.colour_scheme import ColourScheme
from support.browser.administrations import Administrations, Written
from support.browser.page_checks import DESKTOP, PHONE, barriers, fits, out_of_reach

MOST_BYTES = 60_000
"""What a page and all that belongs to it may weigh."""
NEAR = 320
"""Pixels between a sentence about a form and the form, where no field of it is known to be the matter."""

_ASSET = re.compile(rb'/-/static/[0-9a-f]+/([a-z.]+)"')
# A form is known by the word of its address and by what its buttons do; each that is sent is written down, and whether
# it has shown how far its files have come. `sessionStorage` outlives the page, not the reader.
_WATCH = """
const deed = (form, button) => {
    const data = new FormData(form, button);
    const parts = new URL(form.action).pathname.split("/");
    const word = parts.slice(2, parts[3] === "do" ? 5 : 4).join("/");
    const marks = ["upload", "transfer", "everywhere", "edition_of", "translation_of"];
    if (form.method === "get") return word;
    return [word, data.get("what") || marks.filter((name) => data.has(name)).join(" ")].join(" ").trim();
};
const note = (name, text) => {
    const known = JSON.parse(sessionStorage[name] || "[]");
    if (!known.includes(text)) sessionStorage[name] = JSON.stringify([...known, text]);
};
document.addEventListener("submit", (event) => note("sent", deed(event.target, event.submitter)), true);
new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes)
        if (node.nodeName === "PROGRESS") note("progress", location.pathname.split("/")[3]);
}).observe(document, {childList: true, subtree: true});
window.__forms = () => {
    const buttons = document.querySelectorAll("form button:not([type=button])");
    for (const button of buttons) note("seen", deed(button.form, button));
};
"""
_NEAR = """(form) => {
    const said = document.querySelector("#problem");
    const sentences = [...said.querySelectorAll("p, li")].map((each) => each.textContent);
    const fields = [...form.querySelectorAll("[aria-invalid=true]")];
    if (fields.length) return fields.every((field) => {
        const faults = field.getAttribute("aria-describedby").split(" ").map((id) => document.getElementById(id));
        return faults.some((each) => each.matches(".fault") && sentences.includes(each.textContent));
    });
    return Math.abs(form.getBoundingClientRect().top - said.getBoundingClientRect().bottom) < NEAR;
}""".replace("NEAR", str(NEAR))


@dataclass
class Walk:
    """One walk of one reader through the administration of one service."""

    page: Page
    administrations: Administrations
    root: str
    language: str
    keyboard: bool
    """Whether the tabulator key is tried at every page."""
    looked: set[tuple[str, bool]] = field(default_factory=set)
    troubles: dict[str, list[str]] = field(default_factory=dict)
    pages: dict[str, Written] = field(default_factory=dict)
    """One page of each kind."""

    def __post_init__(self) -> None:
        self.page.add_init_script(_WATCH)

    def go(self, word: str = "") -> None:
        """Go to a page of the administration, and look at it."""
        self.page.goto(f"{self.root}/-/admin{word}")
        self.look()

    def form(self, word: str, what: str = "") -> Locator:
        """The form of the page that is sent there."""
        hidden = f':has([name="what"][value="{what}"])' if what else ""
        return self.page.locator(f'form[action^="/-/admin/{word}"]{hidden}').first

    def press(self, button: Locator) -> None:
        """Send a form, and look at what comes of it."""
        with self.page.expect_response(lambda answer: answer.request.method == "POST"):
            button.click()
        self.page.wait_for_load_state("load")
        self.look()

    def ask(self, form: Locator, **typed: str) -> None:
        """Send a form that only asks for another page, and look at what comes."""
        for name, text in typed.items():
            form.locator(f"#{name}").fill(text)
        with self.page.expect_navigation():
            form.locator("button[type=submit]").click()
        self.look()

    def refused(self, form: Locator, typed: dict[str, str] | None = None) -> None:
        """Send what is no good: a sentence near the field says why, and what was typed is still there."""
        form.evaluate("each => { each.noValidate = true; }")  # else the browser would speak, and not the page
        typed = {} if typed is None else typed
        for name, text in typed.items():
            form.locator(f'[name="{name}"]').first.fill(text)
        before = len(self.administrations.written)
        form.locator("button[type=submit]").last.click()
        message = self.page.locator("#problem p").first
        self.page.locator("#problem:focus").wait_for()
        here = self.page.url
        assert message.inner_text().strip(), here
        assert len(self.administrations.written) > before, here
        assert form.evaluate(_NEAR), (here, form.inner_html())
        kept = {
            name: form.locator(f'[name="{name}"]').first.input_value()
            for name in typed
            if "password" not in name
        }
        assert kept == {name: text for name, text in typed.items() if "password" not in name}, here
        self.look()

    def look(self) -> None:
        """Look at the page, once of its kind as closely as can be."""
        shown = self.written[-1]
        act = self.page.url.partition("/-/admin/do/")[2].partition("?")[0]
        kind = (f"{shown.template} of {act or shown.word or 'the overview'}", shown.trouble)
        self.page.evaluate("window.__forms()")
        if kind in self.looked:
            return
        self.looked.add(kind)
        self.pages[f"{kind[0]}{' with a problem' if shown.trouble else ''}"] = shown
        found = (
            [] if self.page.locator("html").get_attribute("lang") == self.language else ["another language"]
        )
        usual = self.page.viewport_size
        for size in (DESKTOP, PHONE):
            self.page.set_viewport_size(size)
            found += [] if fits(self.page) else [f"wider than {size['width']}"]
        assert usual is not None
        self.page.set_viewport_size(usual)
        found += barriers(self.page)
        found += out_of_reach(self.page) if self.keyboard else []
        body = shown.html[self.language]
        parts = {name.decode() for name in _ASSET.findall(body)}
        sheet = len(ColourScheme.of("").sheet()) if "brand.css" in parts else 0  # all brands weigh the same
        weight = len(body) + sheet + sum(len(assets()[name].body) for name in parts & assets().keys())
        found += [] if weight < MOST_BYTES else [f"{weight} bytes"]
        if found:
            self.troubles[f"{kind[0]} {self.page.url}"] = found

    def account(self) -> dict[str, Any]:
        """What was passed: forms that were seen and those that were sent, by the reader's own notes."""
        notes: dict[str, Any] = {
            name: sorted(json.loads(self.page.evaluate("name => sessionStorage[name] || '[]'", name)))
            for name in ("seen", "sent", "progress")
        }
        return notes

    @property
    def written(self) -> list[Written]:
        """What this service has written."""
        return [each for each in self.administrations.written if self.root.endswith(each.address)]

    def keep(self, folder: Path) -> None:
        """Put the pages into files, in each language, for a checker."""
        service = self.root.rpartition(":")[2]
        for name, page in self.pages.items():
            for language, html in page.html.items():
                (folder / f"{service} {language} {name}.html").write_bytes(html)
