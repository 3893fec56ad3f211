"""A person at a pseudo-terminal, in front of a command of ours."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from support.concurrency.forked import start_ibi


class Terminal:
    """A person at a pseudo-terminal, who waits for words and types a line."""

    def __init__(self, master: int, process: subprocess.Popen[bytes]) -> None:
        self._master = master
        self.process = process
        self.seen = ""

    def read_until(self, words: str, seconds: float = 20) -> str:
        """What is shown up to these words, from where the last ones stood."""
        start = len(self.seen)
        end = time.monotonic() + seconds
        while words not in self.seen[start:]:
            assert time.monotonic() < end, self.seen
            if select.select([self._master], [], [], 0.1)[0]:
                try:
                    piece = os.read(self._master, 4096)
                except OSError:  # the other end is closed
                    piece = b""
                assert piece, self.seen
                self.seen += piece.decode()
        return self.seen[start:]

    def answer(self, question: str, line: str) -> str:
        """Wait for a question and type a line; returns what was shown before."""
        shown = self.read_until(question)
        os.write(self._master, f"{line}\n".encode())
        return shown

    def end_input(self) -> None:
        """Type Ctrl-D."""
        os.write(self._master, b"\x04")


@contextmanager
def terminal(*words: object, language: str = "en") -> Iterator[Terminal]:
    """Run a command of ours at a pseudo-terminal."""
    master, slave = os.openpty()
    environment = {**os.environ, "LANGUAGE": language, "TERM": "xterm"}
    with start_ibi(
        words, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    ) as process:
        os.close(slave)
        try:
            yield Terminal(master, process)
        finally:
            process.kill()
            process.wait()
            os.close(master)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C until it is heard, as people do: Python misses one that comes just before it waits for input."""
    for _ in range(10):
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return
