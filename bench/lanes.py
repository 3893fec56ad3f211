"""Resolvers whose redirects lie ready, among stub Archives whose answers may be used again."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from bench.open_loop import open_loop
from bench.processes import serving
from ibi.settings import ResolverSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.processes import Server
    from bench.questions import Questions

_RATE: Final = 2_500.0  # a second: what is asked faster is not all kept, since it is written behind
_WRITTEN: Final = 1.0  # seconds after which all that was answered has been written
REUSE: Final = "reuse=3600"
"""To be told to the stubs before their answers are to be used again."""


@contextmanager
def resolver(data: Path, *, express: bool = True) -> Iterator[Server]:
    """Serve the resolver of a data directory, with the express lane or without."""
    replace(ResolverSettings.read(data), express=express).write(data)
    command = (sys.executable, "-m", "ibi", "resolver", "serve", "--data", data, "--bind", "127.0.0.1:0")
    with serving(command, data / "log") as server:
        yield server


def warm(port: int, questions: Questions) -> None:
    """Ask each question twice: the answer is kept then, and the redirect that was made of it."""
    for _ in range(2):
        open_loop(port, questions, _RATE, len(questions.targets) / _RATE, patience=120)
        time.sleep(_WRITTEN)
