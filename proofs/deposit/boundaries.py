"""P-D2: a kill or a disk fault at every system call in turn: what was changed is changed wholly, or not at all.

The real command runs under strace: a deposit of two files, one of them in folders; a new edition; an edit by which
a file is replaced, one comes where a folder was, and one goes; a removal; and a deposit and an edit that find what a
crash has left, so that clearing up is interrupted, too. First its calls are counted; then it is run again for each of
them, and at this call it is killed, or told EIO, or ENOSPC. After each trial, without faults:

- the next user of the directory finds it whole within five seconds: the database passes its own check, every listed
  file is in its place with its SHA-256, nothing else is below DIR/col, nothing in staging, nothing half removed, and
  `ibi archive check` finds nothing;
- the change is there with all of its files, links and history, or nothing is; other items are as they were;
- it is there if the command said so;
- a command that was not killed says one clear sentence, or has done its work;
- one more deposit works.

Also a flush that fails, and a kill while the command deals with that: a transaction whose flush has failed may lie
whole in the database's log, and come back.

And in the order of the calls themselves: whenever a transaction becomes durable, all that was made, filled or moved for
it has been flushed (`flushes`), for a kill alone would never show a flush that was forgotten.

What it cannot show: disks that lie about flushes; and what a power cut brings back of that which was removed.
"""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ibi.errors import IbiError
from proofs.common.report import Report, Scale
from proofs.common.tracing import can_trace
from proofs.deposit import archives, calls, scenes
from proofs.deposit.flushes import unflushed
from proofs.deposit.looking import items_of
from proofs.deposit.nursery import Child, Nursery
from proofs.deposit.scenes import SCENES, Scene

NAME = "P-D2"
HOLDS = "wholly there or wholly absent; what was said to be done is there; flushed first; whole within 5 s"

RECOVERY = 5.0  # seconds


def prove(scale: Scale, seed: int, program: Path | None = None) -> Report:
    """Go through every call of every scene; in the short form, through some of them. `program`: see the nursery."""
    report = Report(NAME, HOLDS)
    report.count("faults", 0)
    if not can_trace(report):
        return report
    chance = random.Random(seed)
    with Nursery(program) as nursery, tempfile.TemporaryDirectory(prefix="proof-deposit-") as folder:
        scenes.give(Path(folder))
        for number, scene in enumerate(SCENES):
            place = Path(folder) / str(number)
            stage = Stage(report, nursery, scene, place)
            places = list(stage.boundaries())
            report.count("boundaries", len(places))
            few = scale.pick(2, 100, len(places))
            for fault in chance.sample(places, few) if few < len(places) else places:
                stage.trial(fault)
            if not scene.after_crash:
                flushes = [place for place in places if "sync:error=EIO" in place]
                for fault in chance.sample(flushes, min(scale.pick(1, 3, 100), len(flushes))):
                    stage.fail_and_die(fault, chance, scale.pick(1, 5, 10))
    return report


@dataclass(frozen=True)
class _Outcome:
    """How a command ended: whether it was killed, its status, and whether it has confirmed its work."""

    killed: bool
    status: int
    confirmed: bool
    err: str


class Stage:
    """The trials of one scene, below `place`."""

    def __init__(self, report: Report, nursery: Nursery, scene: Scene, place: Path) -> None:
        self._report = report
        self._nursery = nursery
        self._scene = scene
        self._place = place
        self._pattern = place / "pattern"
        place.mkdir()
        scene.make(self._pattern)
        self._before = items_of(self._pattern)

    def boundaries(self) -> Iterator[str]:
        """What strace is to do wrong, for each call of a run in which nothing is wrong."""
        trace = self.trial()
        for sentence in unflushed(trace):
            self._report.violate(f"{self._scene.name}: listed before it was flushed: {sentence}")
        yield from calls.boundaries(trace)

    def fail_and_die(self, fault: str, chance: random.Random, most: int) -> None:
        """A flush fails, and the command is killed while it deals with that: at some of the calls that follow."""
        kills = list(calls.kills_after(self.trial(fault), fault))
        for kill in chance.sample(kills, min(most, len(kills))):
            self.trial(fault, kill)

    def trial(self, *faults: str) -> str:
        """One command, its faults, and what comes after them. Returns what strace has told."""
        name = f"{self._scene.name}, {' and '.join(faults) or 'no fault'}"
        with tempfile.TemporaryDirectory(dir=self._place) as folder:
            place = Path(folder)
            data = place / "data"
            archives.copy(self._pattern, data)
            child = self._nursery.child(place / "child", self._scene.command(data, self._place.parent))
            trace = calls.watch(child, place / "log", *faults)
            outcome = self._outcome(child)
            if faults:
                self._report.count("faults" if calls.struck(trace) else "calls that did not come again")
                self._judge_command(name, outcome)
            else:
                done = outcome.status == 0 and outcome.confirmed
                self._report.demand(done, f"{name}: failed: {outcome.err[-300:]}")
            self._judge(name, data, outcome)
        return trace

    def _outcome(self, child: Child) -> _Outcome:
        status = child.wait()
        whole = [
            line
            for line in f"{child.out.decode()}\0{child.err}".splitlines(keepends=True)
            if line.endswith("\n")
        ]
        confirmed = any(
            self._scene.expected_output in line and not line.startswith("ibi: ") for line in whole
        )
        return _Outcome(status == -signal.SIGKILL, status, confirmed, child.err)

    def _judge_command(self, name: str, outcome: _Outcome) -> None:
        """What it said, if it lived."""
        if outcome.killed:
            self._report.count("kills")
            return
        self._report.count("refusals", outcome.status != 0)
        last = outcome.err.splitlines()[-1:] or [
            ""
        ]  # where stderr itself fails, its line begins with something else
        clear = outcome.status == 1 and "Traceback" not in outcome.err and "ibi: " in last[0]
        self._report.demand(
            (outcome.status == 0 and outcome.confirmed) or clear,
            f"{name}: no clear sentence, status {outcome.status}: {outcome.err[-300:]}",
        )

    def _judge(self, name: str, data: Path, outcome: _Outcome) -> None:
        """Come next, and look."""
        started = time.monotonic()
        try:
            with archives.at(data).item_store():
                pass
        except (IbiError, OSError) as error:
            self._report.violate(f"{name}: nobody can go on: {error}")
            return
        took = time.monotonic() - started
        self._report.top("slowest recovery, ms", round(1000 * took))
        self._report.demand(took <= RECOVERY, f"{name}: recovery took {took:.1f} s")
        for fault in archives.all_faults(data):
            self._report.violate(f"{name}: {fault}")
        try:
            happened = self._scene.judge(self._before, items_of(data))
        except ValueError as error:
            self._report.violate(f"{name}: by halves: {error}")
            return
        self._report.count("changes that had happened", happened)
        if outcome.confirmed or outcome.status == 0:
            self._report.demand(happened, f"{name}: it was said to be done, and is not")
        self._deposit_one_more(name, data)

    def _deposit_one_more(self, name: str, data: Path) -> None:
        try:
            with archives.at(data).item_store() as item_store:
                held = archives.put(item_store, {"one/more": b"more"}, "afterwards")
        except (IbiError, OSError) as error:
            self._report.violate(f"{name}: afterwards nobody can deposit: {error}")
            return
        if str(held.forms.main).lower() not in items_of(data):
            self._report.violate(f"{name}: one more deposit was lost")
        for fault in archives.all_faults(data):
            self._report.violate(f"{name}: after one more deposit: {fault}")
