"""What is sent: one GET, and of ourselves only who we are."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.transport.address import HostPort

#: What marks our requests in the header CDN-Loop (RFC 8586): a resolver refuses requests that carry it, so two
#: resolvers registered as each other's Archives do not talk for ever.
LOOP_NAME = "ibi-resolver"

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\x20-\x7e]*", re.ASCII)
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "cdn-loop", "te"}
)


def head_of(where: HostPort) -> bytes:
    """Every header that we send to all: whom we mean, and who we are."""
    lines = [
        f"Host: {where}",
        f"User-Agent: {_USER_AGENT}",
        "Accept: text/plain, */*;q=0.1",
        "Accept-Encoding: identity",
        "Connection: keep-alive",
    ]
    return "".join(f"{line}\r\n" for line in lines).encode("ascii")


def _more(headers: Sequence[tuple[str, str]], loop: str) -> bytes:
    """The headers of one request. Raises ValueError."""
    if not _VALUE.fullmatch(loop):
        problem = f"the header CDN-Loop cannot be {loop!r}"
        raise ValueError(problem)
    lines = [f"CDN-Loop: {loop}\r\n"]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS or not _VALUE.fullmatch(value):
            problem = f"the header {name!r} cannot be sent"
            raise ValueError(problem)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("ascii")


def written(head: bytes, target: str, headers: Sequence[tuple[str, str]], loop: str, longest: int) -> bytes:
    """A whole request: `head` is `head_of` its peer, and a target has `longest` characters at most.

    A fault in it is the caller's, so it is a ValueError.
    """
    visible = target.isascii() and target.isprintable() and " " not in target
    if not (visible and target.startswith("/") and len(target) <= longest):
        problem = "a target starts with '/' and has only visible ASCII characters, not too many"
        raise ValueError(problem)
    more = _more(headers, loop) if headers or loop != LOOP_NAME else _LOOP
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (target.encode("ascii"), head, more)


def _user_agent() -> str:
    try:
        return f"ibi/{version('ibi')}"
    except PackageNotFoundError:
        return "ibi"


_LOOP = _more((), LOOP_NAME)
_USER_AGENT = _user_agent()
