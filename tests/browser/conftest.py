"""One browser for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from support.browser.page_checks import FLAGS


@pytest.fixture(scope="module")
def browser(chromium_path: str) -> Iterator[Browser]:
    """A Chromium. Not for a whole run: while it is there, no other test of the process could run an event loop."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield chromium
        chromium.close()
