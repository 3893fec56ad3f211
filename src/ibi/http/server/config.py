"""What a connection needs to know of its service: the hooks of the fast path, the largest body, whether it stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ibi.http.server.connections import Connections
from ibi.http.server.head import Head
from ibi.http.server.turns import Turns

Answer = tuple[int, bytes]
"""The status and the rest of an answer: header lines, an empty line, the body."""

AtOnce = Callable[[bytes, bytes, Head, str], Answer | None]
"""Answers without waiting: takes the method (GET or HEAD), the raw target, the headers, and the client's
address ("" if there is none). None: the application has to answer."""

Repeat = Callable[[bytes, Head], Answer | None]
"""Returns again what `AtOnce` gave to a GET of this raw target with these headers, if that is still valid;
None: `AtOnce` is asked again. The target may be any bytes, because it is only compared."""

Later = Callable[[bytes, Head, str, Callable[[Answer | None], None]], bool]
"""Begins to answer a GET of this raw target, with these headers, of a client at this address, and returns whether it
does. It then calls the function once, in a later turn of the event loop: with the answer, or None, so that the
application answers."""


class Config(uvicorn.Config):
    """uvicorn's configuration, and what the protocol must know of its service.

    `largest_body`: bytes that the body of a method that writes may have, 0 where there is none. `connections` and
    `turns` of the service. `request_numbers`: for requests without an ID, which get sixteen hexadecimal digits.
    """

    connections: Connections
    turns: Turns
    request_numbers: Iterator[int]

    largest_body: int = 0
    at_once: AtOnce | None = None
    repeat: Repeat | None = None
    later: Later | None = None
    stopping = False
    # The beginning of an answer (status line and default headers) by status, and the list of default headers
    # that these were made of: uvicorn makes another list each second, for the date.
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
        """Leave all requests from now on to the application."""
        self.stopping, self.at_once, self.repeat, self.later = True, None, None, None
