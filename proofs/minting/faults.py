"""P-M2: a kill or a disk fault at every system call in turn: no label comes twice, none leaves before it is durable.

A process mints under strace: into an empty directory, once more into a used one, and a window of fifty. First its calls
are counted; then it is run again for each of them, and at this call it is killed, or told EIO, or ENOSPC. Only calls
that touch DIR/minting or the output count; a fault counts that was met. After each trial, without faults:

- no label seen lies after the last date on disk;
- the next process mints, and gives nothing that was seen before: after a kill at once; after an error at once, too, or
  after `ibi mint recover`, and then it has said LostState;
- in the order of the calls themselves, no label was written out before a sync of a state that covers it had succeeded.

The service is tried in the same way (service_faults).

What it cannot show: disks that lie about syncs, and power cuts.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ibi.errors import IbiError, LostState
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.common.tracing import can_trace
from proofs.minting import service_faults, worker
from proofs.minting.calls import (
    FAULTS,
    Call,
    files_of,
    moments_in,
    read_log,
    released_early,
    strace,
    struck,
)
from proofs.minting.judge import Judge
from proofs.minting.state_file import last_date

NAME = "P-M2"
HOLDS = "no label twice; none out before it is durable; no kill needs a repair"

GRANULARITY = "0.001"
_MUST_BE_NOTICED = ("fsync", "fdatasync", "rename", "write")
"""To unlock, and to note the time at the end, may fail in silence: no label depends on it."""
_WRITES = 5  # of one window to its reader; more are all alike
_TIMEOUT = 60  # seconds for one process


@dataclass(frozen=True)
class Scene:
    """What a process is doing when the fault comes: how many labels were drawn before, and how many it is to draw."""

    name: str
    before: int
    count: int
    by_command: bool = False


SCENES = (
    Scene("first start", 0, 1),
    Scene("later draw", 3, 1),
    Scene("window", 3, 50),
    Scene("first start of the command", 0, 1, by_command=True),
    Scene("window of the command", 3, 50, by_command=True),
)


def prove(scale: Scale, seed: int) -> Report:
    """The library and the command, then the service."""
    report = prove_processes(scale, seed)
    if not report.unshown:
        served = service_faults.prove(scale, seed)
        report.add(served)
        report.unshown += served.unshown
    return report


def prove_processes(scale: Scale, seed: int) -> Report:
    """Go through every call of every scene; in the short form, through some of them."""
    report = Report(NAME, HOLDS)
    report.count("faults", 0)
    if not can_trace(report):
        return report
    judge, chance = Judge(report), random.Random(seed)
    for scene in SCENES[: scale.pick(3, 5, 5)]:
        places = list(_boundaries(report, judge, scene))
        report.count("boundaries", len(places))
        chance.shuffle(places)
        most = scale.pick(6, len(places), len(places))
        for place in report.until_met("faults", most, places):
            _Trial(report, judge, scene, place).run()
    return report


def _boundaries(report: Report, judge: Judge, scene: Scene) -> Iterator[str]:
    """What strace is to do wrong, for each call of a run in which nothing is wrong: "fsync:error=EIO:when=2"."""
    trial = _Trial(report, judge, scene, None)
    trial.run()
    numbers = Counter[str]()
    for call in trial.calls:
        numbers[call.name] += 1
        if call.name == "write" and numbers["write"] > _WRITES:
            continue
        for fault in FAULTS if call.may_fail else FAULTS[:1]:
            yield f"{call.name}:{fault}:when={numbers[call.name]}"


class _Trial:
    """One process, one fault, and what comes after it."""

    def __init__(self, report: Report, judge: Judge, scene: Scene, fault: str | None) -> None:
        self._report = report
        self._judge = judge
        self._scene = scene
        self._fault = fault
        self._name = f"{scene.name}, {fault or 'no fault'}"
        self._met = False
        self.calls: list[Call] = []

    def run(self) -> None:
        """Prepare a directory, let the process meet its fault, look, and mint on."""
        with tempfile.TemporaryDirectory(prefix="proof-faults-") as name:
            folder = Path(name)
            data = folder / "data"
            if self._scene.before:
                self._mint_on(data, self._scene.before, "before")
            done = self._meet_fault(folder, data)
            self._look(data, done)
            self._mint_after(data)

    def _meet_fault(self, folder: Path, data: Path) -> subprocess.CompletedProcess[bytes]:
        out, log = folder / "out", folder / "log"
        os.mkfifo(out)
        reader, writer = os.open(out, os.O_RDONLY | os.O_NONBLOCK), os.open(out, os.O_WRONLY)
        try:
            done = subprocess.run(
                [*strace(log, [*files_of(data), out], self._fault), *self._command(data)],
                stdout=writer, stderr=subprocess.PIPE, env=environment(), cwd=folder,
                check=False, timeout=_TIMEOUT,
            )  # fmt: skip
        finally:
            os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read()
        self._judge.hear(self._name, text[: text.rfind(b"\n") + 1])
        self.calls, self._met = read_log(log), struck(log)
        return done

    def _command(self, data: Path) -> list[str]:
        count = str(self._scene.count)
        if not self._scene.by_command:
            return [sys.executable, worker.__file__, str(data), GRANULARITY, count]
        names = ["--host", worker.HOST, "--ip", worker.IP, "--granularity", GRANULARITY]
        return [sys.executable, "-m", "ibi", "mint", "--data", str(data), *names, "--count", count]

    def _look(self, data: Path, done: subprocess.CompletedProcess[bytes]) -> None:
        """What the process left behind."""
        synced = 0
        for moment in released_early(self.calls):
            self._report.violate(f"{self._name}: a label of {moment} was written out before it was durable")
        try:
            synced = last_date(data) or 0
        except ValueError as error:
            self._report.violate(f"{self._name}: {error}")
        latest = max((moment for call in self.calls for moment in moments_in(call)), default=0)
        self._report.demand(latest <= synced, f"{self._name}: {latest} was out, the disk knows {synced}")
        if self._fault is None:
            self._report.demand(done.returncode == 0, f"{self._name}: failed: {done.stderr.decode()[-300:]}")
            return
        self._report.count("faults", self._met)
        self._report.count("faults not met", not self._met)
        if self._met and self._fault.startswith(_MUST_BE_NOTICED):
            self._report.demand(done.returncode, f"{self._name}: the process noticed nothing")
        if self._scene.by_command and b"Traceback" in done.stderr:
            self._report.violate(f"{self._name}: no clear sentence: {done.stderr.decode()[-300:]}")

    def _mint_after(self, data: Path) -> None:
        try:
            self._mint_on(data, 3, "afterwards")
        except LostState as lost:
            self._report.count("repairs needed")
            if self._fault is None or "SIGKILL" in self._fault:
                self._report.violate(f"{self._name}: only a repair helps: {lost}")
            self._repair(data)
            self._mint_on(data, 3, "repaired")
        except IbiError as error:
            self._report.violate(f"{self._name}: afterwards nobody can mint: {error}")

    def _repair(self, data: Path) -> None:
        command = [sys.executable, "-m", "ibi", "mint", "recover", "--data", str(data)]
        done = subprocess.run(command, env=environment(), check=False, capture_output=True, timeout=_TIMEOUT)
        self._report.demand(done.returncode == 0, f"{self._name}: no repair: {done.stderr.decode()[-300:]}")

    def _mint_on(self, data: Path, count: int, when: str) -> None:
        """So many labels by a process without faults: this one."""
        later_than = 0 if when == "before" else max((m for c in self.calls for m in moments_in(c)), default=0)
        with worker.opened(data, GRANULARITY) as subsystem:
            lines = "".join(worker.lines(subsystem, count))
        self._judge.hear(f"{self._name} {id(self)} {when}", lines.encode(), later_than)
