"""`python -m proofs.deposit [--short|--full] [--seed N] [NAME ...]`: run the proofs, print their figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from proofs.deposit import boundaries, full_disk, kills, together
from proofs.minting.report import Report, Scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PROOFS = {proof.NAME: proof for proof in (boundaries, kills, together, full_disk)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the status for the shell."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs.deposit", description="What was acknowledged is kept, and kept whole."
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--short", dest="scale", action="store_const", const=Scale.SHORT, help="some seconds each"
    )
    scale.add_argument("--full", dest="scale", action="store_const", const=Scale.FULL, help="all of it")
    parser.add_argument("--seed", type=int, help="the seed of all chance (default: a new one, printed)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {' '.join(PROOFS)}")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - PROOFS.keys():
        parser.error(f"no such proof: {' '.join(sorted(unknown))}")
    logging.getLogger("ibi").setLevel(logging.ERROR)  # that files stay in staging is what is tried here
    seed = random.randrange(10**9) if asked.seed is None else asked.seed
    return _run(asked.names or list(PROOFS), asked.scale or Scale.MEDIUM, seed)


def _run(names: Sequence[str], scale: Scale, seed: int) -> int:
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {scale.name.lower()} form, seed {seed}; {_machine()}\n")
    print("| proof | figures | watched | broken | seconds |\n|---|---|---|---:|---:|", flush=True)
    reports = []
    for name in names:
        started = time.monotonic()
        report = PROOFS[name].prove(scale, seed)
        reports.append(report)
        figures = ", ".join(f"{what} {count:,}" for what, count in report.counts.items())
        seconds = time.monotonic() - started
        print(f"| {name} | {figures} | {report.holds} | {report.violations} | {seconds:.0f} |", flush=True)
    print(*_notes(reports), sep="\n", end="", flush=True)
    return 0 if all(report.held for report in reports) else 1


def _notes(reports: Sequence[Report]) -> Iterator[str]:
    """What is not shown here, and every promise that was broken."""
    yield ""
    for report in reports:
        yield from (f"{report.name}: not shown here: {reason}" for reason in report.unshown)
        yield from (f"{report.name}: BROKEN: {sentence}" for sentence in report.broken)
    yield ""


def _machine() -> str:
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores, {platform.machine()}, Linux {platform.release()}, Python {platform.python_version()}"
    )


if __name__ == "__main__":
    sys.exit(main())
