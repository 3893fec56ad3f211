"""Every sentence of an error is whole: what its template names is given to it, whether or not a test reads it."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import Any

from ibi.errors import IbiError

_PLACE = re.compile(r"{([a-z_0-9]+)(?:![rsa])?(?::[^{}]*)?}")


@cache
def _places(problem: str) -> frozenset[str]:
    return frozenset(_PLACE.findall(problem))


def _is_template() -> bool:
    """Whether a module makes the error when it is imported, as a template whose parts are given later."""
    return sys._getframe(2).f_code.co_name == "<module>"


def watch() -> None:
    """From now on, an error that lacks a part of its sentence fails the test in which it is made."""
    make = IbiError.__init__

    def checked(self: IbiError, problem: str, **details: Any) -> None:
        make(self, problem, **details)
        lacking = _places(problem) - details.keys()
        if lacking and not _is_template():
            raise AssertionError(f"{problem!r} lacks {', '.join(sorted(lacking))}")

    IbiError.__init__ = checked  # type: ignore[method-assign]  # in tests only
