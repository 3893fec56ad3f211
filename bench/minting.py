"""What a label costs in one process: durable one at a time, and drawn in windows; beside a bare commit of SQLite.

    python -m bench.minting [--dir DIR]

All contenders work turn about in the same directory on the same disk, and before each turn the disk's own sync is
measured. All labels come from one waiting room; every one is kept and looked at after its run, out of the time that
counts: a label given twice ends the benchmark.
"""

from __future__ import annotations

import argparse
import gc
import os
import sqlite3
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from bench.disk import SyncProbe, add_option, surroundings, workplace
from bench.figures import figure, table
from ibi.identifier.dates import parse_granularity
from ibi.minting import Label, Subsystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ibi.identifier.forms import IBIForms

RUNS = 7
SECONDS = 1.0  # of a run, one label at a time
WINDOWED, AS_VALUES = 400_000, 100_000  # labels of a run, drawn in windows
GRANULARITY = "0.000001"
_HOST, _IP = "mint.example.org", "150.163.34.243"


class Twice(Exception):
    """A label was given a second time, or out of order."""


@dataclass
class Contender:
    """One line of a table: `work` is timed and returns all it made; `count` looks at that, and tells how many."""

    name: str
    work: Callable[[], Any]
    count: Callable[[Any], int]
    rates: list[float] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)  # for one label, where they can be seen


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description="what a label costs in one process")
    add_option(parser)
    with workplace(parser.parse_args().dir) as folder, ExitStack() as stack:
        print(f"{surroundings(folder)}; r = {GRANULARITY}; median of {RUNS} runs (least to most)")
        probe = stack.enter_context(closing(SyncProbe(folder)))
        database = stack.enter_context(closing(_database(folder / "bare.sqlite")))
        both = stack.enter_context(Subsystem.open(folder, host=_HOST, ip=_IP, granularity=GRANULARITY))
        rep = stack.enter_context(Subsystem.open(folder, host=_HOST, granularity=GRANULARITY))
        ledger = _Ledger()
        _one_at_a_time([_bare(database), *_singles(both, rep, ledger)], probe)
        _in_windows(list(_windows(both, rep, ledger)), probe)


def _one_at_a_time(contenders: list[Contender], probe: SyncProbe) -> None:
    latency = _turn_about(contenders, probe)
    print(f"\none sync of this disk (512 bytes in place, fdatasync), turn about with these: {latency} µs")
    bare = figure(contenders[0].rates)
    heads = ("one durable label at a time", "a second", "syncs for one", "ratio to SQLite (aim: 0.7)")
    table(heads, ((*_columns(one, 1), (figure(one.rates) / bare).text(2)) for one in contenders))


def _in_windows(contenders: list[Contender], probe: SyncProbe) -> None:
    latency = _turn_about(contenders, probe)
    print(f"\none sync of this disk, turn about with these: {latency} µs")
    heads = ("windows of labels", "a second (aim: 200,000)", "syncs for 1,000 (aim: 1)")
    table(heads, (_columns(one, 1000) for one in contenders))


def _columns(one: Contender, labels: int) -> tuple[str, str, str]:
    syncs = figure(one.syncs).times(labels).text(3) if any(one.syncs) else "not counted"
    return one.name, figure(one.rates).text(), syncs


def _turn_about(contenders: list[Contender], probe: SyncProbe) -> str:
    """Every contender once a run, every other run backwards. Returns the disk's own sync meanwhile, in µs."""
    latencies = list[float]()
    with _counted_syncs() as synced:
        for run in range(RUNS):
            for one in contenders[:: -1 if run % 2 else 1]:
                latencies.append(probe.seconds() * 1e6)
                gc.collect()
                before, started = synced(), time.perf_counter()
                made = one.work()
                seconds, syncs = time.perf_counter() - started, synced() - before
                count = one.count(made)
                one.rates.append(count / seconds)
                one.syncs.append(syncs / count)
    return figure(latencies).text()


