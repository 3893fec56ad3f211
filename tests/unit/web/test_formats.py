"""Formats of an item, read back by programs that are not ours."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree as ET

import pybtex.database
import pytest
import rdflib
import rispy
from citeproc import Citation, CitationItem, CitationStylesBibliography, CitationStylesStyle, formatter
from citeproc.source.json import CiteProcJSON
from hypothesis import given, settings
from hypothesis import strategies as st
from rdflib.compare import isomorphic

from ibi.archive.model.formats import DescribedItem, described
from ibi.archive.model.item import ELEMENTS, Access, Holding, MetadataValue, StoredFile
from ibi.errors import NotHeld
from ibi.identifier.forms import IBIForms
from ibi.protocol.vocabulary import ItemState
from ibi.web.formats import FORMATS, embedded
from ibi.web.formats.citation import STYLES
from ibi.web.formats.rdf import MOST_VALUES
from ibi.web.formats.record import ItemRecord, clean, kind_of, record

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40 ibip 32G4GKPW/4GE5BA8")
OTHER = IBIForms.parse("rep archive.example/second/2026/09.18.13.20")
NAME = str(FORMS.main)
URL = f"http://resolver.example/{NAME}"
Statements = Mapping[str, Sequence[str | tuple[str, str]]]
FILES = (StoredFile("a%20b.pdf", 1843, "0" * 64, "application/pdf"),)
HOLDING = Holding(
    forms=FORMS,
    timestamp="2026-09-15T16:40:00Z",
    language="pt-BR",
    files=FILES,
    licence="https://licence.example/by",
    rights="Keep it whole",
)
STATEMENTS: Statements = {
    "title": ["Names that stay: an {essay} of 100% & more", ("Nomes que ficam", "pt")],
    "creator": ["Silva, Maria Clara", "Instituto do Mar and the Sea", "Souza Filho, João"],
    "contributor": ["Banon, Gerald"],
    "date": ["about 2025", "2026-09-14"],
    "type": ["info:eu-repo/semantics/doctoralThesis"],
    "subject": [("names", "en"), "persistence"],
    "description": ["It says: $5 #1 a_b ~ ^ \\ “so”"],
    "publisher": ["Editora Çedilha"],
    "identifier": ["https://doi.org/10.1234/abc", "http://old.example/?a=1&b=2"],
    "coverage": ["Amazônia"],
    "rights": ["Free"],
}
HOSTILE = "</script>]]>-->\"'{}\\}{%\n@x{\r\nER  - \u2028\u202e\x00\x1b[31m\ud800\ufffe&amp;<b>"
WRITERS = {each.name: each for each in FORMATS}


def _item(statements: Statements | None = None, **facts: object) -> DescribedItem:
    metadata = {
        name: tuple(
            MetadataValue(*value) if isinstance(value, tuple) else MetadataValue(value) for value in values
        )
        for name, values in (STATEMENTS if statements is None else statements).items()
    }
    holding = replace(HOLDING, **facts)  # type: ignore[arg-type]  # a test names its facts
    return DescribedItem(
        holding,
        metadata,
        "http://archive.example",
        "http://resolver.example",
        "archive.example",
        "2026-11-22",
    )


def _written(name: str, item: DescribedItem, **options: str) -> str:
    return WRITERS[name].write(item, options).decode("utf-8")


# What a ItemRecord is


def test_missing_metadata_have_their_stand_in() -> None:
    bare = record(_item({}))
    assert (bare.title, bare.publisher, bare.issued, bare.year) == (NAME, "archive.example", None, 2026)
    assert (bare.creators, bare.kind.csl, bare.language) == ((), "document", "pt-BR")


def test_the_title_in_the_items_language_comes_first() -> None:
    assert [text.language for text in record(_item()).titles] == ["pt", None]
    assert record(_item(language="en")).title.startswith("Names")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2026-09-14", "2026-09-14"),
        ("2026-09", "2026-09"),
        ("2026", "2026"),
        ("2026-09-14T10:00:00Z", "2026-09-14"),
        ("2020/2021", "2020"),
        ("2026-02-30", "2026"),
        ("0000", "None"),
        ("2014/5/3", "2014-05-03"),
        ("14/09/2026", "2026-09-14"),
        ("03/04/2026", "2026-04-03"),
        ("09/14/2026", "2026-09-14"),
        ("3/2026", "2026-03"),
        ("31/02/2026", "2026"),
        ("14 de setembro de 2026", "2026-09-14"),
        ("1º mai. 2026", "2026-05-01"),
        ("março de 2026", "2026-03"),
        ("September 14, 2026", "2026-09-14"),
        ("[1987?]", "1987"),
        ("1987, 1988", "None"),
        ("٢٠٢٦", "None"),
    ],
)
def test_a_date_is_read_as_far_as_it_is_known(text: str, date: str) -> None:
    assert str(record(_item({"date": [text]})).issued) == date


def test_the_month_stands_first_in_the_english_of_the_united_states_alone() -> None:
    assert str(record(_item({"date": [("03/04/2026", "en-US")]})).issued) == "2026-03-04"
    assert str(record(_item({"date": ["03/04/2026"]}, language="en-US")).issued) == "2026-03-04"
    assert str(record(_item({"date": ["03/04/2026"]}, language="en")).issued) == "2026-04-03"


@pytest.mark.parametrize(
    ("word", "datacite"),
    [
        ("info:eu-repo/semantics/masterThesis", "Dissertation"),
        ("http://purl.org/dc/dcmitype/StillImage", "Image"),
        ("Conjunto de Dados", "Dataset"),
        ("Master's thesis", "Dissertation"),
        ("inproceedings", "ConferencePaper"),
        ("Text", "Text"),
        ("x" * 5000, "Other"),
    ],
)
def test_kinds_are_known_by_their_words_in_several_vocabularies(word: str, datacite: str) -> None:
    assert kind_of(["no such kind", word]).datacite == datacite


@pytest.mark.proves("SVC-10", "SVC-12")
def test_files_are_named_only_where_they_are_open_and_listed() -> None:
    assert [file.url for file in record(_item()).files] == [
        f"http://archive.example/col/{NAME}/doc/a%20b.pdf"
    ]
    assert record(_item(file_list_public=False)).files == ()
    assert record(_item(access=Access.CLOSED)).files == ()
    embargoed = _item(access=Access.EMBARGOED, embargo="2026-11-23")
    assert record(embargoed).files == ()
    assert record(replace(embargoed, day="2026-11-23")).files


def test_without_a_resolver_an_items_own_archive_resolves_it() -> None:
    item = described(
        lambda _: None, replace(HOLDING, metadata={}), "http://a.example", "", "a.example", "2026-11-22"
    )
    assert item is not None
    assert item.url == f"http://a.example/{NAME}"


# Read back by others


def test_bibtex_is_read_by_pybtex_with_every_character_as_it_was() -> None:
    read = pybtex.database.parse_string(_written("bibtex", _item(language="en")), "bibtex")
    ((key, entry),) = read.entries.items()
    assert (key, entry.type) == ("archive-example-first-2026-09-14-16-40", "phdthesis")
    decoded = {name: _plain(value) for name, value in entry.fields.items()}
    assert decoded["title"] == STATEMENTS["title"][0]
    assert decoded["abstract"] == STATEMENTS["description"][0]
    assert (decoded["school"], decoded["year"], decoded["month"]) == ("Editora Çedilha", "2026", "9")
    assert (decoded["url"], decoded["doi"]) == (URL, "10.1234/abc")
    people = [
        (" ".join(p.first_names + p.middle_names), " ".join(p.last_names)) for p in entry.persons["author"]
    ]
    assert people == [
        ("Maria Clara", "Silva"),
        ("", "{Instituto do Mar and the Sea}"),
        ("João", "Souza Filho"),
    ]


_COMMANDS = {
    "braceleft": "{", "braceright": "}", "backslash": "\\", "asciitilde": "~", "asciicircum": "^"
}  # fmt: skip


def _plain(text: str) -> str:
    """What LaTeX would print of a field, its outer braces taken off."""
    inner = text.removeprefix("{").removesuffix("}") if text.startswith("{") else text
    printed = re.sub(r"\\text([a-z]+)\{\}", lambda found: _COMMANDS[found[1]], inner)
    return re.sub(r"\\([%&#$_])", r"\1", printed)


def test_ris_is_read_by_rispy() -> None:
    (read,) = rispy.loads(_written("ris", _item(language="en")))
    assert read["type_of_reference"] == "THES"
    assert read["title"] == STATEMENTS["title"][0]
    assert read["authors"] == STATEMENTS["creator"]
    assert read["secondary_authors"] == STATEMENTS["contributor"]
    assert (read["year"], read["date"]) == ("2026", "2026/09/14/")
    assert read["keywords"] == ["names", "persistence"]
    assert (read["urls"], read["doi"], read["id"]) == ([URL], "10.1234/abc", NAME)
    assert read["publisher"] == "Editora Çedilha"


def test_csl_json_is_read_by_citeproc() -> None:
    text = _cited(_written("csl", _item(language="en")))
    assert "Silva" in text
    assert "Instituto do Mar and the Sea" in text
    assert "2026" in text
    assert "Names that stay" in text


def _cited(csl: str) -> str:
    """What citeproc-py makes of one item, in the style that it brings."""
    value = json.loads(csl)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of what its style does not use
        style = CitationStylesStyle("harvard-cite-them-right", validate=False)
        bibliography = CitationStylesBibliography(style, CiteProcJSON([value]), formatter.plain)
        bibliography.register(Citation([CitationItem(value["id"])]))
        return str(bibliography.bibliography()[0])


@cache
def _datacite() -> Any:
    """The schema of DataCite's package, whose import compiles patterns for most of a second."""
    from datacite import schema45

    return schema45


