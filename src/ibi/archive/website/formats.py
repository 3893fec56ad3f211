"""Ways to write what is known of an item, and which of them who asks wants (pure).

The writers themselves are given from above, with the renderer; Dublin Core we write here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.dublin_core import write_oai_dc
from ibi.archive.related import DUBLIN_CORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ibi.archive.holding import Holding, Statement
    from ibi.archive.related import Lookup

LONGEST_ACCEPT: Final = 2000
MOST_RANGES: Final = 32
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})
_WHATEVER: Final = frozenset({"*/*", "text/*", "application/*"})
_QUALITY: Final = re.compile(r"[01](?:\.[0-9]{0,3})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Described:
    """An item and all that a format may say of it.

    `metadata`: its Dublin Core, its own or that of its metadata item; `base` begins the URLs of the Archive's pages
    and files, `root` those under which persistent URLs work; `archive` stands for a publisher that nobody names;
    `day` ("2026-11-22", UTC) is that of the reader's visit.
    """

    holding: Holding
    metadata: Mapping[str, tuple[Statement, ...]]
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
    """One way to write what is known of an item.

    `name`: as `?format=` has it; `label`: as people call it; `media_types`: under which it is asked for, of which the
    first is told with it; `write`: (item, options) -> the document; options are those of the request, such as
    "style". Raises NotHeld for an option that it does not have. `profile`: the URL of what it follows, "" if none.
    """

    name: str
    label: str
    media_types: tuple[str, ...]
    write: Callable[[Described, Mapping[str, str]], bytes]
    profile: str = ""

    @property
    def content_type(self) -> str:
        """What a document in it is served as."""
        kind = self.media_types[0]
        return f"{kind}; charset=utf-8" if kind.startswith("text/") or "bibtex" in kind else kind


class Wanted(NamedTuple):
    """What a header Accept asks for: a format with its options; None: the page, or nothing that exists here."""

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
) -> Described | None:
    """An item with its metadata, or with those of its metadata item if that is here; None if there are none.

    `resolver`: the root URL of one, "" if there is none: then our own address resolves what is held.
    """
    metadata = holding.metadata
    if metadata is None and holding.metadata_item is not None:
        other = lookup(holding.metadata_item.main)
        metadata = other.metadata if other is not None else None
    if metadata is None:
        return None
    return Described(holding, metadata, base, (resolver or base).rstrip("/"), archive, day)


def wanted(accept: str, formats: Sequence[Format]) -> Wanted:
    """What a header Accept prefers. The page wins where both are wanted alike; a wildcard means the page."""
    if not accept.strip():
        return Wanted(None, {}, page=True)
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
        return Wanted(best[1], best[2], page=page > 0)
    return Wanted(None, {}, page=page > 0)


def _ranges(accept: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """(media type, parameters, quality) of each range, in lower case; what cannot be read is passed over."""
    for part in accept[:LONGEST_ACCEPT].lower().split(",")[:MOST_RANGES]:
        kind, *given = (each.strip() for each in part.split(";"))
        pairs = (each.partition("=") for each in given)
        parameters = {name.strip(): value.strip(' "') for name, _, value in pairs}
        quality = parameters.pop("q", "1")
        yield kind, parameters, float(quality) if _QUALITY.fullmatch(quality) else 1.0
