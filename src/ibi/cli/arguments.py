"""What several commands take after an option."""

from __future__ import annotations

from argparse import ArgumentTypeError

_MOST_WORKERS = 256  # more are a slip of the finger


def workers(text: str) -> int:
    """A number of processes."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= _MOST_WORKERS):
        raise ArgumentTypeError(f"not a number of processes: {text}")
    return int(text)
