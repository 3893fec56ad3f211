"""Atom feeds (RFC 4287) of new and changed items, and the sitemap of an Archive (sitemaps.org).

The sitemap consists of an index, and of sheets with at most 10,000 pages of items each. The number of an item
determines its sheet for ever, so the cost of a sheet does not grow with the number of items. It is the resource list
of ResourceSync, too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from ibi.archive.model.item_json import timestamp_text
from ibi.archive.search import resource_sync
from ibi.archive.search.index_writer import SHEET
from ibi.archive.search.search import page_of
from ibi.protocol.language import LanguagePreference

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import MetadataValue
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.search.search import SearchHit


MOST: Final = 50
"""Items in a feed."""

MEDIA_TYPE: Final = "application/atom+xml"
LONGEST_SUMMARY: Final = 500
"""Characters of a summary in a feed."""
LONGEST_TITLE: Final = 500
"""Characters of a title in a feed."""

_DC: Final = "http://purl.org/dc/elements/1.1/"
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Marks of writing direction: in a title they would reverse text on a page that shows the feed.
_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


class Feed(NamedTuple):
    """The head of a feed. `base`: the beginning of this Archive's URLs; `root`: that of persistent URLs.

    `path`: the path of the feed with its query; `page`: the path of the page with the same items; `updated`:
    POSIX seconds, used if the feed has no items. `author`: the name of the Archive; `publisher`: that of items that
    name none.
    """

    base: str
    root: str
    path: str
    page: str
    title: str
    language: str
    updated: int
    author: str
    publisher: str


def write_feed(feed: Feed, results: Sequence[SearchHit]) -> bytes:
    """Return the feed as a document. Its id is its URL; the id of an entry is the item's persistent URL."""
    newest = max((each.entry.stamp for each in results), default=feed.updated)
    lines = [
        _HEAD,
        f'<feed xmlns="http://www.w3.org/2005/Atom" xmlns:dc={_quoted(_DC)} xml:lang={_quoted(feed.language)}>',
        f"<id>{_text(feed.base + feed.path)}</id>",
        f"<title>{_text(feed.title)}</title>",
        f"<updated>{timestamp_text(newest)}</updated>",
        f'<link rel="self" type="{MEDIA_TYPE}" href={_quoted(feed.base + feed.path)}/>',
        f'<link rel="alternate" type="text/html" href={_quoted(feed.base + feed.page)}/>',
        f"<author><name>{_text(feed.author)}</name><uri>{_text(feed.base)}/</uri></author>",
        f"<dc:publisher>{_text(feed.publisher)}</dc:publisher>",
        *(_entry(feed, each) for each in results),
        "</feed>",
        "",
    ]
    return "\n".join(lines).encode("utf-8", "replace")


def best_value(statements: Sequence[MetadataValue], language: str) -> MetadataValue | None:
    """Return the value that suits a reader of a language best; None if there are no values."""
    if len(statements) <= 1:
        return statements[0] if statements else None
    by_language = {each.language: each for each in reversed(statements)}
    chosen = LanguagePreference.parse(language).choose([tag for tag in by_language if tag])
    return by_language[chosen] if chosen else statements[0]


def _entry(feed: Feed, result: SearchHit) -> str:
    title, summary = best_value(result.titles, feed.language), best_value(result.abstracts, feed.language)
    people = "".join(f"<author><name>{_text(person)}</name></author>" for person in result.people[:20])
    summary_element = f"<summary>{_text(summary.value[:LONGEST_SUMMARY])}</summary>" if summary else ""
    return (
        f"<entry><id>{_text(f'{feed.root}/{result.name}')}</id>"
        f"<title>{_text((title.value if title else result.name)[:LONGEST_TITLE])}</title>"
        f"<updated>{timestamp_text(result.entry.stamp)}</updated>"
        f'<link rel="alternate" type="text/html" href={_quoted(feed.base + result.page)}/>'
        f"{people}{summary_element}<dc:publisher>{_text(_publisher(feed, result))}</dc:publisher></entry>"
    )


def _publisher(feed: Feed, result: SearchHit) -> str:
    """Return the publisher of an item as its formats have it, in the language of the feed."""
    stated = best_value(result.metadata.get("publisher", ()), feed.language)
    if stated is not None:
        return stated.value[:LONGEST_TITLE]
    names = result.holding.institution
    return names.get(feed.language.partition("-")[0]) or names.get("") or feed.publisher


def _text(text: str) -> str:
    return escape(_clean(text))


def _quoted(text: str) -> str:
    return quoteattr(_clean(text))


def _clean(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", _TURNING.sub("", text))


MOST_SHEETS: Final = 50_000
"""Sheets that the index of a sitemap may name."""

_MOMENT: Final = "strftime('%Y-%m-%dT%H:%M:%SZ', modified, 'unixepoch')"
_SHEETS: Final = f"SELECT number, {_MOMENT} FROM sheet ORDER BY number LIMIT :most"  # noqa: S608 - our own words
_PAGES: Final = (
    f"SELECT name, {_MOMENT} FROM entry"  # noqa: S608 - our own words
    " WHERE number > :after AND number <= :last AND shown ORDER BY number"
)


def write_index(index: SearchIndex, base: str, at: float) -> bytes:
    """Return the index of the sheets; `at`: as for `resource_sync`. Raises IndexNotReady and SetupError."""
    lines = [
        f"<sitemap><loc>{escape(base)}/-/sitemap/{number}.xml</loc><lastmod>{moment}</lastmod></sitemap>"
        for number, moment in index.rows(_SHEETS, {"most": MOST_SHEETS})
    ]
    return resource_sync.document("sitemapindex", resource_sync.of_resource_list(base, at), lines)


def write_sheet(index: SearchIndex, base: str, number: int, at: float) -> bytes | None:
    """Return one sheet, counted from 1; None if it does not exist. Raises IndexNotReady and SetupError."""
    place = {"after": (number - 1) * SHEET, "last": number * SHEET}
    rows = index.rows(_PAGES, place)
    if not rows:
        return None
    lines = [
        f"<url><loc>{escape(base + page_of(name))}</loc><lastmod>{moment}</lastmod></url>"
        for name, moment in rows
    ]
    head = resource_sync.of_resource_list(base, at, resource_sync.SITEMAP)
    return resource_sync.document("urlset", head, lines)
