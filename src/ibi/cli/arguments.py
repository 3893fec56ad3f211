"""What several commands take after an option."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import Final

from ibi.identifier.repository import LAST_PORT

_MOST_WORKERS: Final = 256  # more are a slip of the finger


def workers(text: str) -> int:
    """A number of processes."""
    return number(text, _MOST_WORKERS, f"not a number of processes: {text}")


def port(text: str) -> int:
    """The number of a port."""
    return number(text, LAST_PORT, f"not a port: {text}")


def number(text: str, most: int, problem: str) -> int:
    """A whole number from 1 to `most`; anything else is `problem`."""
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    found = int(text) if digits else 0
    if not 0 < found <= most:
        raise ArgumentTypeError(problem)
    return found
