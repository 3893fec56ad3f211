"""Paths of items that browsers, proxies and file systems read in another way (threats T21, T27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.resolver.one_item import IBI, item, m16c, play
from support.resolver.running_resolver import Running

if TYPE_CHECKING:
    from pathlib import Path

CLIMBING = [
    "/..", "/.", "/../../etc/passwd", "/a/./b", "/a/..",
    "/%2e%2e/b", "/%2E", "/.%2e/b", "/a%2f..%2fb", "/a\\b", "/..\\b",
    "/a%5cb", "/a%00.pdf", "/a%0d%0aSet-Cookie:%20a=b", "/%0A",
]  # fmt: skip


@pytest.mark.proves("URL-19")
def test_a_path_that_climbs_is_refused_with_a_caret_and_asked_of_no_archive(tmp_path: Path) -> None:
    archive = m16c(item())

    async def scene(running: Running) -> None:
        for path in CLIMBING:
            for target in (
                f"/{IBI}{path}",
                f"/{IBI}!{path}?a=1",
                f"/ibi/{IBI}{path}",
                f"/-/explain/{IBI}{path}",
            ):
                answer = await running.ask(target, "Accept: text/plain")
                text = answer.body.decode()
                assert (target, answer.status) == (target, 400)
                assert 'a part of a path is neither "." nor ".."' in text
                assert "^" in text
        assert (await running.ask(f"/{IBI}")).status == 302

    play(tmp_path, [archive], scene)
    assert len(archive.questions) == 1  # that about the item itself
