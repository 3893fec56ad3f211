"""What kind of thing an item is, as each format calls it (pure).

The kind is read from the element `type` of Dublin Core: terms of DCMI, COAR, info:eu-repo, BibTeX and plain words in
English and Portuguese.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(NamedTuple):
    """One kind. `csl`: type of CSL 1.0.2; `bibtex`: of entry; `ris`: TY; `datacite`: resourceTypeGeneral 4.7."""

    csl: str
    bibtex: str
    ris: str
    datacite: str
    schema: str
    genre: str = ""
    """What a citation calls it: a key of `citation.GENRES`."""


TEXT: Final = Kind("document", "misc", "GEN", "Text", "CreativeWork")
OTHER: Final = Kind("document", "misc", "GEN", "Other", "CreativeWork")

_KINDS: Final = {
    Kind("article-journal", "article", "JOUR", "JournalArticle", "ScholarlyArticle"): (
        "article", "journal article", "research article", "artigo", "artigo de periódico", "review", "editorial",
    ),
    Kind("article", "misc", "UNPB", "Preprint", "ScholarlyArticle"): ("preprint", "unpublished", "pré-publicação"),
    Kind("book", "book", "BOOK", "Book", "Book"): ("book", "livro", "booklet", "proceedings", "monograph"),
    Kind("chapter", "incollection", "CHAP", "BookChapter", "Chapter"): (
        "book part", "book chapter", "chapter", "inbook", "incollection", "capítulo de livro", "capítulo",
    ),
    Kind("paper-conference", "inproceedings", "CPAPER", "ConferencePaper", "ScholarlyArticle"): (
        "conference object", "conference paper", "inproceedings", "conference", "trabalho em evento",
        "artigo de evento", "trabalho de conferência",
    ),
    Kind("speech", "misc", "SLIDE", "Presentation", "PresentationDigitalDocument"): (
        "presentation", "lecture", "conference presentation", "apresentação", "slides",
    ),
    Kind("graphic", "misc", "GEN", "Poster", "Poster"): ("poster", "conference poster", "pôster"),
    Kind("thesis", "phdthesis", "THES", "Dissertation", "Thesis", "doctoral"): (
        "doctoral thesis", "phdthesis", "thesis", "tese", "tese de doutorado", "dissertation",
    ),
    Kind("thesis", "mastersthesis", "THES", "Dissertation", "Thesis", "master"): (
        "master thesis", "mastersthesis", "masters thesis", "dissertação", "dissertação de mestrado",
    ),
    Kind("thesis", "misc", "THES", "Dissertation", "Thesis", "bachelor"): (
        "bachelor thesis", "trabalho de conclusão de curso", "tcc", "monografia",
    ),
    Kind("report", "techreport", "RPRT", "Report", "Report"): (
        "report", "techreport", "technical report", "working paper", "relatório", "relatório técnico", "manual",
    ),
    Kind("dataset", "misc", "DATA", "Dataset", "Dataset", "dataset"): (
        "dataset", "data set", "data", "conjunto de dados", "dados",
    ),
    Kind("software", "misc", "COMP", "Software", "SoftwareSourceCode", "software"): (
        "software", "computer program", "programa de computador", "código-fonte",
    ),
    Kind("map", "misc", "MAP", "Image", "Map", "map"): ("map", "mapa", "cartographic material"),
    Kind("graphic", "misc", "FIGURE", "Image", "ImageObject", "image"): (
        "image", "still image", "stillimage", "photograph", "imagem", "fotografia",
    ),
    Kind("motion_picture", "misc", "VIDEO", "Audiovisual", "VideoObject", "video"): (
        "moving image", "movingimage", "video", "vídeo", "film", "filme",
    ),
    Kind("song", "misc", "SOUND", "Sound", "AudioObject", "audio"): ("sound", "audio", "áudio", "som"),
    Kind("collection", "misc", "GEN", "Collection", "Collection"): ("collection", "coleção"),
    TEXT: ("text", "document", "texto", "documento", "misc"),
}  # fmt: skip
_BY_WORD: Final = {word.replace(" ", ""): kind for kind, words in _KINDS.items() for word in words}
_PREFIX: Final = re.compile(r"^(?:info:eu-repo/semantics/|https?://purl\.org/dc/dcmitype/|coar:)")
_BLANKS: Final = re.compile(r"[\s_']+")


def kind_of(types: Iterable[str]) -> Kind:
    """The kind that the first known word names; OTHER where none is known."""
    for text in types:
        word = _BLANKS.sub("", _PREFIX.sub("", text.lower()))
        if word in _BY_WORD:
            return _BY_WORD[word]
    return OTHER
