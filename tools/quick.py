"""`make quick`: the tests of style, and those that need no socket and no data directory, one process for each core.

Workers of pytest-xdist would each collect all tests; here each process collects only what it runs. The folder of the
tests of style stays in one process, as these share what they have read.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

FOLDERS: Final = ("tests/unit", "tests/conformance/test_vectors*.py")
LEFT_OUT: Final = re.compile(
    r"tests/unit/(?:accounts|archive/(?!model|oai|search)\w+|resolver/(?:api|members|pages|registry))/"
    r"|tests/unit/resolver/test_(?:cached_redirects|whole_answers)|tests/unit/minting/test_subsystem|tests/unit/tools/"
)
"""Most of these tests make a catalogue, a registry or a data directory, or run tools: half of the time of all."""
TOGETHER: Final = "tests/style"
MEMORY: Final = "/dev/shm"  # noqa: S108 - a folder of a random name is made in it
"""Where files lie in memory, so that none waits for a disk, and none is left."""
STYLE_WEIGHT: Final = 500_000
"""What the tests of style weigh, in bytes of other tests that take as long."""
OPTIONS: Final = ("-q", "-p", "no:xdist", "-m", "not long", "--hypothesis-profile=few")


def dealt(weights: dict[str, int], groups: int) -> list[list[str]]:
    """Names in so many groups, the heaviest first, each into the group that is the lightest then."""
    found, loads = [list[str]() for _ in range(groups)], [0] * groups
    for name, weight in sorted(weights.items(), key=lambda each: (-each[1], each[0])):
        lightest = loads.index(min(loads))
        found[lightest].append(name)
        loads[lightest] += weight
    return [sorted(group) for group in found if group]


def started(
    python: str, files: Sequence[str], options: Iterable[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    """Start pytest for these files; what it prints is kept until it is read."""
    words = [python, "-m", "pytest", *OPTIONS, *options, *files]
    return subprocess.Popen(  # noqa: S603 - our own words
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def main(options: Sequence[str]) -> int:
    """Run the tests, and print what each process has printed; exit status: the first that is not 0."""
    files = [path for pattern in FOLDERS for path in _test_files(pattern)]
    weights = {str(path): path.stat().st_size for path in files}
    weights[TOGETHER] = STYLE_WEIGHT
    statuses = []
    with TemporaryDirectory(prefix="ibi-quick-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as name:
        groups = dealt(weights, os.cpu_count() or 1)
        running = [
            started(sys.executable, group, options, {**os.environ, "TMPDIR": name}) for group in groups
        ]
        for process in running:
            output, _ = process.communicate()
            print(output, flush=True)
            statuses.append(process.returncode)
    return next((status for status in statuses if status), 0)


def _test_files(pattern: str) -> list[Path]:
    """The files of tests that a folder has, or that a pattern matches."""
    found = Path(pattern).rglob("test_*.py") if Path(pattern).is_dir() else Path().glob(pattern)
    return sorted(path for path in found if not LEFT_OUT.match(path.as_posix()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
