"""Atom feeds (RFC 4287): what is new and what has changed, newest first (pure)."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from ibi.protocol.language import LanguagePreference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.finding.results import Result
    from ibi.archive.holding import Statement

MOST: Final = 50
"""Items in a feed."""

MEDIA_TYPE: Final = "application/atom+xml"
LONGEST_SUMMARY: Final = 500
LONGEST_TITLE: Final = 500

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


class Feed(NamedTuple):
    """What a feed says of itself. `base` begins our URLs, `root` persistent ones; `path`: its own, with its query.

    `updated`: POSIX seconds, for one without items; `page`: the path of the page that shows the same.
    """

    base: str
    root: str
    path: str
    page: str
    title: str
    language: str
    updated: int


def write(feed: Feed, results: Sequence[Result]) -> bytes:
    """The feed as a document. Its id is its own URL; that of an entry is the persistent URL of its item."""
    newest = max((each.entry.stamp for each in results), default=feed.updated)
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang={_quoted(feed.language)}>',
        f"<id>{_text(feed.base + feed.path)}</id>",
        f"<title>{_text(feed.title)}</title>",
        f"<updated>{_moment(newest)}</updated>",
        f'<link rel="self" type="{MEDIA_TYPE}" href={_quoted(feed.base + feed.path)}/>',
        f'<link rel="alternate" type="text/html" href={_quoted(feed.base + feed.page)}/>',
        f"<author><name>{_text(feed.base)}</name></author>",
        *(_entry(feed, each) for each in results),
        "</feed>",
        "",
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def tag_of(body: bytes) -> str:
    """The ETag of a feed."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def best(statements: Sequence[Statement], language: str) -> Statement | None:
    """The statement that suits a reader of a language best; None if there is none."""
    by_language = {each.language: each for each in reversed(statements)}
    chosen = LanguagePreference.parse(language).choose([tag for tag in by_language if tag])
    return by_language[chosen] if chosen else statements[0] if statements else None


def _entry(feed: Feed, result: Result) -> str:
    title, summary = best(result.titles, feed.language), best(result.abstracts, feed.language)
    people = "".join(f"<author><name>{_text(person)}</name></author>" for person in result.people[:20])
    told = f"<summary>{_text(summary.value[:LONGEST_SUMMARY])}</summary>" if summary else ""
    return (
        f"<entry><id>{_text(f'{feed.root}/{result.name}')}</id>"
        f"<title>{_text((title.value if title else result.name)[:LONGEST_TITLE])}</title>"
        f"<updated>{_moment(result.entry.stamp)}</updated>"
        f'<link rel="alternate" type="text/html" href={_quoted(feed.base + result.page)}/>'
        f"{people}{told}</entry>"
    )


def _text(text: str) -> str:
    return escape(_clean(text))


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", _TURNING.sub("", text))


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
