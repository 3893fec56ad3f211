"""What is sent: one GET, and of ourselves only who we are."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.transport.address import HostPort

#: What marks our requests in the header CDN-Loop (RFC 8586): a resolver refuses requests that carry it, so two
#: resolvers registered as each other's Archives do not talk for ever.
LOOP_NAME = "ibi-resolver"

Path = NewType("Path", bytes)
"""The first part of a target, as `part_of` has checked it; up to the question mark, if the target is to have one."""
Query = NewType("Query", bytes)
"""The rest of it, likewise; the same for all who are asked the same."""
Target = str | tuple[Path, Query]
"""What is asked for: "/path?query", or the two parts of that."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "cdn-loop", "te"}
)


def head_of(where: HostPort) -> bytes:
    """Every header that we send to all, and what stands before them: whom we mean, and who we are."""
    lines = [
        " HTTP/1.1",
        f"Host: {where}",
        f"User-Agent: {_USER_AGENT}",
        "Accept: text/plain, */*;q=0.1",
        "Accept-Encoding: identity",
        "Connection: keep-alive",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def path_of(text: str) -> Path:
    """The first part of targets. Raises ValueError."""
    if not text.startswith("/"):
        raise ValueError(_BAD_TARGET)
    return Path(_visible(text))


def query_of(text: str) -> Query:
    """The second part, with its question mark. Raises ValueError."""
    return Query(_visible(text))


def _visible(text: str) -> bytes:
    if not (text.isascii() and text.isprintable() and " " not in text):
        raise ValueError(_BAD_TARGET)
    return text.encode("ascii")


def more_of(headers: Sequence[tuple[str, str]], loop: str) -> bytes:
    """What stands after the headers for all, to the end of the head. Raises ValueError."""
    if not _VALUE.fullmatch(loop):
        problem = f"the header CDN-Loop cannot be {loop!r}"
        raise ValueError(problem)
    lines = [f"CDN-Loop: {loop}\r\n"]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _VALUE.fullmatch(value):
            problem = f"the header {name!r} cannot be sent"
            raise ValueError(problem)
        lines.append(f"{name}: {value}\r\n")
    return "".join([*lines, "\r\n"]).encode("ascii")


def written(target: Target, end: bytes, longest: int) -> bytes:
    """A whole request: a target of `longest` characters at most, and all that stands after it.

    A fault in it is the caller's, so it is a ValueError.
    """
    path, query = (path_of(target), b"") if isinstance(target, str) else target
    if len(path) + len(query) > longest:
        raise ValueError(_BAD_TARGET)
    return b"GET " + path + query + end


def _user_agent() -> str:
    try:
        return f"ibi/{version('ibi')}"
    except PackageNotFoundError:
        return "ibi"


_BAD_TARGET = "a target starts with '/' and has only visible ASCII characters, not too many"
USUAL = more_of((), LOOP_NAME)
"""What stands there in a request without headers of its own."""
_USER_AGENT = _user_agent()
