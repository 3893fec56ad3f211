"""Passes a trace on: the header `traceparent` of a request in those that are sent for it (W3C Trace Context)."""

from __future__ import annotations

import re
from os import urandom
from typing import Final

TRACEPARENT: Final = b"traceparent"

_VALID: Final = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?P<trace>(?!0{32})[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})"
    r"(?P<more>-[!-~]*)?",
    re.ASCII,
)


def child_headers(parent: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of requests that belong to a traceparent: a new span; () for one that is not valid."""
    found = _VALID.fullmatch(parent)
    if found is None or (found["version"] == "00" and found["more"]):
        return ()
    sampled = int(found["flags"], 16) & 1  # the only flag of version 00
    return ((TRACEPARENT.decode(), f"00-{found['trace']}-{urandom(8).hex()}-{sampled:02x}"),)
