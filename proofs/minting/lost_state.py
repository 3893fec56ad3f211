"""P-M5: whatever is done to DIR/minting behind our back, nothing is minted from it until it has been repaired.

Each case begins with a genuine directory from which labels were given; then something is done to it (`harm.py`): a
file is deleted, cut at every length, one bit of it turned at every byte, replaced by an older copy of itself in every
way in which that happens, the whole directory copied or put back from a backup, or carried to another machine. Then

- a process that opens it, and one that had it open, gets LostState and no label;
- `ibi mint recover` repairs it, a copy only with --moved; what is minted then was never given before, and comes later;
- what a process had reserved when the state was lost, or reserves from files that were taken away, is not given to
  another one as well.

Cases that are harmless, or cannot be told from a rightful state, must not lead to a label given twice either.

What it cannot show, since it cannot be noticed: a whole machine or disk set back to an earlier moment; both files of
one directory removed together where nothing else of ours lies, which then starts anew at the present clock.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from ibi.errors import IbiError, LostState
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.machine import this_machine
from ibi.minting.recovery import recover
from ibi.minting.state import StateRecord
from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.minting import harm, worker
from proofs.minting.judge import Judge
from proofs.minting.reading import TICKS

NAME = "P-M5"
HOLDS = "no label from a lost, damaged, old or copied state until it is repaired; none twice afterwards"

GRANULARITY = "0.001"
_COMMANDS = 20  # every so many cases, the repair is made by the command
_AT_ONCE = 12
_MOMENT = 0.1  # seconds until another process waits
_TIMEOUT = 60  # seconds for one process


def prove(scale: Scale, seed: int) -> Report:
    """Every kind of harm; in the short form, bits and lengths by chance."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    report.count("cases", 0)
    sizes = _rotten(report)
    with ThreadPoolExecutor(_AT_ONCE) as hands:  # most of the time is waiting for moments
        for one in hands.map(_try, *zip(*enumerate(_cases(scale, chance, sizes)), strict=True)):
            report.add(one)
    return report


def _try(number: int, case: tuple[str, Callable[[_Trial], None]]) -> Report:
    """One case, in a directory of its own and before a judge of its own."""
    name, what_happens = case
    report = Report(NAME, HOLDS)
    with tempfile.TemporaryDirectory(prefix="proof-lost-") as folder:
        trial = _Trial(report, f"{name} ({number})", Path(folder) / "data")
        trial.by_command = number % _COMMANDS == 0
        try:
            what_happens(trial)
        except IbiError as error:
            report.violate(f"{name} ({number}): unforeseen: {error}")
    report.count("cases")
    return report


def _rotten(report: Report) -> dict[str, int]:
    """A bit turned by the disk itself leaves no trace but in the record. Returns how long each file is."""
    with (
        tempfile.TemporaryDirectory(prefix="proof-lost-") as folder,
        worker.opened(folder, GRANULARITY) as used,
    ):
        used.mint()
        files = {name: (Path(folder) / "minting" / name).read_bytes() for name in (harm.STATE, harm.LOCK)}
    line = files[harm.STATE]
    report.demand(StateRecord.read(line), "a record is not read")
    for bit in range(8 * len(line)):
        rotten = int.from_bytes(line, "little") ^ 1 << bit
        report.demand(
            StateRecord.read(rotten.to_bytes(len(line), "little")) is None,
            f"a record with bit {bit} turned is read",
        )
        report.count("rotten records")
    return {name: len(content) for name, content in files.items()}


def _cases(
    scale: Scale, chance: random.Random, sizes: dict[str, int]
) -> Iterator[tuple[str, Callable[[_Trial], None]]]:
    """Every case by its name: what happens in it, once it has a directory."""
    kinds: list[tuple[Callable[..., None], Iterable[harm.Named]]] = [
        (_Trial.refuses, harm.damages(scale, chance, sizes)),
        (_Trial.refuses, harm.put_back()),
        (_Trial.refuses_copy, harm.copies()),
        (_Trial.goes_on, harm.harmless()),
        (_Trial.keeps_reserved, harm.total_losses()),
        (_Trial.pulled_away, harm.pulled_away()),
    ]
    for what_happens, harms in kinds:
        for name, damage in harms:
            yield name, partial(what_happens, damage=damage)
    yield "another machine", _Trial.refuses_elsewhere


