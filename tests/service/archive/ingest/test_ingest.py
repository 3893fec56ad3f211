"""Batches of records: duplicates among themselves, history, circles, full disks, killed processes; and the commands."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.ingest.importing import BATCH, FileImporter, format_of
from ibi.archive.model.item import Holding
from ibi.archive.preservation.check import check
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.tables import history
from ibi.cli import main
from ibi.errors import BadItem
from ibi.identifier.forms import parse_name
from ibi.minting.machine import this_machine
from support.archive.archive_fixture import NewArchive
from support.archive.oai_repository import Repository, answering, article

ROOT = Path(__file__).parents[4]
REP = "a.example/b/2010/01.01.00.00"


def name(number: int) -> str:
    return f"a.example/b/2010/01.01.{number // 60:02}.{number % 60:02}"


def linked(number: int, **more: object) -> dict[str, object]:
    return {"rep": name(number), "url": f"http://far.example/{number}", **more}


def held(archive: NewArchive, text: str) -> Holding:
    found = archive.catalogue.holding(parse_name(text))
    assert found is not None
    return found


def problems(archive: NewArchive) -> list[tuple[int, str]]:
    return [(refused.line, str(refused.why)) for refused in archive.refused]


def totals(archive: NewArchive, *lines: object, file: str = "items.jsonl") -> tuple[int, int, int]:
    report = archive.load(*lines, file=file)
    return report.added, report.unchanged, report.refused


def test_every_item_has_its_import_as_the_beginning_of_its_history(archive: NewArchive) -> None:
    (archive.data / "a.txt").write_bytes(b"aaa")
    lines = [linked(1), linked(2, next_edition=name(1)), {"rep": name(3), "files": {"a.txt": "a.txt"}}]
    assert totals(archive, *lines) == (3, 0, 0)
    assert totals(archive, *lines) == (0, 3, 0)
    with archive.catalogue.reading() as run:
        for number in (1, 2, 3):
            (event,) = history.events_of(run, held(archive, name(number)).number)
            assert (event.what, event.who, event.moment) == ("imported", "tester", "2023-11-14T22:13:20Z")


def test_an_item_twice_in_one_batch_is_one_item(archive: NewArchive) -> None:
    shouted = {"rep": name(1).upper(), "url": "http://far.example/1"}
    assert totals(archive, linked(1), linked(1), shouted, linked(1, language="en")) == (1, 2, 1)
    assert problems(archive) == [(4, f"{name(1)} is already held, but differs in: language")]


EN, ES, PT = ({"url": "http://far.example/1", "language": each} for each in ("en", "es", "pt"))
GIVEN = {"url": "http://far.example/1", "transferable": False}
GONE = {"state": "Deleted"}
FILES = {"files": {"a.txt": "a.txt"}}
UPDATES: dict[str, tuple[list[dict[str, Any]], tuple[int, int, int, int, int]]] = {
    "one field after the other": ([EN, EN, PT], (0, 2, 0, 1, 0)),
    "what two records change": ([EN, GIVEN, EN, GIVEN], (0, 2, 0, 2, 0)),
    "there and back": ([EN, ES, EN], (0, 3, 0, 0, 0)),
    "a removal": ([GONE, GONE, EN], (0, 0, 1, 1, 1)),
    "a change and a removal": ([EN, GONE], (0, 1, 1, 0, 0)),
    "files in place of a URL": ([FILES, GONE], (0, 1, 1, 0, 0)),
    "a URL and files": ([{**GIVEN, **FILES}], (0, 0, 0, 0, 1)),
}
"""Records about one item, and how many of them add, change, remove, leave it as it is and are refused."""


@pytest.mark.parametrize("held_before", [True, False])
@pytest.mark.parametrize(("changes", "expected"), UPDATES.values(), ids=UPDATES)
def test_a_dry_run_counts_updates_of_one_item_by_several_records_as_the_import_does(
    archive: NewArchive,
    changes: list[dict[str, Any]],
    expected: tuple[int, int, int, int, int],
    *,
    held_before: bool,
) -> None:
    lines = [{"rep": name(1), **change} for change in changes]
    if held_before:
        archive.load(linked(1))
    else:
        lines.insert(0, linked(1))
    (archive.data / "a.txt").write_bytes(b"aaa")
    path = archive.data / "updates.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    promised, refused = list[str](), list[str]()
    dry = FileImporter(archive.item_store, "tester", lambda each: promised.append(str(each.why))).run(
        path, dry=True, update=True
    )
    done = FileImporter(archive.item_store, "tester", lambda each: refused.append(str(each.why))).run(
        path, update=True
    )
    added, *others = expected
    assert (dry.added, dry.changed, dry.removed, dry.unchanged, dry.refused) == (
        added + (not held_before),
        *others,
    )
    assert dry == done
    assert [each.partition(" on ")[0] for each in promised] == [each.partition(" on ")[0] for each in refused]


@pytest.mark.proves("ARC-01")
def test_names_and_keys_that_are_those_of_several_items_are_refused_also_within_a_batch(
    archive: NewArchive,
) -> None:
    ibip = "8JMKD3MGP8W/35MME4E"
    lines = [
        linked(1),
        {"ibip": ibip, "url": "http://far.example/2"},
        linked(3, key="k"),
        linked(1, ibip=ibip),
    ]
    assert totals(archive, *lines, linked(1, key="k")) == (3, 0, 2)
    assert "those of several items" in problems(archive)[0][1]
    assert "those of several items" in problems(archive)[1][1]


def test_a_second_name_for_a_held_item_is_refused_and_a_known_one_is_not(archive: NewArchive) -> None:
    both = linked(1, ibip="8JMKD3MGP8W/35MME4E")
    assert totals(archive, both) == (1, 0, 0)
    assert totals(archive, linked(1), {"ibip": "8jmkd3mgp8w/35mme4e", "url": "http://far.example/1"}) == (
        0,
        2,
        0,
    )
    assert totals(archive, linked(1, ibip="8JMKD3MGP8W/35MME4F")) == (0, 0, 1)
    assert "forms" in problems(archive)[0][1]


@pytest.mark.proves("ARC-04")
def test_a_copy_beside_its_original_is_refused(archive: NewArchive) -> None:
    assert totals(archive, linked(1), linked(1, state="Copy")) == (1, 0, 1)
    assert problems(archive)[0][1].endswith("differs in: state")


def test_editions_in_a_circle_are_refused_where_the_circle_closes(archive: NewArchive) -> None:
    lines = [
        linked(1, next_edition=name(2)), linked(2, next_edition=name(3)), linked(3, next_edition=name(1)),
        linked(4, next_edition=name(4)), linked(5, next_edition="b.example/c/2010/01.01.00.00"),
    ]  # fmt: skip
    assert totals(archive, *lines) == (3, 0, 2)
    assert problems(archive) == [
        (3, f"the editions of {name(3)} would go in a circle"),
        (4, f"the editions of {name(4)} would go in a circle"),
    ]
    assert totals(archive, *lines[:2], lines[4]) == (0, 3, 0)


def test_refusals_come_in_the_order_of_the_lines(archive: NewArchive) -> None:
    lines = [linked(1), b"{", linked(1, language="en"), {"rep": "x"}, linked(2), linked(2, state="Copy")]
    assert totals(archive, *lines) == (2, 0, 4)
    assert [line for line, _ in problems(archive)] == [2, 3, 4, 6]


def test_a_broken_disk_after_the_commit_loses_no_file(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    (archive.data / "a.txt").write_bytes(b"aaa")
    line = {"rep": REP, "files": {"a.txt": "a.txt"}}
    rename = os.rename

    def broken(*names: Any, **folders: Any) -> None:
        if folders:  # into the folder of an item
            raise OSError(5, "Input/output error")
        rename(*names)

    monkeypatch.setattr(os, "rename", broken)
    assert totals(archive, line, line) == (1, 1, 0)
    for _ in range(2):
        item = held(archive, REP)
        with archive.file_store.open(item.forms, item.files[0]) as file:
            assert file.read() == b"aaa"
        monkeypatch.setattr(os, "rename", rename)
        assert totals(archive, line) == (0, 1, 0)
    assert not held(archive, REP).files[0].staged


def test_bibtex_and_csv_go_the_same_way(archive: NewArchive) -> None:
    entry = b"@misc{k1, title = {S\\~ao Jos\\'e}, url = {http://far.example/1}}"
    assert totals(archive, entry, file="a.bib") == (1, 0, 0)
    assert totals(archive, entry, file="a.bib") == (0, 1, 0)
    rows = (
        b"key;url;title",
        "k1;http://far.example/1;São José".encode("latin-1"),
        b"k2;http://far.example/2;T",
    )
    assert totals(archive, *rows, file="a.csv") == (1, 0, 1)
    assert archive.refused[0].name == "k1"
    assert archive.minted == 2
    assert [format_of(Path(each)) for each in ("a.BIB", "a.tsv", "a.jsonl", "a", "a.json")] == [
        "bibtex", "csv", "jsonl", "jsonl", "jsonl",
    ]  # fmt: skip


def test_files_of_a_table_are_taken_in(archive: NewArchive) -> None:
    (archive.data / "página.txt").write_bytes(b"aaa")
    rows = (f"rep,files\n{REP},página.txt\n{name(1)},../x.txt\n".encode(),)
    assert totals(archive, *rows, file="a.csv") == (1, 0, 1)
    assert [file.name for file in held(archive, REP).files] == ["p%C3%A1gina.txt"]


def test_a_table_with_a_column_that_means_nothing_takes_nothing_in(archive: NewArchive) -> None:
    with pytest.raises(BadItem, match="no column colour"):
        archive.load(b"url,colour\nhttp://far.example/,red", file="a.csv")
    assert archive.catalogue.count() == 1


def test_items_may_come_through_a_pipe(archive: NewArchive) -> None:
    pipe = archive.data / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["/bin/sh", "-c", f"echo '{json.dumps(linked(1))}' > '{pipe}'"]):
        assert FileImporter(archive.item_store, "tester", archive.refused.append).run(pipe).added == 1


def test_a_large_file_takes_no_more_memory_than_a_batch(archive: NewArchive) -> None:
    def peak(numbers: range) -> int:
        path = archive.data / "large.jsonl"
        path.write_text(
            "".join(
                json.dumps({"rep": f"a.example/c{n}/2010/01.01.00.00", "url": "http://far.example/"}) + "\n"
                for n in numbers
            ),
            encoding="utf-8",
        )
        tracemalloc.start()
        try:
            assert FileImporter(archive.item_store, "tester", archive.refused.append).run(path).added == len(
                numbers
            )
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(range(10))  # whatever is loaded once
    # While a database writes one batch, the next one is read.
    assert peak(range(100, 100 + 5 * BATCH)) < 1.3 * peak(range(100_000, 100_000 + 2 * BATCH)) + 1_000_000


# Killed processes and full disks


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of an Archive that the command made."""
    words = [
        "--address",
        "archive.example",
        "--ip",
        "127.0.0.1",
        "--mint-host",
        "archive.example",
        "--for-trying",
    ]
    assert main(["archive", "init", "--data", str(tmp_path / "archive"), *words, "--json"]) == 0
    return tmp_path / "archive"


