"""What an import, its dry run and a harvest say of each record: counts, places and whole sentences."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.ingest.batch import (
    ImportReport,
    RecordIngest,
    RecordNotice,
    RefusedRecord,
)
from ibi.archive.ingest.importing import FileImporter
from ibi.archive.ingest.sources.records import SourceRecord, record
from ibi.archive.store.tables import history
from ibi.errors import BadItem, SetupError
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import WHEN, NewArchive

A, B, C, GONE = (f"a.example/b/2013/01.01.00.0{number}" for number in range(1, 5))
FAR = "http://far.example"
HELD: list[dict[str, Any]] = [
    {
        "rep": A,
        "key": "a",
        "url": f"{FAR}/a",
        "metadata": {"title": ["Água: uma história"], "date": ["2001"]},
    },
    {"rep": B, "key": "b", "url": f"{FAR}/b"},
    {"rep": C, "key": "c", "url": f"{FAR}/c", "state": "Copy"},
    {"rep": GONE, "key": "d", "state": "Deleted", "timestamp": WHEN},
]
Sentences = list[tuple[int, str, str]]


def imported(
    archive: NewArchive, *lines: dict[str, Any], dry: bool, update: bool
) -> tuple[ImportReport, Sentences, Sentences]:
    """The report of an import of these lines, its refusals and its notices."""
    path, refused, noticed = archive.data / "more.jsonl", list[RefusedRecord](), list[RecordNotice]()
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    importer = FileImporter(archive.item_store, "tester", refused.append, noticed=noticed.append)
    report = importer.run(path, dry=dry, update=update)
    return (
        report,
        [(each.line, str(each.why), each.name) for each in refused],
        [(each.line, str(each.note), each.name) for each in noticed],
    )


@pytest.fixture
def held(archive: NewArchive) -> NewArchive:
    assert (archive.load(*HELD).added, archive.refused) == (4, [])
    return archive


SAME_TITLE = {"title": ["ÁGUA, uma história!"], "date": ["2001-02"]}
DOUBTFUL = f"nearly the same as {A}: give the record this name if it is that item, or a key of its own if it is another"
NEARLY = f"a new item, but nearly the same as {A}: if it is that one, give the record this name, and update"


@pytest.mark.parametrize("dry", [True, False])
def test_a_record_of_a_held_item_that_differs_is_refused_with_its_fields(
    held: NewArchive, *, dry: bool
) -> None:
    several = "its names and its key are those of several items"
    report, refused, noticed = imported(
        held,
        HELD[0],
        {"rep": A, "key": "b"},
        {**HELD[0], "url": f"{FAR}/other", "language": "pt"},
        {"rep": A, "key": "new", "url": f"{FAR}/a", "metadata": HELD[0]["metadata"]},
        {"rep": GONE, "url": f"{FAR}/d"},
        {"key": "e", "url": f"{FAR}/e", "metadata": SAME_TITLE},
        {"key": "f", "url": f"{FAR}/b"},
        {"key": "g", "url": f"{FAR}/g", "metadata": {**SAME_TITLE, "date": ["2002"]}},
        dry=dry, update=False,
    )  # fmt: skip
    assert report == ImportReport(added=3, unchanged=1, refused=4)
    assert refused == [
        (2, f"{several}: {A}, {B}", ""),
        (3, f"{A} is already held, but differs in: language, url", ""),
        (4, f"{A} is already held, but differs in: key", ""),
        (5, f"{GONE} is already held, but differs in: state, url", ""),
    ]
    assert noticed == [(6, NEARLY, ""), (7, NEARLY.replace(A, B), "")]


@pytest.mark.parametrize("dry", [True, False])
def test_an_update_says_of_each_record_what_it_cannot_be(held: NewArchive, *, dry: bool) -> None:
    report, refused, _ = imported(
        held,
        {"rep": A, "language": "pt"},
        {"rep": A, "language": "pt"},
        {"rep": A, "state": "Copy"},
        {"rep": A, "ibip": "LK47B6W/362SFKH", "key": "a"},
        {"rep": GONE, "language": "pt"},
        {"rep": C, "language": "pt"},
        {"rep": B, "state": "Deleted", "reason": "By mistake"},
        {"metadata": SAME_TITLE, "url": f"{FAR}/e"},
        {"rep": A.replace("01.01", "02.02"), "key": "a", "language": "es"},
        dry=dry, update=True,
    )  # fmt: skip
    assert report == ImportReport(changed=2, removed=1, unchanged=1, refused=5)
    assert [(line, why) for line, why, _ in refused] == [
        (3, "state cannot be edited"),
        (5, f"{GONE} was removed on {WHEN}"),
        (6, f"{C} is a copy; it is edited where its original is"),
        (8, DOUBTFUL),
        (9, f"{A} keeps its name for ever; another name is another item"),
    ]  # fmt: skip
    language = held.catalogue.holding_by_key("a")
    assert language
    assert language.language == (None if dry else "pt")


def test_a_dry_run_tells_what_would_be_changed_and_follows_its_own_records(held: NewArchive) -> None:
    (held.data / "a.txt").write_bytes(b"a")
    (held.data / "b.txt").write_bytes(b"b")
    new = {"rep": "a.example/b/2014/01.01.00.00", "files": {"x.txt": "a.txt"}}
    report, refused, noticed = imported(
        held,
        {"rep": A, "language": "pt", "metadata": {"title": ["Another"], "date": ["2001"]}},
        {"rep": B, "state": "Deleted", "reason": "x"},
        {"rep": A, "files": {"x.txt": "a.txt"}},
        new,
        {**new, "files": {"x.txt": "b.txt"}},
        {**new, "files": {"x.txt": "absent"}},
        dry=True, update=True,
    )  # fmt: skip
    assert (report, refused) == (
        ImportReport(added=1, changed=2, removed=1, unchanged=1, refused=1), [(6, "absent does not exist", "")],
    )  # fmt: skip
    assert noticed == [
        (1, f"{A} would be changed: language, metadata.title", ""),
        (2, f"{B} would be removed", ""),
        (3, f"{A} would be changed: url, x.txt", ""),
    ]
    report, refused, noticed = imported(
        held,
        new,
        new,
        {**new, "files": {"x.txt": "b.txt"}},
        {**new, "language": "pt"},
        {**new, "files": {"x.txt": "a.txt", "y.txt": "b.txt"}},
        dry=True, update=False,
    )  # fmt: skip
    earlier = f"{new['rep']} is in an earlier record, but differs in"
    assert (report, noticed) == (ImportReport(added=1, unchanged=1, refused=3), [])
    assert [(line, why) for line, why, _ in refused] == [
        (3, f"{earlier}: files"), (4, f"{earlier}: language"), (5, f"{earlier}: files"),
    ]  # fmt: skip


def test_a_file_that_cannot_be_read_or_is_elsewhere_is_named(held: NewArchive, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_bytes(b"x")
    for dry in (True, False):
        outside, circle = "../../other.txt", "circle"
        (held.data / circle).unlink(missing_ok=True)
        (held.data / circle).symlink_to(circle)
        lines = [
            {"rep": f"a.example/b/2014/01.01.00.0{n}", "files": {"x": path}}
            for n, path in enumerate((outside, circle))
        ]
        report, refused, _ = imported(held, *lines, dry=dry, update=False)
        assert report == ImportReport(refused=2)
        assert refused[0][:2] == (1, f"{outside} is not inside the folder of the file that names it")
        assert refused[1][0] == 2


def test_a_folder_that_dspace_has_not_exported_is_refused_and_an_absent_file_is_one_sentence(
    archive: NewArchive,
) -> None:
    folder = archive.data / "folder"
    folder.mkdir()
    importer = FileImporter(archive.item_store, "tester", archive.refused.append)
    for form in ("", "csv"):
        (folder / "dublin_core.xml").unlink(missing_ok=True) if not form else (
            folder / "dublin_core.xml"
        ).touch()
        with pytest.raises(BadItem) as refused:
            importer.run(folder, form)
        assert str(refused.value) == (
            f"{folder} is a folder, but none that DSpace has exported: no dublin_core.xml is in it"
        )
    with pytest.raises(SetupError) as absent:
        importer.run(archive.data / "absent")
    assert str(absent.value) == f"{archive.data / 'absent'}: No such file or directory"


def harvested(
    archive: NewArchive, *records: SourceRecord, origin: str = "far.example"
) -> tuple[ImportReport, Sentences]:
    refused = list[RefusedRecord]()
    ingest = RecordIngest(archive.item_store, "tester", refused.append, what="harvested", origin=origin)
    with archive.item_store.staging_session():
        ingest.take(records)
    return ingest.report, [(each.line, str(each.why), each.name) for each in refused]


def brought(key: str, **value: Any) -> SourceRecord:
    return record(0, key, {"key": key, **value}, 0)


def test_a_harvest_changes_and_removes_only_what_came_from_the_same_host(held: NewArchive) -> None:
    first = [brought("x", url=f"{FAR}/x"), brought("y", url=f"{FAR}/y"), brought("z", state="Deleted")]
    assert harvested(held, *first) == (ImportReport(added=2, unchanged=1), [])
    changed = [brought("x", url=f"{FAR}/x2"), brought("y", state="Deleted"), brought("a", url=f"{FAR}/x")]
    differs = f"{A} is already held, but differs in: url, metadata"
    assert harvested(held, *changed) == (ImportReport(changed=1, removed=1, refused=1), [(0, differs, "a")])
    item, gone = (held.catalogue.holding_by_key(key) for key in "xy")
    assert item
    assert gone
    assert (item.url, gone.state, gone.reason) == (
        f"{FAR}/x2", ItemState.DELETED, "it was removed from the repository that it came from",
    )  # fmt: skip
    with held.catalogue.reading() as run:
        events = [(each.what, each.detail) for each in history.events_of(run, item.number)]
    origin = {"origin": "far.example"}
    assert events == [("harvested", origin), ("harvested", {**origin, "fields": ["url"]})]
    other = f"{item.forms.main} is already held, but differs in: url"
    assert harvested(held, first[0], origin="other.example") == (ImportReport(refused=1), [(0, other, "x")])
    back = f"{gone.forms.main} was removed on {gone.timestamp}"
    assert harvested(held, brought("y", url=f"{FAR}/y"), changed[1]) == (
        ImportReport(unchanged=1, refused=1), [(0, back, "y")],
    )  # fmt: skip


def test_what_has_its_files_here_is_neither_changed_nor_removed_by_a_harvest(archive: NewArchive) -> None:
    assert harvested(archive, brought("x", url=f"{FAR}/x"))[0] == ImportReport(added=1)
    (archive.data / "a.txt").write_bytes(b"a")
    lines = {"key": "x", "files": {"a.txt": "a.txt"}}, {"key": "x", "language": "pt"}
    assert imported(archive, *lines, dry=False, update=True)[:2] == (ImportReport(changed=2), [])
    item = archive.catalogue.holding_by_key("x")
    assert item
    problem = f"{item.forms.main} has its files in this Archive, so a harvest neither changes nor removes it"
    for again in (brought("x", url=f"{FAR}/x"), brought("x", state="Deleted")):
        assert harvested(archive, again) == (ImportReport(refused=1), [(0, problem, "x")])
    assert archive.catalogue.holding_by_key("x") == item
