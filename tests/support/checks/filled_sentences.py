"""Every sentence for people that a test brings about is whole: nothing is missing for any of its placeholders.

Most sentences are never read by the test that brings them about; but one without its file, its limit or its reason is
a fault wherever it appears, and easily left out. So each is looked at where it begins: at `IbiError` and `say`.
"""

from __future__ import annotations

import functools
import re
import sys
from types import FrameType
from typing import Any

from ibi.errors import IbiError
from ibi.runtime import i18n

_PLACE = re.compile(r"\{(\w+)(?:[!:][^{}]*)?\}")

lacking: list[str] = []
"""What was found, since it was emptied last."""


def watch() -> None:
    """Look at every sentence from now on. To be called before modules import `say`."""
    begin, say = IbiError.__init__, i18n.say

    @functools.wraps(begin)
    def begun(self: IbiError, problem: str, **details: object) -> None:
        _look(problem, details)
        begin(self, problem, **details)

    @functools.wraps(say)
    def written(message: IbiError | str, language: str | None = None, **details: Any) -> str:
        error = message if isinstance(message, IbiError) else None
        _look(error.problem if error else str(message), {**(error.details if error else {}), **details})
        return say(message, language, **details)

    IbiError.__init__ = begun  # type: ignore[method-assign]  # the same shape
    i18n.say = written


def _look(sentence: str, details: dict[str, object]) -> None:
    missing = set(_PLACE.findall(sentence)) - details.keys()
    if missing and not _is_constant():
        lacking.append(f"{sentence!r} lacks {', '.join(sorted(missing))}")


def _is_constant() -> bool:
    """Whether a module makes an error while it is imported: its placeholders are filled when it is said."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in {"__init__", "begun"}:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name == "<module>"
