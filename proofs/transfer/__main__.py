"""`python -m proofs.transfer [--short|--full] [--seed N] [NAME ...]`: run the proofs of hand-overs, print figures.

Exit status 1 if any promise was broken. Without --short or --full a middle form runs, in some minutes.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from proofs.minting.report import Scale
from proofs.transfer import simulator, trials

if TYPE_CHECKING:
    from collections.abc import Sequence

PROOFS = {"simulated": simulator, "served": trials}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; the status for the shell."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs.transfer", description="Never two originals, and always one."
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
    seed = random.randrange(10**9) if asked.seed is None else asked.seed
    form = asked.scale or Scale.MEDIUM
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {form.name.lower()} form, seed {seed}\n")
    print("| proof | figures | watched | broken | seconds |\n|---|---|---|---:|---:|", flush=True)
    held = True
    for name in asked.names or PROOFS:
        started = time.monotonic()
        report = PROOFS[name].prove(form, seed)
        figures = ", ".join(f"{what} {count:,}" for what, count in report.counts.items())
        seconds = time.monotonic() - started
        print(
            f"| {report.name} | {figures} | {report.holds} | {report.violations} | {seconds:.0f} |",
            flush=True,
        )
        print(
            *(f"{report.name}: BROKEN: {sentence}" for sentence in report.broken),
            sep="\n",
            end="",
            flush=True,
        )
        held = held and report.held
    print()
    return 0 if held else 1


sys.exit(main())
