"""Questions at a terminal: each has a proposal, and an answer that cannot be used is asked for again."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING, Final

from ibi.cli.common import tell
from ibi.errors import IbiError, SetupError

if TYPE_CHECKING:
    from collections.abc import Callable

TRIES: Final = 20
"""After so many refused answers the command ends, because a script is typing, not a person."""


# A documentation address (RFC 5737). Connecting a datagram socket sends nothing, but shows our own address.
_SOMEWHERE: Final = ("203.0.113.1", 9)


def has_terminal() -> bool:
    """Return whether a person can be asked: questions go to stderr, and answers come from stdin."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask(
    question: str,
    proposal: str,
    check: Callable[[str], str],
    doubt: Callable[[str], IbiError | None] = lambda _: None,
) -> str:
    """Ask a question until `check` accepts the answer, and return what `check` returns.

    `question` is already in the reader's language. An empty answer stands for the proposal. An answer with a `doubt`
    is accepted when it is given a second time. Raises SetupError if no usable answer comes.
    """
    prompt = question + (f" [{proposal}] " if proposal else " ")
    doubted = ""
    for _ in range(TRIES):
        print(prompt, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
        if not line:
            print(file=sys.stderr)
            break
        try:
            answer = check(line.strip() or proposal)
        except IbiError as error:
            tell(error)
            continue
        problem = doubt(answer)
        if problem is None or answer == doubted:
            return answer
        doubted = answer
        tell(problem)
        tell("Give the same answer again if it is right nevertheless.")
    raise SetupError("there was no answer that can be used; nothing was made")


def usable(check: Callable[[str], str], proposal: str) -> str:
    """Return the proposal if `check` accepts it, otherwise ""."""
    try:
        return check(proposal)
    except IbiError:
        return ""


def own_address() -> str:
    """Return the local address from which this machine reaches the internet; "" if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_SOMEWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return ""
