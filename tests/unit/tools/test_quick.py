"""`make quick` deals the files of tests to processes."""

from __future__ import annotations

from quick import dealt


def test_each_file_is_dealt_to_the_process_that_has_least_so_far() -> None:
    weights = {"a": 3, "b": 9, "c": 4, "d": 2}
    assert dealt(weights, 2) == [["b"], ["a", "c", "d"]]
    assert dealt(weights, 1) == [["a", "b", "c", "d"]]


def test_a_process_without_files_is_not_started() -> None:
    assert dealt({"a": 1, "b": 1}, 3) == [["a"], ["b"]]
