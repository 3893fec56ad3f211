"""Prepare the values for the template of an item's page: worded, selected and shortened for one reader."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from ibi.archive.model.item import Access, MetadataValue
from ibi.archive.model.record_values import ADVISER, author, contributor, date_in, name_in
from ibi.archive.search.feeds import best_value
from ibi.runtime.i18n import say
from ibi.web.formats import CITATION, FORMATS, citation, embedded
from ibi.web.formats.citation import STYLES
from ibi.web.formats.record import Text, clean, record
from ibi.web.licences import licence_of
from ibi.web.rendering import day, escape_text, web_link

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ibi.archive.model.editions import ItemVersion
    from ibi.archive.model.item import Holding
    from ibi.archive.model.record_values import Author
    from ibi.archive.pages.models import ItemPage
    from ibi.archive.pages.signposting import Link
    from ibi.archive.store.tables.usage import UsageCounts


def link_elements(links: Iterable[Link]) -> Markup:
    """Write links as HTML elements, one a line; only links to this service and to the Web."""
    # Written in Python because it is faster than the template, and an item page has dozens of links and tags.
    lines = []
    for link in links:
        where = link.target if link.target.startswith("/") else web_link(link.target)
        if where:
            kind = f' type="{_escaped_type(link.type)}"' if link.type else ""
            lines.append(f'<link rel="{link.relation}" href="{escape_text(where)}"{kind}>')
    return Markup("\n".join(lines))  # noqa: S704 - every text in it is escaped


_escaped_type: Final = lru_cache(maxsize=64)(escape_text)  # of the formats, the same on every page


def tag_elements(tags: Iterable[tuple[str, str]]) -> Markup:
    """Write (name, content) of each tag as a meta element, one a line."""
    lines = (f'<meta name="{name}" content="{escape_text(content)}">' for name, content in tags)
    return Markup("\n".join(lines))  # noqa: S704 - the names are ours, and every content is escaped


MOST_FILES: Final = 20
"""Files on the page; another page lists all files."""

MOST_PEOPLE: Final = 30
"""People on the page; the metadata page lists all."""

LONGEST_TEXT: Final = 4000
"""Characters of an abstract on the page."""

LONGEST_TITLE: Final = 300
"""Characters of a title where an item is only named, as in a list; its own page shows the whole title."""

_MOST_SUBJECTS: Final = 30  # subjects that are shown
_MOST_TITLES: Final = 10  # titles that are shown
_PREVIEW: Final = 300  # characters of an abstract in the description of a page
_LONGEST_QUOTED: Final = 1500  # characters of an abstract inside references and for programs
_MOST_RELATIONS: Final = 20  # elements `relation` that are listed
_MOST_TRANSLATED: Final = 3  # titles in other languages below the title
_REFERENCES: Final = (("BibTeX", citation.write_bibtex),)
_BAR: Final = 20  # width of one month in a chart
_HEIGHT: Final = 60  # height of a chart

ACCESS_WORDS: Final = {
    Access.OPEN: "Open access",
    Access.EMBARGOED: "Embargoed until {moment}",
    Access.RESTRICTED: "Restricted (licensed networks)",
    Access.CLOSED: "Closed",
}
"""Access of an item -> who may have the data, in words."""

HAPPENED: Final = {
    "deposited": "deposited",
    "imported": "imported from a data file",
    "harvested": "harvested from another repository",
    "copied": "copied from another Archive",
    "refreshed": "made equal to its original again",
    "edited": "edited",
    "removed": "removed",
    "repaired": "a file was repaired",
    "received": "received from another Archive as the original",
    "given": "given to another Archive, kept here as a copy",
    "returned": "taken back as the original, since the other Archive did not take it",
    "settled": "settled after it came back from a backup",
    "dropped": "its files were removed after it was given to another Archive",
}
"""Event of an item -> words."""

FAULTS: Final = {
    "missing": "missing at the last audit",
    "size": "of another size at the last audit",
    "digest": "changed at the last audit",
    "unreadable": "unreadable at the last audit",
}
"""Fault of a file -> words."""


def _related(text: str, root: str) -> tuple[str, str]:
    """Return what an element `relation` says, and where that leads; "" if it names neither an item nor a page."""
    name = name_in(text)
    return clean(text), f"{root}/{name}" if name is not None and root else web_link(text.strip())


def values(page: ItemPage, language: str) -> dict[str, Any]:
    """Return the values for the template of the page."""
    holding, root = page.holding, page.place.root
    metadata = (page.described.metadata if page.described else holding.metadata) or {}
    abstract = best(metadata, "description", language)
    shown = title(holding, language, metadata)
    return {
        "page": page,
        "holding": holding,
        "main": str(holding.forms.main),
        "place": page.place,
        "title": shown,
        "translated": [
            each for each in metadata.get("title", ()) if clean(each.value) not in {"", clean(shown)}
        ][:_MOST_TRANSLATED],
        "title_language": _language_of(best(metadata, "title", language)),
        "abstract": abstract and MetadataValue(_cut(abstract.value, LONGEST_TEXT), abstract.language),
        "preview": _cut(clean(abstract.value), _PREVIEW) if abstract else "",
        "people": _people(metadata, "creator"),
        "advisers": [each for each in _people(metadata, "contributor") if each.role == ADVISER],
        "helpers": [each for each in _people(metadata, "contributor") if each.role != ADVISER],
        "relations": [_related(each.value, root) for each in metadata.get("relation", ())[:_MOST_RELATIONS]],
        "root": root,
        "persistent": [f"{root}/{name}" for name in holding.names] if root else [],
        "last_edition": f"{root}/{holding.forms.main}?ibiurl.verblist=GetLastEdition",
        "access": _access(page, language),
        "chip": access_chip(holding, _open(page), language),
        "chip_class": _open(page).value,
        "licence": licence_of(holding.licence),
        "size_of_all": sum(each.size for each in holding.files),
        "formats": labelled(page.formats),
        "translations": [_edition_link(each, page, language) for each in page.translations],
        "files": holding.files[:MOST_FILES],
        "checked": _checked(page),
        "faults": FAULTS,
        "links": link_elements(page.links),
        **_editions(page, language),
        **_happened(page),
        **_used(page),
        **_cited(page, language),
    }


def _editions(page: ItemPage, language: str) -> dict[str, Any]:
    """Return the editions, oldest first, and the last one that is known if it is not the item itself."""
    editions = [_edition_link(each, page, language) for each in page.editions.versions]
    newer = editions[-1] if editions and not editions[-1]["version"].here else None
    return {"editions": editions, "newer": newer}


def _happened(page: ItemPage) -> dict[str, Any]:
    """Return what happened to the item, and when it was last changed."""
    return {
        # What happened here may be newer than the item: a copy was taken, an older item was imported.
        "changed": max((event.moment for event in page.history), default=page.holding.timestamp),
        "happened": [(event.moment, HAPPENED.get(event.what, event.what)) for event in page.history],
    }


def _used(page: ItemPage) -> dict[str, Any]:
    """Return how often the item was visited, for its chart."""
    counts = [each for _, each in page.figures]
    return {
        "chart": bars(page.figures),
        "views": sum(each.investigations for each in counts),
        "downloads": sum(each.requests for each in counts),
    }


def _checked(page: ItemPage) -> str:
    """Return since when all files are known to be unchanged; "" if one was not audited or has a fault."""
    audits = [(file, page.fixity.get(file.name)) for file in page.holding.files]
    good = [audit.good for file, audit in audits if audit and audit.is_of(file) and not audit.fault]
    return min(good, default="") if len(good) == len(audits) else ""


def _cited(page: ItemPage, language: str) -> dict[str, Any]:
    """Return citations, references, tags and JSON-LD of an item; empty ones for an item without metadata."""
    if page.described is None:
        return {"record": None, "citations": (), "references": (), "tags": "", "json_ld": ""}
    item, day_of_visit = record(page.described), page.described.day
    # Shortened for the page: enough to cite the item, but never too long for a page.
    parts: dict[str, Any] = {
        "titles": _quoted(item.titles[:_MOST_TITLES]),
        "creators": item.creators[: embedded.MOST],
        "contributors": item.contributors[:MOST_PEOPLE],
        "subjects": item.subjects[:_MOST_SUBJECTS],
        "descriptions": _quoted(item.descriptions[:2]),
        "files": item.files[:MOST_FILES],
    }
    shortened = {name: part for name, part in parts.items() if part is not getattr(item, name)}
    known = replace(item, **shortened) if shortened else item
    return {
        "record": known,
        "citations": [(name.upper(), write(known, language, day_of_visit)) for name, write in STYLES.items()],
        "references": [(name, write(known).decode("utf-8")) for name, write in _REFERENCES],
        "tags": tag_elements(embedded.tags(known, f"{page.place.base}/-/item/{page.holding.forms.main}")),
        "json_ld": Markup(embedded.write(known, indent=None).decode()),  # noqa: S704 - none of its letters ends an element
    }


def title(
    holding: Holding, language: str, metadata: Mapping[str, tuple[MetadataValue, ...]] | None = None
) -> str:
    """Return the title of an item in the reader's language, or its name if it has no title."""
    found = best(metadata or holding.metadata or {}, "title", language)
    return found.value if found and found.value.strip() else str(holding.forms.main)


