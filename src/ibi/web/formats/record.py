"""What all formats write about an item, read once from its Dublin Core: clean texts, people, a date, a kind (pure).

The kind is read from the element `type`: terms of DCMI, COAR, info:eu-repo, BibTeX and plain words in English and
Portuguese.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.archive.model.item import Access
from ibi.archive.model.record_values import Day, Source, author, date_in, doi_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.archive.model.formats import DescribedItem
    from ibi.archive.model.item import MetadataValue
    from ibi.identifier.forms import IBIForms


class ItemKind(NamedTuple):
    """One kind. `csl`: type of CSL 1.0.2; `bibtex`: of entry; `ris`: TY; `datacite`: resourceTypeGeneral 4.7."""

    csl: str
    bibtex: str
    ris: str
    datacite: str
    schema: str
    genre: str = ""
    """What a citation calls it: a key of the genres in `citation`."""


TEXT: Final = ItemKind("document", "misc", "GEN", "Text", "CreativeWork")
OTHER: Final = ItemKind("document", "misc", "GEN", "Other", "CreativeWork")

KINDS: Final = {
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
"""Every kind but OTHER, and the words for it."""
_BY_WORD: Final = {word.replace(" ", ""): kind for kind, words in KINDS.items() for word in words}
_PREFIX: Final = re.compile(r"^(?:info:eu-repo/semantics/|https?://purl\.org/dc/dcmitype/|coar:)")
_BLANKS_AND_QUOTES: Final = re.compile(r"[\s_']+")


def kind_of(types: Iterable[str]) -> ItemKind:
    """Return the kind that the first known word names; OTHER where none is known."""
    for text in types:
        word = _BLANKS_AND_QUOTES.sub("", _PREFIX.sub("", text.lower()))
        if word in _BY_WORD:
            return _BY_WORD[word]
    return OTHER


# Dublin Core is what strangers typed: control characters, halves of characters and marks that turn the direction of
# writing would forge lines of a reference or hide text in it (T14), so each value becomes one line here, once.
_BLANKS: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+")
_TURNING: Final = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_WEB: Final = ("http://", "https://")
MOST_FILES: Final = 100
"""Files that a format names; the list of an item's files is a page of its own."""


class Text(NamedTuple):
    """One line of text, with its language if that is known."""

    value: str
    language: str | None = None


class Person(NamedTuple):
    """Who made something: "Silva, Maria" has a family and a given name; any other name is only whole.

    `orcid`: "0000-0002-1825-0097", "" if none was given with the name.
    """

    name: str
    family: str = ""
    given: str = ""
    orcid: str = ""


class File(NamedTuple):
    """A file that is open to all readers."""

    url: str
    size: int
    media_type: str
    sha256: str


class Related(NamedTuple):
    """Persistent URLs of what an item is related to, "" where there is none; translations with their languages."""

    next_edition: str
    translations: tuple[Text, ...]
    metadata_item: str


@dataclass(frozen=True, slots=True)
class ItemRecord:
    """One item, ready to be written. `titles` and `publisher` are never empty; `title` is the first of the titles.

    `year` is that of `issued`, or, where no date is told, the one in which the item got its name.
    """

    url: str
    names: tuple[str, ...]
    type: str
    """What Dublin Core calls its kind, "" if nothing."""
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
        """What it is called."""
        return self.titles[0].value


def clean(text: str) -> str:
    """Reduce a text to one line without control characters, marks of direction and half characters."""
    # Nearly all texts are clean already, and this test costs less than two substitutions.
    if text.isprintable() and "  " not in text:
        return text.strip()
    return _BLANKS.sub(" ", _TURNING.sub("", text)).strip()


def record(item: DescribedItem) -> ItemRecord:
    """Read everything that a format writes about an item."""
    holding = item.holding
    texts = {name: _texts(statements) for name, statements in item.metadata.items()}

    def values(name: str) -> tuple[str, ...]:
        return tuple(text.value for text in texts.get(name, ()))

    language = holding.language or next(iter(values("language")), "")
    issued = date_in((text, tag or language) for text, tag in texts.get("date", ()))
    dois = [(text, doi_of(text)) for text in values("identifier")]
    return ItemRecord(
        url=item.url,
        names=tuple(map(str, holding.names)),
        type=next(iter(values("type")), ""),
        kind=kind_of(values("type")),
        titles=_titles(texts.get("title", ()), language) or (Text(str(holding.forms.main)),),
        creators=tuple(map(_person, values("creator"))),
        contributors=tuple(map(_person, values("contributor"))),
        publisher=next(iter(values("publisher")), item.archive),
        source=Source.parse(next(iter(values("source")), "")),
        issued=issued,
        # The year in which it got its name; that of its last change where the name shows no date.
        year=issued.year if issued else int((holding.forms.main.date.text or holding.timestamp)[:4]),
        language=language,
        subjects=texts.get("subject", ()),
        descriptions=texts.get("description", ()),
        coverage=values("coverage"),
        doi=next((doi for _, doi in dois if doi), ""),
        addresses=tuple(text for text, doi in dois if not doi and text.lower().startswith(_WEB)),
        rights=tuple(filter(None, (clean(holding.rights), *values("rights")))),
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
    """Clean texts, and drop those that are empty or come twice."""
    cleaned = (Text(clean(value), language) for value, language in statements)
    return tuple(dict.fromkeys(text for text in cleaned if text.value))


def _titles(titles: Iterable[Text], language: str) -> tuple[Text, ...]:
    """Those in the item's language first, otherwise in their order."""
    main = language.lower().partition("-")[0]
    return tuple(sorted(titles, key=lambda text: (text.language or "").lower().partition("-")[0] != main))


def _person(text: str) -> Person:
    name, orcid = author(text)
    family, comma, given = (part.strip() for part in name.partition(","))
    return Person(name, family, given, orcid) if comma and family and given else Person(name, orcid=orcid)


def _related(item: DescribedItem) -> Related:
    def at(forms: IBIForms | None) -> str:
        return f"{item.root}/{forms.main}" if forms else ""

    holding = item.holding
    translations = tuple(Text(at(forms), tag or None) for tag, forms in holding.translations.items())
    return Related(at(holding.next_edition), translations, at(holding.metadata_item))


def _files(item: DescribedItem) -> tuple[File, ...]:
    """List the files that are open to all readers and listed in public (SVC-10, SVC-12)."""
    holding = item.holding
    if not holding.file_list_public or holding.access_on(item.day) is not Access.OPEN:
        return ()
    return tuple(
        File(f"{item.base}/col/{holding.forms.main}/doc/{file.name}", file.size, file.media_type, file.sha256)
        for file in holding.files[:MOST_FILES]
    )
