"""System calls of a process that runs already: told by strace, or made to fail."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from proofs.deposit.nursery import Child

CALLS = (
    "open", "openat", "mkdir", "mkdirat", "rmdir", "rename", "renameat", "renameat2", "unlink", "unlinkat",
    "link", "linkat", "write", "writev", "pwrite64", "pwritev", "copy_file_range", "sendfile", "sendto", "sendmsg",
    "ftruncate", "fallocate", "fsync", "fdatasync", "flock",
)  # fmt: skip
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")

_CALL = re.compile(r"\d+ +(\w+)\(([^\n]*)")
_OPENS = frozenset({"open", "openat"})
_TIMEOUT = 60  # seconds


def watch(child: Child, log: Path, *faults: str) -> str:
    """Let a waiting child go; what strace told of its calls until its end. `faults`: "fsync:error=EIO:when=2"."""
    traced = ",".join(f"?{name}" for name in CALLS)  # "?": not every machine has each of them
    inject = [word for fault in faults for word in ("-e", f"inject={fault}")]
    with subprocess.Popen(
        ["strace", "-f", "-y", "-p", str(child.pid), "-o", str(log), "-e", f"trace={traced}", *inject],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as tracer:
        assert tracer.stderr is not None  # noqa: S101 - it is a pipe
        answer = tracer.stderr.readline()
        if "attached" not in answer:
            child.kill()
            msg = f"strace cannot be at its side: {answer}"
            raise OSError(msg)
        child.go()
        child.wait()
        tracer.communicate(timeout=_TIMEOUT)
    return log.read_text("utf-8", "replace")


def struck(trace: str) -> bool:
    """Whether the fault has come to pass."""
    return "(INJECTED" in trace or "+++ killed by SIGKILL" in trace


def boundaries(trace: str) -> Iterator[str]:
    """Each call of a run in which nothing was wrong, with each fault: what `watch` takes.

    Opening what is there already changes nothing, and is not made to fail.
    """
    numbers = Counter[str]()
    for line in trace.splitlines():
        if match := _CALL.match(line):
            numbers[match[1]] += 1
            if match[1] not in _OPENS or "O_CREAT" in match[2]:
                yield from (f"{match[1]}:{fault}:when={numbers[match[1]]}" for fault in FAULTS)


def kills_after(trace: str, fault: str) -> Iterator[str]:
    """A kill at each call that came after a fault, but for those of the same name: strace takes one fault of each."""
    numbers, passed, same = Counter[str](), False, fault.partition(":")[0]
    for line in trace.splitlines():
        if match := _CALL.match(line):
            numbers[match[1]] += 1
            if passed and match[1] != same and ("O_CREAT" in match[2] or match[1] not in _OPENS):
                yield f"{match[1]}:{FAULTS[0]}:when={numbers[match[1]]}"
        passed = passed or "(INJECTED)" in line
