"""The head of a request, and which host the request is for (RFC 9112 3.2; pure)."""

from __future__ import annotations

import re
from typing import Final

BLANK_LINE: Final = b"\r\n\r\n"
"""Every head and every chunked body ends with it: httptools refuses line ends without a carriage return."""
READING: Final = frozenset({b"GET", b"HEAD"})
"""Methods that may be answered at once; such an answer has no ID that was made, so no other one has it either."""
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


def is_twice(name: bytes, headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether a header occurs more than once."""
    return [each for each, _ in headers].count(name) > 1


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
