"""What several commands take after an option."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Final

from ibi.identifier.repository import LAST_PORT

_MOST_WORKERS: Final = 256  # more are a slip of the finger


def workers(text: str) -> int:
    """A number of processes."""
    return _number(text, _MOST_WORKERS, f"not a number of processes: {text}")


def port(text: str) -> int:
    """The number of a port."""
    return _number(text, LAST_PORT, f"not a port: {text}")


def _number(text: str, most: int, problem: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    number = int(text) if digits else 0
    if not 0 < number <= most:
        raise ArgumentTypeError(problem)
    return number
