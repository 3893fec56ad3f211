"""Behind a trusted proxy, an Archive's URLs have the scheme and the host by which their reader came."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest

from ibi.runtime.settings import ArchiveSettings
from support.archive.messages import PATH, request
from support.archive.running_archive import running_archive
from support.cli.archive_commands import ibi, until
from support.programs import Program

ITEM = "a.example/b/2010/01.01.00.00"
SECURE = {"X-Forwarded-Proto": "https"}
PAGES = ("/-/about", "/-/oai?verb=Identify", "/-/feed")


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Program]:
    """It answers as archive.test, too, and trusts the proxies of this machine."""
    proxies = {"trusted_proxies": ("127.0.0.1/32",), "aliases": ("archive.test",)}
    with running_archive(tmp_path / "a", **proxies) as made:
        until(lambda: made.get("/-/feed").status == 200)  # its index is made first
        yield made


def _roots(archive: Program, path: str, **headers: str) -> set[str]:
    """The roots of all URLs of ours in an answer."""
    connection = HTTPConnection("127.0.0.1", archive.port, timeout=60)
    connection.request("GET", path, headers={"Accept": "text/html", **headers})
    reply = connection.getresponse()
    text = f"{reply.headers}\n{reply.read().decode()}"
    connection.close()
    assert reply.status == 200, (path, text)
    return set(re.findall(r"https?://(?:127\.0\.0\.1|archive\.test|evil\.example)(?::[0-9]+)?", text))


def test_a_reader_gets_the_scheme_and_the_host_by_which_she_came(archive: Program) -> None:
    here = f"127.0.0.1:{archive.port}"
    for path in PAGES * 2:
        assert _roots(archive, path) == {f"http://{here}"}
        assert _roots(archive, path, **SECURE) == {f"https://{here}"}
        assert _roots(archive, path, **SECURE, Host="archive.test") == {"https://archive.test"}
        named = {"X-Forwarded-Host": "archive.test", "Host": here}
        assert _roots(archive, path, **SECURE, **named) == {"https://archive.test"}
        evil = {"X-Forwarded-Host": "evil.example"}
        assert _roots(archive, path, **SECURE, **evil) == {"https://127.0.0.1"}


def test_a_chosen_url_holds_whatever_a_proxy_says(archive: Program) -> None:
    settings = ArchiveSettings.read(archive.data)
    replace(settings, public_url="https://archive.test:8443").write(archive.data)
    until(lambda: _roots(archive, "/-/feed") == {"https://archive.test:8443"})
    assert _roots(archive, "/-/feed", **SECURE, Host="archive.test") == {"https://archive.test:8443"}
    replace(settings, trusted_proxies=()).write(archive.data)
    until(lambda: _roots(archive, "/-/feed", **SECURE) == {f"http://127.0.0.1:{archive.port}"})


@pytest.mark.parametrize("more", [{}, {"Content-Length": "0"}], ids=["at once", "by the application"])
def test_a_message_gets_the_root_of_the_settings(
    archive: Program, tmp_path: Path, more: dict[str, str]
) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text(json.dumps({"rep": ITEM, "metadata": {"title": "T"}}))
    ibi("archive", "import", "--data", archive.data, items)
    service = str(ArchiveSettings.read(archive.data).service.main)
    target = request(ITEM).replace(PATH, f"/{service}")
    assert _roots(archive, target, **SECURE, **more) == {f"http://127.0.0.1:{archive.port}"}
