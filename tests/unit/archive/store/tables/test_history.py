"""The history of items, the feed of all events, and the log of changes, in the order in which they were committed."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from ibi.archive.store.tables import batches, change_log, history
from ibi.archive.store.tables.history import FeedEvent, ItemEvent, ListedChange
from ibi.archive.store.tables.rows import names_of
from ibi.identifier.forms import IBIForms, parse_name
from ibi.protocol.extensions.changes import MOST_NAMES
from support.archive.archive_fixture import WHEN

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from ibi.archive.store.tables.catalogue import SqlRunner
    from support.archive.archive_fixture import NewArchive

NAMES: Final = [f"a.example/b/2010/01.01.00.0{number}" for number in range(4)]
SERVICE: Final = "archive.example/w/2020/01.01.00.00"


@pytest.fixture
def filled(archive: NewArchive) -> NewArchive:
    """Linked items with the numbers 2, 3 and 4, the last one with both forms of its name."""
    linked = {"url": "http://far.example/"}
    third = {"rep": NAMES[2], "ibip": "8JMKD3MGP8W/35MME4E"}
    assert archive.load({"rep": NAMES[0], **linked}, {"rep": NAMES[1], **linked}, third | linked).added == 3
    return archive


def _event(run: SqlRunner, item: int, moment: str, what: str = "edited", **detail: Any) -> None:
    history.add_event(run, item, ItemEvent(moment, "maria", what, detail))


def _held(archive: NewArchive, name: str) -> Holding:
    return archive.catalogue.held(parse_name(name))


def test_a_history_is_whole_and_in_order(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        _event(run, 2, "2026-01-02T00:00:00Z", "edited", changed=["url"], by="é")
        _event(run, 2, "2026-01-01T00:00:00Z", "noted")
        added, *others = history.events_of(run, 2)
        assert (added.moment, added.who, added.what) == (WHEN, "tester", "imported")
        assert others == [
            ItemEvent("2026-01-02T00:00:00Z", "maria", "edited", {"changed": ["url"], "by": "é"}),
            ItemEvent("2026-01-01T00:00:00Z", "maria", "noted", {}),
        ]
        assert history.events_of(run, 9) == []


def test_the_feed_has_every_event_in_the_order_of_commits(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        before, below = history.feed_now(run)
        assert below == 5
        for item in (3, 2, 3):
            _event(run, item, WHEN)
        assert history.feed_now(run) == (before + 3, 5)
        found = history.feed_after(run, before, 9)
        assert found == [
            FeedEvent(before + 1, 3, 2, WHEN, "edited", None),
            FeedEvent(before + 2, 2, 2, WHEN, "edited", None),
            FeedEvent(before + 3, 3, 3, WHEN, "edited", None),
        ]
        assert history.feed_after(run, before, 2) == found[:2]
        assert history.feed_after(run, before + 2, 9) == found[2:]
        assert history.feed_at(run, before + 2) == found[1]
        assert history.feed_at(run, before + 4) is None
        assert history.recent_items(run, 1) == {3}
        assert history.recent_items(run, 2) == history.recent_items(run, 3) == {2, 3}
        assert history.items_below(run, 5, 9) == [4, 3, 2, 1]
        assert history.items_below(run, 4, 2) == [3, 2]
        assert history.items_below(run, 1, 9) == []
        first, last = history.feed_ends(run)
        assert (last, [each.feed for each in history.feed_after(run, 0, 1)]) == (before + 3, [first])


def test_a_feed_without_events_has_no_ends(archive: NewArchive) -> None:
    """The service item is there, but was not deposited."""
    with archive.catalogue.reading() as run:
        assert history.feed_ends(run) == (0, 0)
        assert history.feed_now(run) == (0, 2)
        assert history.moment_after(run, 0) is None
        assert history.changes_between(run, 0, 9, SERVICE) == []


def test_changes_are_told_as_they_were_and_with_what_became_of_their_items(filled: NewArchive) -> None:
    """Not those of another Archive, of the service item, of metadata, of unsettled items, or after a removal."""
    with filled.catalogue.writing() as writer:
        run = writer.run
        before, _ = history.feed_now(run)
        assert history.moment_after(run, before) is None
        _event(run, 2, "2026-01-01T00:00:00Z", "edited", archive="http://b.example/")
        _event(run, 2, "2026-01-02T00:00:00Z", "edited")
        _event(run, 1, "2026-01-03T00:00:00Z", "edited")
        assert history.moment_after(run, before) == "2026-01-02T00:00:00Z"
        assert history.moment_after(run, before + 2) == "2026-01-03T00:00:00Z"
        updated = ListedChange(NAMES[0], "2026-01-02T00:00:00Z", "updated", WHEN)
        assert history.changes_between(run, before, before + 3, SERVICE) == [updated]
        assert history.changes_between(run, before, before + 1, SERVICE) == []
        assert history.changes_between(run, before + 2, before + 3, SERVICE) == []
        service = ListedChange(SERVICE, "2026-01-03T00:00:00Z", "created", _held(filled, SERVICE).timestamp)
        assert history.changes_between(run, before + 2, before + 3, "another") == [service]
        created = [ListedChange(name, WHEN, "created", WHEN) for name in NAMES[:3]]
        assert history.changes_between(run, 0, before, SERVICE) == created
    with filled.item_store.unit_of_work("maria") as work:
        removed = work.remove(work.get(parse_name(NAMES[0])))
        work.record_event(removed, "noted")
    with filled.catalogue.reading() as run:
        assert history.changes_between(run, before + 3, before + 9, SERVICE) == [
            ListedChange(NAMES[0], WHEN, "deleted", "")
        ]
        assert history.removed_names(run, [*NAMES, SERVICE]) == [NAMES[0]]
        assert history.removed_names(run, NAMES[1:]) == []


def test_many_items_are_added_each_with_its_names_and_its_first_event(filled: NewArchive) -> None:
    one = _held(filled, NAMES[0])
    names = [f"rep b.example/b/2010/01.01.00.0{number}" for number in range(3)]
    names[1] += " ibip 8JMKD3MGP8W/35MME4F"
    new = [replace(one, forms=IBIForms.parse(name), number=0) for name in names]
    with filled.catalogue.writing() as writer:
        run = writer.run
        before, _ = history.feed_now(run)
        items = [(each, [name for name, _ in names_of(each)]) for each in new]
        numbers = batches.add_all(run, items, ItemEvent(WHEN, "maria", "imported", {"from": "é"}))
        assert numbers == range(5, 8)
        assert [each.feed for each in history.feed_after(run, before, 9)] == [
            before + 1,
            before + 2,
            before + 3,
        ]
        for number in numbers:
            assert history.events_of(run, number) == [ItemEvent(WHEN, "maria", "imported", {"from": "é"})]
    assert [replace(held, number=0) for held in filled.catalogue.all(after="b")] == new


# The log of changes


def test_positions_lead_to_what_changed_behind_them(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        start, _, _ = change_log.changes_after(run, "")
        before = change_log.newest_change(run)
        assert start.partition(".")[0] == str(before)
        assert re.fullmatch(r"[0-9]+\.[0-9a-f]{16}", start)
        assert change_log.changes_after(run, start) == (start, True, [])
        assert change_log.log_changes(run, []) == range(before + 1, before + 1)
        assert change_log.log_changes(run, [4, 2]) == range(before + 1, before + 3)
        newest, known, entries = change_log.changes_after(run, start)
        assert known
        assert [names for _, names in entries] == [("8JMKD3MGP8W/35MME4E", NAMES[2]), (NAMES[0],)]
        assert [position.partition(".")[0] for position, _ in entries] == [str(before + 1), str(before + 2)]
        assert entries[-1][0] == newest
        assert change_log.changes_after(run, entries[0][0]) == (newest, True, entries[1:])
        for unknown in ("", "x", f"{before}.{'0' * 16}", f"{before + 9}.{start.partition('.')[2]}"):
            assert change_log.changes_after(run, unknown) == (newest, False, [])
        for after, last, names in (
            (before, before + 2, {NAMES[2], "8JMKD3MGP8W/35MME4E", NAMES[0]}),
            (before + 1, before + 2, {NAMES[0]}),
            (before, before + 1, {NAMES[2], "8JMKD3MGP8W/35MME4E"}),
            (before + 2, before + 2, set[str]()),
        ):
            assert set(change_log.changed_names(run, after, last, 3) or ()) == names
        assert change_log.changed_names(run, before, before + 2, 2) is None
        change_log.log_changes(run, [None])
        newest, known, entries = change_log.changes_after(run, start)
        assert (known, entries) == (True, [(newest, None)])
        assert change_log.changed_names(run, before, before + 3, 9) is None
        assert change_log.changed_names(run, before + 3, before + 3, 9) == []


def test_no_more_names_are_read_than_a_reply_may_have_and_one(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        start, _, _ = change_log.changes_after(writer.run, "")
        change_log.log_changes(writer.run, [2] * (MOST_NAMES + 5))
        _, _, entries = change_log.changes_after(writer.run, start)
    assert len(entries) == MOST_NAMES + 1


def test_new_rules_are_logged_once(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        before = change_log.newest_change(run)
        logged = []
        for rules in (7, 7, 8):
            change_log.log_rules(run, rules)
            logged.append(change_log.newest_change(run) - before)
        assert logged == [1, 1, 2]
        change_log.log_changes(run, [2])
        change_log.log_rules(run, 8)  # the change of an item was made by the same rules
        assert change_log.newest_change(run) - before == 3


def test_a_log_that_begins_again_has_one_change_of_anything_and_goes_on_with_its_numbers(
    filled: NewArchive,
) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        before = change_log.newest_change(run)
        change_log.begin_again(run)
        assert run("SELECT number, item FROM changed").fetchall() == [(before + 1, None)]
        assert change_log.changed_names(run, before, before + 1, 9) is None
