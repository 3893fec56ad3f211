"""The state on disk, read by code that did not write it: the judge's own look at DIR/minting/state.

One line of 256 bytes: version, last date, clock, running time, count, four words, CRC-32 of all before, blanks.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from zlib import crc32

WIDTH = 256
_WORDS = 10


def last_date(directory: Path) -> int | None:
    """The last date on disk in ticks, read under the lock; None where there is no state yet. Raises ValueError."""
    try:
        lock = os.open(directory / "minting" / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        line = (directory / "minting" / "state").read_bytes()
    except FileNotFoundError:
        return None
    finally:
        os.close(lock)
    return last_of(line)


def last_of(line: bytes) -> int:
    """The last date that a state line holds. Raises ValueError if it is not whole."""
    words = line.decode("ascii").split()
    body, _, checksum = line.decode("ascii").rstrip().rpartition(" ")
    if len(line) != WIDTH or len(words) != _WORDS or crc32(body.encode()) != int(checksum):
        msg = f"the state is not whole: {line!r}"
        raise ValueError(msg)
    return int(words[1])
