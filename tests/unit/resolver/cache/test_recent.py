"""Dicts of bounded size: the oldest entry goes first, and one that is put in again is the newest."""

from __future__ import annotations

from ibi.resolver.cache.recent import put_newest


def test_the_oldest_goes_and_one_that_comes_again_stays() -> None:
    known: dict[str, int] = {}
    for key, value, kept in (
        ("a", 1, {"a": 1}),
        ("b", 2, {"a": 1, "b": 2}),
        ("a", 3, {"b": 2, "a": 3}),
        ("c", 4, {"a": 3, "c": 4}),
        ("c", 5, {"a": 3, "c": 5}),
        ("d", 6, {"c": 5, "d": 6}),
    ):
        put_newest(known, key, value, 2)
        assert list(known.items()) == list(kept.items())
