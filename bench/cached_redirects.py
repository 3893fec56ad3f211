"""Resolvers with a full redirect cache, among stub Archives whose answers may be reused."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
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
_REDIRECT: Final = 800  # bytes of memory that one takes at most, here
_PART: Final = 100_000  # whose answers are all in the file at once, which has a bound
REUSE: Final = "reuse=3600"
"""The command that makes the answers of stub Archives reusable."""


@contextmanager
def resolver(data: Path, *, fast_path: bool = True, redirects: int = 0) -> Iterator[Server]:
    """Serve the resolver of a data directory, with its fast path or without.

    `redirects`: how many of them its cache must hold at least.
    """
    before = ResolverSettings.read(data)
    most = max(before.redirect_mebibytes, mebibytes_of(redirects))
    replace(before, express=fast_path, redirect_mebibytes=most).write(data)
    command = (sys.executable, "-m", "ibi", "resolver", "serve", "--data", data, "--bind", "127.0.0.1:0")
    with serving(command, data / "log") as server:
        yield server


def mebibytes_of(redirects: int) -> int:
    """The memory for so many redirects that are asked for again and again."""
    return ceil(2 * redirects * _REDIRECT / 2**20)  # what does not fit into half of it may be dropped


def warm(port: int, questions: Questions) -> None:
    """Request each item twice, so that its answer and its redirect are cached."""
    for at in range(0, len(questions.targets), _PART):
        part = replace(questions, targets=questions.targets[at : at + _PART])
        for _ in range(2):
            open_loop(port, part, _RATE, len(part.targets) / _RATE, timeout=120)
            time.sleep(_WRITTEN)