def test_datacite_json_has_the_shape_that_its_python_package_knows() -> None:
    value = json.loads(_written("datacite-json", _item(next_edition=OTHER, metadata_item=OTHER)))
    assert [error.message for error in _datacite().validator.iter_errors(value)] == []
    assert value["types"] == {"resourceType": STATEMENTS["type"][0], "resourceTypeGeneral": "Dissertation"}
    relations = {each["relationType"] for each in value["relatedIdentifiers"]}
    assert relations == {"IsPreviousVersionOf", "HasMetadata"}


def test_datacite_xml_says_what_that_package_makes_of_the_json() -> None:
    item = _item(next_edition=OTHER)
    theirs = _datacite().dump_etree(json.loads(_written("datacite-json", item)))
    ours = ET.fromstring(_written("datacite-xml", item).encode())  # noqa: S314 - we wrote it
    expected, found = _elements(theirs), _elements(ours)
    assert found.pop("identifier") == [({"identifierType": "PURL"}, URL)]  # theirs is always a DOI
    expected.pop("identifier")
    assert found == expected


def _elements(top: ET.Element) -> dict[str, list[tuple[dict[str, str], str]]]:
    """All elements of a tree that hold text, by name in their order: attributes and text."""
    found: dict[str, list[tuple[dict[str, str], str]]] = {}
    for element in top.iter():
        text = (element.text or "").strip()
        if text:
            attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
            found.setdefault(element.tag.rpartition("}")[2], []).append((attributes, text))
    return found


