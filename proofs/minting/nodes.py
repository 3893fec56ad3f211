"""P-M1-nodes: several nodes, one row in PostgreSQL, clocks that differ, and kills of both: no label comes twice.

Eight nodes mint, one millisecond apart, each with a clock of its own (libfaketime): off by up to nine tenths of a
second, or, one in six, by minutes to years. Each is killed at a moment chosen by chance, or stopped for some seconds,
and goes on. From time to time the first process of PostgreSQL is killed, and started again. The judge demands

- no label comes twice in either form, whatever the clocks say;
- what one node gives increases, and is later than all that was seen before it was started;
- after every kill of PostgreSQL, the row covers every label seen;
- in the end, another node mints without any repair.

A node whose clock is off by more than two seconds must give no label. What it cannot show: power cuts.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.minting import faketime, kills, node_worker
from proofs.minting.state_file import last_of
from support.engines.postgresql import PostgreSQL, programs

NAME = "P-M1-nodes"
HOLDS = "no label twice in either form, whatever the clocks say; order; the row covers every label after every kill"

_LABELS_EACH = 100_000
_NEAR, _WRONG = 0.9, (180.0, 3_600.0, 40_000.0, 3e7)  # seconds by which clocks are off
_WRONG_SHARE, _STOPPED_SHARE = 1 / 6, 1 / 12


def prove(scale: Scale, seed: int, worker: str = node_worker.__file__) -> Report:
    """Kill nodes and PostgreSQL until there were enough kills of both; `worker`: the program of a node."""
    report = Report(NAME, HOLDS)
    report.count("kills", 0)
    if programs() is None:
        report.unshown.append("several nodes: PostgreSQL is not installed")
        return report
    if faketime.library() is None:
        report.unshown.append("clocks that differ: libfaketime is not installed")
    server = PostgreSQL(durable=True)
    try:
        server.start()
        with tempfile.TemporaryDirectory(prefix="proof-nodes-") as folder:
            contest = _Nodes(report, Path(folder), random.Random(seed), server)
            contest.worker = worker
            contest.processes = scale.pick(3, 8, 8)
            contest.longest_stop = scale.pick(1, 3, 14)
            try:
                _contend(report, scale, contest)
            finally:
                contest.close()
            contest.last_word()
    finally:
        server.remove()
    return report


def _contend(report: Report, scale: Scale, contest: _Nodes) -> None:
    for _ in range(scale.pick(2, 30, 60)):
        kills_by_then = report.counts["kills"] + scale.pick(5, 6, 20)
        contest.run(kills_by_then, 0, scale.pick(150, 120, 240))
        if not report.held:
            return
        contest.kill_server()
    contest.run(0, scale.pick(300, 10_000, 50_000), scale.pick(150, 300, 1800))


class _Nodes(kills.Contest):
    """The nodes, their database, and the judge, who does not know what the right time is."""

    silent = "wrong node"
    at_once = 0.1  # Python starts for longer than they then live
    longest_stop = 3
    worker = node_worker.__file__

    def __init__(self, report: Report, folder: Path, chance: random.Random, server: PostgreSQL) -> None:
        super().__init__(report, folder / "none", chance, clock=lambda: sys.maxsize)
        self._server = server
        self._store = server.new_database()
        self._name = self._store.rpartition("/")[2]
        self._stopped: tuple[str, float] | None = None

    def command(self) -> tuple[str, list[str], dict[str, str]]:
        """A node with a clock of its own."""
        arguments = [self.worker, self._store, kills.GRANULARITY, str(_LABELS_EACH)]
        wrong = self._chance.random() < _WRONG_SHARE
        off = self._chance.choice(_WRONG) if wrong else self._chance.uniform(0, _NEAR)
        off *= self._chance.choice((-1, 1))
        library = faketime.library()
        if library is None:
            return "node", arguments, environment()
        false = {
            "LD_PRELOAD": str(library),
            "FAKETIME": f"{off:+f}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        return (self.silent if wrong else "node"), arguments, environment() | false

    def last_command(self) -> list[str]:
        """A node with the right clock."""
        return [self.worker, self._store, kills.GRANULARITY, "20"]

    def labels(self, name: str, lines: bytes) -> bytes:
        """Those lines that do not tell why there is no label."""
        kept = [line for line in lines.splitlines(keepends=True) if not line.startswith(b"-")]
        self._report.count("refusals", lines.count(b"\n") - len(kept))
        if kept and name.startswith(self.silent):
            self._report.violate(f"{name}, whose clock is wrong, gave a label: {kept[0]!r}")
        return b"".join(kept)

    def last_date(self) -> int | None:
        """None while nodes draw: another draw would wait for this look."""
        return sys.maxsize

    def kill_server(self) -> None:
        """Kill the first process of PostgreSQL, start it again, and compare the row with all labels seen."""
        self._server.kill()
        self._report.count("kills of PostgreSQL")
        time.sleep(self._chance.uniform(0, 0.3))
        self._server.start()
        seen = self._judge.latest
        last = 0
        if self._server.execute("SELECT to_regclass('waiting_room')", self._name) != [(None,)]:
            rows = self._server.execute("SELECT record FROM waiting_room", self._name)
            last = max((last_of(str(row[0]).encode()) for row in rows), default=0)
        self._report.demand(seen <= last, f"a label of {seen} was out while the row says {last}")

    def meanwhile(self) -> None:
        """Let a stopped node go on when its time has come; stop another one now and then."""
        if self._stopped is not None:
            name, until = self._stopped
            if time.monotonic() >= until or name not in self._processes:
                if name in self._processes:
                    self._processes[name].running.send_signal(signal.SIGCONT)
                    self._processes[name].doom = self._moment()
                self._stopped = None
        elif self._chance.random() < _STOPPED_SHARE and self._processes:
            name = self._chance.choice(list(self._processes))
            self._processes[name].running.send_signal(signal.SIGSTOP)
            self._processes[name].doom = None
            self._stopped = name, time.monotonic() + self._chance.uniform(0, self.longest_stop)
            self._report.count("stops")
