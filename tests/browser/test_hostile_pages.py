"""What others wrote into titles, names, rights and files never breaks out of a page, also in a real browser.

A script that ran would open a dialog, one that the security policy stopped would complain: the reader allows neither.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser

from support.browser.crawl import kinds_of_pages
from support.browser.page_checks import fits, reader
from support.ports import free_port

pytestmark = [pytest.mark.browser, pytest.mark.long, pytest.mark.timeout(300)]

ITEM, LAST, GONE = (f"a.example/hostile/2010/01.01.00.0{number}" for number in range(3))
EVIL = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(2)>',
    "' onmouseover='alert(3)' x='",
    "</script><script>alert(4)</script>",
    "</title></style><svg onload=alert(5)>",
    "{{7*7}}{%raw%}${7*7}#{7*7}",
    "javascript:alert(6)",
    "\u202eevil\u2066 \u0000\u001b[31m \u2028",
    "x" * 3000,
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[str]:
    """An Archive all of whose words are evil."""
    port = free_port()
    metadata = {
        name: list(EVIL) for name in ("title", "creator", "subject", "description", "rights", "publisher")
    }
    words = {
        "metadata": {**metadata, "date": ["2010"], "language": ["pt"]},
        "rights": EVIL[0],
        "licence": "http://x/%22%3E%3Cscript%3Ealert(8)%3C/script%3E",
    }
    (tmp_path / "file").write_text(EVIL[0])
    items = [
        {
            **words,
            "rep": ITEM,
            "next_edition": LAST,
            "files": {quote(name[:60], safe=""): "file" for name in EVIL[:6]},
        },
        {**words, "rep": LAST, "url": "http://far.example/x?y=%22%3E%3Cscript%3Ealert(7)%3C/script%3E"},
        {**words, "rep": GONE, "state": "Deleted", "timestamp": "2012-02-01T00:00:00Z"},
    ]
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in items))
    archive = [sys.executable, "-m", "ibi", "archive"]
    at = ["--data", str(tmp_path / "archive")]
    address = f"127.0.0.1:{port}"
    subprocess.run(
        [
            *archive,
            "init",
            *at,
            "--address",
            address,
            "--ip",
            "127.0.0.1",
            "--service-ibi",
            "LK47B6W/362SFKH",
        ],
        check=True,
    )
    done = subprocess.run([*archive, "import", *at, tmp_path / "items.jsonl"], check=False)
    assert done.returncode == 0
    with subprocess.Popen(
        [*archive, "serve", *at, "--bind", address], stdout=subprocess.PIPE, text=True
    ) as served:
        assert served.stdout is not None
        assert served.stdout.readline() == f"ready http://{address}\n"
        yield f"http://{address}"
        served.terminate()


def test_evil_words_stay_words(root: str, browser: Browser) -> None:
    paths = [
        f"{root}/-/{page}/{item}" for item in (ITEM, LAST, GONE) for page in ("item", "metadata", "files")
    ]
    paths += [f"{root}/-/search?text={quote(evil)}" for evil in EVIL]
    pages = kinds_of_pages([f"{root}/", *paths])
    with reader(browser, "pt-BR", phone=True) as page:
        for url in [url for urls in pages.values() for url in urls[:9]]:
            page.goto(url)
            page.mouse.move(180, 300)
            assert fits(page), url
    shown = {url.removeprefix(root).split("/")[2] for urls in pages.values() for url in urls if "/-/" in url}
    assert shown >= {"item", "metadata", "files"}
