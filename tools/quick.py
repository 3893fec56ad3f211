"""`make quick`: the tests that open no socket and start no server, half of their files in each of two processes.

Workers of pytest-xdist would each collect all tests, which takes as long as it takes to run them; here each process
collects only what it runs. The folder of the tests of style stays in one process, as these share what they have read.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

FOLDERS: Final = ("tests/unit", "tests/conformance/test_vectors*.py")
TOGETHER: Final = "tests/style"
OPTIONS: Final = ("-q", "-p", "no:xdist", "-m", "not long", "--hypothesis-profile=few")


def dealt(weights: dict[str, int], groups: int) -> list[list[str]]:
    """Names in so many groups, the heaviest first, each into the group that is the lightest then."""
    found, loads = [list[str]() for _ in range(groups)], [0] * groups
    for name, weight in sorted(weights.items(), key=lambda each: (-each[1], each[0])):
        lightest = loads.index(min(loads))
        found[lightest].append(name)
        loads[lightest] += weight
    return [sorted(group) for group in found if group]
