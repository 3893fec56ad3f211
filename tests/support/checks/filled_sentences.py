"""Every sentence for people that a test brings about is whole: nothing is missing for any of its placeholders.

Most sentences are never read by the test that brings them about; but one without its file, its limit or its reason is
a fault wherever it appears, and easily left out. So each is looked at where it begins: at `IbiError` and `say`.
"""

from __future__ import annotations

import functools
import re
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
    def said(message: IbiError | str, language: str | None = None, **details: Any) -> str:
        if isinstance(message, str):
            _look(message, details)
        return say(message, language, **details)

    IbiError.__init__ = begun  # type: ignore[method-assign]  # the same shape
    i18n.say = said


def _look(sentence: str, details: dict[str, object]) -> None:
    missing = set(_PLACE.findall(sentence)) - details.keys()
    if missing:
        lacking.append(f"{sentence!r} lacks {', '.join(sorted(missing))}")
