"""Dublin Core for aggregators: oai_dc as the OpenAIRE Guidelines for Literature Repositories 3 want it (pure).

They build on the DRIVER Guidelines 2.0, and LA Referencia goes by both. What the depositor said stays, in
its order; before it stands what programs look for: the persistent URL and the file, the kind, the access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.dublin_core import ELEMENTS
from ibi.archive.holding import Access
from ibi.archive.oai.envelope import xml_text, xml_value
from ibi.web.formats.kinds import kind_of
from ibi.web.formats.oai_languages import three_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.archive.website.formats import Described

    Told = tuple[str, str | None]

_HEAD: Final = (
    '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/ http://www.openarchives.org/OAI/2.0/oai_dc.xsd">'
)
_SEMANTICS: Final = "info:eu-repo/semantics/"
_ACCESS: Final = {
    Access.OPEN: f"{_SEMANTICS}openAccess",
    Access.EMBARGOED: f"{_SEMANTICS}embargoedAccess",
    Access.RESTRICTED: f"{_SEMANTICS}restrictedAccess",
    Access.CLOSED: f"{_SEMANTICS}closedAccess",
}
_EMBARGO: Final = "info:eu-repo/date/embargoEnd/"
_TYPES: Final = {
    "JournalArticle": "article", "Preprint": "preprint", "Book": "book", "BookChapter": "bookPart",
    "ConferencePaper": "conferenceObject", "Poster": "conferenceObject", "Presentation": "lecture",
    "Report": "report", "doctoral": "doctoralThesis", "master": "masterThesis", "bachelor": "bachelorThesis",
}  # fmt: skip
"""Types of the guidelines by genre of a thesis, or by what DataCite calls the kind; everything else is "other"."""
_KNOWN_TYPES: Final = frozenset(
    f"{_SEMANTICS}{word}"
    for word in (
        *_TYPES.values(),
        "review",
        "workingPaper",
        "annotation",
        "contributionToPeriodical",
        "patent",
        "other",
    )
)


def write(item: Described) -> str:
    """The item as one element oai_dc:dc, which declares its namespaces and its schema."""
    more = {
        "identifier": _identifiers(item),
        "type": _types(item),
        "date": _dates(item),
        "language": _languages(item),
        "rights": _rights(item),
        "format": _formats(item),
    }
    lines = [_HEAD]
    for name in ELEMENTS:
        own = ((value, language) for value, language in item.metadata.get(name, ()))
        for value, language in dict.fromkeys(more.get(name) or own):
            text = xml_text(value).strip()
            if text:
                tag = f" xml:lang={xml_value(language)}" if language else ""
                lines.append(f"<dc:{name}{tag}>{text}</dc:{name}>")
    return "".join((*lines, "</oai_dc:dc>"))


def _said(item: Described, name: str) -> Iterable[Told]:
    return item.metadata.get(name, ())


def _identifiers(item: Described) -> Iterator[Told]:
    """The persistent URL first, which people are sent to; then the text itself, where everybody may have it."""
    yield item.url, None
    holding = item.holding
    file = holding.target_file
    if holding.access_on(item.day) is Access.OPEN:
        if file is not None:
            yield f"{item.base}/col/{holding.forms.main}/doc/{file.name}", None
        elif holding.url:
            yield holding.url, None
    yield from _said(item, "identifier")


def _types(item: Described) -> Iterator[Told]:
    """A type of the guidelines first; it may stand in the item already, in other places than the first."""
    values = [value.strip() for value, _ in _said(item, "type")]
    own = next((value for value in values if value in _KNOWN_TYPES), None)
    kind = kind_of(values)
    word = _TYPES.get(kind.genre) or _TYPES.get(kind.datacite, "other")
    yield own or f"{_SEMANTICS}{word}", None
    yield from _said(item, "type")


def _dates(item: Described) -> Iterator[Told]:
    """When it came out; the day on which an embargo ends; of an item without a date, the year in its name."""
    yield from _said(item, "date")
    if "date" not in item.metadata:
        yield (item.holding.forms.main.date.text or item.holding.timestamp)[:4], None
    if item.holding.access_on(item.day) is Access.EMBARGOED:
        yield f"{_EMBARGO}{item.holding.embargo}", None


def _languages(item: Described) -> Iterator[Told]:
    if item.holding.language:
        yield three_letters(item.holding.language), None
    for value, _ in _said(item, "language"):
        yield three_letters(value.strip()), None


def _rights(item: Described) -> Iterator[Told]:
    """The access first, then a licence, then words."""
    holding = item.holding
    yield _ACCESS[holding.access_on(item.day)], None
    if holding.licence:
        yield holding.licence, None
    yield from ((words, None) for words in (holding.rights,) if words)
    yield from _said(item, "rights")


def _formats(item: Described) -> Iterator[Told]:
    """What the depositor said, and the kinds of files that everybody may see."""
    holding = item.holding
    yield from _said(item, "format")
    if holding.file_list_public and holding.access_on(item.day) is Access.OPEN:
        yield from ((file.media_type.partition(";")[0], None) for file in holding.files)
