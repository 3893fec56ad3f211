"""Numbers that several processes have before their eyes: whoever sees another one than before looks again.

They lie in a small file that each of them maps into its memory, so that to see one is no call of the system.
The file is never replaced, and nothing is lost with it.
"""

from __future__ import annotations

import mmap
import os
import secrets
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

UNKNOWN: Final = 0
"""What nobody ever shows but who has nothing to show."""

_SIZE: Final = 8  # bytes of a number


class Sign:
    """The numbers in a file, which is made where there is none. Raises OSError where that cannot be used."""

    def __init__(self, path: Path, count: int = 1) -> None:
        size = _SIZE * count
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            there = os.fstat(handle).st_size
            if there < size:  # written, so that the disk has room for it
                os.pwrite(handle, bytes(size - there), there)
            self.numbers = memoryview(mmap.mmap(handle, size)).cast("Q")
            """All of them: for whoever looks so often that a call costs too much."""
        finally:
            os.close(handle)

    @property
    def shown(self) -> int:
        """The first number, as it is now."""
        return self.numbers[0]

    def show(self, number: int) -> None:
        """Have all see this as the first number from now on."""
        self.numbers[0] = number

    def change(self) -> None:
        """Have all see another first number than ever before."""
        self.show(secrets.randbits(63) + 1)
