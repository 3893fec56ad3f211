"""One row, in a process of its own, so that none inherits the memory of another: what `python -m bench` starts.

    python -m bench.row ROW SCALE DIR FILE

measures in a temporary directory in DIR, prints, and keeps the result in FILE.
"""

from __future__ import annotations

import io
import signal
import sys
import time
from contextlib import redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from bench import figures
from bench.disk import workplace
from bench.processes import NotHere, NotStarted
from bench.results import Result
from bench.rows import ROWS
from bench.scale import SCALES
from bench.surroundings import machine, versions


class _Both(io.TextIOBase):
    """Print text and keep it."""

    def __init__(self, terminal: TextIO) -> None:
        self.kept = list[str]()
        self._terminal = terminal

    def write(self, text: str) -> int:
        self.kept.append(text)
        return self._terminal.write(text)

    def flush(self) -> None:
        self._terminal.flush()


def main(name: str, scale: str, parent: Path, file: Path) -> int:
    """Measure one row; 1 where it failed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # servers and directories go with us
    began, started, where = datetime.now(UTC), time.monotonic(), machine()
    output = _Both(sys.stdout)
    try:
        with workplace(parent, on_a_disk=scale != "tiny") as place, redirect_stdout(output):
            ROWS[name].measure(place, SCALES[scale])
    except NotHere as lacking:
        print(f"not measured: {lacking}", file=output)
    except NotStarted as error:
        print(f"{name} failed: {error}", file=sys.stderr)
        return 1
    Result(
        row=name,
        scale=scale,
        began=f"{began:%Y-%m-%dT%H:%M:%SZ}",
        seconds=round(time.monotonic() - started, 1),
        command=f"python -m bench{'' if scale == 'short' else f' --{scale}'} --only {name}",
        machine=where,
        versions=versions(),
        text="".join(output.kept).strip(),
        aims=tuple(figures.AIMS),
    ).write(file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
