"""What a program meets on a machine whose locale is not one of UTF-8."""

from __future__ import annotations

import locale
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def ascii_alone() -> Iterator[None]:
    """As with LC_CTYPE=C: a text file that is opened without an encoding must be ASCII."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        yield
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
