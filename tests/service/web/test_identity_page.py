"""The page of the identity: texts, colour and pictures, with a preview before anything is kept."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.runtime.settings.institution import Institution
from support.archive.administration_fixture import AdministeredArchive, Librarian, administered_archive

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg>'
AS_URL = f"data:image/svg+xml;base64,{b64encode(SVG).decode()}"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[AdministeredArchive]:
    with administered_archive(tmp_path) as made:
        yield made


@pytest.fixture
def root(served: AdministeredArchive) -> Librarian:
    browser = served.new_browser("root")
    browser.look("/-/admin/identity")
    return browser


def sent(root: Librarian, what: str, *fields: tuple[str, str], logo: bytes = b"") -> tuple[int, str]:
    parts = [(name, None, text.encode()) for name, text in (("what", what), *fields)]
    files = [("logo", "logo.svg", logo)] if logo else []
    answer = root.send_files("/-/admin/identity", *files, *parts)
    return answer.status, answer.text


def test_a_preview_shows_header_and_colours_in_both_modes_and_keeps_nothing(
    served: AdministeredArchive, root: Librarian
) -> None:
    data = served.archive.data
    status, page = sent(root, "preview", ("name", "Institute <1>"), ("colour", "#f2b705"), logo=SVG)
    assert status == 200
    assert page.count("<figure>") == 2
    assert "Institute &lt;1&gt;" in page
    assert "#816000" in page  # the accent in light mode
    assert f'href="{AS_URL}"' in page
    assert "style=" not in page
    assert Institution.of(data) == Institution()
    carried = re.findall(r'<input type="hidden" name="logo" value="([^"]+)"', page)
    status, _ = sent(root, "keep", ("name", "Institute <1>"), ("colour", "#f2b705"), ("logo", carried[0]))
    assert status == 303
    assert Institution.of(data) == Institution(name="Institute <1>", colour="#f2b705", logo=AS_URL)


def test_a_picture_is_removed_on_the_page_and_what_is_wrong_stands_at_its_field(
    served: AdministeredArchive, root: Librarian
) -> None:
    data = served.archive.data
    assert sent(root, "keep", logo=SVG)[0] == 303
    status, page = sent(root, "keep", ("colour", "green"), ("was.colour", ""))
    assert status == 422
    assert re.search(r'id="colour"[^>]*value="green"[^>]*aria-invalid="true"', page)
    status, page = sent(root, "keep", logo=b"no picture")
    assert status == 422
    assert re.search(r'id="logo"[^>]*aria-invalid="true"', page)
    assert 'type="hidden" name="logo"' not in page, "what is no picture would be sent again"
    assert Institution.of(data).logo == AS_URL
    assert sent(root, "keep", ("without", "logo"))[0] == 303
    assert Institution.of(data).logo == ""


def test_two_who_edit_at_once_both_see_what_the_other_has_written(
    served: AdministeredArchive, root: Librarian
) -> None:
    version = root.hidden("version")
    Institution(name="Theirs").write(served.archive.data)
    fields = (("version", version), ("name", "Ours"), ("was.name", ""))
    status, page = sent(root, "keep", *fields)
    assert status == 409
    assert "Theirs" in page
    assert 'value="Ours"' in page
    assert Institution.of(served.archive.data).name == "Theirs"
