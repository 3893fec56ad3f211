"""Which copies are to be compared with their originals, in which order, and up to which change others are followed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from ibi.archive.store.tables import copies
from ibi.archive.store.tables.copies import CopiedArchive, CopySource, DueCopy

if TYPE_CHECKING:
    from support.archive.archive_fixture import NewArchive

NAMES: Final = [f"a.example/b/2010/01.01.00.0{number}" for number in range(4)]
FROM: Final = ("http://b.example/", "b.example/w/2020/01.01.00.00")
OTHER: Final = ("http://c.example/", "c.example/w/2020/01.01.00.00")
DAYS: Final = [f"2020-01-0{day}T00:00:00Z" for day in range(1, 5)]


@pytest.fixture
def filled(archive: NewArchive) -> NewArchive:
    """Three copies of one Archive, the second of them compared first, and an original with the source of a copy."""
    linked = {"url": "http://far.example/"}
    report = archive.load(
        *({"rep": name, "state": "Copy", **linked} for name in NAMES[:3]), {"rep": NAMES[3], **linked}
    )
    assert (report.added, archive.refused) == (4, [])
    with archive.catalogue.writing() as writer:
        for item, day in ((2, DAYS[1]), (3, DAYS[0]), (4, DAYS[2]), (5, DAYS[0])):
            source = CopySource(archive=FROM[0], service=FROM[1], checked=day, private=item == 4)
            copies.save_source(writer.run, item, source)
    return archive


def test_copies_are_due_that_were_compared_before_a_moment_the_oldest_first(filled: NewArchive) -> None:
    with filled.catalogue.reading() as run:
        assert copies.due_copies(run, DAYS[3], 9) == [NAMES[1], NAMES[0], NAMES[2]]
        assert copies.due_copies(run, DAYS[3], 1) == [NAMES[1]]
        assert copies.due_copies(run, DAYS[2], 9) == [NAMES[1], NAMES[0]]
        assert copies.due_copies(run, DAYS[0], 9) == []


def test_named_copies_are_compared_before_others_and_each_mark_goes_with_its_comparison(
    filled: NewArchive,
) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        assert copies.copied_archives(run) == [CopiedArchive(*FROM, private=True)]
        new = [DueCopy(NAMES[1], 3, "~"), DueCopy(NAMES[0], 2, "~"), DueCopy(NAMES[2], 4, "~")]
        assert copies.copies_to_compare(run, *FROM, 9) == new
        assert [each.named for each in new] == [False] * 3
        copies.note_changes(run, *OTHER, NAMES, "9.x")  # of another Archive than theirs
        assert (copies.position_of(run, *OTHER), copies.position_of(run, *FROM)) == ("9.x", "")
        assert copies.copies_to_compare(run, *OTHER, 9) == []
        copies.note_changes(run, *FROM, [NAMES[2], NAMES[0], "nowhere"], "1.a")
        assert copies.position_of(run, *FROM) == "1.a"
        named = [DueCopy(NAMES[0], 2, "1.a"), DueCopy(NAMES[2], 4, "1.a")]
        assert [each.named for each in named] == [True, True]
        assert copies.copies_to_compare(run, *FROM, 9) == [*named, new[0]]
        assert copies.copies_to_compare(run, *FROM, 1) == named[:1]
        copies.unmark(run, named[0])
        copies.unmark(run, named[1]._replace(due="~"))  # it was marked again meanwhile
        copies.unmark(run, new[0])
        assert copies.copies_to_compare(run, *FROM, 9) == named[1:]
        copies.note_changes(run, *FROM, None, "2.b")
        marked = [DueCopy(name, item, "~2.b") for name, item in ((NAMES[1], 3), (NAMES[0], 2), (NAMES[2], 4))]
        assert copies.copies_to_compare(run, *FROM, 9) == marked
        assert copies.position_of(run, *FROM) == "2.b"


def test_a_mark_stays_with_its_archive_and_a_new_source_is_marked(filled: NewArchive) -> None:
    with filled.catalogue.writing() as writer:
        run = writer.run
        copies.note_changes(run, *FROM, [NAMES[0]], "1.a")
        source = copies.source_of(run, 2)
        assert source is not None
        copies.save_source(run, 2, replace(source, tag="new"))
        assert copies.copies_to_compare(run, *FROM, 1) == [DueCopy(NAMES[0], 2, "1.a")]
        copies.save_source(run, 2, replace(source, archive=OTHER[0], service=OTHER[1]))
        assert copies.copies_to_compare(run, *OTHER, 9) == [DueCopy(NAMES[0], 2, "~")]
        copies.save_source(run, 4, CopySource(archive="", url="http://far.example/"))
        assert sorted(copies.copied_archives(run)) == [
            CopiedArchive(*FROM, private=False), CopiedArchive(*OTHER, private=False),
        ]  # fmt: skip
