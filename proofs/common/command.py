"""The command of every set of proofs: `[--short|--full] [--seed N] [NAME ...]`; runs them, prints their figures.

Without a form each runs for some minutes. The status is 1 if anything was broken.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from proofs.common.report import Report, Scale

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


class Proof(Protocol):
    """A module that proves something."""

    def prove(self, scale: Scale, seed: int) -> Report:
        """Try it, and report what was seen."""


def run(
    package: str, promise: str, proofs: Mapping[str, Proof], arguments: Sequence[str] | None = None
) -> int:
    """Run what was asked for of these proofs, by name; the status for the shell."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description=promise)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--short", dest="scale", action="store_const", const=Scale.SHORT, help="some seconds each"
    )
    scale.add_argument("--full", dest="scale", action="store_const", const=Scale.FULL, help="all of it")
    parser.add_argument("--seed", type=int, help="the seed of all chance (default: a new one, printed)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which (default: all): {' '.join(proofs)}")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - proofs.keys():
        parser.error(f"no such proof: {' '.join(sorted(unknown))}")
    seed = random.randrange(10**9) if options.seed is None else options.seed
    form = options.scale or Scale.MEDIUM
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {form.name.lower()} form, seed {seed}; {_machine()}\n")
    print("| proof | figures | watched | broken | seconds |\n|---|---|---|---:|---:|", flush=True)
    reports = []
    for name in options.names or proofs:
        started = time.monotonic()
        reports.append(proofs[name].prove(form, seed))
        print(_row(name, reports[-1], time.monotonic() - started), flush=True)
    print(*_notes(reports), sep="\n", end="", flush=True)
    return 0 if all(report.held for report in reports) else 1


def _row(name: str, report: Report, seconds: float) -> str:
    figures = ", ".join(f"{what} {count:,}" for what, count in report.counts.items())
    return f"| {name} | {figures} | {report.holds} | {report.violations} | {seconds:.0f} |"


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
