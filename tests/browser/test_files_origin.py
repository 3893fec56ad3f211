"""In a real browser: what scripts of an uploaded page can do at an address that serves nothing but files (T14)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from ibi.app.archive import archive_service
from support.archive.replication_fixture import make_archive
from support.served import served

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]

ITEM = "a.example/b/2010/01.01.00.00"
SECRET = "librarian=signed-in"
# What it finds out is written into the title of its page: all that a test of another origin may read is its tab.
SCRIPT = """<!DOCTYPE html><title>silent</title><img src="river.svg"><iframe></iframe><script>
const archive = "http://ADDRESS";
const attempt = async (what) => { try { return String(await what()); } catch (error) { return "stopped"; } };
const framed = () => new Promise((done, stopped) => {
    const frame = document.querySelector("iframe");
    frame.onload = () => { try { done(frame.contentDocument.title); } catch (error) { stopped(error); } };
    frame.src = archive + "/-/admin";
});
const opened = async () => opener.document.cookie + opener.document.title;
Promise.all([
    attempt(async () => document.cookie),
    attempt(async () => (await fetch(archive + "/-/admin", {credentials: "include"})).text()),
    attempt(async () => (await fetch("index.html")).text()),
    attempt(async () => localStorage.length),
    attempt(framed),
    attempt(opened),
]).then((found) => { document.title = JSON.stringify(found); });
</script>"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """An Archive that keeps such a page, at this address; its files have another one."""
    archive = make_archive(tmp_path, 1)
    address = f"127.0.0.1:{archive.port}"
    # Browsers find names below `localhost` on their own machine.
    replace(archive.settings, files_address=f"files.localhost:{archive.port}").write(archive.data)
    page = SCRIPT.replace("ADDRESS", address).encode()
    picture = b"<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'/>"
    archive.put(ITEM, {"index.html": page, "river.svg": picture}, target="index.html")
    with served(lambda: archive_service(archive.data), address):
        yield address


def findings(page: Page) -> list[str]:
    """What the script of a page has found out."""
    page.wait_for_function("document.title.startsWith('[')")
    found: list[str] = json.loads(page.title())
    return found


def test_a_script_of_an_uploaded_page_reads_nothing_of_the_archive(address: str, browser: Browser) -> None:
    context = browser.new_context()
    name, value = SECRET.split("=")
    context.add_cookies([{"name": name, "value": value, "domain": "127.0.0.1", "path": "/"}])
    page = context.new_page()
    page.goto(f"http://{address}/-/item/{ITEM}")
    assert page.evaluate("document.cookie") == SECRET
    page.goto(f"http://{address}/{ITEM}")
    assert page.url == f"http://files.localhost:{address.rpartition(':')[2]}/col/{ITEM}/doc/index.html"
    assert findings(page) == ["stopped"] * 6
    assert page.evaluate("document.querySelector('img').naturalWidth") == 9  # its parts are there
    # Neither does one that a page of the Archive has opened.
    page.goto(f"http://{address}/-/item/{ITEM}")
    with context.expect_page() as opening:
        page.evaluate(f"void window.open('/col/{ITEM}/doc/index.html')")
    assert findings(opening.value) == ["stopped"] * 6
    context.close()
