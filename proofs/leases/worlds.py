"""Small worlds, explored to the end: every state that can be reached in them was looked at."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from proofs.common.report import Report, Scale
from proofs.leases.exploring import explore
from proofs.leases.messages import MessageModel, MessageWorld
from proofs.leases.processes import ProcessModel, ProcessWorld

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME: Final = "worlds"
HOLDS: Final = "no reader is led by an outdated answer; one request brings a lease back"

_DEPENDENT: Final = ((0, 1),)
_TWO: Final = ((0,), (1,))


class _Listed(NamedTuple):
    """A world, and the smallest form in which it is explored."""

    form: Scale
    world: MessageWorld | ProcessWorld


def _messages(form: Scale, name: str, **fields: object) -> _Listed:
    return _Listed(form, MessageWorld(name, **fields))  # type: ignore[arg-type]


def _processes(form: Scale, name: str, **fields: object) -> _Listed:
    return _Listed(form, ProcessWorld(name, **fields))  # type: ignore[arg-type]


_S, _M, _F = Scale.SHORT, Scale.MEDIUM, Scale.FULL

# Nothing is lost: (a). In the others (b).
_SAFE: Final = (
    _messages(_S, "2 changes", events={"changes": 2}, loss=False),
    _messages(_S, "1 change, forged notice, restart, an answer that rests on another item; notices forget at once",
              events={"changes": 1, "forged": 1, "kills": 1}, items=2, questions=_DEPENDENT, loss=False, hints=True),
)  # fmt: skip
