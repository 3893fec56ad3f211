"""Checks of the machine: the disk under a data directory, the clock, and the minting state (T31, T32, T35).

The state of minting depends on the clock (notes 9 and 10). Nothing is repaired; the probe file is removed.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from ibi.app.doctor import Finding, fault, not_proven, ok, warning
from ibi.archive.store.data_directory import minting_row
from ibi.errors import ClockError, LostState, SetupError
from ibi.identifier.dates import date_text
from ibi.minting.clock import ClockLimits, check_clock_reading
from ibi.minting.recovery import repair_command
from ibi.minting.state import FOLDER, SENTENCES, StateFault, StateFiles, StateRecord
from ibi.minting.waiting_room import unusable
from ibi.runtime.settings import ArchiveSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.minting.machine import Machine
    from ibi.minting.state_row import StateRow


_FLUSHES: Final = 5  # of which the median counts
# Seconds. Each label waits for a flush (T31): at one label a second, this is a tenth of the time.
_SLOW_FLUSH: Final = 0.1
_LITTLE_SPACE, _NO_SPACE = 1024**3, 32 * 1024**2  # bytes
_FEW_FILES: Final = 1000
_MOUNTS: Final = Path("/proc/self/mountinfo")
_OVER_A_NETWORK = re.compile(
    r"nfs[34]?|cifs|smb3?|smbfs|9p|afs|ceph|lustre|glusterfs|fuse\.(?:sshfs|glusterfs|ceph|s3fs|rclone|davfs2?)"
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_ESCAPED = re.compile(r"\\([0-7]{3})")


def check_disk(data: Path) -> Iterator[Finding]:
    """Check the free space, the writing and flushing of a file, and the kind of file system."""
    try:
        state = os.statvfs(data)
    except OSError as error:
        yield fault("disk", "{path} cannot be looked at: {reason}", path=data, reason=error.strerror)
        return
    # Some file systems (btrfs) do not count files, which does not mean that the disk is full.
    files = state.f_favail if state.f_files else _FEW_FILES
    yield judge_free_space(state.f_bavail * state.f_frsize, files)
    yield _flush(data)
    mounts = ""
    with suppress(OSError):
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    if (kind := judge_kind(file_system(data, mounts))) is not None:
        yield kind


def judge_free_space(free: int, files: int) -> Finding:
    """Judge whether `free` bytes and `files` more files are enough for the near future."""
    space = f"{free / 1e9:.1f} GB" if free >= 1e9 else f"{free / 1e6:.0f} MB"  # noqa: PLR2004 - a gigabyte
    remedy = "make room on this disk"
    if free < _NO_SPACE or not files:
        sentence = "the disk is full: {room} and {files} files are free"
        return fault("disk", sentence, remedy, room=space, files=files)
    if free < _LITTLE_SPACE or files < _FEW_FILES:
        return warning("disk", "little room is left: {room}, {files} files", remedy, room=space, files=files)
    return ok("disk", "{room} are free", room=space)


def judge_flush(seconds: float) -> Finding:
    """Judge whether a flush of a small file is fast enough."""
    milliseconds = f"{seconds * 1000:.2f}"
    if seconds > _SLOW_FLUSH:
        sentence = "the disk takes {milliseconds} ms to keep a small file"
        remedy = "labels and imports wait for it: look for what else writes there, or use a faster disk"
        return warning("disk", sentence, remedy, milliseconds=milliseconds)
    sentence = "it can be written, and keeps a small file within {milliseconds} ms"
    return ok("disk", sentence, milliseconds=milliseconds)


def judge_kind(kind: str) -> Finding | None:
    """Judge a kind of file system ("ext4", "nfs4"); return None if it is no risk to labels."""
    # Minting needs a lock that excludes other processes (T31); locks of network file systems may not.
    if _OVER_A_NETWORK.fullmatch(kind):
        sentence = "the directory lies on another machine ({kind}), where locks may not hold"
        remedy = "mint from one machine only, or move the directory to a disk of this machine"
        return warning("disk", sentence, remedy, kind=kind)
    if kind in _IN_MEMORY:
        sentence = "the directory lies in memory ({kind}): all of it is gone when the machine stops"
        return warning("disk", sentence, "move the directory to a disk", kind=kind)
    return None


def file_system(path: Path, mounts: str) -> str:
    """Return the kind of the file system of a path, by a text like /proc/self/mountinfo; "" if unknown."""
    folders = [path.resolve(), *path.resolve().parents]
    kinds: dict[str, str] = {}
    for line in mounts.splitlines():
        where, _, what = line.partition(" - ")
        words = where.split(" ")
        if len(words) > 4 and what:  # noqa: PLR2004 - the fifth word is the place
            mounted_at = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4])
            # A later mount hides an earlier mount at the same path.
            kinds[mounted_at] = what.split(" ")[0]
    return next((kinds[str(folder)] for folder in folders if str(folder) in kinds), "")


def _flush(data: Path) -> Finding:
    """Write and flush a small file a few times, to check the permission and measure the time."""
    probe = data / f"checkup.{os.getpid()}.new"
    try:
        handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            return judge_flush(median(_time_of_flush(handle) for _ in range(_FLUSHES)))
        finally:
            os.close(handle)
            probe.unlink(missing_ok=True)
    except OSError as error:
        sentence = "nothing can be written in {path}: {reason}"
        remedy = "run this as the user of the service; if it is that user, give it the directory, or look at the disk"
        return fault("disk", sentence, remedy, path=data, reason=error.strerror)


def _time_of_flush(handle: int) -> float:
    started = time.perf_counter()
    os.pwrite(handle, b"checkup\n" * 16, 0)
    os.fdatasync(handle)
    return time.perf_counter() - started


def check_clock(machine: Machine) -> Iterator[Finding]:
    """Check whether the clock has been set at all, and whether a time service keeps it right (T32)."""
    now = machine.now()
    # Compared with a record of this very moment, only a clock that was never set is a fault.
    nothing_known = StateRecord(now, now, machine.running(), 0, machine.boot, machine.identity)
    yield from _disbelief(nothing_known, machine)
    synchronised = machine.synchronised()
    remedy = "run a time service, such as chrony or systemd-timesyncd, and see that it has a source"
    if synchronised:
        yield ok("clock", "the clock is synchronised")
    elif synchronised is None:
        yield not_proven("clock", "this machine does not tell whether its clock is synchronised", remedy)
    else:
        sentence = "the clock is not synchronised: labels may carry wrong dates, or wait"
        yield warning("clock", sentence, remedy)


def check_minting(data: Path, machine: Machine, *, expected: bool) -> Iterator[Finding]:
    """Check whether the last date is known and can be trusted, and the clock against it; change nothing.

    `expected`: whether there must be a state. Waits for a process that is drawing labels.
    """
    row, folder = _row_of(data), data / FOLDER
    if row is None and not (folder / "lock").exists() and not (folder / "state").exists():
        if expected:
            yield _lost(LostState(SENTENCES[StateFault.MISSING], directory=folder), data)
        return
    kept = row or StateFiles(data, machine.identity, machine.running)
    try:
        with closing(kept), kept.locked() as state:
            record = None if state.new else state.trusted()
            if row is not None:
                state.clock_confirmed(machine.now())
    except LostState as lost:
        yield _lost(lost, data)
        return
    except ClockError as error:
        yield fault("clock", error, "set the clocks right; until then no label is given here")
        return
    except SetupError as error:
        yield fault("minting", error, "see that the database runs")
        return
    except OSError as error:
        remedy = "run this as the user who mints; if it is that user, give it the directory"
        yield fault("minting", unusable(data, error), remedy)
        return
    if record is None or not record.drawn:
        yield ok("minting", "no label has been given here yet")
    else:
        sentence = "labels given: {count}; the last carries {date}"
        yield ok("minting", sentence, count=record.drawn, date=date_text(record.last))
    if record is not None:
        yield from _disbelief(record, machine, clock_confirmed=row is not None)


def _row_of(data: Path) -> StateRow | None:
    """Return the row that an Archive mints from; None for files, and if the settings cannot be read."""
    if not (data / ArchiveSettings.FILE).exists():
        return None  # a node of a resolver mints from files, whatever its store
    with suppress(SetupError):  # check_settings reports it
        return minting_row(data)
    return None


def _lost(error: LostState, data: Path) -> Finding:
    return replace(fault("minting", error), remedy=repair_command(error, data))


def _disbelief(record: StateRecord, machine: Machine, *, clock_confirmed: bool = False) -> Iterator[Finding]:
    """Report the fault of the clock, if minting after this record would not trust it."""
    try:
        check_clock_reading(record, machine.now(), machine, ClockLimits(), clock_confirmed=clock_confirmed)
    except ClockError as error:
        yield fault("clock", error, "set the clock right; until then no label is given")
