"""Formats in which items are described, and the choice among them by the header Accept (pure).

Only Dublin Core is written here; `ibi.web` brings the writers of the other formats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.item import write_oai_dc
from ibi.archive.model.relations import DUBLIN_CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.model.relations import Lookup

LONGEST_ACCEPT: Final = 2000
"""Characters of the header Accept that are read."""
MOST_RANGES: Final = 32
"""Media types in the header Accept that are read."""
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})
_WHATEVER: Final = frozenset({"*/*", "text/*", "application/*"})
_QUALITY: Final = re.compile(r"[01](?:\.[0-9]{0,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class DescribedItem:
    """An item and all that a format may write about it.

    `metadata`: its Dublin Core, its own or that of its metadata item; `base`: the beginning of the URLs of
    the Archive's pages and files; `root`: the beginning of persistent URLs; `archive`: the publisher if the
    metadata name none; `day`: the day of the request ("2026-11-22", UTC).
    """

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    base: str
    root: str
    archive: str
    day: str

    @property
    def url(self) -> str:
        """The persistent URL under which the item is to be cited."""
        return f"{self.root}/{self.holding.forms.main}"


@dataclass(frozen=True, slots=True)
class Format:
    """A format in which an item can be described.

    `name`: the value of `?format=`; `label`: the name for people; `media_types`: the media types by which it
    is requested, its own first; `write`: (item, options of the request such as "style") -> the document,
    raises NotHeld for an unknown option; `profile`: the URL of the format's specification, "" if none.
    """

    name: str
    label: str
    media_types: tuple[str, ...]
    write: Callable[[DescribedItem, Mapping[str, str]], bytes]
    profile: str = ""

    @property
    def content_type(self) -> str:
        """The header Content-Type of a document in this format."""
        kind = self.media_types[0]
        return f"{kind}; charset=utf-8" if kind.startswith("text/") or "bibtex" in kind else kind


class PreferredFormat(NamedTuple):
    """The choice by a header Accept: a format with its options; None for the page, or if none is accepted."""

    format: Format | None
    options: Mapping[str, str]
    page: bool
    """Whether the page is accepted."""


OAI_DC: Final = Format(
    DUBLIN_CORE,
    DUBLIN_CORE,
    ("application/xml", "text/xml"),
    lambda item, _options: write_oai_dc(item.metadata),
    "http://www.openarchives.org/OAI/2.0/oai_dc/",
)
"""Dublin Core in the format of OAI-PMH."""


def described(
    lookup: Lookup, holding: Holding, base: str, resolver: str, archive: str, day: str
) -> DescribedItem | None:
    """Return an item with its own metadata, or with those of its metadata item if held; None without any.

    `resolver`: the root URL of a resolver, "" if there is none: persistent URLs then start with this
    Archive's address, which resolves the items that it holds.
    """
    metadata = holding.metadata
    if metadata is None and holding.metadata_item is not None:
        other = lookup(holding.metadata_item.main)
        metadata = other.metadata if other is not None and not other.unsettled else None
    if metadata is None:
        return None
    return DescribedItem(holding, metadata, base, (resolver or base).rstrip("/"), archive, day)


def preferred_format(accept: str, formats: Sequence[Format]) -> PreferredFormat:
    """Choose a format by a header Accept. The page wins a tie with a format; a wildcard means the page."""
    if not accept.strip():
        return PreferredFormat(None, {}, page=True)
    page = explicit = 0.0
    best: tuple[float, Format, Mapping[str, str]] | None = None
    by_type = {kind: each for each in formats for kind in each.media_types}
    for kind, options, quality in _ranges(accept):
        if kind in _PAGES:
            explicit = max(explicit, quality)
        if kind in _PAGES or kind in _WHATEVER:
            page = max(page, quality)
        elif kind in by_type and quality > (best[0] if best else 0.0):
            best = (quality, by_type[kind], options)
    if best and best[0] >= page and best[0] > explicit:
        return PreferredFormat(best[1], best[2], page=page > 0)
    return PreferredFormat(None, {}, page=page > 0)


def _ranges(accept: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield (media type, parameters, quality) of each range, in lower case; an unreadable quality is 1."""
    # Bounded, because any client may send the header, and each range costs work (threat T30).
    for part in accept[:LONGEST_ACCEPT].lower().split(",")[:MOST_RANGES]:
        kind, *given = (each.strip() for each in part.split(";"))
        pairs = (each.partition("=") for each in given)
        parameters = {name.strip(): value.strip(' "') for name, _, value in pairs}
        quality = parameters.pop("q", "1")
        yield kind, parameters, float(quality) if _QUALITY.fullmatch(quality) else 1.0
