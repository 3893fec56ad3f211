"""One number that several processes have before their eyes: whoever sees another one than before looks again.

It lies in a file of eight bytes that each of them maps into its memory, so that to see it is no call of the system.
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

_SIZE: Final = 8


class Sign:
    """The number in a file, which is made where there is none. Raises OSError where that cannot be used."""

    def __init__(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(handle).st_size < _SIZE:  # written, so that the disk has room for it
                os.pwrite(handle, bytes(_SIZE), 0)
            self.numbers = memoryview(mmap.mmap(handle, _SIZE)).cast("Q")
            """The number, and no other: for whoever looks so often that a call costs too much."""
        finally:
            os.close(handle)

    @property
    def shown(self) -> int:
        """The number that is there now."""
        return self.numbers[0]

    def show(self, number: int) -> None:
        """Have all see this number from now on."""
        self.numbers[0] = number

    def change(self) -> None:
        """Have all see another number than ever before."""
        self.show(secrets.randbits(63) + 1)
