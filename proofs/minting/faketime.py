"""The part of P-M3 with real processes: libfaketime lies to them while they mint.

Six processes share a directory, a file tells the first three what their clocks are off by, another one the others,
whose clocks are behind by a third of a second. The clocks are set to and fro, six hours back, ten years ahead, and
right again. Demanded: no label twice; every process gives a label or its ClockError at least every three seconds;
while the clocks are beyond belief no labels, and within two seconds of their return labels.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from proofs.common.environment import environment
from proofs.common.report import Report, Scale
from proofs.minting import stubborn_worker
from proofs.minting.judge import Judge

PLACES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/local/lib/faketime/libfaketime.so.1")
OFFSETS = (
    0.0,
    0.4,
    -0.3,
    1.2,
    0.0,
    -21600.0,
    0.0,
    315360000.0,
    0.0,
    25.0,
    24.0,
)  # seconds, one after the other
BEYOND_BELIEF = 80000.0, -1000.0  # seconds: more than the first, or less than the second
PROCESSES = 6
BEHIND = 1 / 3
_BACK_AGAIN = 3.0  # seconds until labels are given again: two, and one for a busy machine
_LONGEST_SILENCE = 3.0
_ROUND = 25.0  # seconds by which each round begins later, so that none begins with a clock set back
_STARTS = 200  # tenths of a second until all must have spoken
_WHILE = 0.4  # seconds that each setting lasts, at least
_SETTLING = 0.4  # seconds for windows that were reserved before the clocks were set
_AT_ONCE = 1 << 16


def library() -> Path | None:
    """The library that changes clocks, where it is installed."""
    return next((path for pattern in PLACES for path in Path("/").glob(pattern[1:])), None)


def prove(report: Report, scale: Scale) -> None:
    """Set the clocks of real processes, as often as the scale says."""
    preloaded = library()
    if preloaded is None:
        report.unshown.append("real processes with false clocks: libfaketime is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="proof-faketime-") as folder:
        play = _Play(report, Path(folder), preloaded)
        try:
            play.wait_for_all()
            for number in range(scale.pick(1, 3, 10)):
                for offset in OFFSETS:
                    play.set_clocks(offset + number * _ROUND)
                    play.watch(offset)
        finally:
            play.close()


class _Play:
    """Processes with false clocks, and their judge, whose clock is right."""

    def __init__(self, report: Report, folder: Path, preloaded: Path) -> None:
        self._report = report
        self._judge = Judge(report, clock=lambda: sys.maxsize)  # false clocks give out labels of the future
        self._folder = folder
        self._selector = selectors.DefaultSelector()
        self._heard: dict[str, float] = {}  # when each was heard last
        self._spoken: dict[str, bool] = {}
        self._rests: dict[str, bytes] = {}
        self._labels = 0
        self.set_clocks(OFFSETS[0])
        self._running = [self._start(preloaded, number) for number in range(PROCESSES)]

    def wait_for_all(self) -> None:
        """Until every process has given a label."""
        for _ in range(_STARTS):
            if all(self._spoken.values()):
                return
            self._listen(0.1)
        self._report.violate(f"no label from all processes: {self._spoken}")

    def set_clocks(self, offset: float) -> None:
        """All clocks, at once for each half of the processes."""
        for name, behind in (("first", 0.0), ("second", BEHIND)):
            temporary = self._folder / "aside"
            temporary.write_text(f"{offset - behind:+f}\n")
            temporary.replace(self._folder / name)
        self._report.count("clocks set")

    def watch(self, offset: float) -> None:
        """Listen for a while; then say what was wrong."""
        began = time.monotonic()
        self._listen(_SETTLING)
        before = self._labels
        if BEYOND_BELIEF[1] < offset < BEYOND_BELIEF[0]:
            self._listen(_BACK_AGAIN, until_labels=True)
            self._report.top(
                "labels again after a clock was set, ms", round(1000 * (time.monotonic() - began))
            )
            self._report.demand(
                self._labels > before, f"clocks off by {offset} s: no label in {_BACK_AGAIN} s"
            )
        self._listen(_WHILE)
        if not BEYOND_BELIEF[1] < offset < BEYOND_BELIEF[0]:
            self._report.demand(self._labels == before, f"clocks off by {offset} s gave labels")
        now = time.monotonic()
        silent = [name for name, heard in self._heard.items() if now - heard > _LONGEST_SILENCE]
        self._report.demand(not silent, f"clocks off by {offset} s: nothing heard from {silent}")

    def _listen(self, seconds: float, *, until_labels: bool = False) -> None:
        end, before = time.monotonic() + seconds, self._labels
        while (left := end - time.monotonic()) > 0 and not (until_labels and self._labels > before):
            for key, _ in self._selector.select(left):
                self._hear(key.data, os.read(key.fd, _AT_ONCE))

    def _hear(self, name: str, text: bytes) -> None:
        if not text:
            raise EOFError(name)
        self._heard[name] = time.monotonic()
        lines, end, self._rests[name] = (self._rests[name] + text).rpartition(b"\n")
        labels = [line for line in (lines + end).splitlines(keepends=True) if not line.startswith(b"-")]
        self._spoken[name] |= bool(labels)
        self._labels += len(self._judge.hear(name, b"".join(labels)))
        self._report.count("ClockErrors", lines.startswith(b"-") + lines.count(b"\n-"))

    def _start(self, preloaded: Path, number: int) -> subprocess.Popen[bytes]:
        """A process whose clock is that of the first or of the second half."""
        offset_file = self._folder / ("first" if number < PROCESSES // 2 else "second")
        lies = {
            "LD_PRELOAD": str(preloaded),
            "FAKETIME_TIMESTAMP_FILE": str(offset_file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        name = f"process {number} with a false clock"
        running = subprocess.Popen(
            [sys.executable, stubborn_worker.__file__, self._folder / "data"],
            stdout=subprocess.PIPE, env=environment() | lies,
        )  # fmt: skip
        assert running.stdout is not None  # noqa: S101 - it is a pipe
        self._selector.register(running.stdout, selectors.EVENT_READ, name)
        self._heard[name], self._rests[name], self._spoken[name] = time.monotonic(), b"", False
        return running

    def close(self) -> None:
        """Stop all."""
        for process in self._running:
            process.kill()
            process.communicate()
        self._selector.close()
