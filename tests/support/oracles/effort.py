"""How many calls a piece of work makes: a measure of growth that no busy machine can spoil."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def calls(parse: Callable[[str], object], text: str) -> int:
    """The calls, of Python and of C functions, while a text is parsed; a ParseError is a fair end of it."""
    count = 0

    def count_calls(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    _watch(count_calls, parse, text)
    return count


def letters_seen(parse: Callable[[str], object], text: str) -> int:
    """How many characters are handed from function to function while a text is parsed: calls weighed by length.

    A loop that looks at ever shorter pieces of one text makes few calls and still costs the square of its length.
    """
    seen = 0

    def weigh(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal seen
        if event == "call":
            seen += sum(len(value) for value in frame.f_locals.values() if isinstance(value, str | bytes))

    _watch(weigh, parse, text)
    return seen


def _watch(
    profile: Callable[[FrameType, str, object], None], parse: Callable[[str], object], text: str
) -> None:
    sys.setprofile(profile)
    try:
        parse(text)
    except ParseError as error:
        error.caret()
    finally:
        sys.setprofile(None)
