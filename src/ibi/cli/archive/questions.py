"""Questions to the person at the terminal, each answer checked at once."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from ibi.cli.archive.common import tell
from ibi.errors import IbiError, SetupError
from ibi.texts import say

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES: Final = 20  # whoever needs more is not at the keyboard


def somebody_is_there() -> bool:
    """Whether a person can read questions and answer them."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str, proposal: str, check: Callable[[str], str]) -> str:
    """The answer to a question as `check` gives it back; what that refuses with an IbiError is asked for again.

    The question is in the reader's language already. An empty answer takes the proposal. Raises SetupError where no
    answer comes.
    """
    shown = f"{question} [{proposal}] " if proposal else f"{question} "
    for _ in range(_TRIES):
        print(shown, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            break
        try:
            return check(line.strip() or proposal)
        except IbiError as error:
            tell(say(error))
    raise SetupError("there was no answer that can be used; nothing was made")
