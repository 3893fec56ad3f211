"""A reader with a real browser, whose pages must not complain nor fetch from elsewhere; and what a page must bear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

from playwright.sync_api import Browser, Dialog, Page, ViewportSize

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()

_AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
_RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
_FOCUSABLE = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
_MOST_STEPS = 80
PHONE = ViewportSize(width=320, height=640)
DESKTOP = ViewportSize(width=1280, height=800)

# What can have the focus; and, whenever something gets it, whether that shows: an outline or a shadow. Of a group of
# radio buttons, the tabulator key reaches the chosen one, and the arrows reach the others.
_LIST = """(selector) => {
    const shown = (one) => one.checkVisibility({visibilityProperty: true, opacityProperty: false}) && !one.disabled;
    const chosen = (one) => document.querySelector(`input[type=radio][name="${one.name}"]:checked`) ?? one;
    const stops = (one) => one.type !== "radio" || chosen(one) === one;
    const all = [...document.querySelectorAll(selector)].filter((one) => shown(one) && stops(one));
    window.__reached = {};
    document.addEventListener("focusin", (event) => {
        const style = getComputedStyle(event.target);
        const outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
        window.__reached[all.indexOf(event.target)] = outlined || style.boxShadow !== "none";
    });
    document.activeElement.blur();
    return all.map((one) => one.outerHTML.slice(0, 120));
}"""


@contextmanager
def reader(browser: Browser, locale: str, *, phone: bool) -> Iterator[Page]:
    """Open a page in this language, on a phone in dark mode or on a large display in light mode."""
    context = browser.new_context(
        locale=locale,
        viewport=PHONE if phone else DESKTOP,
        color_scheme="dark" if phone else "light",
    )
    page = context.new_page()
    page.set_default_timeout(15_000)
    complaints: list[str] = []
    page.on(
        "console",
        lambda message: complaints.append(message.text) if "Failed to load" not in message.text else None,
    )

    def dismissed(dialog: Dialog) -> None:
        complaints.append(dialog.message)
        dialog.dismiss()

    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", dismissed)
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    yield page
    context.close()
    assert complaints == []
    assert [url for url in fetched if not url.startswith(("http://127.0.0.1:", "data:"))] == []


def fits(page: Page) -> bool:
    """Whether nothing of a page lies beyond the edge of the viewport."""
    page.wait_for_function(
        "document.scrollingElement"
    )  # a page that has just been left for another one has none
    found: bool = page.evaluate("document.scrollingElement.scrollWidth <= window.innerWidth")
    return found


def barriers(page: Page) -> list[str]:
    """What keeps some people from using a page, as far as axe sees it; a line each."""
    page.evaluate(_AXE)
    found: dict[str, Any] = page.evaluate(
        "(rules) => axe.run({runOnly: rules, resultTypes: ['violations']})",
        list(_RULES),
    )
    return [
        f"{each['id']}: {each['help']}: {node['html'][:200]}"
        for each in found["violations"]
        for node in each["nodes"]
    ]


def out_of_reach(page: Page) -> list[str]:
    """What on a page cannot be reached with the tabulator key, or does not show that it has been reached."""
    wanted: list[str] = page.evaluate(_LIST, _FOCUSABLE)
    inside = 3 * sum(
        'type="date"' in each for each in wanted
    )  # the day, the month and the year have the focus in turn
    for _ in range(min(len(wanted), _MOST_STEPS) + inside + 2):
        page.keyboard.press("Tab")
    answers: dict[str, bool] = page.evaluate("window.__reached")
    reached = {int(number): shows for number, shows in answers.items()}
    missed = [html for number, html in enumerate(wanted[:_MOST_STEPS]) if number not in reached]
    unseen = [wanted[number] for number, shows in reached.items() if not shows and number >= 0]
    return [f"not reached: {html}" for html in missed] + [f"no sign of focus: {html}" for html in unseen]