@pytest.mark.parametrize("name", ["csl", "datacite-json", "jsonld"])
def test_json_has_lines_and_letters_as_themselves(name: str) -> None:
    text = _written(name, _item())
    assert "Çedilha" in text
    assert re.match(r'\{\n "', text)
    if name == "datacite-json":
        assert text == json.dumps(json.loads(text), ensure_ascii=False, indent=1)


def test_translations_are_told_as_datacite_has_them_since_4_6() -> None:
    value = json.loads(_written("datacite-json", _item(translations={"en": OTHER})))
    assert value["relatedIdentifiers"] == [
        {
            "relatedIdentifier": f"http://resolver.example/{OTHER.main}",
            "relatedIdentifierType": "PURL",
            "relationType": "HasTranslation",
        }
    ]


LATER = IBIForms.parse("rep archive.example/third/2026/10.01.00.00")


def _relations(item: DescribedItem) -> list[tuple[str, str, str]]:
    value = json.loads(_written("datacite-json", item))
    assert [
        error.message for error in _datacite().validator.iter_errors({**value, "relatedIdentifiers": []})
    ] == []
    return [
        (each["relationType"], each["relatedIdentifierType"], each["relatedIdentifier"])
        for each in value.get("relatedIdentifiers", ())
    ]


@pytest.mark.parametrize(
    ("here", "translations", "relations"),
    [
        (
            FORMS,
            {"pt": FORMS, "en": OTHER, "es": LATER},
            [("HasTranslation", OTHER), ("HasTranslation", LATER)],
        ),
        (OTHER, {"pt": FORMS, "es": LATER}, [("IsTranslationOf", FORMS)]),
        (LATER, {"pt": FORMS, "en": OTHER}, [("IsTranslationOf", FORMS)]),
        (FORMS, {"pt": FORMS}, []),
    ],
)
def test_the_item_of_a_group_that_was_named_first_is_the_one_that_was_translated(
    here: IBIForms, translations: dict[str, IBIForms], relations: list[tuple[str, IBIForms]]
) -> None:
    item = _item(forms=here, translations=translations)
    assert _relations(item) == [
        (word, "PURL", f"http://resolver.example/{forms.main}") for word, forms in relations
    ]
    linked = json.loads(_written("jsonld", item))
    words = {word for word, _ in relations}
    assert ("translationOfWork" in linked) is ("IsTranslationOf" in words)
    assert ("workTranslation" in linked) is ("HasTranslation" in words)


