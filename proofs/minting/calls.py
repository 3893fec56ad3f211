"""System calls: told by strace as they happen, or made to fail; and the order that they must keep.

strace counts the calls of each thread by itself: "pwrite64:error=EIO:when=1" strikes the first one of every thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from proofs.minting.reading import moment_of_rep

SENDS = ("write", "writev", "sendto", "sendmsg")
CALLS = ("openat", "mkdir", "flock", "pwrite64", "fsync", "fdatasync", "rename", "ftruncate", *SENDS)
FAULTS = ("signal=SIGKILL", "error=EIO", "error=ENOSPC")

_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+|\?)")
_BEGUN = re.compile(r"(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_ENDED = re.compile(r"(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+|\?)")
_PLACE = re.compile(r'\d+<([^>]*)>|(?:AT_FDCWD<[^>]*>, )?"([^"]*)"')
_REP = re.compile(r"[^ \"]+/\d{4}/[\d.]+")


@dataclass(frozen=True)
class Call:
    """One system call as strace tells it; `result` is None where the process did not live to see it."""

    name: str
    place: str
    words: str
    result: int | None
    thread: int = 0

    @property
    def failed(self) -> bool:
        """Whether it did nothing."""
        return self.result is None or self.result < 0

    @property
    def may_fail(self) -> bool:
        """Whether the disk or the client may be at fault; to open what is there already is no such call."""
        return self.name != "openat" or "O_CREAT" in self.words


def strace(log: Path, places: Iterable[Path | str], fault: str | None) -> list[str]:
    """The command that tells in `log` of all calls at these places, and lets one fail; before what it is to watch."""
    watched = [word for place in places for word in ("-P", str(place))]
    inject = ["-e", f"inject={fault}"] if fault else []
    length = ["-s", "100000"]
    return [
        "strace",
        "-f",
        "-y",
        *length,
        "-o",
        str(log),
        "-e",
        f"trace={','.join(CALLS)}",
        *watched,
        *inject,
    ]


def files_of(data: Path) -> list[Path]:
    """What minting writes in a data directory."""
    folder = data / "minting"
    return [data, folder, *(folder / name for name in ("lock", "state", "state.new"))]


def read_log(log: Path) -> list[Call]:
    """The calls, in the order in which they ended; those that send, in the order in which they began."""
    calls: list[Call] = []
    begun: dict[str, tuple[str, int]] = {}  # by thread: the words so far, and the place kept in the order
    for line in log.read_text("utf-8", "replace").splitlines():
        if match := _LINE.match(line):
            calls += _call(match[1], match[2], match[3], match[4])
        elif match := _BEGUN.match(line):
            begun[match[1]] = match[3], len(calls)
            if match[2] in SENDS:
                calls += _call(match[1], match[2], match[3], "?")
        elif (match := _ENDED.match(line)) and match[1] in begun:
            words, kept = begun.pop(match[1])
            call = _call(match[1], match[2], words + match[3], match[4])
            if match[2] in SENDS:
                calls[kept : kept + 1] = call
            else:
                calls += call
    return calls


def _call(thread: str, name: str, words: str, result: str) -> Iterator[Call]:
    if name in CALLS:
        place = _PLACE.match(words)
        where = (place[1] or place[2]) if place else ""
        yield Call(name, where, words, None if result == "?" else int(result), int(thread))


def struck(log: Path) -> bool:
    """Whether the fault came: a process may make fewer calls than when they were counted, as lumps fall otherwise."""
    text = log.read_text("utf-8", "replace")
    return "(INJECTED)" in text or "killed by SIGKILL" in text


def moments_in(call: Call) -> Iterator[int]:
    """The moments of the labels that a call has brought to their reader."""
    if call.name in SENDS and call.result is not None and call.result > 0:
        yield from (moment_of_rep(word) for word in _REP.findall(call.words.replace("\\n", " ")))


def released_early(calls: Iterable[Call]) -> Iterator[int]:
    """Moments of labels written out before a sync of a state that covers them had succeeded.

    A trial that starts on a used directory starts with a durable state, but gives only later labels.
    """
    written = durable = 0
    for call in calls:
        at_state = Path(call.place).name in {"state", "state.new"}
        if call.name == "pwrite64" and at_state and call.result is not None and call.result > 0:
            written = int(call.words.split('"')[1].split()[1])
        elif call.name in {"fsync", "fdatasync"} and at_state and call.result == 0:
            durable = written
        else:
            yield from (moment for moment in moments_in(call) if moment > durable)
