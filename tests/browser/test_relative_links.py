"""A real browser follows a relative link from one item to another, whose Archives know of no resolver."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from ibi.archive.store.data_directory import DataDirectory
from support.archive.archive_fixture import Clock, NewArchive, listener, serving, settings_for

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

FIRST, SECOND = "iconet.com.br/banon/2003/11.21.21.08", "dpi.inpe.br/banon/1998/08.02.08.56"
LINK = "../../../../../../dpi.inpe.br/banon/1998/08.02.08.56/doc/utilities1.txt"


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[NewArchive]:
    clock = Clock()
    directory = DataDirectory(tmp_path / "archive", clock.machine)
    directory.reserve()
    settings = settings_for("127.0.0.1")
    directory.create(settings)
    archive = NewArchive(
        tmp_path / "archive", settings, directory.open_catalogue(), directory.file_store(), clock
    )
    (archive.data / "page").write_bytes(
        f'<!doctype html><title>x</title><a href="{LINK}">utilities</a>'.encode()
    )
    (archive.data / "text").write_bytes("proc útil {} {}".encode("latin-1"))
    report = archive.load(
        {"rep": FIRST, "files": {"cgi/oai.html": "page"}},
        {"rep": SECOND, "state": "Copy", "files": {"utilities1.txt": "text"}},
    )
    assert report.added == 2
    yield archive
    archive.catalogue.close()


@pytest.mark.proves("SVC-11")
def test_the_printed_relative_link_is_followed_without_any_resolver(
    filled: NewArchive, browser: Browser
) -> None:
    with serving(filled, listener()) as served, browser.new_page() as page:
        page.goto(f"http://127.0.0.1:{served.port}/col/{FIRST}/doc/cgi/oai.html")
        page.get_by_role("link", name="utilities").click()
        page.wait_for_url(f"**/col/{SECOND}/doc/utilities1.txt")
        assert page.inner_text("body") == "proc útil {} {}"  # read as ISO-8859-1, which its bytes are