def test_editions_before_an_item_and_the_original_of_a_copy_are_told() -> None:
    item = replace(_item(), earlier=(OTHER, LATER), original=f"http://far.example/{NAME}")
    assert _relations(item) == [
        ("IsNewVersionOf", "PURL", f"http://resolver.example/{OTHER.main}"),
        ("IsNewVersionOf", "PURL", f"http://resolver.example/{LATER.main}"),
        ("IsIdenticalTo", "URL", f"http://far.example/{NAME}"),
    ]


def test_datacite_knows_people_by_their_orcid() -> None:
    orcid = "0000-0002-1825-0097"
    item = _item(
        {**STATEMENTS, "creator": [f"Silva, Ana ({orcid})", f"Eva {orcid}"], "contributor": [f"X {orcid}"]}
    )
    value = json.loads(_written("datacite-json", item))
    assert [error.message for error in _datacite().validator.iter_errors(value)] == []
    known = {
        "nameIdentifier": f"https://orcid.org/{orcid}", "nameIdentifierScheme": "ORCID",
        "schemeUri": "https://orcid.org",
    }  # fmt: skip
    people = [*value["creators"], *value["contributors"]]
    assert [person["name"] for person in people] == ["Silva, Ana", "Eva", "X"]
    assert all(person["nameIdentifiers"] == [known] and person["nameType"] == "Personal" for person in people)
    xml = ET.fromstring(_written("datacite-xml", item).encode())  # noqa: S314 - we wrote it
    written = [(each.text, each.attrib) for each in xml.iterfind(".//{*}nameIdentifier")]
    assert (
        written
        == [(known["nameIdentifier"], {"nameIdentifierScheme": "ORCID", "schemeURI": "https://orcid.org"})]
        * 3
    )


def test_json_ld_is_of_schema_org_and_can_stand_in_a_page() -> None:
    text = _written("jsonld", _item({**STATEMENTS, "title": [f"a {HOSTILE}"]}))
    assert not re.search("[<>&\u2028]", text)
    value = json.loads(text)
    assert (value["@context"], value["@type"], value["@id"]) == ("https://schema.org", "Thesis", URL)
    assert value["author"][0] == {
        "@type": "Person",
        "name": "Maria Clara Silva",
        "familyName": "Silva",
        "givenName": "Maria Clara",
    }
    assert value["author"][1] == {"name": "Instituto do Mar and the Sea"}
    assert value["encoding"][0]["encodingFormat"] == "application/pdf"
    assert value["sameAs"] == ["https://doi.org/10.1234/abc", "http://old.example/?a=1&b=2"]


@pytest.mark.proves("ARC-07")
def test_a_removed_item_is_told_as_removed() -> None:
    gone = _item(state=ItemState.DELETED, files=(), reason="asked\nfor")
    dates = json.loads(_written("datacite-json", gone))["dates"]
    assert dates[-1] == {"date": HOLDING.timestamp, "dateType": "Withdrawn", "dateInformation": "asked for"}
    value = json.loads(_written("jsonld", gone))
    assert (value["creativeWorkStatus"], value["isAccessibleForFree"]) == ("Removed", False)
    for name in ("bibtex", "ris", "csl"):
        assert "removed on 2026-09-15" in _written(name, gone)


