"""What a hint costs: looking it up, learning it, and the memory of a process that has many of them cached.

One process learns the hints; another one, which has imported all that a worker of a resolver has, looks them up in an
order by chance, every item once. The yardstick is a bare `get` of the same keys from the same file, in a read
transaction of its own each. Private memory is what no other process shares (RssAnon): the pages of the file are the
kernel's, and are given apart.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from bench.figures import table
from ibi.resolver.cache.answers import AnswerCache
from ibi.resolver.cache.hints import HintCache

if TYPE_CHECKING:
    from bench.scale import Scale

LOOKED_UP = 200_000
_ARCHIVES = 200
_BODY = 700  # bytes of an ordinary answer


def measure(place: Path, scale: Scale) -> None:
    """Measure and print."""
    hints = scale(500, 100_000, 1_000_000)
    figures = _in_a_process("learn", place, hints) | _in_a_process("look", place, hints)
    print("one run, of many look-ups each")
    table((f"with {hints:,} hints", "figure"), ((name, f"{value:,.0f}") for name, value in figures.items()))


def _in_a_process(verb: str, folder: Path, hints: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.hints", verb, str(folder), str(hints)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own command
    return dict(json.loads(finished.stdout))


def _name(number: int) -> str:
    return f"bench.example.org/{number // 10_000}/{number % 10_000:04}"


def _learn(folder: Path, hints: int) -> dict[str, float]:
    index = HintCache(folder / "hints")
    begun, worked = time.perf_counter(), time.process_time()
    for number in range(hints):
        service = f"archive-{number % _ARCHIVES}.example.org/w/2020/01.01.00.00"
        index.remember([_name(number)], likely=service, original=service)
        while number % 1_000 == 0 and len(index._behind._waiting) > 10_000:  # noqa: SLF001 - readers would be dropped
            time.sleep(0.01)
    index.close()
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    size = (folder / "hints" / "data.mdb").stat().st_size
    return {
        "learned a second": hints / seconds,
        "learned a processor second": hints / worked,
        "dropped": index.dropped,
        "bytes of disk for one": size / hints,
    }


def _look(folder: Path, hints: int) -> dict[str, float]:
    import ibi.app.resolver  # noqa: F401 - all that a worker has in memory

    index, memory = HintCache(folder / "hints"), AnswerCache(folder / "answers", time.time)
    chance = random.Random(7)
    names = [_name(number) for number in chance.sample(range(hints), min(hints, LOOKED_UP))]
    before = _memory("RssAnon")
    begun = time.process_time()
    found = sum(index.of(name).likely is not None for name in names)
    looked_up = time.process_time() - begun
    begun = time.process_time()
    for name in names:
        index.of(f"{name}/unknown")
    unknown = time.process_time() - begun
    bare = _bare(index, names)
    memory.put("archive", "item getUrl ", bytes(_BODY), 3600.0)
    begun = time.process_time()
    for _ in range(20_000):
        memory.answer("archive", "item getUrl ")
    answered = time.process_time() - begun
    private, mapped = _memory("RssAnon"), _memory("RssFile")
    index.close()
    memory.close()
    return {
        "found, of 1,000": found / len(names) * 1_000,
        "look-up of a known item, ns": looked_up / len(names) * 1e9,
        "look-up of an unknown item, ns": unknown / len(names) * 1e9,
        "bare get of the same keys, ns": bare / len(names) * 1e9,
        "look-up, in hundredths of a bare get": looked_up / bare * 100,
        f"a remembered answer of {_BODY} bytes, ns": answered / 20_000 * 1e9,
        "private memory of the worker, MB": private / 1024,
        "of it by looking up, MB": (private - before) / 1024,
        "pages of files that it has mapped, MB": mapped / 1024,
    }


def _bare(index: HintCache, names: list[str]) -> float:
    keys = [blake2b(name.encode(), digest_size=12).digest() for name in names]
    opened = index._file.opened  # noqa: SLF001 - the same file cannot be opened twice in a process
    if opened is None:
        raise SystemExit("the file of hints cannot be used")
    begun = time.process_time()
    for key in keys:
        transaction = opened.environment.begin(opened.tables[0])
        transaction.get(key)
        transaction.abort()
    return time.process_time() - begun


def _memory(what: str) -> int:
    """KiB of this process, as /proc calls them."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(f"{what}:"))


if __name__ == "__main__":
    _work = {"learn": _learn, "look": _look}[sys.argv[1]]
    print(json.dumps(_work(Path(sys.argv[2]), int(sys.argv[3]))))
