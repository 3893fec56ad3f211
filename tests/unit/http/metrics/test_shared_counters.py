"""Counters of several processes: each has a file, which the next one takes up, and all are added up."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from ibi.http.metrics.shared_counters import SharedCounters, is_counted
from support.concurrency.open_files import open_files

NAMES = ("a", "b", "busy")


def counters(folder: Path, names: tuple[str, ...] = NAMES) -> SharedCounters:
    """Of which the last number is a gauge."""
    return SharedCounters(folder, names, gauges=[len(names) - 1])


def test_the_numbers_of_all_are_added_and_those_of_the_running_ones_told_apart(tmp_path: Path) -> None:
    first, second = counters(tmp_path), counters(tmp_path)
    first.values[0], second.values[0], second.values[2] = 1, 2, 5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    totals = first.totals()
    assert totals.sums == [3, 0, 5]
    assert sorted(totals.running) == [[1, 0, 0], [2, 0, 5]]
    second.close()
    assert first.totals().running == [[1, 0, 0]]
    assert first.totals().sums == [3, 0, 5]
    first.close()


def test_the_folder_of_the_first_process_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    first, second = counters(tmp_path / "metrics"), counters(tmp_path / "metrics")
    first.values[0] = 7
    assert second.totals().sums == [7, 0, 0]
    assert (tmp_path / "metrics").stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in (tmp_path / "metrics").iterdir()) == ["0", "1"]
    first.close()
    second.close()


def test_a_file_that_was_left_is_counted_on_and_its_gauges_begin_at_zero(tmp_path: Path) -> None:
    first = counters(tmp_path)
    first.values[0], first.values[2] = 7, 3
    first.close()
    assert not open_files(tmp_path)
    first.values[1] = 100  # what is counted after the end is lost
    second = counters(tmp_path)
    assert list(second.values) == [7, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    second.close()
    second.close()


def test_a_file_with_other_names_begins_again_and_is_not_added(tmp_path: Path) -> None:
    first = counters(tmp_path)
    first.values[0] = 7
    other = counters(tmp_path, ("a", "c", "busy"))
    assert other.totals().sums == [0, 0, 0]
    first.close()
    again = counters(tmp_path, ("a", "c", "busy"))
    assert list(again.values) == [0, 0, 0]
    assert len(again.totals().running) == 2
    other.close()
    again.close()


def test_a_file_that_is_too_long_or_too_short_begins_again(tmp_path: Path) -> None:
    size = 32 + 8 * len(NAMES)
    for wrong in (size - 1, size + 1):
        made = counters(tmp_path)
        made.values[0] = 7
        made.close()
        os.truncate(tmp_path / "0", wrong)
        again = counters(tmp_path)
        assert list(again.values) == [0, 0, 0]
        assert (tmp_path / "0").stat().st_size == size
        again.close()


def test_a_process_that_can_use_no_file_counts_for_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    made = counters(tmp_path / "file")
    made.values[0] = 2
    assert made.totals().sums == [2, 0, 0]
    assert made.totals().running == [[2, 0, 0]]
    (logged,) = [record.getMessage() for record in caplog.records]
    assert logged.startswith("the metrics of this process are not added to those of the others: [Errno 17]")
    made.close()


def test_a_thousand_and_one_processes_are_one_too_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (tmp_path / "0").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for number in range(1, 1024):  # all of them are one file, which stands for those of other processes
            os.link(tmp_path / "0", tmp_path / str(number))
        made = counters(tmp_path)
        assert caplog.messages == [
            "the metrics of this process are not added to those of the others: too many processes"
        ]
        made.values[0] = 2
        assert made.totals().sums == [2, 0, 0]
        made.close()
        (tmp_path / "1023").unlink()
        made = counters(tmp_path)
        assert len(caplog.messages) == 1
        assert (tmp_path / "1023").stat().st_size == 32 + 8 * len(NAMES)
        made.close()


def test_a_file_is_left_although_the_numbers_are_still_in_use(tmp_path: Path) -> None:
    first = counters(tmp_path)
    first.values[0] = 7
    used = first.values
    first.close()
    second = counters(tmp_path)
    assert (list(second.values), used[0]) == ([7, 0, 0], 7)
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    second.close()


def test_a_folder_counts_while_a_process_has_a_file_of_it(tmp_path: Path) -> None:
    assert not is_counted(tmp_path / "absent")
    (tmp_path / "other").touch()
    assert not is_counted(tmp_path)
    made = counters(tmp_path)
    assert is_counted(tmp_path)
    made.close()
    assert not is_counted(tmp_path)
    assert not open_files(tmp_path)
