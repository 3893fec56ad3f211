"""Commands of ours under a false clock: `python -m proofs.freshness.late FILE WORD ...` runs `ibi WORD ...`.

The file has the seconds by which the clock is ahead of the true one, as a double; each reading of it sees a change at
once. Only `time.time` and `time.time_ns` are false: what an Archive answers, it answers by these.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from pathlib import Path
from typing import Final

_OFFSET: Final = struct.Struct("d")
_NANOSECONDS: Final = 1_000_000_000


def set_clock(path: Path, offset: float) -> None:
    """Set the clock so many seconds ahead."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.write(_OFFSET.pack(offset))


def _main(path: str, words: list[str]) -> int:
    with Path(path).open("rb") as file:
        memory = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    true, true_ns = time.time, time.time_ns
    time.time = lambda: true() + _OFFSET.unpack(memory)[0]
    time.time_ns = lambda: true_ns() + int(_OFFSET.unpack(memory)[0] * _NANOSECONDS)
    from ibi.cli import main  # after that: modules keep the function that they find

    return main(words)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], sys.argv[2:]))
