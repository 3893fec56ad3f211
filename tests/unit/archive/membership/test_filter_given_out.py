"""The answer to who asks for the filter of an Archive, in each of its states."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from ibi.archive.membership.holdings_filter import FILE, HoldingsFilterFile, filter_response
from ibi.http.request import Request
from ibi.http.response import Response
from support.archive.archive_fixture import NewArchive

NO_STORE = ("cache-control", "no-store")


def response_for(folder: Path, tag: str = "") -> Response:
    headers = {b"if-none-match": tag.encode()} if tag else {}
    return filter_response(folder, Request("GET", "/-/holdings", "", headers))


def test_before_the_filter_is_made_the_answer_says_when_to_come_again(tmp_path: Path) -> None:
    assert response_for(tmp_path) == Response(
        503,
        b"the filter is being made\n",
        "text/plain; charset=utf-8",
        (("retry-after", "60"), NO_STORE),
    )


def test_the_filter_is_given_with_its_tag_and_not_again_to_who_has_it(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"some bytes")
    found = (tmp_path / FILE).stat()
    tag = f'"{found.st_mtime_ns:x}-{found.st_ino:x}-a"'
    answer = response_for(tmp_path)
    assert answer.file is not None
    with answer.file as file:
        assert file.read() == b"some bytes"
        headers = (("etag", tag), ("cache-control", "max-age=300"))
        assert answer == Response(200, b"", "application/octet-stream", headers, file, 10)
    assert response_for(tmp_path, tag) == Response(304, headers=headers)
    other = response_for(tmp_path, '"other"')
    assert (other.status, other.file is None) == (200, False)
    assert other.file
    other.file.close()


def test_a_server_in_front_may_read_the_filter(archive: NewArchive) -> None:
    mask = os.umask(0o022)
    try:
        asyncio.run(HoldingsFilterFile(archive.catalogue, archive.data).look())
    finally:
        os.umask(mask)
    assert stat.S_IMODE((archive.data / FILE).stat().st_mode) == 0o644