class _Trial:
    """One directory, what is done to it, and what comes after; `by_command`: repairs are made by `ibi mint recover`."""

    def __init__(self, report: Report, name: str, data: Path) -> None:
        self._report = report
        self._judge = Judge(report)
        self._name = name
        self._data = data
        self._machine = this_machine()
        self.by_command = False

    def mint(self, count: int = 2) -> None:
        """So many labels by a process that opens the directory now."""
        with worker.opened(self._data, GRANULARITY) as subsystem:
            self._hear(subsystem, count)

    def refuses(self, damage: harm.Harm) -> None:
        """After the damage no label, neither for a newcomer nor for one who is there; then the repair."""
        self.mint()
        with worker.opened(self._data, GRANULARITY) as already_there:
            self._data = damage(self._data, self.mint)
            self._must_refuse(lambda: self.mint(1))
            self._must_refuse(lambda: self._hear(already_there, 1))
        self._repair()
        self.mint()

    def refuses_copy(self, damage: harm.Harm) -> None:
        """A second directory with this state gives no label, and no repair unless asked twice; the original goes on."""
        self.mint()
        original = self._data
        self._data = damage(original, self.mint)
        self._must_refuse(lambda: self.mint(1))
        self._must_refuse(lambda: recover(self._data, self._machine))
        self._repair()
        self.mint()

    def refuses_elsewhere(self) -> None:
        """The same directory, seen from another machine."""
        self.mint()
        other = replace(self._machine, identity="another-machine")
        waiting_room = WaitingRoom(self._data, other)
        self._must_refuse(waiting_room.__enter__)
        self._must_refuse(lambda: recover(self._data, other))
        self.mint()
        recover(self._data, other, moved=True)
        self._must_refuse(lambda: self.mint(1))
        with waiting_room:
            self._hear(Subsystem(waiting_room, LabelGenerator(worker.HOST, ip=worker.IP), 10**6), 2)

    def goes_on(self, damage: harm.Harm) -> None:
        """What does no harm, or cannot be seen, must at least repeat nothing."""
        self.mint()
        self._data = damage(self._data, self.mint)
        try:
            self.mint()
        except LostState:
            self._report.count("harmless, but refused")

    def keeps_reserved(self, damage: harm.Harm) -> None:
        """A window was reserved, and its process is about to hand it out, when all is lost, and repaired at once."""
        self.mint()
        harm.keep_backup(self._data)
        with worker.opened(self._data, GRANULARITY) as subsystem:
            reserved = set(subsystem.waiting_room.reserve(10**6, 1000))
            damage(self._data, self.mint)
            self._must_refuse(lambda: self.mint(1))
            self._repair()
            again = reserved.intersection(subsystem.waiting_room.reserve(10**6, 1000))
            self._report.count("duplicates", len(again))
            self._report.demand(
                not again, f"{self._name}: {len(again)} reserved dates were given to another one"
            )

    def pulled_away(self, damage: harm.Harm) -> None:
        """While a process waits with the lock, the files are taken away, and another one starts afresh."""
        with worker.opened(self._data, "1") as waiting, ThreadPoolExecutor(1) as other_threads:
            early = waiting.waiting_room.reserve(TICKS, 1)
            late = other_threads.submit(self._reserve_or_not, waiting, TICKS)
            time.sleep(_MOMENT)  # it now waits for a place in the next second
            self._data = damage(self._data, self.mint)
            if (self._data / "archive.toml").exists():
                recover(self._data, self._machine)
            with worker.opened(self._data, "1") as other:
                dates = [*early, *late.result(), *self._reserve_or_not(other, TICKS)]
        self._report.count("duplicates", len(dates) - len(set(dates)))
        self._report.demand(len(dates) == len(set(dates)), f"{self._name}: the same date for both: {dates}")

    @staticmethod
    def _reserve_or_not(subsystem: Subsystem, granularity: int) -> list[int]:
        try:
            return list(subsystem.waiting_room.reserve(granularity, 1))
        except LostState:
            return []

    def _hear(self, subsystem: Subsystem, count: int) -> None:
        latest = self._judge.latest
        for text in worker.lines(subsystem, count):
            self._judge.hear(f"{self._name} {count}", text.encode(), latest)

    def _must_refuse(self, attempt: Callable[[], object]) -> None:
        self._report.count("attempts")
        try:
            attempt()
        except LostState:
            self._report.count("refused")
        else:
            self._report.violate(f"{self._name}: not refused")

    def _repair(self) -> None:
        """As an operator would: without --moved, and with it where the answer asks for it."""
        self._report.count("repairs")
        if self.by_command:
            done = self._command()
            if done.returncode and b"--moved" in done.stderr:
                done = self._command("--moved")
            self._report.demand(
                done.returncode == 0, f"{self._name}: no repair: {done.stderr.decode()[-300:]}"
            )
            return
        try:
            recover(self._data, self._machine)
        except LostState:
            self._report.count("repairs with --moved")
            recover(self._data, self._machine, moved=True)

    def _command(self, *more: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "ibi", "mint", "recover", "--data", str(self._data), *more]
        return subprocess.run(command, env=environment(), capture_output=True, check=False, timeout=_TIMEOUT)
