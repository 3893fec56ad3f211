"""The log of changes: its numbers and words, what it tells behind a position, and which of its rows go."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from ibi.archive.store.tables import change_log
from ibi.archive.store.tables.change_log import (
    begin_again,
    changed_names,
    changes_after,
    log_changes,
    log_rules,
    newest_change,
)
from support.archive.search_fixture import item

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner
    from support.archive.archive_fixture import NewArchive

ROWS = "SELECT number, rules, item FROM changed ORDER BY number"
NAMES = {number + 1: f"a.example/b/2013/01.01.00.00.{number:02}" for number in (1, 2, 3)}


@pytest.fixture
def run(archive: NewArchive) -> Iterator[SqlRunner]:
    """A catalogue with the items 2, 3 and 4, in a transaction in which its log is empty and no event has a number."""
    archive.load(*(item(number, f"T{number}") for number in (1, 2, 3)))
    with archive.catalogue.writing() as writer:
        writer.run("DELETE FROM changed")
        writer.run("UPDATE event SET feed = NULL")
        yield writer.run


def positions(run: SqlRunner) -> list[str]:
    return [
        f"{number}.{word}"
        for number, word in run("SELECT number, word FROM changed ORDER BY number").fetchall()
    ]


def test_each_change_has_the_next_number_a_word_of_its_own_and_the_rules_from_before(run: SqlRunner) -> None:
    began = int(time.time())
    assert newest_change(run) == 0
    assert log_changes(run, []) == range(1, 1)
    assert log_changes(run, [2, None]) == range(1, 3)
    assert log_changes(run, [3], 7) == range(3, 4)
    assert log_changes(run, [4]) == range(4, 5)
    assert log_changes(run, [4], 0) == range(5, 6)
    assert run(ROWS).fetchall() == [(1, 0, 2), (2, 0, None), (3, 7, 3), (4, 7, 4), (5, 0, 4)]
    assert newest_change(run) == 5
    words = [each.partition(".")[2] for each in positions(run)]
    assert len(set(words)) == 5
    assert all(re.fullmatch("[0-9a-f]{16}", word) for word in words)
    moments = [moment for (moment,) in run("SELECT moment FROM changed").fetchall()]
    assert all(began <= moment <= time.time() for moment in moments)


def test_numbers_go_on_from_the_last_event_where_the_log_was_cleared(run: SqlRunner) -> None:
    run("UPDATE event SET feed = 41 WHERE item = 2")
    assert log_changes(run, [2]) == range(42, 43)
    run("UPDATE event SET feed = 50 WHERE item = 3")
    assert log_changes(run, [2]) == range(51, 52)
    begin_again(run)
    assert run(ROWS).fetchall() == [(52, 0, None)]


def test_other_rules_are_a_change_of_anything_and_the_same_ones_are_none(run: SqlRunner) -> None:
    log_rules(run, 0)
    log_rules(run, 0)
    log_rules(run, 5)
    log_rules(run, 5)
    log_changes(run, [2])
    log_rules(run, 5)
    begin_again(run)
    assert run(ROWS).fetchall() == [(4, 5, None)]
    log_rules(run, 6)
    assert run(ROWS).fetchall() == [(4, 5, None), (5, 6, None)]


def test_changes_behind_a_position_are_told_with_all_names_of_their_items(run: SqlRunner) -> None:
    run("INSERT INTO name (name, item, main) VALUES ('a.example/also', 3, 0)")
    log_changes(run, [2, 3, 4])
    one, two, three = positions(run)
    both = ("a.example/also", NAMES[3])
    assert changes_after(run, one) == (three, True, [(two, both), (three, (NAMES[4],))])
    assert changes_after(run, two) == (three, True, [(three, (NAMES[4],))])
    assert changes_after(run, three) == (three, True, [])
    for unknown in ("", "no position", f"2.{'0' * 16}", f"4{two[1:]}", f"1{two[1:]}"):
        assert changes_after(run, unknown) == (three, False, [])
    log_changes(run, [None, 2])
    *_, anything, last = positions(run)
    for after in (one, two, three):
        assert changes_after(run, after) == (last, True, [(last, None)])
    assert changes_after(run, anything) == (last, True, [(last, (NAMES[2],))])


def test_one_change_more_than_a_reply_may_name_is_told(
    run: SqlRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "MOST_NAMES", 2)
    log_changes(run, [2, 3, 4, 2, 3])
    found = positions(run)
    names = [NAMES[number] for number in (3, 4, 2)]
    expected = [(position, (name,)) for position, name in zip(found[1:4], names, strict=True)]
    assert changes_after(run, found[0]) == (found[-1], True, expected)


def test_names_between_two_numbers_are_known_if_they_are_few_and_the_log_reaches_back(run: SqlRunner) -> None:
    assert changed_names(run, 0, 9, 9) == []
    assert changed_names(run, 1, 9, 9) == []
    log_changes(run, [2, 2, 3, 4])

    def names(after: int, last: int, most: int = 9) -> list[str] | None:
        found = changed_names(run, after, last, most)
        return found if found is None else sorted(found)

    assert names(0, 4) == [NAMES[2], NAMES[3], NAMES[4]]
    assert names(0, 3, 2) == names(1, 3) == [NAMES[2], NAMES[3]]
    assert names(0, 4, 2) is None
    assert names(2, 3) == [NAMES[3]]
    assert names(4, 4) == []
    run("DELETE FROM changed WHERE number < 3")
    assert names(1, 4) is None
    assert names(2, 4) == [NAMES[3], NAMES[4]]
    log_changes(run, [None])
    assert names(4, 4) is None
    log_changes(run, [2])
    assert names(4, 6) is None
    assert names(5, 6) == [NAMES[2]]


Trimmed = Callable[[int, Sequence[int]], list[int]]


@pytest.fixture
def trimmed(run: SqlRunner, monkeypatch: pytest.MonkeyPatch) -> Trimmed:
    """A function that logs so many changes of these ages, then another one; it returns the numbers that are left.

    At least five changes are kept, and all of the last 100 seconds; four are deleted at most, at each tenth change.
    """
    for name, value in {"KEPT": 5, "KEPT_SECONDS": 100, "TRIM_EVERY": 10, "TRIM_MOST": 4}.items():
        monkeypatch.setattr(change_log, name, value)

    def log(before: int, ages: Sequence[int]) -> list[int]:
        run("DELETE FROM changed")
        for number in range(1, before + 1):
            age = ages[number - 1] if number <= len(ages) else 0
            moment = int(time.time()) - age
            statement = "INSERT INTO changed (number, word, moment, rules, item) VALUES (:n, '', :at, 0, 2)"
            run(statement, n=number, at=moment)
        log_changes(run, [2])
        return [number for number, _, _ in run(ROWS).fetchall()]

    return log


OLD = [10**6] * 99


@pytest.mark.parametrize(
    ("before", "ages", "first"),
    [
        (7, OLD, 1),  # the next is no tenth change
        (8, OLD, 5),  # four at most
        (9, OLD, 1),
        (18, OLD, 5),
        (8, OLD[:3], 4),  # the fourth is of today
        (8, [*OLD[:2], 150, 50], 4),
        (8, [-(10**6)] * 9, 5),  # of a clock that was wrong
        (8, [0] * 9, 1),
        (8, [-50] * 9, 1),
    ],
)
def test_the_oldest_changes_go_at_each_tenth_one(
    trimmed: Trimmed, before: int, ages: list[int], first: int
) -> None:
    assert trimmed(before, ages) == list(range(first, before + 2))


def test_so_many_changes_stay_however_old_they_are(
    run: SqlRunner, trimmed: Trimmed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_log, "TRIM_MOST", 100)
    assert trimmed(8, OLD) == [5, 6, 7, 8, 9]
    run("UPDATE changed SET moment = 0")
    assert log_changes(run, [2] * 11) == range(10, 21)  # a tenth one is among them
    # All others are of today.
    assert [number for number, _, _ in run(ROWS).fetchall()] == list(range(10, 21))