def short_title(holding: Holding, language: str) -> str:
    """Return the title of an item, cut to LONGEST_TITLE, for a list."""
    return shortened(title(holding, language), LONGEST_TITLE) or str(holding.forms.main)


def shortened(text: str, longest: int) -> str:
    """Reduce a text to one line; if it is too long, cut it after a word."""
    text = clean(text[: 4 * longest])
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0] or text[:longest]} …"


def best(
    metadata: Mapping[str, tuple[MetadataValue, ...]], element: str, language: str
) -> MetadataValue | None:
    """Choose the value of a Dublin Core element in the reader's best language; None without values."""
    return best_value(metadata.get(element, ()), language)


def labelled(formats: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (label, URL) of the formats; the citation is left out, because the page shows it as text."""
    labels = {each.name: each.label for each in FORMATS}
    return [
        (labels.get(name, name), url if url.startswith("/-/") else web_link(url))
        for name, url in formats.items()
        if name != CITATION.name
    ]


def _language_of(statement: MetadataValue | None) -> str:
    return (statement.language or "") if statement else ""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _people(metadata: Mapping[str, tuple[MetadataValue, ...]], element: str) -> list[Author]:
    read = contributor if element == "contributor" else author
    authors = (read(clean(statement.value)) for statement in metadata.get(element, ()))
    return [each for each in dict.fromkeys(authors) if each.name]


def _quoted(texts: tuple[Text, ...]) -> tuple[Text, ...]:
    return tuple(Text(_cut(text.value, _LONGEST_QUOTED), text.language) for text in texts)


def _edition_link(version: ItemVersion, page: ItemPage, language: str) -> dict[str, Any]:
    """Describe an edition or a translation for the template; `ours`: whether this Archive has its page."""
    held = version.holding
    if held is None:
        url = f"{page.place.root}/{version.forms.main}"
        return {
            "version": version,
            "date": version.date,
            "title": "",
            "title_language": "",
            "url": url,
            "ours": False,
        }
    metadata = held.metadata or {}
    found = best(metadata, "title", language)
    issued = date_in((clean(text), tag or held.language or "") for text, tag in metadata.get("date", ()))
    return {
        "version": version,
        "date": str(issued or version.date),
        "title": shortened(found.value, LONGEST_TITLE) if found else "",
        "title_language": _language_of(found),
        "url": f"/-/item/{held.forms.main}{page.lang}",
        "ours": True,
    }


def _open(page: ItemPage) -> Access:
    """Return the access of an item; OPEN if its embargo has ended."""
    over = page.holding.access is Access.EMBARGOED and page.access is Access.OPEN
    return Access.OPEN if over else page.holding.access


def access_chip(holding: Holding, access: Access, language: str) -> str:
    """Return who may have the data of an item, in few words."""
    return say(ACCESS_WORDS[access], language, moment=day(holding.embargo, language))


def _access(page: ItemPage, language: str) -> str:
    """Return the sentence that says who may have the data; "" for a removed item."""
    holding = page.holding
    if holding.deleted:
        return ""
    words = ACCESS_WORDS[_open(page)]
    return say(words, language, moment=day(holding.embargo, language) if holding.embargo else "")


def bars(figures: Sequence[tuple[str, UsageCounts]]) -> list[dict[str, Any]]:
    """Return the position of each month in a chart, the heights of its two bars; the last is under way."""
    most = max((counts.investigations for _, counts in figures), default=0) or 1
    return [
        {
            "month": month,
            "counts": counts,
            "x": _BAR * number,
            "looked": round(counts.investigations * _HEIGHT / most),
            "fetched": round(min(counts.requests, most) * _HEIGHT / most),
        }
        for number, (month, counts) in enumerate(figures)
    ]
