"""What a label costs in one process: durable one at a time, and drawn in windows; beside a bare commit of SQLite.

All contenders work turn about in the same directory on the same disk, and before each turn the disk's own sync is
measured. All labels come from one waiting room; every one is kept and looked at after its run, out of the time that
counts: a label given twice ends the benchmark.
"""

from __future__ import annotations

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

from bench.disk import SyncProbe
from bench.figures import aim, figure, table
from bench.turns import turn_about
from ibi.identifier.dates import parse_granularity
from ibi.minting import Label, Subsystem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.scale import Scale
    from ibi.identifier.forms import IBIForms

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


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    with ExitStack() as stack:
        print(f"r = {GRANULARITY}; median of {scale.runs} runs (least to most)")
        probe = stack.enter_context(closing(SyncProbe(place)))
        database = stack.enter_context(closing(_database(place / "bare.sqlite")))
        both = stack.enter_context(Subsystem.open(place, host=_HOST, ip=_IP, granularity=GRANULARITY))
        rep = stack.enter_context(Subsystem.open(place, host=_HOST, granularity=GRANULARITY))
        given, seconds = _GivenLabels(), scale(0.05, 0.4, 2.0)
        singles = [_bare(database, seconds), *_singles(both, rep, given, seconds)]
        _one_at_a_time(singles, probe, scale.runs)
        sizes = scale((1_000, 1_000), (100_000, 30_000), (400_000, 100_000))
        _in_windows(list(_windows(both, rep, given, sizes)), probe, scale.runs)


def _one_at_a_time(contenders: list[Contender], probe: SyncProbe, runs: int) -> None:
    latency = _turns(contenders, probe, runs)
    print(f"\none sync of this disk (512 bytes in place, fdatasync), turn about with these: {latency} µs")
    bare = figure(contenders[0].rates)
    for one in contenders[1:]:
        aim(f"{one.name}, of a bare commit of SQLite", figure(one.rates) / bare, at_least=0.7)
    heads = ("one durable label at a time", "a second", "syncs for one", "ratio to SQLite")
    table(heads, ((*_columns(one, 1), (figure(one.rates) / bare).text(2)) for one in contenders))


def _in_windows(contenders: list[Contender], probe: SyncProbe, runs: int) -> None:
    latency = _turns(contenders, probe, runs)
    print(f"\none sync of this disk, turn about with these: {latency} µs")
    for one in contenders:
        aim(f"{one.name}, a second", figure(one.rates), at_least=200_000, decimals=0)
    heads = ("windows of labels", "a second", "syncs for 1,000")
    table(heads, (_columns(one, 1000) for one in contenders))


def _columns(one: Contender, labels: int) -> tuple[str, str, str]:
    syncs = figure(one.syncs).times(labels).text(3) if any(one.syncs) else "not counted"
    return one.name, figure(one.rates).text(), syncs


def _turns(contenders: list[Contender], probe: SyncProbe, runs: int) -> str:
    """All of them turn about. Returns the disk's own sync meanwhile, in µs."""
    latencies = list[float]()

    def before() -> None:
        latencies.append(probe.seconds() * 1e6)
        gc.collect()

    with _counted_syncs() as synced:

        def work(one: Contender) -> None:
            earlier, started = synced(), time.perf_counter()
            made = one.work()
            seconds, syncs = time.perf_counter() - started, synced() - earlier
            count = one.count(made)
            one.rates.append(count / seconds)
            one.syncs.append(syncs / count)

        turn_about({one.name: partial(work, one) for one in contenders}, runs, before)
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


def _bare(database: sqlite3.Connection, seconds: float) -> Contender:
    def commit() -> int:
        database.execute("UPDATE last SET date = date + 1 WHERE id = 1")
        return 1

    modes = [database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")]
    if modes != ["wal", 2]:
        raise SystemExit(f"SQLite does not commit as it should: {modes}")
    return Contender(
        "SQLite, bare commit (WAL, synchronous=FULL)", partial(_for_a_while, seconds, commit), len
    )


def _singles(both: Subsystem, rep: Subsystem, given: _GivenLabels, seconds: float) -> Iterator[Contender]:
    draw = partial(both.waiting_room.draw, parse_granularity(GRANULARITY))
    yield Contender("a date (WaitingRoom.draw)", partial(_for_a_while, seconds, draw), given.dates)
    for name, subsystem in (("both forms", both), ("rep only", rep)):
        mint = partial(_for_a_while, seconds, subsystem.mint)
        yield Contender(f"a label, {name} (Subsystem.mint)", mint, given.values)


def _for_a_while(seconds: float, make: Callable[[], Any]) -> list[Any]:
    """All that was made in so many seconds, one after the other."""
    made, clock = list[Any](), time.perf_counter
    until = clock() + seconds
    while clock() < until:
        made.append(make())
    return made


def _windows(
    both: Subsystem, rep: Subsystem, given: _GivenLabels, sizes: tuple[int, int]
) -> Iterator[Contender]:
    many, fewer = sizes
    for name, subsystem in (("both forms", both), ("rep only", rep)):
        texts = partial(_all, subsystem.chunks, many)
        yield Contender(f"{many:,} texts, {name} (Subsystem.chunks)", texts, given.chunks)
        values = partial(_all, subsystem.mint_many, fewer)
        yield Contender(f"{fewer:,} values, {name} (Subsystem.mint_many)", values, given.values)


def _all(make: Callable[[int], Iterator[Any]], count: int) -> list[Any]:
    return list(make(count))


class _GivenLabels:
    """The last date given, to check that nothing is given twice."""

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
