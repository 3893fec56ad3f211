"""The head of a request, and which host the request is for (RFC 9112 3.2; pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ibi.http.server.upgrade import is_in_another_protocol

if TYPE_CHECKING:
    from httptools import HttpRequestParser

BLANK_LINE: Final = b"\r\n\r\n"
"""Every head and every chunked body ends with it: httptools refuses line ends without a carriage return."""
READING: Final = frozenset({b"GET", b"HEAD"})
"""Methods of the fast path. It makes no request IDs, so neither does the application for these methods."""
WRITING: Final = frozenset({b"POST", b"PUT", b"PATCH", b"DELETE"})
"""Methods that may have a large body."""
UNUSUAL: Final = frozenset({b"content-length", b"transfer-encoding", b"expect", b"upgrade"})
"""Headers of requests that are never answered at once."""
TARGET: Final = bytes(range(0x21, 0x7F)).replace(b"#", b"")
"""The bytes that a target may have: visible ASCII without "#", so no blank, no line end, no fragment."""

REQUEST_ID: Final = b"x-request-id"
"""The header by which a request is found again in the logs of all servers that it came by."""

is_request_id: Final = re.compile(rb"[A-Za-z0-9._~-]{1,128}").fullmatch
"""Whether bytes may be taken as the ID of a request."""
_END_OF_AUTHORITY: Final = re.compile(rb"[/?#]")
is_host: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?").fullmatch
"""Whether bytes are a host and perhaps a port (RFC 3986 3.2.2), without a comma: one host, not a list."""


class Head(list[tuple[bytes, bytes]]):
    """The headers of a request, names in lower case.

    `parsed` belongs to the service: what it read from these headers, for the next request with the same.
    """

    parsed: object = None


def end_of_piece(data: bytes, begin: int, before: bytes, body_left: int) -> int:
    """Return where the piece at `begin` ends: with a head, with a body, or with the data.

    `before`: the last three bytes of an incomplete request, which may have the beginning of its blank line.
    """
    if body_left:
        return min(begin + body_left, len(data))
    found = (before + data[begin : begin + 3]).find(BLANK_LINE) if before else -1
    if found >= 0:
        return begin - len(before) + found + len(BLANK_LINE)
    found = data.find(BLANK_LINE, begin)
    return len(data) if found < 0 else found + len(BLANK_LINE)


def fault(headers: list[tuple[bytes, bytes]], parser: HttpRequestParser) -> str:
    """Return what is wrong with a head that is not a usual one; "" if nothing is."""
    by_name = dict(headers)
    host = by_name.get(b"host")
    # HTTP/1.0 knows no host (RFC 9112 3.2).
    good = parser.get_http_version() == "1.0" if host is None else is_host(host)
    if not good or (len(by_name) < len(headers) and [name for name, _ in headers].count(b"host") > 1):
        return "the request must name one host"
    if is_in_another_protocol(headers, parser):  # httptools would take the body for the next request (T34)
        return "a request for another protocol must have no body"
    return ""


def refusal(status: int, sentence: str) -> bytes:
    """Return the last answer of a connection."""
    head = f"HTTP/1.1 {status} Refused\r\ncontent-type: text/plain; charset=utf-8\r\n"
    size = f"content-length: {len(sentence) + 1}\r\nconnection: close\r\n\r\n"
    return f"{head}{size}{sentence}\n".encode()


def read_absolute_form(target: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the path and query of "http://host/path?query"; its host replaces the one in the headers.

    Any other target is returned as it is.
    """
    scheme, separator, rest = target.partition(b"://")
    if not separator or b"/" in scheme:
        return target
    authority = _END_OF_AUTHORITY.split(rest, maxsplit=1)[0]
    headers[:] = [(name, value) for name, value in headers if name != b"host"]
    headers.append((b"host", authority))
    path = rest[len(authority) :]
    return path if path.startswith(b"/") else b"/" + path