def start(data: Path, file: Path, limit: int = 0) -> subprocess.Popen[bytes]:
    """`ibi archive import`; no file may become larger than `limit` KiB."""
    command = f'ulimit -f {limit * 2 if limit else "unlimited"}; exec "$@"'
    words = [sys.executable, "-m", "ibi", "archive", "import", "--json", "--data", data, file]
    return subprocess.Popen(
        ["/bin/sh", "-c", command, "sh", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1", "LANGUAGE": "en"},
    )


def whole(data: Path) -> list[str]:
    machine = this_machine()
    return [str(each) for each in check(DataDirectory(data, machine), machine)]


@pytest.mark.long
def test_a_killed_import_leaves_the_archive_whole_and_goes_on(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    (tmp_path / "a.txt").write_bytes(b"aaa")
    lines: list[dict[str, object]] = []
    for number in range(30_000):
        rep = f"a.example/c{number}/2010/01.01.00.00"
        lines.append({"rep": rep, "url": "http://far.example/"})
        if number % 1500 == 0:
            lines.append({"rep": f"{rep}.59", "files": {"a.txt": "a.txt"}})
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    chance = random.Random(4)
    for _ in range(4):
        process = start(data, file)
        time.sleep(0.6 + chance.random())
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with DataDirectory(data, this_machine()).catalogue() as catalogue:
        before = catalogue.count()
    process = start(data, file)
    output = json.loads(process.communicate()[0].splitlines()[-1])
    assert (output["added"] + output["unchanged"], output["refused"]) == (len(lines), 0)
    assert output["unchanged"] == before - 1  # what was taken in is held, but for the Archive service
    assert whole(data) == []


@pytest.mark.one_store("sqlite", "limits the files of the command; test_in_postgresql fills the disk there")
@pytest.mark.long
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half(data: Path, tmp_path: Path) -> None:
    file = tmp_path / "items.jsonl"
    file.write_text(
        "".join(
            f'{{"rep": "a.example/c{n}/2010/01.01.00.00", "url": "http://far.example/"}}\n'
            for n in range(20_000)
        ),
        encoding="utf-8",
    )
    process = start(data, file, limit=3000)
    out, output = process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"cannot be used" in output
    assert output.count(b"\n") == 1
    assert out == b""
    process = start(data, file)
    totals = json.loads(process.communicate()[0].splitlines()[-1])
    assert totals["added"] + totals["unchanged"] == 20_000
    assert totals["unchanged"] % BATCH == 0
    assert whole(data) == []


# The commands


def test_the_report_lists_what_was_refused(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    capsys.readouterr()
    table, report = tmp_path / "items.txt", tmp_path / "report.jsonl"
    table.write_text("key,url\na,http://far.example/\nb,nowhere\n", encoding="utf-8")
    words = ["archive", "import", "--data", str(data), str(table), "--format", "csv"]
    assert main([*words, "--report", str(report)]) == 1
    output = capsys.readouterr()
    assert output.out == "1 added, 0 unchanged, 1 refused\n"
    assert output.err.startswith("line 3, b: url is an http or https URL")
    (line,) = map(json.loads, report.read_text(encoding="utf-8").splitlines())
    assert (line["line"], line["record"]) == (3, "b")
    assert main([*words, "--report", str(table)]) == 1
    assert "cannot be its report" in capsys.readouterr().err
    assert table.read_text(encoding="utf-8").startswith("key,url")


def test_a_harvest_from_the_command_line(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGUAGE", "en")
    with answering(Repository([article(1), article(2)])) as repository:
        repository.entries[1].statements.clear()
        capsys.readouterr()
        words = ["archive", "harvest", "--data", str(data), repository.url]
        assert main(words) == 1
        assert capsys.readouterr().err.count("\n") == 1
        assert repository.queries == []
        assert main([*words, "--allow-private"]) == 1
        output = capsys.readouterr()
        assert output.out == "1 added, 0 changed, 0 removed, 0 unchanged, 1 refused\n"
        assert output.err.startswith("oai:repository.example:2: the record does not say where")
        assert main([*words, "--allow-private", "--json", "--set", "none"]) == 0
        assert json.loads(capsys.readouterr().out)["added"] == 0
    shutil.rmtree(data)
