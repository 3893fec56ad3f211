"""How fast items come into an Archive from JSON lines, how much memory that takes, and how large its database becomes.

    python -m bench.importing [--dir DIR] [--full]

Every import is a process of its own, as `ibi archive import` is, and is then run again on what it has just taken in.
Small items have `rep` and `url`; large ones both names and the metadata of a thesis. In order: by name, as one
Archive's own labels come; by chance: as those of many Archives come. The yardstick is a bare driver that puts rows of
the same columns and the same length into a table with one name and one key each, in transactions of the same size.
`--full` takes in 1,000,000 small and 100,000 large items, in ten minutes; without it, a tenth of both.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.disk import add_option, surroundings, workplace
from bench.figures import table
from ibi.archive import rows
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.intake.importing import BATCH, Importer
from ibi.archive.intake.sources.json_lines import read_json_lines
from ibi.identifier.forms import IBIForms
from ibi.identifier.generator import LabelGenerator
from ibi.minting.machine import this_machine
from ibi.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL, LARGE = 1_000_000, 100_000
_WORDS = "sensoriamento remoto imagem satélite análise modelo dados método região tempo uso da terra".split()
_FIRST = datetime(1996, 1, 1, tzinfo=UTC)


def main() -> None:
    """Print the table in Markdown."""
    parser = argparse.ArgumentParser(description="what an import costs")
    add_option(parser)
    parser.add_argument("--full", action="store_true", help="up to 1,000,000 items")
    parser.add_argument("--one", nargs=2, type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        _one(*args.one)
        return
    small, large = (SMALL, LARGE) if args.full else (SMALL // 10, LARGE // 10)
    with workplace(args.dir) as folder:
        print(f"{surroundings(folder)}; one run each")
        kinds = (("small", small, True), ("small", small, False), ("large", large, True))
        heads = (
            "items",
            "a second",
            "a processor second",
            "again",
            "bare driver",
            "ratio",
            "MB of memory",
            "bytes of disk for one",
        )
        table(heads, (_line(folder, *kind) for kind in kinds))


def _line(folder: Path, kind: str, count: int, in_order: bool) -> tuple[str, ...]:  # noqa: FBT001 - ours alone
    place = folder / f"{kind}-{in_order}"
    place.mkdir()
    lines = place / "items.jsonl"
    _write(lines, kind, count, in_order=in_order)
    _archive(place / "data")
    first, again = (_in_a_process(place / "data", lines) for _ in range(2))
    size = sum(file.stat().st_size for file in (place / "data").glob("catalogue.sqlite*"))
    bare = count / _bare(place / "bare.sqlite", lines)
    rate = count / first["seconds"]
    return (
        f"{count:,} {kind}, {'in order' if in_order else 'by chance'}",
        f"{rate:,.0f}",
        f"{count / first['worked']:,.0f}",
        f"{count / again['seconds']:,.0f}",
        f"{bare:,.0f}",
        f"{rate / bare:.2f}",
        f"{max(first['memory'], again['memory']):,.0f}",
        f"{size / count:,.0f}",
    )


def _write(path: Path, kind: str, count: int, *, in_order: bool) -> None:
    chance = random.Random(4)
    generator = LabelGenerator("bench.example.org", ip="150.163.34.243")
    numbers = list(range(count))
    if not in_order:
        chance.shuffle(numbers)
    with path.open("w", encoding="utf-8") as lines:
        for number in numbers:
            lines.write(f"{json.dumps(_item(generator, chance, kind, number))}\n")


def _item(generator: LabelGenerator, chance: random.Random, kind: str, number: int) -> dict[str, Any]:
    moment = _FIRST + timedelta(minutes=number)
    rep = f"{generator.prefixes[0]}/{moment:%Y/%m.%d.%H.%M}"
    item: dict[str, Any] = {"rep": rep, "url": f"http://bench.example.org/col/{rep}/doc/paper.pdf"}
    if kind == "large":
        item["ibip"] = f"{generator.prefixes[1]}/{_suffix(number)}"
        item["language"] = "pt"
        item["timestamp"] = f"{moment:%Y-%m-%dT%H:%M:%SZ}"
        item["metadata"] = {
            "title": [{"value": " ".join(chance.choices(_WORDS, k=12)), "lang": "pt"}],
            "creator": ["Banon, Gerald Jean Francis", "Banon, Lise Christine"],
            "subject": chance.choices(_WORDS, k=5),
            "description": [" ".join(chance.choices(_WORDS, k=150))],
            "publisher": ["Instituto Nacional de Pesquisas Espaciais"],
            "date": [f"{moment:%Y}"],
        }
    return item


def _suffix(number: int) -> str:
    """Seven characters of an IBIp, different for every number."""
    letters = "23456789ABCDEFGHJKLMNPQRSTU"
    suffix = ""
    for _ in range(6):
        number, digit = divmod(number, len(letters))
        suffix = letters[digit] + suffix
    return f"3{suffix}"


def _archive(data: Path) -> None:
    directory = ArchiveDirectory(data, this_machine())
    directory.begin()
    directory.make(
        ArchiveSettings(
            address="bench.example.org",
            ip="127.0.0.1",
            service=IBIForms.parse("rep bench.example.org/w/2020/01.01.00.00"),
            key="1" * 20,
            secret="ab" * 32,
            admin="admin@bench.example.org",
        )
    )


def _in_a_process(data: Path, lines: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.importing", "--one", str(data), str(lines)]
    said = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return dict(json.loads(said.stdout))


def _one(data: Path, lines: Path) -> None:
    """Import a file; say how many seconds that took, how many of a processor, and the most MB of memory."""
    begun, worked = time.perf_counter(), time.process_time()
    with ArchiveDirectory(data, this_machine()).keeper() as keeper:
        report = Importer(keeper, "bench", lambda refused: sys.exit(str(refused.why))).run(lines)
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "worked": worked, "memory": memory, "added": report.added}))


def _bare(path: Path, lines: Path) -> float:
    """Seconds that a bare driver takes for the rows of the same items, which are made beforehand."""
    columns = ", ".join(rows.ITEM_COLUMNS)
    places = ", ".join("?" * len(rows.ITEM_COLUMNS))
    seconds = 0.0
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        database.execute(f"CREATE TABLE item (number INTEGER PRIMARY KEY, {columns}, UNIQUE (key))")
        database.execute("CREATE TABLE name (name TEXT PRIMARY KEY, item) WITHOUT ROWID")
        for batch in _batches(lines):
            begun = time.perf_counter()
            database.execute("BEGIN IMMEDIATE")
            database.executemany(f"INSERT INTO item ({columns}) VALUES ({places})", batch)  # noqa: S608 - our own column names
            database.executemany("INSERT INTO name VALUES (?, ?)", [(row[0].lower(), 0) for row in batch])
            database.execute("COMMIT")
            seconds += time.perf_counter() - begun
    return seconds


def _batches(lines: Path) -> Iterator[list[tuple[Any, ...]]]:
    batch: list[tuple[Any, ...]] = []
    with lines.open("rb") as file:
        for record in read_json_lines(file):
            if isinstance(record.draft, Exception) or record.draft.forms is None:
                raise SystemExit(f"line {record.line}: {record.draft}")
            batch.append(rows.write(record.draft.holding(record.draft.forms, "2026-01-01T00:00:00Z")))
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


if __name__ == "__main__":
    main()
