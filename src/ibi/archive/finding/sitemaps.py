"""The sitemap of an Archive (sitemaps.org): an index, and sheets of at most 10,000 pages of items each.

An item stands on the sheet of its number for ever, so a sheet costs the same however many there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

from ibi.archive.finding.portion import SHEET
from ibi.archive.finding.results import page_of

if TYPE_CHECKING:
    from ibi.archive.finding.index import Index

MOST_SHEETS: Final = 50_000
"""Sheets that an index may name."""

_MOMENT: Final = "strftime('%Y-%m-%dT%H:%M:%SZ', modified, 'unixepoch')"
_SHEETS: Final = f"SELECT number, {_MOMENT} FROM sheet ORDER BY number LIMIT :most"  # noqa: S608 - our own words
_PAGES: Final = (
    f"SELECT name, {_MOMENT} FROM entry"  # noqa: S608 - our own words
    " WHERE number > :after AND number <= :last AND shown ORDER BY number"
)
_HEAD: Final = '<?xml version="1.0" encoding="UTF-8"?>'
_SPACE: Final = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def write_index(index: Index, base: str) -> bytes:
    """The index of the sheets. Raises BeingMade and SetupError."""
    lines = [
        f"<sitemap><loc>{escape(base)}/-/sitemap/{number}.xml</loc><lastmod>{moment}</lastmod></sitemap>"
        for number, moment in index.rows(_SHEETS, {"most": MOST_SHEETS})
    ]
    return _document("sitemapindex", lines)


def write_sheet(index: Index, base: str, number: int) -> bytes | None:
    """One sheet, counted from 1; None where there is none. Raises BeingMade and SetupError."""
    place = {"after": (number - 1) * SHEET, "last": number * SHEET}
    rows = index.rows(_PAGES, place)
    if not rows:
        return None
    lines = [
        f"<url><loc>{escape(base + page_of(name))}</loc><lastmod>{moment}</lastmod></url>"
        for name, moment in rows
    ]
    return _document("urlset", lines)


def _document(root: str, lines: list[str]) -> bytes:
    return "\n".join([_HEAD, f"<{root} {_SPACE}>", *lines, f"</{root}>", ""]).encode("utf-8", "replace")
