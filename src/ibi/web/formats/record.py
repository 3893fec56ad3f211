"""Read what all formats write from an item's Dublin Core: clean texts, people, a date, a kind (pure).

The kind is read from the element `type`: terms of DCMI, COAR, info:eu-repo, BibTeX and plain words in English and
Portuguese.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.item import Access
from ibi.archive.model.record_values import Day, Source, author, contributor, date_in, doi_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.formats import DescribedItem
    from ibi.archive.model.item import MetadataValue
    from ibi.archive.model.record_values import Author
    from ibi.identifier.forms import IBIForms


class ItemKind(NamedTuple):
    """One kind. `csl`: type of CSL 1.0.2; `bibtex`: of entry; `ris`: TY; `datacite`: resourceTypeGeneral 4.7."""

    csl: str
    bibtex: str
    ris: str
    datacite: str
    schema: str
    genre: str = ""
    """The key of its word in citations: see the genres of `citation`."""


TEXT: Final = ItemKind("document", "misc", "GEN", "Text", "CreativeWork")
OTHER: Final = ItemKind("document", "misc", "GEN", "Other", "CreativeWork")

ITEM_KINDS: Final = {
    ItemKind("article-journal", "article", "JOUR", "JournalArticle", "ScholarlyArticle"): (
        "article", "journal article", "research article", "artigo", "artigo de periódico", "review", "editorial",
    ),
    ItemKind("article", "misc", "UNPB", "Preprint", "ScholarlyArticle"): ("preprint", "unpublished", "pré-publicação"),
    ItemKind("book", "book", "BOOK", "Book", "Book"): ("book", "livro", "booklet", "proceedings", "monograph"),
    ItemKind("chapter", "incollection", "CHAP", "BookChapter", "Chapter"): (
        "book part", "book chapter", "chapter", "inbook", "incollection", "capítulo de livro", "capítulo",
    ),
    ItemKind("paper-conference", "inproceedings", "CPAPER", "ConferencePaper", "ScholarlyArticle"): (
        "conference object", "conference paper", "inproceedings", "conference", "trabalho em evento",
        "artigo de evento", "trabalho de conferência",
    ),
    ItemKind("speech", "misc", "SLIDE", "Presentation", "PresentationDigitalDocument"): (
        "presentation", "lecture", "conference presentation", "apresentação", "slides",
    ),
    ItemKind("graphic", "misc", "GEN", "Poster", "Poster"): ("poster", "conference poster", "pôster"),
    ItemKind("thesis", "phdthesis", "THES", "Dissertation", "Thesis", "doctoral"): (
        "doctoral thesis", "phdthesis", "thesis", "tese", "tese de doutorado", "dissertation",
    ),
    ItemKind("thesis", "mastersthesis", "THES", "Dissertation", "Thesis", "master"): (
        "master thesis", "mastersthesis", "masters thesis", "dissertação", "dissertação de mestrado",
    ),
    ItemKind("thesis", "misc", "THES", "Dissertation", "Thesis", "bachelor"): (
        "bachelor thesis", "trabalho de conclusão de curso", "tcc", "monografia",
    ),
    ItemKind("report", "techreport", "RPRT", "Report", "Report"): (
        "report", "techreport", "technical report", "working paper", "relatório", "relatório técnico", "manual",
    ),
    ItemKind("dataset", "misc", "DATA", "Dataset", "Dataset", "dataset"): (
        "dataset", "data set", "data", "conjunto de dados", "dados",
    ),
    ItemKind("software", "misc", "COMP", "Software", "SoftwareSourceCode", "software"): (
        "software", "computer program", "programa de computador", "código-fonte",
    ),
    ItemKind("map", "misc", "MAP", "Image", "Map", "map"): ("map", "mapa", "cartographic material"),
    ItemKind("graphic", "misc", "FIGURE", "Image", "ImageObject", "image"): (
        "image", "still image", "stillimage", "photograph", "imagem", "fotografia",
    ),
    ItemKind("motion_picture", "misc", "VIDEO", "Audiovisual", "VideoObject", "video"): (
        "moving image", "movingimage", "video", "vídeo", "film", "filme",
    ),
    ItemKind("song", "misc", "SOUND", "Sound", "AudioObject", "audio"): ("sound", "audio", "áudio", "som"),
    ItemKind("collection", "misc", "GEN", "Collection", "Collection"): ("collection", "coleção"),
    TEXT: ("text", "document", "texto", "documento", "misc"),
}  # fmt: skip
"""Every kind except OTHER -> the words for it."""
_BY_WORD: Final = {word.replace(" ", ""): kind for kind, words in ITEM_KINDS.items() for word in words}
_PREFIX: Final = re.compile(r"^(?:info:eu-repo/semantics/|https?://purl\.org/dc/dcmitype/|coar:)")
_BLANKS_AND_QUOTES: Final = re.compile(r"[\s_']+")


def kind_of(types: Iterable[str]) -> ItemKind:
    """Return the kind for the first known word; OTHER if no word is known."""
    for text in types:
        word = _BLANKS_AND_QUOTES.sub("", _PREFIX.sub("", text.lower()))
        if word in _BY_WORD:
            return _BY_WORD[word]
    return OTHER


# Strangers type Dublin Core values: control characters, lone surrogates and marks that change the direction of
# writing could forge or hide lines of a reference (T14: injected text), so each value becomes one clean line here.
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+")
_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_WEB: Final = ("http://", "https://")
MOST_FILES: Final = 100
"""Files that a format lists; the page with the list of files has all of them."""


class Text(NamedTuple):
    """One line of text, with its language if that is known."""

    value: str
    language: str | None = None


class Person(NamedTuple):
    """A creator or contributor: "Silva, Maria" is divided into family and given name, other names are not.

    `orcid`: "0000-0002-1825-0097", "" if none was given with the name; `role`: ADVISER, or "".
    """

    name: str
    family: str = ""
    given: str = ""
    orcid: str = ""
    role: str = ""


class File(NamedTuple):
    """A file that is open to all readers."""

    url: str
    size: int
    media_type: str
    sha256: str


class Related(NamedTuple):
    """Persistent URLs of related items, "" if there is none.

    Links between translations have no direction. The item of a group that was named first counts as the one
    that was translated: `translated` is its URL, if the item is another one of the group. `original`: the URL
    of the original that a copy equals.
    """

    next_edition: str
    translations: tuple[str, ...]
    metadata_item: str
    earlier: tuple[str, ...] = ()
    translated: str = ""
    original: str = ""


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """One item, ready to be written. `titles` and `publisher` are never empty; `title` is the first of the titles.

    `year` is the year of `issued`, or without a date the year in which the item got its name.
    """

    url: str
    names: tuple[str, ...]
    type: str
    """The first type in its Dublin Core, "" if it has none."""
    kind: ItemKind
    titles: tuple[Text, ...]
    creators: tuple[Person, ...]
    contributors: tuple[Person, ...]
    publisher: str
    source: Source
    issued: Day | None
    year: int
    language: str
    subjects: tuple[Text, ...]
    descriptions: tuple[Text, ...]
    coverage: tuple[str, ...]
    doi: str
    addresses: tuple[str, ...]
    """Other identifiers of Dublin Core that are URLs."""
    rights: tuple[str, ...]
    licence: str
    access: Access
    embargo: str
    updated: str
    removed: bool
    reason: str
    files: tuple[File, ...]
    related: Related

    @property
    def title(self) -> str:
        """The first title."""
        return self.titles[0].value


def clean(text: str) -> str:
    """Reduce a text to one line without control characters, marks of direction and lone surrogates."""
    # Nearly all texts are clean, and this test is faster than two substitutions.
    if text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", _TURNING.sub("", text)).strip()


def record(item: DescribedItem) -> ItemRecord:
    """Read everything that a format writes about an item."""
    holding = item.holding
    texts = {name: _texts(statements) for name, statements in item.metadata.items()}

    def values(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text.value for text in texts.get(name, ())))

    language = holding.language or next(iter(values("language")), "")
    issued = date_in((text, tag or language) for text, tag in texts.get("date", ()))
    dois = [(text, doi_of(text)) for text in values("identifier")]
    return ItemRecord(
        url=item.url,
        names=tuple(map(str, holding.names)),
        type=next(iter(values("type")), ""),
        kind=kind_of(values("type")),
        titles=_titles(texts.get("title", ()), language) or (Text(str(holding.forms.main)),),
        creators=tuple(_person(author(each)) for each in values("creator")),
        contributors=tuple(_person(contributor(each)) for each in values("contributor")),
        publisher=next(iter(values("publisher")), item.institution or item.archive),
        source=Source.parse(next(iter(values("source")), "")),
        issued=issued,
        # Without a date, the year in the item's name; if the name shows none, that of the last change.
        year=issued.year if issued else int((holding.forms.main.date.text or holding.timestamp)[:4]),
        language=language,
        subjects=texts.get("subject", ()),
        descriptions=texts.get("description", ()),
        coverage=values("coverage"),
        doi=next((doi for _, doi in dois if doi), ""),
        addresses=tuple(text for text, doi in dois if not doi and text.lower().startswith(_WEB)),
        rights=tuple(filter(None, dict.fromkeys((clean(holding.rights), *values("rights"))))),
        licence=holding.licence,
        access=holding.access_on(item.day),
        embargo=holding.embargo,
        updated=holding.timestamp,
        removed=holding.deleted,
        reason=clean(holding.reason),
        files=_files(item),
        related=_related(item),
    )


def _texts(statements: Iterable[MetadataValue]) -> tuple[Text, ...]:
    """Clean texts, and drop empty and repeated ones."""
    cleaned = (Text(clean(value), language) for value, language in statements)
    return tuple(dict.fromkeys(text for text in cleaned if text.value))


def _titles(titles: Iterable[Text], language: str) -> tuple[Text, ...]:
    """Sort titles: those in the item's language first, otherwise in their order."""
    main = language.lower().partition("-")[0]
    return tuple(sorted(titles, key=lambda text: (text.language or "").lower().partition("-")[0] != main))


