"""Answers that come later, without a task: the service looks something up elsewhere meanwhile (`Config.later`).

Only a request like the one before it on its connection is answered so: it is known to be one plain GET. Until its
answer is there, the connection is as while the application answers: bytes wait, and a stop waits for the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.http.server.upgrade import IgnoringUpgrades

if TYPE_CHECKING:
    from ibi.http.server.config import Answer, Config
    from ibi.http.server.head import Head

_LAST: Final = b"connection: close\r\n"


class _NoApplication:
    """Stands for the event by which uvicorn wakes an application."""

    def set(self) -> None:
        """Do nothing."""


class _AwaitedAnswer:
    """Stands where uvicorn has the task of a request (`cycle`), as far as connections ask it."""

    __slots__ = ("disconnected", "keep_alive", "response_complete")

    response_started = waiting_for_100_continue = False
    message_event = _NoApplication()

    def __init__(self) -> None:
        self.disconnected = self.response_complete = False
        self.keep_alive = True


class AnsweringLater(IgnoringUpgrades):
    """The part of a connection that waits for an answer of `Config.later`."""

    config: Config
    _peer = ""  # the address of the client
    _held = b""  # bytes that wait to be parsed
    _repeatable = (
        False  # whether a request with the same head as the last plain one may come, and nothing is under way
    )
    _declined = False  # whether `at_once` has declined the request already, and is not asked again

    @abstractmethod
    def _parse(self, data: bytes) -> None: ...

    @abstractmethod
    def _flush(self) -> None: ...

    def _answer_later(self, data: bytes, target: bytes, head: Head) -> bool:
        """Have `data`, a plain GET of this target, answered later; return False if the service declines."""
        awaited = _AwaitedAnswer()
        later = self.config.later
        if later is None or not later(target, head, self._peer, partial(self._answered, awaited, data)):
            return False
        self._unset_keepalive_if_required()
        self.cycle = awaited  # type: ignore[assignment]  # see its docstring
        self._repeatable = False
        return True

    def _answered(self, awaited: _AwaitedAnswer, data: bytes, answer: Answer | None) -> None:
        """Send the answer to `data`, or let the application answer it if there is none."""
        awaited.response_complete = True
        if awaited.disconnected or self.transport.is_closing():
            return
        if answer is None:
            self._declined = True
            self._parse(data)
            self._declined = False
            self._flush()
            return
        self._repeatable = awaited.keep_alive and not self._held
        status, rest = answer
        first = self.config.first_lines(status, self.server_state.default_headers)
        self.transport.write(first + rest if awaited.keep_alive else first + _LAST + rest)
        self.on_response_complete()
        if not awaited.keep_alive:
            self.transport.close()
