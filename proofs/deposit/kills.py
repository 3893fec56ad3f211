"""P-D2, by chance: four processes deposit, edit and remove in one Archive, and are killed at any moment.

They work on the same items, with files of up to a megabyte and a half, and say what they do into a file that the
judge reads when they are dead. One after the other is killed with SIGKILL, 5 to 400 ms after the one before, and
another takes its place; now and then all at once. Then, as the next user of the directory:

- it is whole again within five seconds, in every way in which P-D2 looks at it;
- what was acknowledged stands in the history of its item, what was refused does not, and what was interrupted stands
  there wholly or not at all;
- all changes, made once more by the judge in the order that the histories tell, give the files, the removals and the
  editions that are there: no writer has undone what another one did;
- no change comes after one in the history that was begun only when it had ended.

Meanwhile a reader takes items at random: every file has the bytes that are listed, wherever it lies just now.

What it cannot show: narrow gaps between two system calls (those are gone through one by one), and power cuts.
"""

from __future__ import annotations

import random
import tempfile
import time
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.store.file_store import FileStore
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import IbiError
from proofs.common.report import Report, Scale
from proofs.deposit import archives, replay
from proofs.deposit.looking import items_of
from proofs.deposit.nursery import Child, Nursery
from proofs.deposit.replay import Change
from proofs.deposit.working import WORK

NAME = "P-D2-kills"
HOLDS = "what was acknowledged is there, once and whole; no writer undoes another; whole again within 5 s"

PROCESSES = 4
_ROUND = 20  # kills between two looks at everything
_RECOVERY = 5.0  # seconds
_LOOKS = 3  # a file that is changed while it is read is looked at again


def prove(scale: Scale, seed: int, program: Path | None = None) -> Report:
    """Kill until there were enough kills. `program`: see the nursery."""
    report = Report(NAME, HOLDS)
    report.count("kills", 0)
    with tempfile.TemporaryDirectory(prefix="proof-kills-") as folder, Nursery(program) as nursery:
        contest = _Contest(report, nursery, Path(folder), random.Random(seed))
        while report.counts["kills"] < scale.pick(25, 100, 300):
            contest.round()
    return report


class _Contest:
    """One Archive, those who work in it, and the judge."""

    def __init__(self, report: Report, nursery: Nursery, folder: Path, chance: random.Random) -> None:
        self._report = report
        self._nursery = nursery
        self._folder = folder
        self._data = folder / "data"
        self._chance = chance
        self._workers: dict[str, Child] = {}
        self._changes: dict[str, Change] = {}
        self._born = 0
        archives.found(self._data)

    def round(self) -> None:
        """Let them work and be killed; at last all at once. Then look."""
        with ExitStack() as stack:
            reader = None
            if self._chance.random() < 1 / 2:  # one that holds the database open, as a server does
                reader = _Reader(self._report, self._data, self._chance)
                stack.callback(reader.close)
            for _ in range(PROCESSES):
                self._start()
            for number in range(_ROUND - PROCESSES):
                self._wait(reader)
                self._kill(self._chance.choice(sorted(self._workers)))
                if number % 8 == 7:  # and then no process runs for a moment
                    self._kill_all()
                while len(self._workers) < PROCESSES:
                    self._start()
            self._wait(reader)
            self._kill_all()
        self._look()

    def _start(self) -> None:
        self._born += 1
        name = f"w{self._born}"
        words = [str(self._data), name, str(self._chance.random())]
        child = self._nursery.child(self._folder / name, words, WORK)
        child.go()
        self._workers[name] = child

    def _wait(self, reader: _Reader | None) -> None:
        end = time.monotonic() + self._chance.uniform(0.005, 0.4)
        while time.monotonic() < end:
            if reader is not None:
                reader.look()
            time.sleep(0.002)

    def _kill_all(self) -> None:
        children = [self._workers[name] for name in self._workers]
        for child in children:
            child.signal(9)
        for name in list(self._workers):
            self._kill(name)

    def _kill(self, name: str) -> None:
        child = self._workers.pop(name)
        status = child.kill()
        self._report.count("kills")
        self._report.demand(status == -9, f"{name} ended by itself: {status} {child.err[-300:]}")
        for change in replay.read(child.out.splitlines(keepends=True)):
            self._changes[change.number] = change
            outcome = (
                "interrupted" if change.ended is None else "refused" if change.refused else "acknowledged"
            )
            self._report.count(f"changes {outcome}")

    def _look(self) -> None:
        """Come next, and look at everything."""
        started = time.monotonic()
        try:
            with archives.at(self._data).item_store():
                pass
        except (IbiError, OSError) as error:
            self._report.violate(f"nobody can go on: {error}")
            return
        took = time.monotonic() - started
        self._report.top("slowest recovery, ms", round(1000 * took))
        self._report.demand(took <= _RECOVERY, f"recovery took {took:.1f} s")
        for fault in archives.all_faults(self._data):
            self._report.violate(fault)
        items = items_of(self._data)
        for sentence in replay.judge(items, self._changes):
            self._report.violate(sentence)
        self._report.top("items", len(items))
        self._report.top("files", sum(len(item.files) for item in items.values()))


class _Reader:
    """A process that reads items at random while others work."""

    def __init__(self, report: Report, data: Path, chance: random.Random) -> None:
        self._report = report
        self._catalogue: Catalogue = archives.at(data).open_catalogue()
        self._file_store: FileStore = archives.at(data).file_store()
        self._chance = chance
        self._holdings: list[Holding] = []

    def close(self) -> None:
        """No longer."""
        self._catalogue.close()

    def look(self) -> None:
        """Read one item, as it is now."""
        if not self._holdings or self._chance.random() < 1 / 20:
            self._holdings = list(self._catalogue.all())
        main = self._chance.choice(self._holdings).forms.main
        held = self._catalogue.holding(main)
        if held is None:
            self._report.violate(f"{main} is no longer there")
            return
        for file in held.files:
            self._read(held, file)

    def _read(self, held: Holding, file: StoredFile) -> None:
        problem = ""
        for _ in range(_LOOKS):
            problem = self._problem(held, file)
            if not problem:
                self._report.count("files read meanwhile")
                return
            now = self._catalogue.holding(held.forms.main)
            listed = now.file(file.name) if now else None
            if listed is None or listed.sha256 != file.sha256:
                return  # it has been changed meanwhile
            file = listed
        self._report.violate(f"a reader of {held.forms.main} {file.name}: {problem}")

    def _problem(self, held: Holding, file: StoredFile) -> str:
        try:
            with self._file_store.open(held.forms, file) as opened:
                good = sha256(opened.read()).hexdigest() == file.sha256
        except OSError as error:
            return str(error)
        return "" if good else "other bytes than listed"
