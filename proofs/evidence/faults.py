"""`python -m proofs.evidence.faults`: writes entries, each in a child of its own in which one system call goes wrong.

Reads "PATH CALL FAULT" from stdin, and answers with what became of the child: "done", "refused", "killed" or "over",
where there was no such call any more.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibi.resolver.evidence.chain import HEAD_WIDTH, NewEntry
from ibi.resolver.evidence.files import EvidenceFiles

if TYPE_CHECKING:
    from collections.abc import Callable

FAULTS = ("killed before", "killed after", "killed halfway", "EIO", "ENOSPC halfway")
_CALLS = ((os, "open"), (os, "pwrite"), (os, "fsync"), (os, "ftruncate"), (fcntl, "flock"), (os, "close"))
_DONE, _REFUSED, _OVER = 0, 1, 2


class Faulty:
    """Counts system calls, and lets one of them go wrong."""

    def __init__(self, which: int, fault: str) -> None:
        self.left = which
        self.fault = fault
        self.full = False
        for module, name in _CALLS:
            setattr(module, name, self._wrapped(getattr(module, name)))

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if self.full and call.__name__ == "pwrite":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*args, **named) if self.left else self._wrong(call, *args, **named)

        return wrapped

    def _wrong(self, call: Callable[..., Any], *args: Any, **named: Any) -> Any:
        writes = call.__name__ == "pwrite" and len(args[1]) != HEAD_WIDTH  # the head lies in one sector
        if self.fault.endswith("halfway") and writes:
            handle, content, place = args
            done = call(handle, bytes(content)[: len(content) // 2], place)
            self.full = True
            if self.fault == "ENOSPC halfway":
                return done
        elif self.fault == "killed after":
            call(*args, **named)
        elif self.fault in {"EIO", "ENOSPC halfway"}:
            if call.__name__ == "close":
                call(*args, **named)  # it is closed all the same
            name = self.fault.partition(" ")[0]
            raise OSError(getattr(errno, name), os.strerror(getattr(errno, name)))
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def _child(path: Path, which: int, fault: str) -> int:
    files = EvidenceFiles(path)
    faulty = Faulty(which, fault)
    try:
        files.append(
            [NewEntry("2026-11-22T10:00:00.000Z", "excluded", {"ibi": f"faulty/{n}"}) for n in range(2)]
        )
    except OSError:
        return _REFUSED
    return _DONE if faulty.left <= 0 else _OVER


def _try(path: Path, which: int, fault: str) -> str:
    child = os.fork()
    if child == 0:
        os._exit(_child(path, which, fault))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {_DONE: "done", _REFUSED: "refused", _OVER: "over", -signal.SIGKILL: "killed"}[status]


if __name__ == "__main__":
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        print(_try(Path(words[0]), int(words[1]), words[2]), flush=True)
