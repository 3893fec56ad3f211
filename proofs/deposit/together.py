"""P-D2, together: several start at once after a crash, and one is stopped in the middle of its work.

*Starts.* A crash has left all that it can: files that are listed and lie in staging, files that are to be removed,
files that are not listed. Two or three commands start within some milliseconds. Each does its work, and when the
last has ended, the directory is whole: none cleared away what another one had just staged, nothing was left over.
Two deposits under one key make one item.

*Stops.* A process is stopped (SIGSTOP)

- with a file in staging, that is, with the shared lock: others deposit, edit and remove as if it were not there, and
  its file is not cleared away; it goes on and deposits it, or is killed, and then it is cleared away;
- in the middle of its transaction: others say a clear sentence within twenty seconds, and readers go on; when it goes
  on, so do they;
- while it moves files (with the lock for that): what others change meanwhile is durable and can be read with all its
  files, but they wait with their answer until it goes on, or is killed.

What it cannot show: that one waits for ever for a process that is stopped for ever while it moves files; that is so.
"""

from __future__ import annotations

import fcntl
import os
import random
import signal
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from proofs.common.report import Report, Scale
from proofs.deposit import archives, scenes
from proofs.deposit.looking import items_of
from proofs.deposit.nursery import Child, Nursery, wait_until
from proofs.deposit.working import STOPPED

NAME = "P-D2-together"
HOLDS = "no start harms another one; who is stopped stops nobody's reading, and loses nothing"

_REFUSED_WITHIN = 20  # seconds


def prove(scale: Scale, seed: int, program: Path | None = None) -> Report:
    """Starts, then stops. `program`: see the nursery."""
    report = Report(NAME, HOLDS)
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="proof-together-") as folder, Nursery(program) as nursery:
        together = Together(report, nursery, Path(folder), chance)
        for _ in range(scale.pick(4, 60, 300)):
            together.start_at_once()
        for _ in range(scale.pick(1, 3, 20)):
            together.stopped_with_staged_files(killed=False)
            together.stopped_with_staged_files(killed=True)
            together.stopped_while_moving()
        for _ in range(scale.pick(0, 1, 3)):
            together.stopped_in_transaction()
    return report


