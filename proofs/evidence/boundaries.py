"""P-L1-boundaries: a process that writes two entries is killed, or gets an error, at each of its system calls in turn.

From each state in which a log may be found: new, whole, with half a line at its end, with a head that is late or lost,
with its end removed. Nothing of before is lost; the two entries are there together or not at all, for certain if they
were acknowledged and not if they were refused; the next writer goes on, and only an end that was removed stays a fault.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.evidence.faults import FAULTS
from proofs.evidence.logs import SERVICES, Log, checked_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "P-L1-boundaries"
HOLDS = "all or nothing at every system call; nothing of before is lost; the next writer goes on"

_MOST_CALLS = 100
Files = tuple[bytes, bytes]


def prove(scale: Scale, seed: int) -> Report:
    """Every state, every fault, every call; in the short form a part of them, by chance."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="proof-evidence-") as name, _trials() as attempt:
        for state, files in _states(Log(Path(name) / "made"), chance).items():
            for fault in FAULTS:
                for which in count(1):
                    if scale is Scale.SHORT and which > 3 and chance.random() < 0.5:
                        continue
                    log = Log(Path(name) / "tried")
                    _put(log, files)
                    outcome = attempt(log.path, which, fault)
                    report.demand(which < _MOST_CALLS, f"{state}: there is no end of calls")
                    if outcome == "over" or which > _MOST_CALLS:
                        break
                    report.count("boundaries")
                    report.count(outcome)
                    judge(report, log, files, outcome, f"{state}, call {which} {fault}")
    return report


def _states(log: Log, chance: random.Random) -> dict[str, Files | None]:
    log.fill(chance, 5)
    early, head_before = log.read()
    log.fill(chance, 3)
    content, head = log.read()
    return {
        "new": None,
        "whole": (content, head),
        "half a line": (content + content[:50], head),
        "late head": (content, head_before),
        "late head and half a line": (content + b"{", head_before),
        "lost head": (content, b""),
        "end removed": (early, head),
        "end removed within a line": (content[:-20], head),
    }


def _put(log: Log, files: Files | None) -> None:
    if files is None:
        log.path.unlink(missing_ok=True)
        log.head.unlink(missing_ok=True)
    else:
        log.put(*files)


def judge(report: Report, log: Log, files: Files | None, outcome: str, where: str) -> None:
    """Report what is lost or half there, after a writer that was `done`, `refused` or `killed`."""
    before = b"" if files is None else files[0]
    removed = "end removed" in where
    log.evidence.write("unregistered", ibi=SERVICES[0])
    content = log.path.read_bytes()
    kept = before if removed else before[: before.rfind(b"\n") + 1]
    report.demand(content.startswith(kept), f"{where}: what was there is not there any more")
    entries = {number: content.count(b'{"ibi":"faulty/%d"}' % number) for number in range(2)}
    together = set(entries.values())
    allowed = {"done": [{1}], "refused": [{0}]}.get(outcome, [{0}, {1}])
    halves = outcome == "killed" and entries == {
        0: 1,
        1: 0,
    }  # two whole lines in one write may be cut between them
    report.demand(together in allowed or halves, f"{where}, {outcome}: the entries are there {entries} times")
    report.demand(content.endswith(b"\n") and b'"unregistered"' in content, f"{where}: the next writer fails")
    report.demand(bool(log.fault) == removed, f"{where}: afterwards: {log.fault or 'nothing is found'}")
    if not removed and not log.fault:
        kinds = {entry["facts"]["kind"] for entry in checked_entries(content) if entry["what"] == "damage"}
        expected = {"torn", *(["head"] if "lost head" in where else [])}
        report.demand(kinds <= expected, f"{where}: damage of the kinds {kinds}")


@contextmanager
def _trials() -> Iterator[Callable[[Path, int, str], str]]:
    """Tries one call, in a child of another process than this one: forks want a process without threads."""
    command = [sys.executable, "-m", "proofs.evidence.faults"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as process:
        requests, answers = process.stdin, process.stdout
        assert requests is not None  # noqa: S101 - it was asked for
        assert answers is not None  # noqa: S101 - the same

        def attempt(path: Path, which: int, fault: str) -> str:
            requests.write(f"{path}\t{which}\t{fault}\n")
            requests.flush()
            return answers.readline().strip()

        try:
            yield attempt
        finally:
            requests.close()
