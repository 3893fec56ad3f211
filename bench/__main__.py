"""Measure every row, keep the results, and write them into RESULTS.md: `python -m bench [--full] [--only ROW ...]`.

A quarter of an hour; with `--full` large catalogues, ten million hints and longer runs, in two hours at most. Each
row is a process of its own. With `--resume` those go unmeasured that have a result already.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench import document
from bench.disk import add_option
from bench.results import FOLDER, path_of
from bench.rows import ROWS
from bench.scale import FULL, SHORT, TINY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scale import Scale

_TRIES = 2
"""A row may fail because another process needed the machine: one late answer ends it."""

_FAREWELL = 30.0  # seconds for the servers of a row that has to end


def main(words: Sequence[str] | None = None) -> int:
    """Measure; 1 where a row failed."""
    args = _parser().parse_args(words)
    scale: Scale = FULL if args.full else TINY if args.tiny else SHORT
    rows = args.only or [name for name, row in ROWS.items() if row.short or scale != SHORT]
    begun, failed = time.monotonic(), list[str]()
    if not args.resume:  # what was measured before is none of this run, should it be gone on with later
        for name in rows:
            path_of(args.results, scale.name, name).unlink(missing_ok=True)
    for name in rows:
        file = path_of(args.results, scale.name, name)
        if args.resume and file.exists():
            print(f"\n## {name}: measured already", flush=True)
            continue
        print(f"\n## {name}: {ROWS[name].what}\n", flush=True)
        if not any(_measured(name, scale, args.dir, file) for _ in range(_TRIES)):
            failed.append(name)
    if scale != TINY and args.results == FOLDER:
        document.write()
    print(f"\n{(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
    if failed:
        print(f"without a result: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="every figure and ratio")
    how_much = parser.add_mutually_exclusive_group()
    how_much.add_argument("--full", action="store_true", help="everything that two hours allow")
    how_much.add_argument("--tiny", action="store_true", help="only show that the rows run; no figure is one")
    parser.add_argument("--only", nargs="+", metavar="ROW", choices=[*ROWS], help=", ".join(ROWS))
    parser.add_argument("--resume", action="store_true", help="leave out what has a result already")
    parser.add_argument("--results", type=Path, default=FOLDER, metavar="DIR", help="where results are kept")
    add_option(parser)
    return parser


def _measured(name: str, scale: Scale, parent: Path, file: Path) -> bool:
    """Whether a row came to an end within its time."""
    command = [sys.executable, "-m", "bench.row", name, scale.name, str(parent), str(file)]
    with subprocess.Popen(command, start_new_session=True) as process:  # noqa: S603 - our own command
        began = time.monotonic()
        try:
            status = process.wait(scale(240, 600, 3600))
        except subprocess.TimeoutExpired:
            print(f"{name} was given up after {time.monotonic() - began:,.0f} s", file=sys.stderr)
            status = 1
        finally:
            _end(process)
    return status == 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a row, if it is still at work, and whatever servers it has left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_FAREWELL)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
