"""In which portions a file is taken in, what each leaves behind, and what a process keeps while it goes on."""

from __future__ import annotations

import json

import pytest

from ibi.archive.ingest.importing import BATCH, FileImporter
from ibi.archive.model.item_json import LONGEST_LINE
from support.archive.archive_fixture import NewArchive

MEBIBYTE = 1 << 20


def line(number: int, length: int = 0, **more: object) -> bytes:
    """A record of a linked item; with its line end it has this length."""
    place = {} if "files" in more else {"url": "http://far.example/"}
    value = {"rep": f"a.example/c{number}/2010/01.01.00.00", **place, **more}
    return json.dumps(value).encode().ljust(max(length - 1, 0)) + b"\n"


def portions(archive: NewArchive, lines: list[bytes], *, dry: bool = False) -> list[int]:
    """How many bytes of the file had been read after each transaction."""
    path, progress = archive.data / "items.jsonl", list[int]()
    path.write_bytes(b"".join(lines))
    importer = FileImporter(archive.item_store, "tester", archive.refused.append, progress.append)
    report = importer.run(path, dry=dry)
    assert report.added + report.unchanged + report.refused == len(lines)
    return progress


@pytest.mark.parametrize("dry", [True, False])
def test_a_portion_has_2000_records_at_most(archive: NewArchive, *, dry: bool) -> None:
    lines = [line(number) for number in range(BATCH + 1)]
    assert BATCH == 2000
    whole, first = (len(b"".join(lines[:number])) for number in (BATCH + 1, BATCH))
    assert portions(archive, lines[:BATCH], dry=dry) == [first]
    assert portions(archive, lines, dry=dry) == [first, whole]
    assert portions(archive, [], dry=dry) == []


def test_a_portion_has_eight_mebibytes_and_a_record_at_most(archive: NewArchive) -> None:
    assert LONGEST_LINE >= MEBIBYTE
    exact = [line(number, MEBIBYTE) for number in range(9)]
    assert portions(archive, exact, dry=True) == [9 * MEBIBYTE]
    found = portions(archive, [*exact[:8], line(8), line(9), line(8)], dry=True)
    assert found == [8 * MEBIBYTE + length * len(line(8)) for length in (1, 3)]


def test_a_record_with_files_ends_its_portion_and_none_of_them_waits(archive: NewArchive) -> None:
    (archive.data / "a.txt").write_bytes(b"aaa")
    (archive.data / "b.txt").write_bytes(b"b")
    files = {"a.txt": "a.txt"}
    first, other = line(1, files=files), line(1, files={"a.txt": "b.txt"})
    lines = [
        line(0),
        first,
        first,
        other,
        line(1, files={"a.txt": "a.txt", "b.txt": "absent"}),
        line(2),
    ]
    waiting = list[list[str]]()
    path = archive.data / "items.jsonl"
    path.write_bytes(b"".join(lines))

    def look(_read: int) -> None:
        waiting.append([each.name for each in (archive.data / "staging").iterdir()])

    report = FileImporter(archive.item_store, "tester", archive.refused.append, look).run(path)
    assert (report.added, report.unchanged, report.refused) == (3, 1, 2)
    assert waiting == [[]] * 5
    assert [(each.line, str(each.why).partition(":")[0]) for each in archive.refused] == [
        (4, "a.example/c1/2010/01.01.00.00 is already held, but differs in"),
        (5, f"{archive.data / 'absent'} cannot be read"),
    ]