# Citations


@pytest.mark.parametrize(
    ("style", "locale", "expected"),
    [
        ("apa", "en", "Silva, M. C., & Souza Filho, J. (2026). Names. Press. {url}"),
        ("apa", "pt-BR", "Silva, M. C., & Souza Filho, J. (2026). Names. Press. {url}"),
        (
            "abnt",
            "pt-BR",
            "{abnt} 14 set. 2026. Disponível em: {url}. Acesso em: 22 nov. 2026.",
        ),
        ("apa", "es", "Silva, M. C., & Souza Filho, J. (2026). Names. Press. {url}"),
        (
            "abnt",
            "es",
            "{abnt} 14 Sept. 2026. Available at: {url}. Accessed on: 22 Nov. 2026.",
        ),
        (
            "abnt",
            "en",
            "{abnt} 14 Sept. 2026. Available at: {url}. Accessed on: 22 Nov. 2026.",
        ),
    ],
)
def test_a_citation_by_style_and_locale(style: str, locale: str, expected: str) -> None:
    statements: Statements = {
        "title": ["Names"],
        "creator": ["Silva, Maria Clara", "Souza Filho, João"],
        "date": ["2026-09-14"],
        "publisher": ["Press"],
    }
    text = _written("citation", _item(statements), style=style, locale=locale)
    abnt = "SILVA, Maria Clara; SOUZA FILHO, João. Names. [S. l.]: Press,"
    assert text == expected.format(url=URL, abnt=abnt) + "\n"


@pytest.mark.parametrize(
    ("statements", "apa", "abnt"),
    [
        ({"title": ["Why?"]}, "Why? (2026). archive.example. ", "WHY? [S. l.]: archive.example, [s. d.]. "),
        ({"title": ["O nome"]}, "O nome. (2026). ", "O NOME. "),
        ({"title": ["Uma só voz"]}, "Uma só voz. (2026). ", "UMA SÓ voz. "),
        ({"title": ["Quem só voz"]}, "Quem só voz. (2026). ", "QUEM só voz. "),
        ({"title": ["T"], "creator": ["INPE"], "publisher": ["INPE"]}, "INPE. (2026). T. http", "INPE. T. "),
        (
            {"title": ["T"], "creator": ["A, A", "B, B", "C, C"], "date": ["2020"]},
            "A, A., B, B., & C, C. (2020). T. ",
            "A, A; B, B; C, C. T. [S. l.]: archive.example, 2020. ",
        ),
        (
            {"title": ["T"], "creator": ["A, Jean-Luc", "B, B.C.", "C, C", "D, D"], "date": ["2020-03"]},
            "A, J.-L., B, B. C., C, C., & D, D. (2020). T. ",
            "A, Jean-Luc et al. T. [S. l.]: archive.example, mar. 2020. ",
        ),
        (
            {"title": ["T"], "creator": ["A, B"], "date": ["2020"], "type": ["tese"], "publisher": ["INPE"]},
            "A, B. (2020). T [Tese de doutorado, INPE]. http",
            "A, B. T. 2020. Tese (Doutorado) – INPE, [s. l.], 2020. ",
        ),
        (
            {"title": ["T"], "date": ["2020"], "type": ["article"], "source": ["Revista, v. 1"]},
            "T. (2020). Revista, 1. http",
            "T. Revista, [s. l.], v. 1, 2020. ",
        ),
        (
            {
                "title": ["T: s"],
                "creator": ["Souza, João da Conceição"],
                "date": ["2020-03"],
                "type": ["article"],
                "source": ["Revista, v. 12, n. 3, p. 45-67"],
            },
            "Souza, J. C. (2020). T: s. Revista, 12(3), 45–67. http",
            "SOUZA, João da Conceição. T: s. Revista, [s. l.], v. 12, n. 3, p. 45-67, mar. 2020. ",
        ),
        (
            {
                "title": ["T"],
                "creator": ["Lima, Ana dos Santos e Silva"],
                "date": ["2020"],
                "type": ["book chapter"],
                "source": ["O livro, p. 4-9"],
                "publisher": ["P"],
            },
            "Lima, A. S. S. (2020). T. O livro, 4–9. http",
            "LIMA, Ana dos Santos e Silva. T. In: O livro. [S. l.]: P, 2020. p. 4-9. ",
        ),
        (
            {"title": ["T"], "creator": ["A, B"], "date": ["12/03/2020"], "type": ["presentation"]},
            "A, B. (2020, 12 de março). T. ",
            "A, B. T. [S. l.]: archive.example, 12 mar. 2020. ",
        ),
        ({"title": ["T"], "type": ["Dataset"]}, "T [Conjunto de dados]. (2026). ", "T. [S. l.]: "),
    ],
)
def test_citations_of_items_of_which_less_or_more_is_told(
    statements: Statements, apa: str, abnt: str
) -> None:
    assert _written("citation", _item(statements), style="apa", locale="pt").startswith(apa)
    assert _written("citation", _item(statements), style="abnt", locale="pt").startswith(abnt)