class Together:
    """Each trial in a copy of an Archive that was interrupted."""

    def __init__(self, report: Report, nursery: Nursery, folder: Path, chance: random.Random) -> None:
        self._report = report
        self._nursery = nursery
        self._folder = folder
        self._chance = chance
        self._number = 0
        self._pattern = folder / "pattern"
        self._scenes = {scene.name: scene for scene in scenes.SCENES}
        scenes.give(folder)
        self._scenes["edit after a crash"].make(self._pattern)
        self._before = items_of(self._pattern)

    def start_at_once(self) -> None:
        """Two or three commands within some milliseconds."""
        data = self._new()
        same_key = self._chance.random() < 1 / 4
        keys = ["one", "one" if same_key else "two", "three"][: self._chance.randint(2, 3)]
        children = [self._command(data, "deposit", key) for key in keys]
        for child in children:
            child.go()
            time.sleep(self._chance.choice([0, self._chance.uniform(0, 0.03)]))
        done = [child.wait() == 0 for child in children]
        self._report.count("starts at once")
        self._report.count("commands", len(children))
        for child, good in zip(children, done, strict=True):
            twin = same_key and "is already held" in child.err
            self._report.demand(good or twin, f"starting at once: {child.err[-300:]}")
        self._whole(data, set(keys), "after starts at once")

    def stopped_with_staged_files(self, *, killed: bool) -> None:
        """Stopped while it holds the shared lock."""
        data = self._new()
        stopped = self._stopped(data, "staged")
        staged = sorted((data / "staging").iterdir())
        for command in (
            self._command(data, "deposit", "one"),
            self._scene(data, "edit"),
            self._scene(data, "removal"),
        ):
            command.go()
            ended = command.wait()
            self._report.demand(ended == 0, f"while another is stopped: {command.err[-300:]}")
        self._report.demand(staged and staged[0].exists(), "the file of one that is stopped was cleared away")
        self._go_on(stopped, killed=killed)
        if killed:
            with archives.at(data).item_store():
                pass
        expected = {"one"} if killed else {"one", None}
        self._whole(data, expected, f"after one was stopped with staged files, killed: {killed}")

    def stopped_in_transaction(self) -> None:
        """Stopped while it alone may write."""
        data = self._new()
        stopped = self._stopped(data, "writing")
        command = self._command(data, "deposit", "one")
        started = time.monotonic()
        command.go()
        status, took = command.wait(), time.monotonic() - started
        self._report.top("longest wait for a clear sentence, ms", round(1000 * took))
        clear = status == 1 and took < _REFUSED_WITHIN and command.err.startswith("ibi: ")
        self._report.demand(clear, f"while another writes: {status} after {took:.0f} s: {command.err[-300:]}")
        listing = self._nursery.child(self._place(), ["archive", "list", "--data", str(data)])
        listing.go()
        self._report.demand(
            listing.wait() == 0, f"nobody can read while another writes: {listing.err[-300:]}"
        )
        self._go_on(stopped, killed=False)
        again = self._command(data, "deposit", "two")
        again.go()
        self._report.demand(again.wait() == 0, f"after another has written: {again.err[-300:]}")
        self._whole(data, {"two"}, "after one was stopped in its transaction")

    def stopped_while_moving(self) -> None:
        """The judge itself takes the place of the stopped one: it holds the locks."""
        data = self._new()
        with archives.at(data).item_store():
            pass
        shared, lock = (os.open(data / name, os.O_RDWR) for name in ("ingest.lock", "settle.lock"))
        try:
            fcntl.flock(shared, fcntl.LOCK_SH)
            fcntl.flock(lock, fcntl.LOCK_EX)
            command = self._command(data, "deposit", "one")
            command.go()
            there = wait_until(lambda: any(item.facts["key"] == "one" for item in items_of(data).values()))
            self._report.demand(there, "while another moves files, nobody can change anything")
            self._report.demand(not command.out, "it said to be done before its files were in their places")
            self._read_all(data)
        finally:
            os.close(lock)
            os.close(shared)
        self._report.demand(command.wait() == 0, f"after another has moved files: {command.err[-300:]}")
        self._report.count("stops")
        self._whole(data, {"one"}, "after one was stopped while it moved files")

    def _new(self) -> Path:
        data = self._place()
        archives.copy(self._pattern, data)
        return data

    def _place(self) -> Path:
        self._number += 1
        return self._folder / f"place{self._number}"

    def _command(self, data: Path, name: str, key: str) -> Child:
        words = self._scenes[name].command(data, self._folder)
        words[words.index("--key") + 1] = key
        return self._nursery.child(self._place(), words)

    def _scene(self, data: Path, name: str) -> Child:
        return self._nursery.child(self._place(), self._scenes[name].command(data, self._folder))

    def _stopped(self, data: Path, place: str) -> Child:
        child = self._nursery.child(self._place(), [str(data), place], STOPPED)
        child.go()
        stat = Path(f"/proc/{child.pid}/stat")
        if not wait_until(lambda: stat.read_text("ascii", "replace").rpartition(")")[2].split()[0] == "T"):
            self._report.violate(f"it does not come to where it is to be stopped: {child.err[-300:]}")
        self._report.count("stops")
        return child

    def _go_on(self, child: Child, *, killed: bool) -> None:
        if killed:
            child.kill()
            return
        child.signal(signal.SIGCONT)
        self._report.demand(child.wait() == 0, f"one that was stopped cannot go on: {child.err[-300:]}")

    def _read_all(self, data: Path) -> None:
        """Every listed file can be read, wherever it lies."""
        with archives.at(data).catalogue() as catalogue:
            for held in catalogue.all():
                for file in held.files:
                    with archives.at(data).file_store().open(held.forms, file) as opened:
                        good = sha256(opened.read()).hexdigest() == file.sha256
                    self._report.demand(good, f"{file.name} has other bytes than listed")

    def _whole(self, data: Path, keys: set[str | None] | set[str], when: str) -> None:
        for fault in archives.all_faults(data):
            self._report.violate(f"{when}: {fault}")
        new = {name: item for name, item in items_of(data).items() if name not in self._before}
        there = sorted(str(item.facts["key"]) for item in new.values())
        self._report.demand(there == sorted(map(str, keys)), f"{when}: the new items are {there}")
        for item in new.values():
            self._report.demand(
                len(item.files) == (2 if item.facts["key"] else 1), f"{when}: an item lacks files"
            )