@contextmanager
def _counted_syncs() -> Iterator[Callable[[], int]]:
    """Count what this process asks the system to sync. What C code asks for, SQLite say, is not seen here."""
    calls = 0

    def counted(sync: Callable[[Any], None]) -> Callable[[Any], None]:
        def call(handle: Any) -> None:
            nonlocal calls
            calls += 1
            sync(handle)

        return call

    with patch.object(os, "fsync", counted(os.fsync)), patch.object(os, "fdatasync", counted(os.fdatasync)):
        yield lambda: calls


def _database(file: Path) -> sqlite3.Connection:
    """A database with one row, in WAL, every commit on disk; the statement is prepared once and stays so."""
    database = sqlite3.connect(file, isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE last (id INTEGER PRIMARY KEY, date INTEGER NOT NULL)")
    database.execute("INSERT INTO last VALUES (1, 0)")
    return database


def _bare(database: sqlite3.Connection) -> Contender:
    def commit() -> int:
        database.execute("UPDATE last SET date = date + 1 WHERE id = 1")
        return 1

    modes = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    if modes != ["wal", 2]:
        raise SystemExit(f"SQLite does not commit as it should: {modes}")
    return Contender("SQLite, bare commit (WAL, synchronous=FULL)", partial(_for_a_second, commit), len)


def _singles(both: Subsystem, rep: Subsystem, ledger: _Ledger) -> Iterator[Contender]:
    draw = partial(both.room.draw, parse_granularity(GRANULARITY))
    yield Contender("a date (WaitingRoom.draw)", partial(_for_a_second, draw), ledger.dates)
    for name, subsystem in (("both forms", both), ("rep only", rep)):
        mint = partial(_for_a_second, subsystem.mint)
        yield Contender(f"a label, {name} (Subsystem.mint)", mint, ledger.values)


def _for_a_second(make: Callable[[], Any]) -> list[Any]:
    """All that was made in SECONDS, one after the other."""
    made, clock = list[Any](), time.perf_counter
    until = clock() + SECONDS
    while clock() < until:
        made.append(make())
    return made


def _windows(both: Subsystem, rep: Subsystem, ledger: _Ledger) -> Iterator[Contender]:
    for name, subsystem in (("both forms", both), ("rep only", rep)):
        texts = partial(_all, subsystem.chunks, WINDOWED)
        yield Contender(f"{WINDOWED:,} texts, {name} (Subsystem.chunks)", texts, ledger.chunks)
        values = partial(_all, subsystem.mint_many, AS_VALUES)
        yield Contender(f"{AS_VALUES:,} values, {name} (Subsystem.mint_many)", values, ledger.values)


def _all(make: Callable[[int], Iterator[Any]], count: int) -> list[Any]:
    return list(make(count))


class _Ledger:
    """What was given, as far as it is needed to see that nothing is given twice."""

    def __init__(self) -> None:
        self._last = 0

    def dates(self, dates: Sequence[int]) -> int:
        """Dates of one waiting room: each later than all before. Returns how many."""
        if any(late >= later for late, later in zip((self._last, *dates), dates, strict=False)):
            raise Twice("a date is not later than the one before it")
        self._last = dates[-1]
        return len(dates)

    def chunks(self, chunks: list[list[Label]]) -> int:
        """Labels with their dates: later than all before, and as many texts of each form as dates."""
        labels = [label for chunk in chunks for label in chunk]
        for texts in ([label.rep for label in labels], [label.ibip for label in labels if label.ibip]):
            if texts and len(set(texts)) != len(labels):
                raise Twice("two dates have one label")
        return self.dates([label.date for label in labels])

    def values(self, labels: Sequence[IBIForms]) -> int:
        """Labels as values of the library: each of a later date than all before, and no form like another."""
        for texts in ({str(label.rep) for label in labels}, {str(label.ibip) for label in labels}):
            if len(texts) != len(labels) and texts != {"None"}:
                raise Twice("two labels have a form in common")
        return self.dates([label.main.date.ticks or 0 for label in labels])


if __name__ == "__main__":
    main()
