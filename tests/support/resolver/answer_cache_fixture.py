"""The answer cache of a resolver, in a folder of its own and with a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.resolver.cache.answers import AnswerCache
from support.resolver.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The folder of the cache."""
    return tmp_path / "answers"


@pytest.fixture
def memory(path: Path, clock: Clock) -> Iterator[AnswerCache]:
    memory = AnswerCache(path, clock)
    yield memory
    memory.close()
