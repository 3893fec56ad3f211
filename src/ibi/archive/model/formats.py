"""Formats in which items are described, and the choice among them by a header Accept (pure).

Only Dublin Core is written here; the writers of the other formats are given by `ibi.web`.
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
"""Characters of a header Accept that are read."""
MOST_RANGES: Final = 32
"""Media types of it that are read."""
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})
_WHATEVER: Final = frozenset({"*/*", "text/*", "application/*"})
_QUALITY: Final = re.compile(r"[01](?:\.[0-9]{0,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class DescribedItem:
    """An item and all that a format may write about it.

    `metadata`: its Dublin Core, its own or that of its metadata item; `base` begins the URLs of the Archive's pages
    and files, `root` those of persistent URLs; `archive` is the publisher where the metadata name none; `day`
    ("2026-11-22", UTC) is that of the request.
    """

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    base: str
    root: str
    archive: str
    day: str

    @property
    def url(self) -> str:
        """The persistent URL under which it is to be cited."""
        return f"{self.root}/{self.holding.forms.main}"


@dataclass(frozen=True, slots=True)
class Format:
    """A format in which an item can be described.

    `name`: as `?format=` has it; `label`: as people call it; `media_types`: those it is requested by, the first being
    its own; `write`: (item, options) -> the document; options are those of the request, such as "style". Raises NotHeld
    for an option that it does not have. `profile`: the URL of what it follows, "" if none.
    """

    name: str
    label: str
    media_types: tuple[str, ...]
    write: Callable[[DescribedItem, Mapping[str, str]], bytes]
    profile: str = ""

    @property
    def content_type(self) -> str:
        """The header Content-Type of a document in it."""
        kind = self.media_types[0]
        return f"{kind}; charset=utf-8" if kind.startswith("text/") or "bibtex" in kind else kind


class PreferredFormat(NamedTuple):
    """What a header Accept prefers: a format with its options; None for the page, or for nothing that exists here."""

    format: Format | None
    options: Mapping[str, str]
    page: bool
    """Whether the page would do."""


OAI_DC: Final = Format(
    DUBLIN_CORE,
    DUBLIN_CORE,
    ("application/xml", "text/xml"),
    lambda item, _options: write_oai_dc(item.metadata),
    "http://www.openarchives.org/OAI/2.0/oai_dc/",
)
"""Dublin Core as OAI-PMH has it."""


def described(
    lookup: Lookup, holding: Holding, base: str, resolver: str, archive: str, day: str
) -> DescribedItem | None:
    """Collect an item with its metadata, or with those of its metadata item if that is here; None if there are none.

    `resolver`: the root URL of one, "" if there is none: then this Archive's own address resolves what it holds.
    """
    metadata = holding.metadata
    if metadata is None and holding.metadata_item is not None:
        other = lookup(holding.metadata_item.main)
        metadata = other.metadata if other is not None and not other.unsettled else None
    if metadata is None:
        return None
    return DescribedItem(holding, metadata, base, (resolver or base).rstrip("/"), archive, day)


def preferred_format(accept: str, formats: Sequence[Format]) -> PreferredFormat:
    """Choose what a header Accept prefers. The page wins where both are wanted alike; a wildcard means the page."""
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
    """Yield (media type, parameters, quality) of each range, in lower case; unreadable ones are skipped."""
    # Bounded: the header comes from a stranger, and each range costs work (threat T30).
    for part in accept[:LONGEST_ACCEPT].lower().split(",")[:MOST_RANGES]:
        kind, *given = (each.strip() for each in part.split(";"))
        pairs = (each.partition("=") for each in given)
        parameters = {name.strip(): value.strip(' "') for name, _, value in pairs}
        quality = parameters.pop("q", "1")
        yield kind, parameters, float(quality) if _QUALITY.fullmatch(quality) else 1.0
