"""The machine: its clock, how long it has been running, and its identity.

Minting gets all facts about its machine through this module; tests replace the machine.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MACHINE_ID = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GET_VERSION = (2 << 30) | (struct.calcsize("l") << 16) | (ord("v") << 8) | 1  # FS_IOC_GETVERSION
_TIMEX_BYTES = 512  # struct timex has 208; the kernel writes no more than its own
_TIME_ERROR = 5  # what adjtimex returns while no daemon disciplines the clock
UNKNOWN = "-"
"""Stands for an identity that the machine does not provide."""


@dataclass(frozen=True)
class Machine:
    """A machine as minting sees it.

    `now` returns the time in ticks (nanoseconds of POSIX time), `running` the ticks since the machine was
    started, suspension included; `sleep` takes seconds. `boot` names this run of the machine, `identity` the
    machine, each one word, "-" if unknown. `synchronised`: whether the clock is; None if that is unknown.
    """

    now: Callable[[], int]
    sleep: Callable[[float], object]
    running: Callable[[], int]
    boot: str
    identity: str
    synchronised: Callable[[], bool | None]


def this_machine() -> Machine:
    """Return the machine that this process runs on."""
    # CLOCK_MONOTONIC stands still while a machine is suspended, but its date goes on.
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
    """Return one word for an open file that differs for its copies: its inode, and the inode's generation."""
    # Inodes are reused: a restored file may get the inode of the former file, but with another generation.
    inode = os.fstat(handle).st_ino
    generation = 0
    with suppress(OSError):  # some file systems have no generations
        answer = fcntl.ioctl(handle, _GET_VERSION, bytes(struct.calcsize("l")))
        generation = struct.unpack("L", answer)[0]
    return f"{inode}-{generation}"


def _identity() -> str:
    """Return a hash of the machine id."""
    # Hashed, because machine-id(5) asks not to expose the id, and backups of the state would expose it.
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
    """Ask the kernel, without changing anything."""
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    answer: int = adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if answer < 0 else answer != _TIME_ERROR
