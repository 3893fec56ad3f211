"""Figures of usage in the catalogue: who is counted, for how long a visit is known, and which pages figures come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from ibi.archive.model.url_key import AcknowledgmentCount
from ibi.archive.store.tables import usage
from ibi.archive.store.tables.usage import ID_SECONDS, ItemUsage, UsageCounts, UsagePosition, UsageRow

if TYPE_CHECKING:
    from ibi.archive.store.tables.catalogue import SqlRunner
    from support.archive.archive_fixture import NewArchive

COUNTS: Final = UsageCounts(4, 3, 2, 1)
TWICE: Final = UsageCounts(8, 6, 4, 2)
LINKED: Final = "a.example/b/2010/01.01.00.00"
KEY_ENDS: Final = 10_000


def _counted(run: SqlRunner, once: str, readers: int = 1, most: int = 5, now: int = 0) -> int:
    return usage.count_acknowledgments(run, AcknowledgmentCount(1, once, KEY_ENDS, readers, most), now)


def test_figures_are_added_by_item_month_and_country(archive: NewArchive) -> None:
    archive.load({"rep": LINKED, "url": "http://far.example/"})
    with archive.catalogue.writing() as writer:
        run = writer.run
        for item, month, country in (
            (1, "2026-01", "BR"),
            (1, "2026-01", "BR"),
            (1, "2026-02", ""),
            (2, "2026-02", ""),
        ):
            usage.count_visits(run, item, month, country, COUNTS)
        for item in (1, 2, 3):  # the service item is not linked, and the third does not exist
            usage.count_linked(run, item, "2026-02", COUNTS)
        of_first = [UsageRow("a", "2026-01", "BR", TWICE), UsageRow("a", "2026-02", "", COUNTS)]
        assert usage.usage_by_month(run, 1, "a", "2026-01", "2026-02") == of_first
        assert usage.usage_by_month(run, 1, "a", "2026-02", "2026-02") == of_first[1:]
        assert usage.usage_by_month(run, 1, "a", "2026-01", "2026-01") == of_first[:1]
        assert usage.usage_by_month(run, 3, "a", "", "9") == []
        of_all = [of_first[0], UsageRow("a", "2026-02", "", COUNTS.plus(TWICE))]
        assert usage.usage_by_month(run, None, "a", "", "9") == of_all
        sums = [ItemUsage(1, 12, 6), ItemUsage(2, 8, 4)]
        assert [usage.usage_of_items(run, after, "", "9") for after in (0, 1, 2)] == [sums, sums[1:], []]
        assert usage.usage_of_items(run, 0, "2026-01", "2026-01") == [ItemUsage(1, 8, 4)]


def test_a_page_of_figures_goes_on_behind_its_last_row(archive: NewArchive) -> None:
    archive.load({"rep": LINKED, "url": "http://far.example/"})
    service = archive.settings.service.rep
    with archive.catalogue.writing() as writer:
        run = writer.run
        for item, month, country in (
            (1, "2026-01", "BR"),
            (1, "2026-01", "PT"),
            (1, "2026-02", ""),
            (2, "2026-02", ""),
        ):
            usage.count_visits(run, item, month, country, COUNTS)
        rows = list(usage.usage_page(run, UsagePosition(), "", "9"))
        assert rows == [
            (UsagePosition(1, "2026-01", "BR"), UsageRow(str(service), "2026-01", "BR", COUNTS)),
            (UsagePosition(1, "2026-01", "PT"), UsageRow(str(service), "2026-01", "PT", COUNTS)),
            (UsagePosition(1, "2026-02", ""), UsageRow(str(service), "2026-02", "", COUNTS)),
            (UsagePosition(2, "2026-02", ""), UsageRow(LINKED, "2026-02", "", COUNTS)),
        ]
        for at, (position, _) in enumerate(rows, 1):
            assert list(usage.usage_page(run, position, "", "9")) == rows[at:]
        assert list(usage.usage_page(run, UsagePosition(), "2026-02", "2026-02")) == rows[2:]
        assert list(usage.usage_page(run, UsagePosition(), "2026-01", "2026-01")) == rows[:2]


def test_a_visit_is_known_until_its_latest_end_and_keys_go_with_their_day_and_their_visits(
    archive: NewArchive,
) -> None:
    with archive.catalogue.writing() as writer:
        run = writer.run
        assert (
            usage.key_of_day(run, "2026-01-01", b"first")
            == usage.key_of_day(run, "2026-01-01", b"other")
            == b"first"
        )
        assert usage.key_of_day(run, "2026-01-02", b"second") == b"second"
        assert usage.key_of_day(run, "2026-01-01", b"third") == b"third"  # that of the day before is gone
        assert usage.fingerprint_expiry(run, b"mark") == 0.0
        for end, known in ((10.0, 10.0), (9.0, 10.0), (11.0, 11.0)):
            usage.save_fingerprint(run, b"mark", end)
            assert usage.fingerprint_expiry(run, b"mark") == known
        assert [usage.has_expired_fingerprints(run, now) for now in (10.9, 11.0, 11.1)] == [
            False,
            False,
            True,
        ]
        usage.delete_expired_fingerprints(run, 11.0)
        assert usage.fingerprint_expiry(run, b"mark") == 11.0
        assert usage.key_of_day(run, "2026-01-01", b"fourth") == b"third"
        usage.delete_expired_fingerprints(run, 11.1)
        assert usage.fingerprint_expiry(run, b"mark") == 0.0
        assert usage.key_of_day(run, "2026-01-01", b"fourth") == b"fourth"


def test_a_key_counts_for_as_many_readers_as_it_may_and_each_acknowledgment_once(archive: NewArchive) -> None:
    with archive.catalogue.writing() as writer:
        run = writer.run
        known = AcknowledgmentCount(1, "key", KEY_ENDS, 1, 5)
        counted = []
        for once, readers in (
            ("key 1", 2),
            ("key 1", 2),
            ("key 2", 0),
            ("key 3", 2),
            ("key 4", 2),
            ("key 5", 1),
        ):
            before = usage.is_used_up(run, known)
            counted.append((before, _counted(run, once, readers)))
        assert counted == [(False, 2), (False, 0), (False, 0), (False, 2), (False, 1), (True, 0)]
        assert usage.is_used_up(run, known)
        assert _counted(run, "another 1", 3) == 3
        assert not usage.is_used_up(run, known._replace(once="another"))
    assert archive.catalogue.acknowledgments(1) == 8
    assert archive.catalogue.acknowledgments(2) == 0


@pytest.mark.parametrize(
    ("once", "now", "known_until"),
    [
        ("key 1", 0, ID_SECONDS),
        ("key 1", KEY_ENDS - ID_SECONDS + 1, KEY_ENDS),
        ("key", 0, KEY_ENDS),
    ],
)
def test_an_acknowledgment_is_known_by_its_id_for_ten_minutes_and_without_one_as_long_as_its_key(
    archive: NewArchive, once: str, now: int, known_until: int
) -> None:
    with archive.catalogue.writing() as writer:
        run = writer.run
        assert _counted(run, once, now=now) == 1
        usage.forget_acknowledgments(run, known_until)
        assert _counted(run, once, now=now) == 0
        usage.forget_acknowledgments(run, known_until + 1)
        assert _counted(run, once, now=now) == 1
        full = AcknowledgmentCount(1, once, KEY_ENDS, 1, 2)
        usage.forget_acknowledgments(run, KEY_ENDS)
        assert usage.is_used_up(run, full) == (known_until < KEY_ENDS)
        usage.forget_acknowledgments(run, KEY_ENDS + 1)
        assert not usage.is_used_up(run, full)
