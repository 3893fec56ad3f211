"""The page about an item, as its template wants it: everything worded, chosen and shortened for one reader."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup

from ibi.archive.holding import Access, Statement
from ibi.archive.website.people import author
from ibi.protocol.language import LanguagePreference
from ibi.texts import say
from ibi.web.formats import bibtex, csl, highwire, json_ld, ris
from ibi.web.formats.citation import STYLES
from ibi.web.formats.record import Text, clean, record
from ibi.web.formats.table import CITATION, FORMATS
from ibi.web.head import link_elements, tag_elements
from ibi.web.wording import day, web_link

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.visits import Counts
    from ibi.archive.website.formats import Described
    from ibi.archive.website.pages import ItemPage
    from ibi.archive.website.timeline import Version
    from ibi.web.formats.record import Record

MOST_FILES: Final = 20
"""Files on the page; the list of an item's files is a page of its own."""

MOST_PEOPLE: Final = 30
"""People on the page; all of them stand among the metadata."""

LONGEST_TEXT: Final = 4000
"""Characters of an abstract on the page."""

LONGEST_TITLE: Final = 300
"""Characters of a title in a list, or wherever else an item is only named; on its own page it is whole."""

_MOST_SUBJECTS: Final = 30
_MOST_TITLES: Final = 10
_PREVIEW: Final = 300
_LONGEST_QUOTED: Final = 1500  # characters of an abstract inside references and for programs
_BAR: Final = 20  # units of a picture that one month of the chart takes
_HEIGHT: Final = 60

ACCESS_WORDS: Final = {
    Access.OPEN: "Open to everybody",
    Access.EMBARGOED: "Under embargo until {moment}",
    Access.RESTRICTED: "Only in networks that have a licence",
    Access.CLOSED: "Kept here, but not given to readers",
}
"""Who may have the data of an item."""

HAPPENED: Final = {
    "deposited": "deposited",
    "imported": "taken in from a file",
    "harvested": "taken in from another repository",
    "copied": "copied from another Archive",
    "refreshed": "made equal to its original again",
    "edited": "edited",
    "removed": "removed",
    "repaired": "a file was repaired",
    "received": "received from another Archive as the original",
    "given": "given to another Archive, kept here as a copy",
}
"""What can happen to an item, as a person says it."""

FAULTS: Final = {
    "missing": "missing at the last audit",
    "size": "of another size at the last audit",
    "digest": "changed at the last audit",
    "unreadable": "unreadable at the last audit",
}
"""What can be wrong with a file, as a person says it."""


class Named(NamedTuple):
    """Somebody's name, and where an ORCID leads, "" without one."""

    name: str
    url: str


class Told(NamedTuple):
    """An edition or a translation: what it is called, where its page is, and what else is known."""

    version: Version
    title: str
    title_language: str
    url: str
    ours: bool
    """Whether that page is of this Archive."""
    date: str


class Cited(NamedTuple):
    """A citation, or a reference for a program: `name` is "ABNT", `file` whether it is a whole file."""

    name: str
    text: str
    file: bool


class Bar(NamedTuple):
    """One month of the chart."""

    month: str
    counts: Counts
    x: int
    looked: int
    fetched: int


def values(page: ItemPage, language: str) -> dict[str, Any]:
    """What the template of the page needs."""
    holding, root = page.holding, page.place.root
    known = _short(record(page.described)) if page.described else None
    metadata = (page.described.metadata if page.described else holding.metadata) or {}
    abstract = best(metadata, "description", language)
    several = len(page.editions.versions) > 1
    return {
        "page": page,
        "holding": holding,
        "main": holding.forms.main,
        "place": page.place,
        "title": title(holding, language, metadata),
        "title_language": _language_of(best(metadata, "title", language)),
        "abstract": abstract and Statement(_cut(abstract.value, LONGEST_TEXT), abstract.language),
        "people": _people(metadata, "creator"),
        "helpers": _people(metadata, "contributor"),
        "root": root,
        "persistent": [f"{root}/{name}" for name in holding.names] if root else [],
        "last_edition": f"{root}/{holding.forms.main}?ibiurl.verblist=GetLastEdition",
        "access": _access(page, language),
        "cited": _cited(known, page.described, language) if known and page.described else [],
        "formats": labelled(page.formats),
        "editions": [_told(each, page, language) for each in page.editions.versions] if several else [],
        "translations": [_told(each, page, language) for each in page.translations],
        "files": holding.files[:MOST_FILES],
        "happened": [(event.moment, HAPPENED.get(event.what, event.what)) for event in page.history],
        "faults": FAULTS,
        "bars": _bars(page.figures),
        "height": _HEIGHT,
        "width": _BAR * max(len(page.figures), 1),
        "record": known,
        "links": link_elements(page.links),
        "tags": tag_elements(
            highwire.tags(known, f"{page.place.base}/-/item/{holding.forms.main}") if known else ()
        ),
        "json_ld": Markup(json_ld.write(known, indent=None).decode()) if known else "",  # noqa: S704 - none of its letters ends an element
        "preview": _cut(clean(abstract.value), _PREVIEW) if abstract else "",
    }


