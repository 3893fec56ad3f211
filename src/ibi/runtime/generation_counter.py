"""Generation counters: shared numbers by which a process notices that another one has changed something.

They are in a small file that each process maps into its memory. It is never replaced; its loss does no harm.
"""

from __future__ import annotations

import mmap
import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN: Final = 0
"""The number of a counter that was never set; `set` and `change` give others."""

_SIZE: Final = 8  # bytes of a number


class GenerationCounter:
    """The numbers in a file, which is made if it is missing. Raises OSError if it cannot be used."""

    def __init__(self, path: Path, count: int = 1) -> None:
        size = _SIZE * count
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            there = os.fstat(handle).st_size
            if there < size:
                # Written, not truncated to size: a full disk would kill the process at a store (SIGBUS).
                os.pwrite(handle, bytes(size - there), there)
            # Mapped, so that a read is no system call: looking up a redirect, with two reads, takes 0.29 us.
            self.numbers = memoryview(mmap.mmap(handle, size)).cast("Q")
            """All numbers, for callers that read so often that even a method call costs too much."""
        finally:
            os.close(handle)

    @property
    def current(self) -> int:
        """The first number, as it is now."""
        return self.numbers[0]

    def set(self, number: int) -> None:
        """Set the first number for all processes."""
        self.numbers[0] = number

    def change(self) -> None:
        """Set the first number to one that no process has seen before."""
        # Random, not one more: two processes that change it at the same time would set the same number.
        self.set(secrets.randbits(63) + 1)
