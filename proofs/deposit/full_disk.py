"""P-D5: the disk is full at any byte: one clear sentence, no partial item, reads go on, and space is all it takes.

An Archive on a file system of its own, of a few megabytes, is served and filled. In each trial all but some random
number of bytes are taken away; then items are deposited, edited and removed by the commands and over HTTP, until some
were refused. Each time

- a command ends with status 1 and one sentence, a request with 507 or 503 and a problem; or it was done;
- files that were acknowledged before can be read over HTTP all the time, with the SHA-256 that they were given with;
- as soon as there is space again, a command and a request deposit within five seconds; nothing is restarted, nothing
  is repaired;
- then the directory is whole, in every way in which P-D2 looks at it; what was acknowledged is there with all its
  files, and what was refused is not.

The file system is a tmpfs in a mount namespace. Where none can be made, commands alone are tried, each of which can
write only to some random byte of any file (RLIMIT_FSIZE).

What it cannot show: file systems that find out only when they flush that there is no space; and a command that is
started when there is no byte left for the shared memory of the database, and no server runs: it cannot read.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.deposit.filling import DiskSpace, Filling
from proofs.deposit.nursery import Nursery
from support.ports import free_port

NAME = "P-D5"
HOLDS = "one clear sentence or 507; no partial item; reads go on; deposits again within 5 s of space"

_MEBIBYTES = 24
_WAYS = (("unshare", "--user", "--map-root-user", "--mount"), ("unshare", "--mount"))
_MOUNT = 'mount -t tmpfs -o "size={size}m" none "$0" && exec "$@"'
_TIMEOUT = 3600  # seconds for all trials


def prove(scale: Scale, seed: int, program: Path | None = None) -> Report:
    """As many trials as the scale says. `program`: see the nursery."""
    return prove_trials(scale.pick(4, 60, 200), seed, program)


def prove_trials(trials: int, seed: int, program: Path | None = None) -> Report:
    """Fill a disk of our own, or what comes nearest to it."""
    report = Report(NAME, HOLDS)
    with tempfile.TemporaryDirectory(prefix="proof-disk-") as folder:
        place = Path(folder)
        way = next((way for way in _WAYS if _works(way, place)), None)
        if way is None:
            report.unshown.append("no file system can be mounted; the size of files was limited instead")
            fill(report, place, trials, seed, program)
            return report
        disk = place / "disk"
        disk.mkdir()
        mount = ["sh", "-c", _MOUNT.format(size=_MEBIBYTES), str(disk)]
        words = [str(place), str(trials), str(seed), *([str(program)] if program else [])]
        inside = [sys.executable, "-m", "proofs.deposit.full_disk", *words]
        done = subprocess.run(
            [*way, *mount, *inside], env=environment(), stdout=subprocess.PIPE, check=True, timeout=_TIMEOUT
        )
        result = json.loads(done.stdout)
        for what, count in result["counts"].items():
            report.count(what, count)
        for sentence in result["broken"]:
            report.violate(sentence)
        report.violations = result["violations"]
    return report


def _works(way: tuple[str, ...], place: Path) -> bool:
    with suppress(OSError):
        mount = ["sh", "-c", _MOUNT.format(size=1), str(place), "true"]
        return not subprocess.run([*way, *mount], check=False, capture_output=True).returncode
    return False


def fill(report: Report, place: Path, trials: int, seed: int, program: Path | None) -> None:
    """All trials, below a folder; its `disk` is a file system of its own, if it is there."""
    own = (place / "disk").is_mount()
    free = DiskSpace(place / "disk" if own else place, limited=not own)
    with Nursery(program) as nursery, ExitStack() as stack:
        filling = Filling(report, nursery, free, place, random.Random(seed))
        if own:
            stack.enter_context(filling.served(free_port()))
        for _ in range(trials):
            filling.trial()
            report.count("trials")


def main(place: str, trials: str, seed: str, program: str = "") -> None:
    """Inside the namespace: print the report as JSON."""
    report = Report(NAME, HOLDS)
    out = os.dup(1)
    os.dup2(2, 1)
    fill(report, Path(place), int(trials), int(seed), Path(program) if program else None)
    result = {"counts": report.counts, "broken": report.broken, "violations": report.violations}
    os.write(out, json.dumps(result).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
