"""A limit is met exactly: one below it, at it, and one above it, where the whole sentence tells it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ibi.errors import IbiError
from ibi.http.response import Refusal


def meet(most: int, take: Callable[[int], object], sentence: str) -> None:
    """Take one less than `most` and `most`; one more must be refused in these words."""
    take(most - 1)
    take(most)
    with pytest.raises((IbiError, Refusal)) as refused:
        take(most + 1)
    assert str(refused.value) == sentence


def meet_least(least: int, take: Callable[[int], object], sentence: str) -> None:
    """Take one more than `least` and `least`; one less must be refused in these words."""
    take(least + 1)
    take(least)
    with pytest.raises((IbiError, Refusal)) as refused:
        take(least - 1)
    assert str(refused.value) == sentence