def test_volume_number_and_pages_go_into_every_format_for_citing() -> None:
    item = _item({"title": ["T"], "type": ["article"], "source": ["Revista, v. 12, n. 3, p. 45-67"]})
    csl = json.loads(_written("csl", item))
    assert (csl["container-title"], csl["volume"], csl["issue"], csl["page"]) == (
        "Revista",
        "12",
        "3",
        "45-67",
    )
    [read] = pybtex.database.parse_string(_written("bibtex", item), "bibtex").entries.values()
    found = {name: read.fields[name] for name in ("journal", "volume", "number", "pages")}
    assert found == {"journal": "Revista", "volume": "12", "number": "3", "pages": "45--67"}
    (ris,) = rispy.loads(_written("ris", item))
    assert (ris["volume"], ris["number"], ris["start_page"], ris["end_page"]) == ("12", "3", "45", "67")
    tags = dict(embedded.tags(record(item), "http://archive.example/-/item/x"))
    assert (tags["citation_journal_title"], tags["citation_volume"], tags["citation_lastpage"]) == (
        "Revista", "12", "67",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("statements", "apa", "abnt"),
    [
        ({"title": ["T: s"], "creator": ["A, B"]}, ["T: s"], ["T"]),
        ({"title": ["T: s"]}, ["T: s"], []),
        (
            {"title": ["T"], "creator": ["A, B"], "source": ["R, v. 1"], "type": ["article"]},
            ["R", "1"],
            ["R"],
        ),
        (
            {"title": ["T"], "creator": ["A, B"], "source": ["R"], "type": ["book part"]},
            ["R"],
            ["R"],
        ),
    ],
)
def test_what_is_emphasised(statements: Statements, apa: list[str], abnt: list[str]) -> None:
    for style, expected in (("apa", apa), ("abnt", abnt)):
        runs = STYLES[style](record(_item(statements)), "pt-BR", "2026-11-22")
        assert [run.text for run in runs if run.emphasised] == expected


def test_of_many_authors_apa_names_nineteen_and_the_last() -> None:
    for most, end in ((20, "N18, A., & N19, A."), (21, "N18, A., … N20, A."), (30, "N18, A., … N29, A.")):
        statements: Statements = {"creator": [f"N{number}, A" for number in range(most)]}
        text = _written("citation", _item(statements), style="apa")
        assert f"N17, A., {end} (2026)." in text


def test_a_style_that_there_is_not_is_refused_with_those_that_are() -> None:
    with pytest.raises(NotHeld, match="there is no style chicago here; there are: abnt, apa"):
        _written("citation", _item(), style="chicago")


# Whatever strangers typed

_VALUES = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [HOSTILE, "x" * 4000, "{", "}", "\\", "", " ", "A, B", "and", "2026-09-14", "%", "ER  - "]
    ),
)
_METADATA = st.dictionaries(
    st.sampled_from(ELEMENTS),
    st.lists(st.one_of(_VALUES, st.tuples(_VALUES, st.sampled_from(["en", "pt-BR"]))), max_size=3),
)


def _one_line(text: str) -> bool:
    return len(text.splitlines()) == 1 and not re.search("[\x00-\x09\x0b-\x1f\u202e\ud800]", text)


