"""How a connection ends when the service stops: with an answer, if anything was asked (docs/contract.md, stopping).

The listening socket is closed first. An answer that is still to come says that it is the last one on its connection
(`Connection: close`). A connection on which nothing is under way is kept for a moment: its client may have asked in
the very moment in which we decided to stop, and what it sent may lie unread in this machine.
"""

from __future__ import annotations

import sys
import termios
from fcntl import ioctl
from typing import TYPE_CHECKING, Final

from ibi.serving import express

if TYPE_CHECKING:
    import asyncio

FIRST_WORD_SECONDS: Final = 1.0
"""How long a client that has connected and said nothing yet is waited for."""
LAST_WORD_SECONDS: Final = 0.25
"""How long a client that has been answered before is waited for."""


class Config(express.Config):
    """uvicorn's configuration, and whether the service is about to stop."""

    draining = False

    def stop(self) -> None:
        """Whatever is asked from now on is the application's to answer."""
        self.draining, self.at_once, self.at_once_head = True, None, None
        self.at_hand.clear()


class Protocol(express.Protocol):
    """A connection that leaves no question unanswered."""

    config: Config

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """A client has connected, perhaps in the last moment."""
        super().connection_made(transport)
        if self.config.draining:
            self._wait_for_a_word()

    def shutdown(self) -> None:
        """The service stops; every connection is told once."""
        if self._at_rest():
            self._wait_for_a_word()
        elif self.cycle is not None:
            self._announce_the_end()

    def on_headers_complete(self) -> None:
        """A request begins; if the service stops, its answer is the last one."""
        before = self.cycle
        super().on_headers_complete()
        if self.config.draining and self.cycle is not before:
            self._announce_the_end()

    def on_response_complete(self) -> None:
        """An answer has gone; one that began before the service stopped could not say that it was the last one."""
        super().on_response_complete()
        if self.config.draining and not self.transport.is_closing() and self._at_rest():
            self._wait_for_a_word()

    def _announce_the_end(self) -> None:
        if self.cycle.response_started:
            return
        if self._body is None:
            self.cycle.keep_alive = False
        else:  # uvicorn would close before it has read to the end, and the answer would be lost
            self._close_after = True

    def _at_rest(self) -> bool:
        return self._received == 0 and getattr(self.cycle, "response_complete", True)

    def _wait_for_a_word(self) -> None:
        answered = hasattr(self.cycle, "response_complete")  # at the beginning there is no cycle
        self.loop.call_later(LAST_WORD_SECONDS if answered else FIRST_WORD_SECONDS, self._leave)

    def _leave(self) -> None:
        if self.transport.is_closing() or not self._at_rest():
            return
        if _unread(self.transport):
            self._wait_for_a_word()
        else:
            self.transport.close()


def _unread(transport: asyncio.Transport) -> bool:
    """Whether something has come in that nobody has read yet."""
    try:
        count = ioctl(transport.get_extra_info("socket").fileno(), termios.FIONREAD, bytes(4))
    except OSError:
        return False
    return int.from_bytes(count, sys.byteorder) > 0
