"""State machines: what may happen to a thing, in any order, compared with a small model after every step."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from hypothesis.stateful import RuleBasedStateMachine


def try_histories(make: Callable[[], RuleBasedStateMachine], one_in: int, steps: int) -> None:
    """Play one history for so many examples of the profile, each of at most so many steps; the same in each run."""
    run_state_machine_as_test(
        make,  # type: ignore[arg-type]  # any function that makes one, as its documentation says
        settings=settings(
            max_examples=max(1, settings().max_examples // one_in),
            stateful_step_count=steps,
            derandomize=True,
            deadline=None,
        ),
    )


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder for many small changes, each of which is flushed: in memory where that can be, else on the disk."""
    memory = "/dev/shm"  # noqa: S108 - the folder that TemporaryDirectory makes there has a name of its own
    with TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)
