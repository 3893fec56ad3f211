"""What a reader has already, and which part of a file is wanted (RFC 9110, chapters 13 and 14; pure)."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from ibi.exchange import Response

if TYPE_CHECKING:
    from ibi.exchange import Asked, Headers

_TAG = re.compile(r'(?:W/)?("[^"]*")')
_ONE_RANGE = re.compile(r"\s*bytes\s*=\s*(\d{0,18})\s*-\s*(\d{0,18})\s*", re.ASCII | re.IGNORECASE)


class Unsatisfiable(Exception):
    """The file has no such part."""


@lru_cache(maxsize=4096)
def http_date(timestamp: str) -> str:
    """A moment "2009-07-21T13:23:45Z" as headers write it."""
    return format_datetime(datetime.fromisoformat(timestamp).astimezone(UTC), usegmt=True)


def unchanged(asked: Asked, tag: str, timestamp: str) -> bool:
    """Whether the reader has this already: by its tag, or, where none was sent, by the moment of the last change."""
    tags = asked.header(b"if-none-match")
    if tags:
        return tags.strip() == "*" or tag.removeprefix("W/") in _TAG.findall(tags)
    since = asked.header(b"if-modified-since")
    if not since:
        return False
    try:
        read = parsedate_to_datetime(since)
        known = read if read.tzinfo else read.replace(tzinfo=UTC)
        return datetime.fromisoformat(timestamp) <= known
    except (ValueError, OverflowError):
        return False


def kept(asked: Asked, body: bytes, kind: str, cached: str, *further: tuple[str, str]) -> Response:
    """A document with a tag of its content, or that the reader has it already (304).

    `kind`: its media type; `cached`: what Cache-Control says of it; `further`: other headers of either answer.
    """
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers: Headers = (("etag", tag), ("cache-control", cached), *further)
    if asked.header(b"if-none-match") and unchanged(asked, tag, ""):
        return Response(304, headers=headers)
    return Response(200, body, kind, headers)


def part(asked: Asked, tag: str, size: int) -> tuple[int, int] | None:
    """Which part is wanted, as its first byte and its length; None for all of it. Raises Unsatisfiable.

    What is no single range gets all of it, as the standard allows; so does a part of something else (If-Range, by
    its strong tag: a date is no proof).
    """
    wanted = _ONE_RANGE.fullmatch(asked.header(b"range"))
    if wanted is None or asked.method != "GET" or asked.header(b"if-range").strip() not in {"", tag}:
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
