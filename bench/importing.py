"""How fast items come into an Archive from JSON lines, how much memory that takes, and how large its database becomes.

Every import is a process of its own, as `ibi archive import` is, and is then run again on what it has just taken in.
Small items have `rep` and `url`; large ones both names and the metadata of a thesis. In order: by name, as one
Archive's own labels come; by chance: as those of many Archives come. The yardstick is a bare driver that puts rows of
the same columns and the same length into a table with one name and one key each, in transactions of the same size.
"""

from __future__ import annotations

import gc
import json
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.archive import made
from bench.figures import aim, figure, table
from bench.turns import turn_about
from ibi.archive.ingest.importing import BATCH, FileImporter
from ibi.archive.ingest.sources.records import read_json_lines
from ibi.archive.store.data_directory import DataDirectory
from ibi.archive.store.tables import rows
from ibi.identifier.generator import LabelGenerator
from ibi.minting.machine import this_machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.scale import Scale

SMALL = 1_000_000
_WORDS = "sensoriamento remoto imagem satélite análise modelo dados método região tempo uso da terra".split()
_FIRST = datetime(1996, 1, 1, tzinfo=UTC)


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    small, large = scale((300, 100), (20_000, 4_000), (1_000_000, 100_000))
    kinds = [Kind("small", small), Kind("large", large)]
    kinds += scale([], [], [Kind("small", small, in_order=False)])
    runs = scale(2, 5, 5)
    print(f"median of {runs} runs (least to most), of a million items one run")
    heads = (
        *("items", "a second", "bare driver", "ratio", "items a processor second", "again"),
        *("MB of memory", "bytes of disk for one"),
    )
    table(heads, [_line(place, kind, 1 if kind.count >= SMALL else runs) for kind in kinds])


@dataclass(frozen=True)
class Kind:
    """What is taken in."""

    size: str
    count: int
    in_order: bool = True

    @property
    def name(self) -> str:
        """As the table says it."""
        return f"{self.count:,} {self.size}, {'in order' if self.in_order else 'by chance'}"


def _line(folder: Path, kind: Kind, runs: int) -> tuple[str, ...]:
    place = folder / f"{kind.size}-{kind.in_order}"
    place.mkdir()
    lines = place / "items.jsonl"
    write_items(lines, kind.size, kind.count, in_order=kind.in_order)
    first, second, sizes = list[dict[str, float]](), list[dict[str, float]](), list[float]()

    def ours() -> float:
        data = place / "data"
        made(data)
        first.append(taken_in(data, lines))
        second.append(taken_in(data, lines))
        sizes.append(sum(file.stat().st_size for file in data.glob("catalogue.sqlite*")))
        shutil.rmtree(data)
        return kind.count / first[-1]["seconds"]

    def theirs() -> float:
        bare = place / "bare.sqlite"
        rate = kind.count / _bare(bare, lines)
        bare.unlink()
        return rate

    found = turn_about({"ours": ours, "theirs": theirs}, runs)
    rate, bare = figure(found["ours"]), figure(found["theirs"])
    if kind.size == "small" and kind.in_order:
        aim("small items taken in a second", rate, at_least=20_000, decimals=0)
        aim(
            "MB on disk for a million small items",
            figure(sizes).times(1 / kind.count),
            at_most=600,
            decimals=0,
        )
    memory = figure(max(one["memory"], two["memory"]) for one, two in zip(first, second, strict=True))
    return (
        kind.name,
        rate.text(),
        bare.text(),
        (rate / bare).text(2),
        figure(kind.count / one["worked"] for one in first).text(),
        figure(kind.count / one["seconds"] for one in second).text(),
        f"{memory.median:,.0f}",
        f"{figure(sizes).median / kind.count:,.0f}",
    )


def write_items(path: Path, kind: str, count: int, *, in_order: bool = True) -> None:
    """Write a file of so many `small` or `large` items, to be imported."""
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


def taken_in(data: Path, lines: Path) -> dict[str, float]:
    """What an import in a process of its own said: seconds, seconds of a processor, MB of memory."""
    command = [sys.executable, "-m", "bench.importing", str(data), str(lines)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return dict(json.loads(finished.stdout))


def _one(data: Path, lines: Path) -> None:
    """Import a file; say how many seconds that took, how many of a processor, and the most MB of memory."""
    begun, worked = time.perf_counter(), time.process_time()
    gc.freeze()  # as the command does
    with DataDirectory(data, this_machine()).item_store() as item_store:
        report = FileImporter(item_store, "bench", lambda refused: sys.exit(str(refused.why))).run(lines)
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
            batch.append(rows.item_row(record.draft.holding(record.draft.forms, "2026-01-01T00:00:00Z")))
            if len(batch) == BATCH:
                yield batch
                batch = []
    if batch:
        yield batch


if __name__ == "__main__":
    _one(Path(sys.argv[1]), Path(sys.argv[2]))
