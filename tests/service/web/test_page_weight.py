"""What readers fetch before an Archive's page can be read weighs little: its HTML and its two sheets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urljoin

import pytest

from support.browser.crawl import kinds_of_pages
from support.network.up import Up, get
from support.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MOST_BYTES = 30 << 10
"""What a page weighs at most before compression, the font and what programs read in its head not counted."""

_FOR_PROGRAMS = re.compile(
    rb"<meta name=[^>]*>|<link rel=(?!\"stylesheet)[^>]*>|<script.*?</script>", re.DOTALL
)
_SHEETS = re.compile(r'<link rel="stylesheet" href="([^"]*/(?:style|archive|item|admin)\.css)">')


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The roots of the two sample Archives."""
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as running:
        yield list(re.findall(r"Archives: (http://\S+/) +(http://\S+/)", running.printed)[0])


def test_no_page_for_readers_of_an_archive_weighs_more_than_thirty_kilobytes(roots: list[str]) -> None:
    pages = [url for urls in kinds_of_pages(roots).values() for url in urls if url.startswith(tuple(roots))]
    kinds = {urljoin(url, url).split("/-/")[-1].partition("/")[0].partition("?")[0] for url in pages}
    assert {"about", "browse", "item", "files", "metadata", "programs", "search", "statistics"} <= kinds
    weights = {url: _weight(url) for url in pages}
    assert {url: weight for url, weight in weights.items() if weight > MOST_BYTES} == {}


def _weight(url: str) -> int:
    body = get(url, accept="text/html").body
    sheets = [urljoin(url, path) for path in _SHEETS.findall(body.decode())]
    assert len(sheets) == 2, url
    return len(_FOR_PROGRAMS.sub(b"", body)) + sum(len(get(sheet).body) for sheet in sheets)
