"""Prepare items for lists: the newest ones of a front page, the results of a search, the most read ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item import Access
from ibi.archive.model.record_values import Source, author, date_in
from ibi.archive.search.feeds import best_value
from ibi.archive.search.search import page_of
from ibi.archive.search.words import fold
from ibi.runtime.i18n import say, say_count
from ibi.web.formats.record import clean, kind_of
from ibi.web.item_values import LONGEST_TITLE, access_chip, shortened
from ibi.web.rendering import day, language_name, number, size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.archive.model.item import MetadataValue, StoredFile
    from ibi.archive.pages.models import ListedItem


LONGEST_SNIPPET: Final = 180
"""Characters of an abstract, or of a snippet of it, in a list."""
MOST_SEARCHED: Final = 2000
"""Characters of an abstract in which a snippet is looked for."""

_SHOWN_PEOPLE: Final = 5  # people of an item in a list
_BEFORE: Final = 60  # characters of a snippet before the first word that was found
_TOKEN: Final = re.compile(r"[^\W_]+")
_ENDING: Final = re.compile(r"\.([A-Za-z0-9]{1,8})\Z", re.ASCII)

KIND_NAMES: Final = {
    "Audiovisual": "Video",
    "Book": "Book",
    "BookChapter": "Book chapter",
    "Collection": "Collection",
    "ConferencePaper": "Conference paper",
    "Dataset": "Dataset",
    "Dissertation": "Thesis or dissertation",
    "Image": "Image or map",
    "JournalArticle": "Journal article",
    "Other": "Of another kind",
    "Poster": "Poster",
    "Preprint": "Preprint",
    "Presentation": "Presentation",
    "Report": "Report",
    "Software": "Software",
    "Sound": "Sound",
    "Text": "Text",
}
"""Kind of an item -> its label."""

KIND_PLURALS: Final = {
    "Audiovisual": "Videos",
    "Book": "Books",
    "BookChapter": "Book chapters",
    "Collection": "Collections",
    "ConferencePaper": "Conference papers",
    "Dataset": "Datasets",
    "Dissertation": "Theses and dissertations",
    "Image": "Images and maps",
    "JournalArticle": "Journal articles",
    "Other": "Other items",
    "Poster": "Posters",
    "Preprint": "Preprints",
    "Presentation": "Presentations",
    "Report": "Reports",
    "Software": "Software",
    "Sound": "Sound recordings",
    "Text": "Texts",
}
"""Kind of an item -> the label of all of them."""


_ICONS: Final = (
    ("article", ("JournalArticle", "ConferencePaper", "Preprint")),
    ("book", ("Book", "BookChapter")),
    ("collection", ("Collection",)),
    ("data", ("Dataset",)),
    ("image", ("Image",)),
    ("report", ("Report",)),
    ("slides", ("Presentation", "Poster")),
    ("software", ("Software",)),
    ("sound", ("Sound",)),
    ("text", ("Text",)),
    ("thesis", ("Dissertation",)),
    ("video", ("Audiovisual",)),
)
_ICON_OF: Final = {kind: icon for icon, kinds in _ICONS for kind in kinds}


def icon_of(kind: str) -> str:
    """Return the icon of a kind, by its name in kinds.svg."""
    return _ICON_OF.get(kind, "item")


def kind_name(kind: str, language: str) -> str:
    """Return the label of a kind, "" for an unknown kind and for Other."""
    return say(KIND_NAMES[kind], language) if kind in KIND_NAMES and kind != "Other" else ""


def listed(item: ListedItem, language: str, lang: str, words: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values for one line of a list, in the reader's language.

    `lang`: "?lang=pt-BR" for links, if the reader has chosen it; `words`: what was looked for, to be marked.
    """
    holding, metadata = item.holding, item.metadata
    kind = kind_of(value for value, _ in metadata.get("type", ())).datacite
    title = best_value(metadata.get("title", ()), language)
    named = shortened(title.value, LONGEST_TITLE) if title else ""
    date = _date(item, language)
    people = [name for value, _ in metadata.get("creator", ()) if (name := author(clean(value)).name)]
    return {
        "page": f"{page_of(str(holding.forms.main))}{lang}",
        "name": holding.forms.main,
        "title": named or ", ".join(filter(None, (kind_name(kind, language) or say("Item", language), date))),
        "is_titled": bool(named),
        "title_language": (title.language or "") if title and named else "",
        "kind": kind_name(kind, language),
        "icon": icon_of(kind),
        "access": item.access,
        "access_words": access_chip(holding, item.access, language),
        "people": people[:_SHOWN_PEOPLE],
        "more_people": max(0, len(people) - _SHOWN_PEOPLE),
        "source": _source(metadata.get("source", ())),
        "facts": _facts(item, kind, date if named else "", language),
        "file": _file(item),
        "snippet": _snippet(item, language, words),
    }


