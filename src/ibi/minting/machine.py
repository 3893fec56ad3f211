"""What the machine says about itself: its clock, how long it has been running, and which machine it is.

The one door of minting to all that differs from machine to machine; tests put another machine in its place.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

_MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GET_VERSION = (2 << 30) | (struct.calcsize("l") << 16) | (ord("v") << 8) | 1  # FS_IOC_GETVERSION
_TIMEX_BYTES = 512  # struct timex has 208; the kernel writes no more than its own
_TIME_ERROR = 5  # what adjtimex returns while nobody disciplines the clock
UNKNOWN = "-"
"""What stands for a name that the machine does not tell."""


@dataclass(frozen=True)
class Machine:
    """A machine as minting sees it.

    `now` tells the clock in ticks (nanoseconds of POSIX time) and `running` the ticks since the machine was started,
    sleep included; `sleep` takes seconds. `boot` names this run of the machine and `identity` the machine, each one
    word, "-" if unknown. `synchronised` tells whether somebody keeps the clock right; None if nobody knows.
    """

    now: Callable[[], int]
    sleep: Callable[[float], object]
    running: Callable[[], int]
    boot: str
    identity: str
    synchronised: Callable[[], bool | None]


def this_machine() -> Machine:
    """The machine that we are running on."""
    ticking = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return Machine(
        now=time.time_ns,
        sleep=time.sleep,
        running=lambda: time.clock_gettime_ns(ticking),
        boot=_word(_BOOT_ID),
        identity=_identity(),
        synchronised=_synchronised,
    )


def file_identity(handle: int) -> str:
    """One word for an open file that none of its copies has: its inode, and which file it is that has this inode."""
    inode = os.fstat(handle).st_ino
    generation = 0
    with suppress(OSError):  # some file systems do not count them
        answer = fcntl.ioctl(handle, _GET_VERSION, bytes(struct.calcsize("l")))
        generation = struct.unpack("L", answer)[0]
    return f"{inode}-{generation}"


def _identity() -> str:
    """A hash: machine ids are not to be shown to strangers (machine-id(5))."""
    for path in _MACHINE_ID:
        found = _word(path)
        if found != UNKNOWN:
            return sha256(f"ibi {found}".encode()).hexdigest()[:16]
    return UNKNOWN


def _word(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        words = path.read_text("ascii").split()
        return words[0] if words else UNKNOWN
    return UNKNOWN


def _synchronised() -> bool | None:
    """What the kernel knows; asking changes nothing."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    answer: int = adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if answer < 0 else answer != _TIME_ERROR
