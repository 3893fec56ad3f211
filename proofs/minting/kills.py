"""P-M1: whichever process is killed, whenever: no label comes twice, order holds, and the next label comes soon.

Eight processes mint from one directory, one millisecond apart, most of them lean workers, some the command `ibi mint`;
each is killed with SIGKILL at a moment chosen by chance, 5 to 400 ms after its start or after its first label, and
another takes its place. The judge holds the pipes. It sees labels as clients do and demands that

- no label comes twice in either form, and each names one moment, which has come;
- what one process gives increases, and is later than all that was seen before it was started;
- after every kill the state on disk is whole, and covers every label seen;
- from a kill to the next label, of any process that already was minting, it takes at most a second.

What it cannot show: narrow gaps between two system calls (P-M2 goes through those one by one), and power cuts.
"""

from __future__ import annotations

import os
import random
import selectors
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.minting import worker
from proofs.minting.judge import Judge
from proofs.minting.state_file import last_date

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "P-M1"
HOLDS = "no label twice in either form; order; the state whole after every kill; next label within 1 s"

PROCESSES = 8
GRANULARITY = "0.001"
_LABELS_EACH = 100_000  # more than any of them lives to give
_CLI_SHARE = 0.15
_LONGEST_GAP = 1.0
_AT_ONCE = 1 << 16


def prove(scale: Scale, seed: int) -> Report:
    """Kill until there were enough kills, and enough labels."""
    report = Report(NAME, HOLDS)
    report.count("kills", 0)
    with tempfile.TemporaryDirectory(prefix="proof-kills-") as folder:
        contest = Contest(report, Path(folder) / "data", random.Random(seed))
        try:
            contest.run(
                scale.pick(40, 250, 1000), scale.pick(3_000, 20_000, 100_000), scale.pick(60, 300, 1800)
            )
        finally:
            contest.close()
        contest.last_word()
    gap = report.counts["longest gap after a kill, ms"]
    report.demand(scale is Scale.SHORT or gap <= 1000 * _LONGEST_GAP, f"after a kill no label for {gap} ms")
    return report


@dataclass
class _Process:
    """One that mints. `doom`: seconds on the monotonic clock at which it is killed; None: set by its first label."""

    name: str
    running: subprocess.Popen[bytes]
    drawn_after: int
    doom: float | None
    spoken: bool = False
    rest: bytes = b""


@dataclass
class _Gap:
    """Since when nothing was heard, and those of whom something can be expected."""

    since: float
    expected: set[str] = field(default_factory=set)


