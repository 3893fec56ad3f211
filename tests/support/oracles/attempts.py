"""A parser's outcome as a value: what it read, or the one error it may raise."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from ibi.errors import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")


def attempt(read: Callable[..., _Value], *given: object) -> _Value | ParseError:
    """What is read from what is given, or the ParseError; any other exception is a fault and goes on."""
    try:
        return read(*given)
    except ParseError as error:
        return error


def accepts(parse: Callable[[str], object], text: str) -> bool:
    """Whether a text can be read."""
    return not isinstance(attempt(parse, text), ParseError)
