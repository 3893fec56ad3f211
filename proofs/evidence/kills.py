"""P-L1-kills: several processes write to one log and are killed at random moments; nothing acknowledged may be lost.

Others look while they write: a log in use must never be suspected.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.evidence.logs import Log, checked_entries

NAME = "P-L1-kills"
HOLDS = "what was acknowledged is there, in its order; half a line is cut off and told; nothing is merged or suspected"

_AT_ONCE = 4


def prove(scale: Scale, seed: int) -> Report:
    """Start writers, kill them, start others, and look."""
    report, chance = Report(NAME, HOLDS), random.Random(seed)
    acknowledged: dict[str, int] = {}
    with tempfile.TemporaryDirectory(prefix="proof-evidence-") as folder:
        log = Log(Path(folder))
        for turn in range(scale.pick(3, 25, 75)):
            acknowledged |= _turn(report, log, chance, turn)
            report.demand(not log.fault, f"after kills the log is suspected: {log.fault}")
        log.evidence.write("unregistered", ibi="end")
        judge(report, log, acknowledged)
    return report


def _turn(report: Report, log: Log, chance: random.Random, turn: int) -> dict[str, int]:
    """How many writes were acknowledged to each writer before it was killed."""
    names = [f"writer/{turn}.{number}" for number in range(_AT_ONCE)]
    command = [sys.executable, "-m", "proofs.evidence.writer", str(log.path)]
    writers = [
        subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True, env=environment())
        for name in names
    ]
    for writer in writers:
        assert writer.stdout is not None  # noqa: S101 - it was asked for
        writer.stdout.readline()  # from here on it writes
    for writer in chance.sample(writers, len(writers)):
        time.sleep(chance.uniform(0, 0.1))
        report.demand(not log.fault, f"a log in use is suspected: {log.fault}")
        writer.send_signal(signal.SIGKILL)
        report.count("kills")
    heard = [writer.communicate()[0].rpartition("\n")[0].split() for writer in writers]
    return {name: max(map(int, ("0", *numbers))) + 1 for name, numbers in zip(names, heard, strict=True)}


def judge(report: Report, log: Log, acknowledged: dict[str, int]) -> None:
    """Report what each writer was told is written, and is not there once."""
    entries = checked_entries(log.path.read_bytes())
    report.count("entries", len(entries))
    report.count("acknowledged", sum(acknowledged.values()))
    addresses: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        facts = entry["facts"]
        if entry["what"] == "damage":
            report.count("half lines cut off", facts["kind"] == "torn")
            report.demand(facts["kind"] == "torn", f"damage of the kind {facts['kind']}")
        else:
            addresses[facts["ibi"]].append(facts.get("address", ""))
    for name, count in acknowledged.items():
        for kind in ("write", "note"):
            numbers = [
                int(text[len(kind) + 1 :].partition(".")[0])
                for text in addresses[name]
                if text.startswith(kind)
            ]
            report.demand(numbers == list(range(len(numbers))), f"a {kind} of {name} is lost or doubled")
            if kind == "write":
                lost = count - len(numbers)
                report.demand(lost <= 0, f"acknowledged and lost: {lost}")
