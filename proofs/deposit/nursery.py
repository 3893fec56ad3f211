"""A process that has imported everything, and forks: each child is a command or a worker as a user would start it.

To start Python and to import the Archive takes most of the time of a trial; so this is done once. A child waits for
its `go`, so that strace can be at its side before it does anything. It is run to its very end, as a program is:
buffers are flushed, exit handlers are called.

    python -m proofs.deposit.nursery [PROGRAM]     PROGRAM: Python code that is run first, to break something on purpose

Each line on stdin is a request as JSON, each line on stdout an answer.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from ctypes import CDLL
from pathlib import Path
from typing import Any, Self

from proofs.common.environment import environment

COMMAND = "ibi.cli:main"
"""What `ibi` runs."""
_NEEDED = (
    "ibi.cli", "ibi.archive.store.item_changes", "ibi.archive.store.data_directory", "ibi.archive.model.item_json",
    "ibi.archive.store.tables.copies", "ibi.archive.model.item", "ibi.cli.archive.items", "ibi.minting.machine",
    "ibi.runtime.settings", "sqlalchemy.dialects.sqlite", "getpass", "pwd", "alembic.command", "proofs.deposit.working",
)  # fmt: skip
_SET_PTRACER, _ANY_CHILD = 0x59616D61, -1  # prctl: where only parents may trace
_TIMEOUT = 60  # seconds


class Child:
    """One process out of the nursery; what it writes lies in `out` and `err`."""

    def __init__(self, nursery: Nursery, pid: int, folder: Path) -> None:
        self.pid = pid
        self._nursery = nursery
        self._folder = folder
        self._status: int | None = None

    @property
    def out(self) -> bytes:
        """What it has printed until now."""
        return (self._folder / "out").read_bytes()

    @property
    def err(self) -> str:
        """What it has said until now."""
        return (self._folder / "err").read_text("utf-8", "replace")

    def go(self) -> None:
        """Let it begin."""
        with suppress(BrokenPipeError), (self._folder / "go").open("wb", buffering=0) as fifo:
            fifo.write(b"!")

    def signal(self, number: int) -> None:
        """Send a signal; its number is not given to another process before `wait`."""
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit status, -n if signal n ended it."""
        if self._status is None:
            self._status = int(self._nursery.ask({"wait": self.pid}))
        return self._status

    def kill(self) -> int:
        """End it now."""
        if self._status is None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGKILL)
        return self.wait()


class Nursery:
    """Gives birth to processes; a context manager. `program`: see above."""

    def __init__(self, program: Path | None = None) -> None:
        words = [str(program)] if program else []
        self._running = subprocess.Popen(
            [sys.executable, "-m", "proofs.deposit.nursery", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment() | {"PYTHONDONTWRITEBYTECODE": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.communicate(timeout=_TIMEOUT)

    def ask(self, request: dict[str, Any]) -> Any:
        """Send it a request and return its answer."""
        assert self._running.stdin is not None  # noqa: S101 - it is a pipe
        assert self._running.stdout is not None  # noqa: S101 - it is a pipe
        self._running.stdin.write(json.dumps(request).encode() + b"\n")
        self._running.stdin.flush()
        return json.loads(self._running.stdout.readline())

    def child(
        self, folder: Path, words: Sequence[str], function: str = COMMAND, largest: int | None = None
    ) -> Child:
        """A process that waits for its `go` and then calls a function with these words.

        Its output goes into `folder`, which is made for it alone. `largest`: no file of more bytes can be written.
        """
        folder.mkdir(parents=True)
        os.mkfifo(folder / "go")
        request = {"folder": str(folder), "words": list(words), "function": function, "largest": largest}
        return Child(self, int(self.ask(request)), folder)


def wait_until(truth: Any, seconds: float = 20) -> bool:
    """Whether something became true within so many seconds."""
    end = time.monotonic() + seconds
    while not truth():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def main(program: str = "") -> None:
    """Give birth and bury until stdin ends. In a child, this is where it does what it is for."""
    for module in _NEEDED:
        importlib.import_module(module)
    if program:
        runpy.run_path(program)
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
        else:
            answer = os.fork()
            if not answer:
                os.close(answers)
                _live(request)
        os.write(answers, b"%d\n" % answer)


def _live(request: dict[str, Any]) -> None:
    """Be the child: leave by SystemExit, as the command does."""
    folder = Path(request["folder"])
    for number, name in ((0, os.devnull), (1, folder / "out"), (2, folder / "err")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(handle, number)
        os.close(handle)
    with suppress(AttributeError):
        CDLL(None).prctl(_SET_PTRACER, _ANY_CHILD, 0, 0, 0)
    if request["largest"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], request["largest"]))
    module, _, function = request["function"].partition(":")
    act = getattr(importlib.import_module(module), function)
    with (folder / "go").open("rb") as fifo:
        fifo.read(1)
    sys.exit(act(request["words"]))


if __name__ == "__main__":
    main(*sys.argv[1:])
