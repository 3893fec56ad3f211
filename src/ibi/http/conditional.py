"""Conditional requests and ranges: what a client has, and which part it wants (RFC 9110, 13, 14; pure)."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from ibi.http.response import Response

if TYPE_CHECKING:
    from ibi.http.request import Request
    from ibi.http.response import Headers

_TAG = re.compile(r'(?:W/)?("[^"]*")')
_ONE_RANGE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


class Unsatisfiable(Exception):
    """The file has no such part."""


@lru_cache(maxsize=4096)
def http_date(timestamp: str) -> str:
    """Write a time such as "2009-07-21T13:23:45Z" in the form of HTTP headers."""
    return format_datetime(datetime.fromisoformat(timestamp).astimezone(UTC), usegmt=True)


def unchanged(request: Request, tag: str, timestamp: str = "") -> bool:
    """Whether the client has this already, so that 304 answers it: by its tag or, if it sent none, by `timestamp`.

    `timestamp`: of the last change, "2009-07-21T13:23:45Z"; "" where only the tag decides.
    """
    tags = request.header(b"if-none-match")
    if tags:
        return tags.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(tags)
    since = request.header(b"if-modified-since")
    if not since or not timestamp:
        return False
    try:
        read = parsedate_to_datetime(since)
        known = read if read.tzinfo else read.replace(tzinfo=UTC)
        return datetime.fromisoformat(timestamp) <= known
    except (ValueError, OverflowError):
        return False


def tagged(request: Request, body: bytes, kind: str, cached: str, *further: tuple[str, str]) -> Response:
    """Return a document with an entity tag made from its content, or 304 if the client has it already.

    `kind`: its media type; `cached`: its Cache-Control; `further`: other headers of either answer.
    """
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers: Headers = (("etag", tag), ("cache-control", cached), *further)
    if unchanged(request, tag):
        return Response(304, headers=headers)
    return Response(200, body, kind, headers)


def part(request: Request, tag: str, size: int) -> tuple[int, int] | None:
    """Return the part that is wanted, as first byte and length; None for the whole. Raises Unsatisfiable.

    The client gets the whole also for several ranges, as RFC 9110 allows, and if its If-Range is not the
    strong tag of this file: then it has a part of another version. A date in If-Range proves nothing.
    """
    wanted = _ONE_RANGE.fullmatch(request.header(b"range"))
    if wanted is None or request.method != "GET" or request.header(b"if-range").strip() not in {"", tag}:
        return None
    first, last = wanted.groups()
    if not first and not last:
        return None
    if not first:
        length = min(int(last), size)
        if not length:
            raise Unsatisfiable
        return size - length, length
    start = int(first)
    if last and int(last) < start:
        return None  # no range at all
    if start >= size:
        raise Unsatisfiable
    end = min(int(last), size - 1) if last else size - 1
    return start, end - start + 1