def _person(known: Author) -> Person:
    name, orcid, role = known
    family, comma, given = (part.strip() for part in name.partition(","))
    divided = (family, given) if comma and family and given else ("", "")
    return Person(name, *divided, orcid, role)


def _related(item: DescribedItem) -> Related:
    def at(forms: IBIForms | None) -> str:
        return f"{item.root}/{forms.main}" if forms else ""

    holding = item.holding
    others = [forms for forms in holding.translations.values() if not forms.shares(holding.forms)]
    first = min((holding.forms, *others), key=_age) if others else holding.forms
    translated = "" if first is holding.forms else at(first)
    return Related(
        at(holding.next_edition),
        tuple(map(at, others)),
        at(holding.metadata_item),
        tuple(map(at, item.earlier)),
        translated,
        item.original,
    )


def _age(forms: IBIForms) -> int:
    """Return when a name was given, for comparing; a name without a date is later than all others."""
    ticks = forms.main.date.ticks
    return sys.maxsize if ticks is None else ticks


def _files(item: DescribedItem) -> tuple[File, ...]:
    """List the files if they are open to all readers and the list is public (SVC-10, SVC-12)."""
    holding = item.holding
    if not holding.file_list_public or holding.access_on(item.day) is not Access.OPEN:
        return ()
    return tuple(
        File(f"{item.base}/col/{holding.forms.main}/doc/{file.name}", file.size, file.media_type, file.sha256)
        for file in holding.files[:MOST_FILES]
    )
