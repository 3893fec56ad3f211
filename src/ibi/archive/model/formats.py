"""Formats in which items are described (pure).

Only Dublin Core is written here; `ibi.web` brings the writers of the other formats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import write_oai_dc
from ibi.archive.model.relations import DUBLIN_CORE, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.item import Holding, MetadataValue
    from ibi.archive.model.relations import Lookup
    from ibi.identifier.forms import IBIForms


@dataclass(frozen=True, slots=True)
class DescribedItem:
    """An item and all that a format may write about it.

    `metadata`: its Dublin Core, its own or that of its metadata item; `base`: the beginning of the URLs of
    the Archive's pages and files; `root`: the beginning of persistent URLs; `archive`: the publisher if the
    metadata name none; `day`: the day of the request ("2026-11-22", UTC). `earlier`, `original`: see
    `archive.store.links.with_links`, which finds them.
    """

    holding: Holding
    metadata: Mapping[str, tuple[MetadataValue, ...]]
    base: str
    root: str
    archive: str
    day: str
    publisher: str = ""
    """The name of this institution, which is the publisher of items that are deposited here; "" for the Archive."""
    earlier: tuple[IBIForms, ...] = ()
    """The editions whose next edition it is."""
    original: str = ""
    """Of a copy that equals its original: the URL of the original; else ""."""

    @property
    def institution(self) -> str:
        """The name of the institution where it was deposited, or of this one; "" if neither has one."""
        names = self.holding.institution
        return names.get("") or next(iter(names.values()), self.publisher)

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
    metadata = metadata_of(lookup, holding)
    if metadata is None:
        return None
    return DescribedItem(holding, metadata, base, (resolver or base).rstrip("/"), archive, day)