@settings(max_examples=70, deadline=None)
@given(_METADATA)
def test_no_metadata_break_a_format(statements: Statements) -> None:
    item = _item(statements)
    read: ItemRecord = record(item)
    entries = pybtex.database.parse_string(_written("bibtex", item), "bibtex").entries
    ((_, entry),) = entries.items()
    assert entry.fields["url"] == URL
    assert len(entry.persons.get("author", ())) == len(read.creators)
    (reference,) = rispy.loads(_written("ris", item))
    assert reference["title"] == read.title
    assert reference.get("authors", []) == [person.name for person in read.creators]
    assert json.loads(_written("csl", item))["title"] == read.title
    value = json.loads(_written("datacite-json", item))
    assert value["titles"][0]["title"] == read.title
    assert [error.message for error in _datacite().validator.iter_errors(value)] == []
    xml = ET.fromstring(_written("datacite-xml", item).encode())  # noqa: S314 - we wrote it
    assert xml.findtext(".//{*}title") == read.title
    ET.fromstring(_written("oai_dc", item).encode())  # noqa: S314 - we wrote it
    linked = _written("jsonld", item)
    assert json.loads(linked)["name"] == read.title
    assert "</" not in linked
    for style in ("abnt", "apa"):
        for locale in ("en", "pt-BR"):
            text = _written("citation", item, style=style, locale=locale)
            assert _one_line(text)
            assert URL in text


@given(st.text())
def test_a_cleaned_text_is_one_line_and_clean(text: str) -> None:
    once = clean(text)
    assert once == clean(once) == once.strip()
    assert len(once.splitlines()) <= 1


# RDF

# What the context of schema.org says of the terms that we use.
CONTEXT = {
    "@vocab": "http://schema.org/",
    **{name: {"@type": "@id"} for name in ("url", "sameAs", "license", "contentUrl")},
    **{name: {"@type": "http://schema.org/Date"} for name in ("datePublished", "dateModified")},
}


def _graph(name: str, item: DescribedItem) -> rdflib.Graph:
    return rdflib.Graph().parse(data=_written(name, item), format="turtle" if name == "turtle" else "xml")


@pytest.mark.parametrize("name", ["turtle", "rdfxml"])
@pytest.mark.parametrize("orcid", ["", " (ORCID: 0000-0002-1825-0097)"])
def test_rdf_says_what_json_ld_says(name: str, orcid: str) -> None:
    item = _item(
        {**STATEMENTS, "creator": [f"Silva, Maria Clara{orcid}", "Souza"]}, translations={"en": OTHER}
    )
    expected = json.loads(_written("jsonld", item)) | {"@context": CONTEXT}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of rdflib, about its own reader of JSON-LD
        same = rdflib.Graph().parse(data=json.dumps(expected), format="json-ld")
    assert len(same) > 20
    assert isomorphic(_graph(name, item), same)


@pytest.mark.parametrize("name", ["turtle", "rdfxml"])
def test_whatever_is_typed_is_rdf(name: str) -> None:
    hostile = _item(
        {element: [HOSTILE, f"http://a.example/{HOSTILE}", f"Silva, {HOSTILE}"] for element in ELEMENTS},
        licence=f"http://licence.example/<é> {HOSTILE}",
    )
    graph = _graph(name, hostile)
    assert isomorphic(graph, _graph("rdfxml" if name == "turtle" else "turtle", hostile))
    subject = rdflib.URIRef(URL)
    assert clean(HOSTILE) in map(str, graph.objects(subject, rdflib.URIRef("http://schema.org/name")))
    assert all(
        not re.search(r'[\s<>"{}|\\^`]', str(node))
        for node in graph.all_nodes()
        if isinstance(node, rdflib.URIRef)
    )


@pytest.mark.parametrize("name", ["turtle", "rdfxml"])
def test_rdf_of_thousands_of_authors_names_the_first(name: str) -> None:
    item = _item({**STATEMENTS, "creator": [f"Silva, Maria {number}" for number in range(10_000)]})
    authors = list(_graph(name, item).objects(rdflib.URIRef(URL), rdflib.URIRef("http://schema.org/author")))
    assert len(authors) == MOST_VALUES
