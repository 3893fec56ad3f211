"""Make the links of pages, files and metadata for programs: FAIR Signposting, levels 1 and 2 (pure).

    Link: </-/linkset/IBI?format=json>; rel="linkset"; type="application/linkset+json"

The head of an answer has only some of the links (proxies refuse long heads); the linkset (RFC 9264) has all.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.item import Access
from ibi.archive.model.record_values import author
from ibi.http.response import visible
from ibi.protocol.vocabulary import LINKSET, METADATA_FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ibi.archive.model.formats import DescribedItem, Format
    from ibi.archive.model.item import Holding, StoredFile
    from ibi.http.response import Headers

LONGEST_LINKS: Final = 2000
"""Bytes of links in the head of one answer."""

MOST_IN_HEAD: Final = 10
"""Links to files and authors in the head of one answer."""

MOST_IN_LINKSET: Final = 1000
"""Files of an item whose own links are in its linkset. The linkset itself links to every file."""

LINKSET_JSON, LINKSET_TEXT = METADATA_FORMATS[LINKSET]

_PAGE: Final = "text/html"
_SCHEMA: Final = "https://schema.org/"
_ABOUT_PAGE: Final = f"{_SCHEMA}AboutPage"
_FILE_TYPES: Final = {"image": "ImageObject", "video": "VideoObject", "audio": "AudioObject"}
_MANY: Final = frozenset({"author", "item"})


class Link(NamedTuple):
    """One link. `target`: a path of this Archive, or a URL; `type`: its media type; `profile`: a URL."""

    target: str
    relation: str
    type: str = ""
    profile: str = ""


# Cached: many links are the same for every item, and each link is written in the page and in its head.
@lru_cache(maxsize=1024)
def header(link: Link, anchor: str = "") -> str:
    """Write a link in the form of RFC 8288; `anchor`: its context, if that is not the served resource."""
    words = f'<{_visible(link.target)}>; rel="{link.relation}"'
    if anchor:
        words += f'; anchor="{_visible(anchor)}"'
    if link.type:
        words += f'; type="{_visible(link.type)}"'
    return f'{words}; profile="{_visible(link.profile)}"' if link.profile else words


_PLAIN: Final = re.compile(r"[!#-;=?-\[\]-~]*")


def _visible(text: str) -> str:
    """Encode characters that would end a link, or an attribute of a link."""
    return text if _PLAIN.fullmatch(text) else visible(text, '<>"\\')


@dataclass(frozen=True, slots=True)
class Signposting:
    """The links of one Archive's items.

    `base` begins the URLs of its pages, `root` persistent URLs; `formats`: the formats of metadata; `kind`:
    item -> its type in schema.org.
    """

    base: str
    root: str
    formats: Sequence[Format]
    kind: Callable[[DescribedItem], str]

    def of_page(
        self, holding: Holding, item: DescribedItem | None, day: str, most: int = MOST_IN_HEAD
    ) -> tuple[Link, ...]:
        """Return the links of the page about an item, at most `most` of them to files.

        `day` ("2026-11-22", UTC) is compared with the end of an embargo.
        """
        kind = self.kind(item) if item is not None else "CreativeWork"
        creators = item.metadata.get("creator", ()) if item is not None else ()
        authors = dict.fromkeys(author(statement.value).url for statement in creators)
        return (
            self.cite_as(holding),
            *_linksets(holding),
            Link(_ABOUT_PAGE, "type"),
            Link(f"{_SCHEMA}{kind}", "type"),
            *_licence(holding),
            *self._described_by(holding, item),
            *(Link(url, "author") for url in authors if url),
            *islice(_items(holding, day), most),
        )

    def of_metadata(self, holding: Holding) -> tuple[Link, ...]:
        """Return the links of the metadata of an item, in any format."""
        return (
            self.cite_as(holding),
            Link(_page(holding), "describes", _PAGE),
            *_linksets(holding),
        )

    def of_metadata_page(self, holding: Holding, item: DescribedItem | None) -> tuple[Link, ...]:
        """Return the links of the metadata page, with those to the other formats."""
        return (*self.of_metadata(holding), *self._described_by(holding, item))

    def of_file(self, holding: Holding, file: StoredFile | None) -> tuple[Link, ...]:
        """Return the links of a file of an item; with None, those of the whole item as one file."""
        kind = _FILE_TYPES.get(file.media_type.partition("/")[0], "DigitalDocument") if file else "Collection"
        return (
            self.cite_as(holding),
            Link(_page(holding), "collection", _PAGE),
            Link(f"{_SCHEMA}{kind}", "type"),
            *_licence(holding),
            *_linksets(holding),
        )

    def cite_as(self, holding: Holding) -> Link:
        """Return the link to the persistent URL by which an item is to be cited (RFC 8574)."""
        return Link(f"{self.root}/{holding.forms.main}", "cite-as")

    def linkset(self, holding: Holding, item: DescribedItem | None, day: str, kind: str) -> bytes:
        """Write all links of an item, of its files and of its metadata, as LINKSET_JSON or LINKSET_TEXT."""
        contexts = [*self._contexts(holding, item, day)]
        if kind == LINKSET_TEXT:
            lines = [header(link, anchor) for anchor, links in contexts for link in links]
            return (",\n".join(lines) + "\n").encode("ascii")
        sets = []
        for anchor, links in contexts:
            context: dict[str, Any] = {"anchor": anchor}
            for link in links:
                attributes = {"type": link.type, "profile": link.profile}
                known = {name: value for name, value in attributes.items() if value}
                context.setdefault(link.relation, []).append({"href": link.target, **known})
            sets.append(context)
        return f"{json.dumps({'linkset': sets}, indent=1)}\n".encode()

    def _contexts(
        self, holding: Holding, item: DescribedItem | None, day: str
    ) -> Iterator[tuple[str, list[Link]]]:
        """Yield pairs of a context and its links, all with absolute URLs."""

        def whole(target: str) -> str:
            return f"{self.base}{target}" if target.startswith("/") else target

        def context(target: str, links: Iterable[Link]) -> tuple[str, list[Link]]:
            return whole(target), [link._replace(target=_visible(whole(link.target))) for link in links]

        page = self.of_page(holding, item, day, 1 + len(holding.files))
        yield context(_page(holding), page)
        files = [link for link in page if link.relation == "item" and link.target.startswith("/")]
        # The links of every file of a large item would take megabytes.
        for link, file in zip(files[:MOST_IN_LINKSET], holding.files, strict=False):
            yield context(link.target, self.of_file(holding, file))
        for link in page:
            if link.relation == "describedby":
                yield context(link.target, self.of_metadata(holding))

    def _described_by(self, holding: Holding, item: DescribedItem | None) -> Iterator[Link]:
        if item is not None:
            for each in self.formats:
                where = f"/-/metadata/{holding.forms.main}?format={each.name}"
                yield Link(where, "describedby", each.media_types[0], each.profile)


def in_head(links: Iterable[Link]) -> tuple[Link, ...]:
    """Select links for the head of an answer: of authors and files only the first `MOST_IN_HEAD` together.

    Of formats that say the same in other spellings (JSON-LD, Turtle, RDF/XML), only the first is there.
    """
    distinct: dict[str | Link, Link] = {}
    for link in links:
        distinct.setdefault(link.profile or link, link)
    given = list(distinct.values())
    authors = [link for link in given if link.relation == "author"]
    items = [link for link in given if link.relation == "item"]
    # If there are many files, authors get only half: a paper may have thousands of authors.
    authors = authors[: max(MOST_IN_HEAD // 2, MOST_IN_HEAD - len(items))]
    kept, length = [], 0
    for link in (
        *(link for link in given if link.relation not in _MANY),
        *authors,
        *items[: MOST_IN_HEAD - len(authors)],
    ):
        length += len(header(link))
        if length <= LONGEST_LINKS:
            kept.append(link)
    return tuple(kept)


def headers(links: Iterable[Link]) -> Headers:
    """Return links as headers of an answer, one header each."""
    return tuple(("link", header(link)) for link in links)


def joined(links: Iterable[Link]) -> tuple[str, str]:
    """Return links as one header, because proxies that send the file themselves keep only one Link header."""
    return "link", ", ".join(header(link) for link in links)


def _page(holding: Holding) -> str:
    return f"/-/item/{holding.forms.main}"


def _linksets(holding: Holding) -> tuple[Link, Link]:
    where = f"/-/linkset/{holding.forms.main}"
    return (
        Link(f"{where}?format=json", "linkset", LINKSET_JSON),
        Link(f"{where}?format=text", "linkset", LINKSET_TEXT),
    )


def _licence(holding: Holding) -> tuple[Link, ...]:
    # A licence may be words such as "all rights reserved", which are no target of a link.
    of_the_web = holding.licence.lower().startswith(("http://", "https://"))
    return (Link(holding.licence, "license"),) if of_the_web else ()


def _items(holding: Holding, day: str) -> Iterator[Link]:
    """Yield links to the files of an item if it is open and its file list is public (SVC-10, SVC-12)."""
    if holding.access_on(day) is not Access.OPEN or not holding.file_list_public:
        return
    if holding.url.lower().startswith(("http://", "https://")):
        yield Link(holding.url, "item")
    for file in holding.files:
        yield Link(f"/col/{holding.forms.main}/doc/{file.name}", "item", file.media_type.partition(";")[0])
