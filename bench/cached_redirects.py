"""Resolvers with a full redirect cache, among stub Archives whose answers may be reused."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.open_loop import open_loop
from bench.processes import serving
from ibi.runtime.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.processes import Server
    from bench.questions import Questions

_RATE: Final = (
    2_500.0  # a second: redirects requested faster are not all cached, since the cache is written behind
)
_WRITTEN: Final = 1.0  # seconds after which all that was answered has been written
_PART: Final = 100_000  # whose answers are all in the file at once, which has a bound
REUSE: Final = "reuse=3600"
"""The command that makes the answers of stub Archives reusable."""


@contextmanager
def resolver(data: Path, *, fast_path: bool = True, mebibytes: int = 0) -> Iterator[Server]:
    """Serve the resolver of a data directory, with its fast path or without; `mebibytes`: of redirects, 0: as it is."""
    before = ResolverSettings.read(data)
    replace(before, express=fast_path, redirect_mebibytes=mebibytes or before.redirect_mebibytes).write(data)
    command = (sys.executable, "-m", "ibi", "resolver", "serve", "--data", data, "--bind", "127.0.0.1:0")
    with serving(command, data / "log") as server:
        yield server


def warm(port: int, questions: Questions) -> None:
    """Request each item twice, so that its answer and its redirect are cached."""
    for at in range(0, len(questions.targets), _PART):
        part = replace(questions, targets=questions.targets[at : at + _PART])
        for _ in range(2):
            open_loop(port, part, _RATE, len(part.targets) / _RATE, timeout=120)
            time.sleep(_WRITTEN)