class Contest:
    """Processes that mint, are killed and replaced, and the judge between them and the world."""

    processes = PROCESSES
    silent = ""
    """The kind of processes that give no label, if there is one."""
    at_once = 0.5
    """The share of the others that are killed after their start, not after their first label."""

    def __init__(
        self,
        report: Report,
        directory: Path,
        chance: random.Random,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._report = report
        self._judge = Judge(report, clock)
        self._directory = directory
        self._chance = chance
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, _Process] = {}
        self._gap: _Gap | None = None

    def run(self, kills: int, labels: int, seconds: float) -> None:
        """Until so many kills and labels were seen; a failure if that takes longer than `seconds`."""
        end = time.monotonic() + seconds
        while self._report.counts["kills"] < kills or self._judge.heard < labels:
            self.meanwhile()
            while len(self._processes) < self.processes:
                self._start()
            now = time.monotonic()
            if now > end:
                self._report.violate(f"only {self._judge.heard} labels in {seconds} seconds")
                return
            dooms = [process.doom for process in self._processes.values() if process.doom is not None]
            self._listen(max(0.0, min([*dooms, now + 1]) - now))
            now = time.monotonic()
            for process in [p for p in self._processes.values() if p.doom is not None and p.doom <= now]:
                self._kill(process)

    def command(self) -> tuple[str, list[str], dict[str, str]]:
        """What a further process is called, its arguments after `python`, and its environment."""
        if self._chance.random() < _CLI_SHARE:
            names = ("--host", worker.HOST, "--ip", worker.IP, "--granularity", GRANULARITY)
            data = ("--data", str(self._directory), *names, "--count", str(_LABELS_EACH))
            return "command", ["-m", "ibi", "mint", *data], environment()
        lean = [worker.__file__, str(self._directory), GRANULARITY, str(_LABELS_EACH)]
        return "worker", lean, environment()

    def last_command(self) -> list[str]:
        """The arguments of the process that mints a little in the end."""
        return [worker.__file__, str(self._directory), GRANULARITY, "20"]

    def labels(self, name: str, lines: bytes) -> bytes:  # noqa: ARG002 - others tell processes apart
        """Those of the lines of a process that are labels."""
        return lines

    def meanwhile(self) -> None:
        """Do something else to the processes, now and then."""

    def last_date(self) -> int | None:
        """The last date that the state tells. Raises ValueError if the state is not whole."""
        return last_date(self._directory)

    def _start(self) -> None:
        kind, arguments, variables = self.command()
        name = f"{kind} {self._report.counts['processes']}"
        running = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables, cwd=self._directory.parent,
        )  # fmt: skip
        assert running.stdout is not None  # noqa: S101 - it is a pipe
        os.set_blocking(running.stdout.fileno(), False)
        at_once = kind == self.silent or self._chance.random() < self.at_once
        process = _Process(name, running, self._judge.latest, self._moment() if at_once else None)
        self._processes[name] = process
        self._selector.register(running.stdout, selectors.EVENT_READ, process)
        self._report.count("processes")

    def _moment(self) -> float:
        return time.monotonic() + self._chance.uniform(0.005, 0.4)

    def _listen(self, seconds: float) -> None:
        for key, _ in self._selector.select(seconds):
            process: _Process = key.data
            if not self._hear(process):
                self._ended(process)

    def _hear(self, process: _Process) -> bool:
        """Take in what a process has written; False if it will never write again."""
        assert process.running.stdout is not None  # noqa: S101 - it is a pipe
        try:
            text = os.read(process.running.stdout.fileno(), _AT_ONCE)
        except BlockingIOError:
            return True
        lines, end, process.rest = (process.rest + text).rpartition(b"\n")
        if self._judge.hear(process.name, self.labels(process.name, lines + end), process.drawn_after):
            self._close_gap()
            if not process.spoken and process.doom is None:
                process.doom = self._moment()
            process.spoken = True
        return bool(text)

    def _close_gap(self) -> None:
        if self._gap:
            self._report.count("gaps measured")
            self._report.top(
                "longest gap after a kill, ms", round(1000 * (time.monotonic() - self._gap.since))
            )
            self._gap = None

    def _kill(self, process: _Process) -> None:
        now = time.monotonic()
        self._report.count("kills")
        self._report.count("kills before the first label", not process.spoken)
        self._end(process)
        if self._gap is None:
            self._gap = _Gap(now, {name for name, p in self._processes.items() if p.spoken})
        else:
            self._gap.expected.discard(process.name)
        if not self._gap.expected:
            self._gap = None  # only the killed process was minting: this would measure how fast Python starts
        self._look_at_state()

    def _look_at_state(self) -> None:
        seen = self._judge.latest
        try:
            last = self.last_date()
        except ValueError as error:
            self._report.violate(str(error))
            return
        self._report.count("looks at the state")
        self._report.demand(seen <= (last or 0), f"a label of {seen} was out while the state says {last}")

    def _ended(self, process: _Process) -> None:
        """A process that was not killed has nothing to end for."""
        problem = process.running.communicate()[1].decode()
        self._report.violate(f"{process.name} ended by itself: {problem.strip()[-300:]}")
        self._remove(process)

    def _remove(self, process: _Process) -> None:
        assert process.running.stdout is not None  # noqa: S101 - it is a pipe
        assert process.running.stderr is not None  # noqa: S101 - it is a pipe
        self._selector.unregister(process.running.stdout)
        process.running.wait()
        process.running.stdout.close()
        process.running.stderr.close()
        del self._processes[process.name]

    def last_word(self) -> None:
        """In the end, the next process mints, without any repair."""
        command = [sys.executable, *self.last_command()]
        done = subprocess.run(command, capture_output=True, env=environment(), check=False, timeout=60)
        self._judge.hear("the last", done.stdout, self._judge.latest)
        self._report.demand(
            done.returncode == 0, f"afterwards nobody can mint: {done.stderr.decode()[-300:]}"
        )

    def close(self) -> None:
        """Stop all that still run."""
        for process in list(self._processes.values()):
            self._end(process)
        self._selector.close()

    def _end(self, process: _Process) -> None:
        """Kill it, and hear what had reached the pipe: a client would have seen it."""
        process.running.kill()
        process.running.wait()
        while self._hear(process):
            pass
        self._remove(process)
