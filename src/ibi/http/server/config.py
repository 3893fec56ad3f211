"""What a connection must know of its service: the hooks of the fast path, the largest body, whether it stops."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ibi.http.server.connections import Connections
from ibi.http.server.head import Head
from ibi.http.server.turns import Turns

Answer = tuple[int, bytes]
"""The status and the rest of an answer: header lines, an empty line, the body."""

AtOnce = Callable[[bytes, bytes, Head, str], Answer | None]
"""In: the method, GET or HEAD; the target as it came; the headers; the address of the client ("" where there is none).
Out: the answer; None: the application answers."""

Repeat = Callable[[bytes, Head], Answer | None]
"""In: a target as it came in a GET, and headers that `AtOnce` has seen. Out: what it gave for this very target, if that
still holds; None: it is asked again. The target may be anything: it is compared, and not read."""


class Config(uvicorn.Config):
    """uvicorn's configuration, and what the protocol must know of its service.

    `largest_body`: bytes that the body of a method that writes may have, 0 where there is none. `connections` and
    `turns` of the service.
    """

    connections: Connections
    turns: Turns

    largest_body: int = 0
    at_once: AtOnce | None = None
    repeat: Repeat | None = None
    stopping = False
    # The status lines and headers that answers begin with, by status, and the default headers that these were made of:
    # uvicorn makes others each second, for the date.
    known_first_lines: dict[int, bytes]
    first_lines_of: object = None

    def first_lines(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the status line and the headers that every answer begins with, made once for each second."""
        if headers is not self.first_lines_of:
            self.first_lines_of, self.known_first_lines = headers, {}
        lines = self.known_first_lines.get(status)
        if lines is None:
            headers_of_all = (b"%b: %b\r\n" % header for header in headers)
            lines = self.known_first_lines[status] = b"".join((STATUS_LINE[status], *headers_of_all))
        return lines

    def stop(self) -> None:
        """Leave everything that comes from now on to the application."""
        self.stopping, self.at_once, self.repeat = True, None, None