def title(
    holding: Holding, language: str, metadata: Mapping[str, tuple[Statement, ...]] | None = None
) -> str:
    """What an item is called in the reader's language, or its name where it has no title."""
    found = best(metadata or holding.metadata or {}, "title", language)
    return found.value if found and found.value.strip() else str(holding.forms.main)


def short_title(holding: Holding, language: str) -> str:
    """The same where an item is only named, among others perhaps: no longer than LONGEST_TITLE."""
    return shortened(title(holding, language), LONGEST_TITLE) or str(holding.forms.main)


def shortened(text: str, longest: int) -> str:
    """A text of others as one line, and what is too long of it cut off behind a word."""
    text = clean(text[: 4 * longest])
    return text if len(text) <= longest else f"{text[:longest].rpartition(' ')[0] or text[:longest]} …"


def best(metadata: Mapping[str, tuple[Statement, ...]], element: str, language: str) -> Statement | None:
    """The value of a Dublin Core element that suits the reader best; None if there is none."""
    statements = metadata.get(element, ())
    if len(statements) <= 1:
        return statements[0] if statements else None
    by_language = {statement.language: statement for statement in reversed(statements)}
    chosen = _preference(language).choose([tag for tag in by_language if tag])
    return by_language[chosen] if chosen else statements[0]


def labelled(formats: Mapping[str, str]) -> list[tuple[str, str]]:
    """Where formats are, under the names that people give them; citations are texts, not links."""
    labels = {each.name: each.label for each in FORMATS}
    told = formats.items()
    safe = {
        name: url if url.startswith("/-/") else web_link(url) for name, url in told if name != CITATION.name
    }
    return [(labels.get(name, name), url) for name, url in safe.items()]


@lru_cache(maxsize=16)
def _preference(language: str) -> LanguagePreference:
    return LanguagePreference.parse(language)


def _language_of(statement: Statement | None) -> str:
    return (statement.language or "") if statement else ""


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest].rstrip()}…"


def _people(metadata: Mapping[str, tuple[Statement, ...]], element: str) -> list[Named]:
    said = (author(clean(statement.value)) for statement in metadata.get(element, ()))
    return [Named(each.name, each.url) for each in dict.fromkeys(said) if each.name]


def _short(item: Record) -> Record:
    """What stands inside the page: enough for everybody, and never more than a page holds."""
    return replace(
        item,
        titles=tuple(
            Text(_cut(text.value, _LONGEST_QUOTED), text.language) for text in item.titles[:_MOST_TITLES]
        ),
        creators=item.creators[: highwire.MOST],
        contributors=item.contributors[:MOST_PEOPLE],
        subjects=item.subjects[:_MOST_SUBJECTS],
        descriptions=tuple(
            Text(_cut(text.value, _LONGEST_QUOTED), text.language) for text in item.descriptions[:2]
        ),
        files=item.files[:MOST_FILES],
    )


def _cited(known: Record, described: Described, language: str) -> list[Cited]:
    styles = [
        Cited(name.upper(), write(known, language, described.day), file=False)
        for name, write in STYLES.items()
    ]
    files = (("BibTeX", bibtex.write), ("RIS", ris.write), ("CSL JSON", csl.write))
    return styles + [Cited(name, write(known).decode("utf-8"), file=True) for name, write in files]


def _told(version: Version, page: ItemPage, language: str) -> Told:
    held = version.holding
    date = version.date
    if held is None:
        return Told(version, "", "", f"{page.place.root}/{version.forms.main}", ours=False, date=date)
    said = best(held.metadata or {}, "title", language)
    url = f"/-/item/{held.forms.main}{page.lang}"
    called = shortened(said.value, LONGEST_TITLE) if said else ""
    return Told(version, called, _language_of(said), url, ours=True, date=date)


def _access(page: ItemPage, language: str) -> str:
    """Who may have the data, as a sentence; "" where nothing is left."""
    holding = page.holding
    if holding.deleted:
        return ""
    over = holding.access is Access.EMBARGOED and page.access is Access.OPEN
    access = Access.OPEN if over else holding.access
    return say(
        ACCESS_WORDS[access], language, moment=day(holding.embargo, language) if holding.embargo else ""
    )


def _bars(figures: Sequence[tuple[str, Counts]]) -> list[Bar]:
    most = max((counts.investigations for _, counts in figures), default=0) or 1
    return [
        Bar(
            month,
            counts,
            _BAR * number,
            round(counts.investigations * _HEIGHT / most),
            round(min(counts.requests, most) * _HEIGHT / most),
        )
        for number, (month, counts) in enumerate(figures)
    ]
