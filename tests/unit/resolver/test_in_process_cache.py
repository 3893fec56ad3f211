"""The redirects that a process has given lately take a bounded amount of memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.resolver import fast_path
from ibi.resolver.fast_path import InProcessCache, RecentRedirect

if TYPE_CHECKING:
    import pytest


def _redirect(rest: bytes) -> RecentRedirect:
    return RecentRedirect((302, rest), b"key", 0, 0, None, b"", None, 0, 0.0, 1.0)


def test_its_memory_is_bounded_also_where_answers_grow() -> None:
    cache = InProcessCache()
    for size in (100, 8_000):
        for number in range(8_000):
            cache.put(b"/%d" % number, _redirect(bytes(size)))
            if number % 400 == 0:
                entries = (cache.get(b"/%d" % each) for each in range(8_000))
                assert sum(len(entry.answer[1]) for entry in entries if entry) <= fast_path.MOST_BYTES
        assert len(cache)


def test_what_is_in_it_stays_while_it_is_full_and_goes_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr(fast_path, "MOST_BYTES", 10_000)
    cache = InProcessCache()

    def put(number: int, rest: bytes = b"x") -> bool:
        cache.put(b"/%d" % number, _redirect(rest))
        return cache.get(b"/%d" % number) is not None

    first = [number for number in range(100) if put(number)]
    assert first == list(range(len(first)))
    assert 10 < len(first) < 30
    now += fast_path.FULL_SECONDS / 2
    assert not put(200)
    assert put(0, b"y")  # another answer takes the place of the one before
    entry = cache.get(b"/0")
    assert entry is not None
    assert entry.answer[1] == b"y"
    assert len(cache) == len(first)
    now += fast_path.FULL_SECONDS
    assert put(200)
    assert len(cache) == 1