def _date(item: ListedItem, language: str) -> str:
    """Return the date of an item in words; without one in its metadata, that of its name."""
    holding = item.holding
    issued = date_in((value, tag or holding.language or "") for value, tag in item.metadata.get("date", ()))
    return day(str(issued) if issued else (holding.forms.main.date.text or "")[:10], language)


def _source(values: Sequence[MetadataValue]) -> str:
    """Return journal, volume and number: "Revista Vale & Ciência, v. 14, n. 2"."""
    found = Source.parse(clean(values[0].value)) if values else None
    if found is None or not found.name:
        return ""
    parts = [f"{prefix} {part}" for prefix, part in (("v.", found.volume), ("n.", found.number)) if part]
    return shortened(", ".join((found.name, *parts)), LONGEST_TITLE)


def _facts(item: ListedItem, kind: str, date: str, language: str) -> list[str]:
    """Return what stands below the people: date, language, whether it is a copy, and how large a dataset is."""
    holding = item.holding
    files = ""
    if kind == "Dataset" and holding.files and holding.file_list_public:
        count = len(holding.files)
        words = say_count(count, "{count} file", "{count} files", language, count=number(count, language))
        files = f"{words}, {size(sum(each.size for each in holding.files), language)}"
    tongue = language_name(holding.language, language) if holding.language else ""
    copy = say("Copy", language) if holding.state == "Copy" else ""
    return [fact for fact in (date, files, tongue, copy) if fact]


def _file(item: ListedItem) -> dict[str, Any] | None:
    """Return the link to the document itself, and how many further files there are; None if it is not open."""
    holding = item.holding
    file = holding.target_file
    if file is None or item.access is not Access.OPEN:
        return None
    return {
        "path": f"/col/{holding.forms.main}/doc/{file.name}",
        "format": file_format(file),
        "size": file.size,
        "more": len(holding.files) - 1 if holding.file_list_public else 0,
    }


def file_format(file: StoredFile) -> str:
    """Return the format of a file as people name it: "PDF" of "Notes.pdf"; else its media type."""
    ending = _ENDING.search(file.readable)
    return ending[1].upper() if ending else file.media_type.partition(";")[0]


def _snippet(item: ListedItem, language: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the snippet of the abstract or of the subjects in which words were found, as (text, marked) parts.

    Without such a snippet it is the beginning of the abstract.
    """
    abstract = best_value(item.metadata.get("description", ()), language)
    text = clean(abstract.value[:MOST_SEARCHED]) if abstract else ""
    found = marked(text, words) if words else []
    if words and not found:
        subjects = "; ".join(clean(value[:200]) for value, _ in item.metadata.get("subject", ())[:20])
        found = marked(subjects, words)
    return found or ([(shortened(text, LONGEST_SNIPPET), False)] if text else [])


def marked(text: str, words: Sequence[str]) -> list[tuple[str, bool]]:
    """Return the snippet of a text around the first of these words, as (text, marked) parts; [] if none is in it.

    Words are compared without accents and capitals; the last one may be the beginning of a word.
    """
    wanted, begun = frozenset(words), words[-1] if words else ""
    places = [
        token.span()
        for token in _TOKEN.finditer(text)
        if (key := fold(token[0])) in wanted or (len(begun) > 1 and key.startswith(begun))
    ]
    if not places:
        return []
    start = places[0][0] - _BEFORE
    start = text.find(" ", start) + 1 if start > 0 else 0
    end = start + LONGEST_SNIPPET
    end = len(text) if end >= len(text) else max(text.rfind(" ", start, end), places[0][1])
    parts, at = ([("… ", False)] if start else []), start
    for begin, stop in places:
        if stop <= end:
            parts += [(text[at:begin], False), (text[begin:stop], True)]
            at = stop
    return [
        part for part in (*parts, (text[at:end], False), (" …" if end < len(text) else "", False)) if part[0]
    ]


def searched(text: str) -> list[str]:
    """Return the words of the text of a search, as `marked` compares them."""
    return [key for token in _TOKEN.findall(text) if (key := fold(token))]
