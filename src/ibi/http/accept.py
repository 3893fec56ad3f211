"""The header Accept, read in one place for all that is chosen by it (RFC 9110, 12.5.1; pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_ACCEPT: Final = 2000
"""Characters of the header Accept that are read."""
MOST_RANGES: Final = 32
"""Media types in the header Accept that are read."""
FORMAT_OPTIONS: Final = ("style", "locale")
"""The parameters of a media type that say how a format is to be written; so far only citations have such."""

PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})
"""The media types of pages for people."""
_WHATEVER: Final = frozenset({"*/*", "text/*", "application/*"})
_QUALITY: Final = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?", re.ASCII)


class MediaRange(NamedTuple):
    """One media type or range, with its parameters, all in lower case."""

    type: str
    parameters: Mapping[str, str]
    quality: float


class AcceptedFormat(NamedTuple):
    """The name of a format with its options; None for the page or the item itself, or if none is accepted."""

    name: str | None
    options: Mapping[str, str]
    page: bool
    """Whether the page, or the item in whatever form, is accepted."""


def media_ranges(accept: str) -> Iterator[MediaRange]:
    """Yield the ranges in their order; one whose quality cannot be read has the quality 1."""
    # Bounded, because any client may send the header, and each range costs work (T30: slow requests).
    for part in accept[:LONGEST_ACCEPT].lower().split(",")[:MOST_RANGES]:
        kind, *given = (each.strip() for each in part.split(";"))
        pairs = (each.partition("=") for each in given)
        parameters = {name.strip(): value.strip(' \t"') for name, _, value in pairs}
        quality = parameters.pop("q", "1")
        yield MediaRange(kind, parameters, float(quality) if _QUALITY.fullmatch(quality) else 1.0)


def accepted_format(accept: str, by_type: Mapping[str, str]) -> AcceptedFormat:
    """Choose among formats, each named by its media types; of those that are preferred alike, the first.

    A page wins a tie with a format. A wildcard means the page or the item: a format must be named.
    """
    if not accept.strip():
        return AcceptedFormat(None, {}, page=True)
    page = explicit = best = 0.0
    chosen = AcceptedFormat(None, {}, page=False)
    for kind, options, quality in media_ranges(accept):
        if kind in PAGES:
            explicit = max(explicit, quality)
        if kind in PAGES or kind in _WHATEVER:
            page = max(page, quality)
        elif kind in by_type and quality > best:
            best, chosen = quality, AcceptedFormat(by_type[kind], options, page=False)
    if chosen.name is not None and best >= page and best > explicit:
        return chosen._replace(page=page > 0)
    return AcceptedFormat(None, {}, page=page > 0)
