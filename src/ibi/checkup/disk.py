"""The disk under a data directory: room, the right to write, how long a flush takes, and what kind of disk it is."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from ibi.checkup.finding import Finding, Verdict
from ibi.errors import IbiError

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLUSHES: Final = 5
_SLOW_FLUSH: Final = 0.1  # seconds; a label a second then spends a tenth of its time there
_LITTLE_ROOM, _NO_ROOM = 1024**3, 32 * 1024**2  # bytes
_FEW_FILES: Final = 1000
_MOUNTS: Final = Path("/proc/self/mountinfo")
_OVER_A_NETWORK = re.compile(
    r"nfs[34]?|cifs|smb3?|smbfs|9p|afs|ceph|lustre|glusterfs|fuse\.(?:sshfs|glusterfs|ceph|s3fs|rclone|davfs2?)"
)
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
_ESCAPED = re.compile(r"\\([0-7]{3})")


def check_disk(data: Path) -> Iterator[Finding]:
    """Room first, then a file written, flushed and removed again, then the kind of file system."""
    try:
        state = os.statvfs(data)
    except OSError as error:
        sentence = IbiError("{path} cannot be looked at: {reason}", path=data, reason=error.strerror)
        yield Finding("disk", Verdict.FAULT, sentence)
        return
    files = state.f_favail if state.f_files else _FEW_FILES  # some file systems do not count files
    yield judge_room(state.f_bavail * state.f_frsize, files)
    yield _flush(data)
    kind = judge_kind(file_system(data, _mounts()))
    if kind is not None:
        yield kind


def judge_room(free: int, files: int) -> Finding:
    """Whether `free` bytes and `files` more files are enough for the near future."""
    room = f"{free / 1e9:.1f} GB" if free >= 1e9 else f"{free / 1e6:.0f} MB"  # noqa: PLR2004 - a gigabyte
    advice = IbiError("make room on this disk")
    if free < _NO_ROOM or not files:
        sentence = IbiError("the disk is full: {room} and {files} files are free", room=room, files=files)
        return Finding("disk", Verdict.FAULT, sentence, advice)
    if free < _LITTLE_ROOM or files < _FEW_FILES:
        sentence = IbiError("little room is left: {room}, {files} files", room=room, files=files)
        return Finding("disk", Verdict.WARNING, sentence, advice)
    return Finding("disk", Verdict.OK, IbiError("{room} are free", room=room))


def judge_flush(seconds: float) -> Finding:
    """Whether a flush of a small file is fast enough."""
    milliseconds = f"{seconds * 1000:.2f}"
    if seconds > _SLOW_FLUSH:
        sentence = IbiError(
            "the disk takes {milliseconds} ms to keep a small file", milliseconds=milliseconds
        )
        advice = IbiError(
            "labels and imports wait for it: look for what else writes there, or take a faster disk"
        )
        return Finding("disk", Verdict.WARNING, sentence, advice)
    sentence = IbiError(
        "it can be written, and keeps a small file within {milliseconds} ms", milliseconds=milliseconds
    )
    return Finding("disk", Verdict.OK, sentence)


def judge_kind(kind: str) -> Finding | None:
    """What a file system of this kind ("ext4", "nfs4") means for labels; None where that is nothing."""
    if _OVER_A_NETWORK.fullmatch(kind):
        sentence = IbiError(
            "the directory lies on another machine ({kind}), where locks may not hold", kind=kind
        )
        advice = IbiError("mint from one machine only, or move the directory to a disk of this machine")
        return Finding("disk", Verdict.WARNING, sentence, advice)
    if kind in _IN_MEMORY:
        sentence = IbiError(
            "the directory lies in memory ({kind}): all of it is gone when the machine stops", kind=kind
        )
        return Finding("disk", Verdict.WARNING, sentence, IbiError("move the directory to a disk"))
    return None


def file_system(path: Path, mounts: str) -> str:
    """The kind of the file system that a path lies on; `mounts` is a text like /proc/self/mountinfo. "" if unknown."""
    places = [path.resolve(), *path.resolve().parents]
    kinds: dict[str, str] = {}
    for line in mounts.splitlines():
        where, _, what = line.partition(" - ")
        words = where.split(" ")
        if len(words) > 4 and what:  # noqa: PLR2004 - the fifth word is the place
            place = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), words[4])
            kinds[place] = what.split(" ")[0]  # a later one covers an earlier one
    return next((kinds[str(place)] for place in places if str(place) in kinds), "")


def _mounts() -> str:
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _flush(data: Path) -> Finding:
    """Write and flush a small file a few times: the right to write, and the time it takes."""
    probe = data / f"checkup.{os.getpid()}.new"
    try:
        handle = os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            return judge_flush(median(_time_of_flush(handle) for _ in range(_FLUSHES)))
        finally:
            os.close(handle)
            probe.unlink(missing_ok=True)
    except OSError as error:
        sentence = IbiError("nothing can be written in {path}: {reason}", path=data, reason=error.strerror)
        advice = IbiError(
            "run this as the user of the service; if it is that user, give it the directory, or look at the disk"
        )
        return Finding("disk", Verdict.FAULT, sentence, advice)


def _time_of_flush(handle: int) -> float:
    begun = time.perf_counter()
    os.pwrite(handle, b"checkup\n" * 16, 0)
    os.fdatasync(handle)
    return time.perf_counter() - begun
