"""Three items in each format, whole: one of which all is known, one under an embargo, and one that was removed.

The documents are in `documents.txt`, each below a line with its item and its format. RDF has the triples of JSON-LD.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState
from ibi.web.formats import FORMATS, RECORD_FORMATS, embedded, openaire
from ibi.web.formats.citation import STYLES, plain
from ibi.web.formats.record import ITEM_KINDS, record

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40 ibip 32G4GKPW/4GE5BA8")
TIMESTAMP = "2026-09-15T16:40:00Z"
PDF = StoredFile("a%20b.pdf", 1843, "a" * 64, "application/pdf")
TEXT = StoredFile("c.txt", 1843, "b" * 64, "text/plain; charset=utf-8")
Statements = dict[str, list[tuple[str, str | None]]]


def other(year: int) -> IBIForms:
    return IBIForms.parse(f"rep archive.example/other/{year}/09.18.13.20")


def item(
    metadata: Statements, holding: Holding, earlier: tuple[IBIForms, ...] = (), original: str = ""
) -> DescribedItem:
    read = {name: tuple(MetadataValue(*each) for each in values) for name, values in metadata.items()}
    return DescribedItem(
        holding, read, "http://archive.example", "http://resolver.example", "archive.example:8080", "2026-11-22",
        "The institution", earlier, original,
    )  # fmt: skip


ITEMS = {
    "all": item(
        {
            "title": [("Names that stay", "en"), ("Nomes <que> ficam: um ensaio", "pt")],
            "creator": [
                ("Silva, Maria Clara (https://orcid.org/0000-0002-1825-0097)", None),
                ("Instituto do Mar", None),
            ],
            "contributor": [("Banon, Gerald (orientador)", None), ("Souza, Rui", None)],
            "date": [("2026-09-14", None)],
            "type": [("article", None)],
            "subject": [("names", "en"), ("persistence", None)],
            "description": [("It says & stays", "en")],
            "publisher": [("Editora", None)],
            "source": [("Revista do Mar, v. 12, n. 3, p. 45-67", None)],
            "identifier": [("10.1234/abc", None), ("http://old.example/", None)],
            "coverage": [("Amazônia", None)],
            "rights": [("Free", None)],
            "language": [("pt", None)],
        },
        Holding(
            forms=FORMS,
            timestamp=TIMESTAMP,
            language="pt-BR",
            licence="https://licence.example/by",
            rights="Keep it",
            files=(PDF, TEXT),
            target="a%20b.pdf",
            next_edition=other(2027),
            translations={"en": other(2028)},
            metadata_item=other(2029),
        ),
        (other(2025),),
        "http://far.example/x",
    ),
    "embargoed": item(
        {"type": [("tese", None)], "creator": [("Silva, Ana", None)], "contributor": [("Souza, Rui", None)]},
        Holding(
            forms=FORMS,
            timestamp=TIMESTAMP,
            access=Access.EMBARGOED,
            embargo="2027-01-01",
            licence="all rights reserved",
            files=(TEXT,),
            target="c.txt",
            institution={"": "Uma universidade"},
        ),
    ),
    "removed": item(
        {}, Holding(forms=FORMS, timestamp=TIMESTAMP, state=ItemState.DELETED, reason="By mistake")
    ),
}


def documents(described: DescribedItem) -> dict[str, str]:
    """The documents of an item by the names of their formats, without line ends at their ends."""
    known = record(described)
    found = {
        each.name: each.write(described, {}).decode()
        for each in FORMATS
        if each.name not in {"turtle", "rdfxml"}
    }
    found |= {f"record {each.prefix}": each.write(described) for each in RECORD_FORMATS}
    found |= {
        f"{style} {language}": plain(write(known, language, "2026-11-22"))
        for style, write in STYLES.items()
        for language in ("en", "pt-BR")
    }
    found["tags"] = "\n".join(" = ".join(tag) for tag in embedded.tags(known, "http://archive.example/page"))
    return {name: text.replace("\r\n", "\n").rstrip("\n") for name, text in found.items()}


def expected(which: str) -> dict[str, str]:
    whole = (Path(__file__).parent / "documents.txt").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in whole.split("\n== ")[1:]]
    of_items = [(head.partition(": "), text) for head, _, text in parts]
    return {name: text.rstrip("\n") for (each, _, name), text in of_items if each == which}


@pytest.mark.parametrize("which", ITEMS)
def test_each_document_is_written_whole(which: str) -> None:
    written, known = documents(ITEMS[which]), expected(which)
    assert set(written) == set(known)
    for name, text in written.items():
        assert text == known[name], name


def test_references_have_the_line_ends_of_their_formats() -> None:
    writers = {each.name: each.write for each in FORMATS}
    ris = writers["ris"](ITEMS["all"], {})
    assert ris.count(b"\r\n") == ris.count(b"\n")
    assert ris.endswith(b"ER  - \r\n")
    assert writers["bibtex"](ITEMS["all"], {}).endswith(b",\n}\n")
    assert writers["citation"](ITEMS["all"], {"style": "abnt", "locale": "pt"}).endswith(b".\n")


def test_every_kind_has_a_concept_but_those_that_coar_lacks() -> None:
    def concept(word: str) -> str:
        named = item({"type": [(word, None)]}, Holding(forms=FORMS, timestamp=TIMESTAMP))
        return openaire.write(named).partition("/resource_type/")[2].partition('"')[0]

    assert concept("a word that no kind has") == "c_1843"  # other
    others = {kind.datacite for kind, words in ITEM_KINDS.items() if concept(words[0]) == "c_1843"}
    assert others == {"Collection"}
