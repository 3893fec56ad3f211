"""Records as aggregators want them: the profile of OpenAIRE 3 and DRIVER 2.0, and DataCite; with hostile texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import ELEMENTS, Access, Holding, MetadataValue, StoredFile
from ibi.archive.oai import envelope
from ibi.identifier.forms import IBIForms
from ibi.web.formats import RECORD_FORMATS, oai_dc, openaire
from ibi.web.formats.oai_dc import three_letters
from ibi.web.formats.record import ITEM_KINDS, ItemKind
from support.archive.archive_fixture import NewArchive
from support.archive.oai_provider_fixture import Repository, identifiers, repository, texts, valid

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40 ibip 32G4GKPW/4GE5BA8")
URL = "http://resolver.example/archive.example/first/2026/09.14.16.40"
FILE = StoredFile("a%20b.pdf", 1843, "0" * 64, "application/pdf")
HOSTILE = (
    "</dc:title>]]>--><!DOCTYPE x>&amp;&#0;<b>\x00\x08\x1b\x7f\ud800\udfff\ufffe\uffff\u202e\u2028 \U0001f600"
)


def described(metadata: dict[str, list[str]] | None = None, **facts: object) -> DescribedItem:
    given_: dict[str, object] = {
        "forms": FORMS,
        "timestamp": "2026-09-15T16:40:00Z",
        "files": (FILE,),
    } | facts
    holding = Holding(**given_)  # type: ignore[arg-type]  # what a test gives is right
    statements = {name: tuple(map(MetadataValue, values)) for name, values in (metadata or {}).items()}
    return DescribedItem(
        holding,
        statements,
        "http://archive.example",
        "http://resolver.example",
        "archive.example",
        "2026-11-22",
    )


def metadata_of(metadata: dict[str, list[str]] | None = None, **facts: object) -> dict[str, list[str]]:
    """What an oai_dc record says, by element."""
    element = etree.fromstring(oai_dc.write(described(metadata, **facts)))
    found: dict[str, list[str]] = {}
    for child in element:
        found.setdefault(etree.QName(child).localname, []).append(child.text or "")
    return found


@pytest.mark.parametrize(
    ("facts", "access"),
    [
        ({}, "openAccess"),
        ({"access": Access.EMBARGOED, "embargo": "2027-01-01"}, "embargoedAccess"),
        ({"access": Access.EMBARGOED, "embargo": "2026-11-22"}, "openAccess"),
        ({"access": Access.RESTRICTED}, "restrictedAccess"),
        ({"access": Access.CLOSED}, "closedAccess"),
    ],
)
def test_the_access_stands_first_among_the_rights(facts: dict[str, object], access: str) -> None:
    written = metadata_of({"rights": ["Keep it whole"]}, licence="https://licence.example/by", **facts)
    assert written["rights"] == [
        f"info:eu-repo/semantics/{access}", "https://licence.example/by", "Keep it whole",
    ]  # fmt: skip
    ends = [date for date in written["date"] if "embargoEnd" in date]
    assert ends == (["info:eu-repo/date/embargoEnd/2027-01-01"] if access == "embargoedAccess" else [])


def test_the_text_itself_is_named_only_where_it_is_open() -> None:
    file = "http://archive.example/col/archive.example/first/2026/09.14.16.40/doc/a%20b.pdf"
    assert metadata_of({"identifier": ["10.1234/x"]})["identifier"] == [URL, file, "10.1234/x"]
    assert metadata_of(access=Access.CLOSED)["identifier"] == [URL]
    assert "format" not in metadata_of(access=Access.CLOSED)
    assert metadata_of()["format"] == ["application/pdf"]
    assert "format" not in metadata_of(file_list_public=False)
    linked = metadata_of(files=(), url="http://far.example/x")
    assert linked["identifier"] == [URL, "http://far.example/x"]


@pytest.mark.parametrize(
    ("types", "first"),
    [
        (["Tese de Doutorado"], "doctoralThesis"),
        (["dissertação"], "masterThesis"),
        (["TCC"], "bachelorThesis"),
        (["article"], "article"),
        (["Journal article", "info:eu-repo/semantics/review"], "review"),
        (["info:eu-repo/semantics/publishedVersion", "artigo"], "article"),
        (["livro"], "book"),
        (["pôster"], "conferenceObject"),
        (["Dataset"], "other"),
        ([], "other"),
    ],
)
def test_a_type_of_the_guidelines_stands_first(types: list[str], first: str) -> None:
    written = metadata_of({"type": types})["type"]
    assert written[0] == f"info:eu-repo/semantics/{first}"
    assert set(types) <= set(written)
    assert len(written) == len(set(written))


@pytest.mark.parametrize(
    ("tag", "code"),
    [("pt-BR", "por"), ("EN", "eng"), ("por", "por"), ("de_AT", "deu"), ("It is Latin", "It is Latin")],
)
def test_languages_have_three_letters(tag: str, code: str) -> None:
    assert three_letters(tag) == code


def test_what_the_depositor_said_is_kept_in_its_order_and_languages_are_codes() -> None:
    written = metadata_of(
        {"title": ["One", "Two"], "date": ["about 2025", "2026", "12/03/2024"], "language": ["pt", "Tupi"]},
        language="pt-BR",
    )
    assert written["title"] == ["One", "Two"]
    assert written["date"] == ["about 2025", "2026", "2024-03-12"]
    assert written["language"] == ["por", "Tupi"]
    assert metadata_of()["date"] == ["2026"]


def test_people_are_named_without_their_orcid() -> None:
    people = ["Silva, Maria (https://orcid.org/0000-0002-1825-0097)", "INPE"]
    written = metadata_of({"creator": people, "contributor": people, "title": [people[0]]})
    assert written["creator"] == written["contributor"] == ["Silva, Maria", "INPE"]
    assert written["title"] == [people[0]]


def openaire_of(metadata: dict[str, list[str]] | None = None, **facts: object) -> dict[str, list[str]]:
    """What a record for OpenAIRE says, by element, each with the last of its attributes."""
    element = etree.fromstring(openaire.write(described(metadata, **facts)))
    found: dict[str, list[str]] = {}
    for child in element.iter():
        if not len(child):
            words = [child.text or "", *child.attrib.values()[-1:]]
            found.setdefault(etree.QName(child).localname, []).append(" ".join(words))
    return found


def test_openaire_is_told_what_is_known() -> None:
    written = openaire_of(
        {
            "title": ["Names"], "creator": ["Silva, Maria (0000-0002-1825-0097)"], "type": ["tese de doutorado"],
            "date": ["14/09/2026"], "subject": ["s"], "description": ["d"], "publisher": ["P"], "coverage": ["c"],
            "source": ["Revista, v. 1, n. 2, p. 3-4"], "identifier": ["doi:10.1234/x"], "rights": ["Free"],
        },
        language="pt-BR", licence="https://licence.example/by", next_edition=FORMS,
    )  # fmt: skip
    assert written == {
        "title": ["Names"],
        "creatorName": ["Silva, Maria Personal"], "givenName": ["Maria"], "familyName": ["Silva"],
        "nameIdentifier": ["https://orcid.org/0000-0002-1825-0097 https://orcid.org"],
        "alternateIdentifier": [
            "archive.example/first/2026/09.14.16.40 IBI", "32G4GKPW/4GE5BA8 IBI", "10.1234/x DOI"
        ],
        "relatedIdentifier": [f"{URL} IsPreviousVersionOf"],
        "date": ["2026-09-14 Issued"],
        "language": ["por"],
        "publisher": ["P"],
        "resourceType": ["doctoral thesis http://purl.org/coar/resource_type/c_db06"],
        "description": ["d"],
        "format": ["application/pdf"],
        "identifier": [f"{URL} PURL"],
        "rights": ["open access http://purl.org/coar/access_right/c_abf2"],
        "source": ["Revista, v. 1, n. 2, p. 3-4"],
        "subject": ["s"],
        "licenseCondition": ["Free https://licence.example/by"],
        "coverage": ["c"],
        "size": ["1843 B"],
        "file": [
            "http://archive.example/col/archive.example/first/2026/09.14.16.40/doc/a%20b.pdf application/pdf"
        ],
        "citationTitle": ["Revista"], "citationVolume": ["1"], "citationIssue": ["2"],
        "citationStartPage": ["3"], "citationEndPage": ["4"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "rights", "dates"),
    [
        (
            {"access": Access.EMBARGOED, "embargo": "2027-01-01"},
            "embargoed access",
            ["2026 Issued", "2027-01-01 Available"],
        ),
        ({"access": Access.RESTRICTED}, "restricted access", ["2026 Issued"]),
        ({"access": Access.CLOSED}, "metadata only access", ["2026 Issued"]),
    ],
)
def test_openaire_is_told_of_no_file_that_is_not_open(
    facts: dict[str, object], rights: str, dates: list[str]
) -> None:
    written = openaire_of(None, **facts)
    assert written["rights"][0].startswith(rights)
    assert written["date"] == dates
    assert not {"file", "size", "format"} & written.keys()
    assert written["language"] == ["und"]


@pytest.mark.parametrize("kind", ITEM_KINDS, ids=lambda kind: f"{kind.datacite} {kind.genre}")
def test_every_kind_has_a_type_of_coar(kind: ItemKind) -> None:
    words = ITEM_KINDS[kind]
    written = openaire_of({"type": [words[0]]})["resourceType"][0]
    assert written.startswith("other ") is (kind.datacite == "Collection")


@pytest.mark.parametrize(
    ("word", "general"),
    [
        ("article", "literature"),
        ("Dataset", "dataset"),
        ("Software", "software"),
        ("Image", "other research product"),
        ("Collection", "other research product"),
    ],
)
def test_openaire_is_told_what_kind_of_product_an_item_is(word: str, general: str) -> None:
    element = etree.fromstring(openaire.write(described({"type": [word]})))
    [kind] = element.findall("{*}resourceType")
    assert kind.get("resourceTypeGeneral") == general


def test_texts_lose_what_xml_cannot_hold_and_nothing_else() -> None:
    element = etree.fromstring(oai_dc.write(described({"title": [HOSTILE], "creator": ["\x00\x01"]})))
    titles = element.findall("{*}title")
    assert [title.text for title in titles] == [
        "</dc:title>]]>--><!DOCTYPE x>&amp;&#0;<b>\x7f\u202e\u2028 \U0001f600"
    ]
    assert element.findall("{*}creator") == []


@given(st.dictionaries(st.sampled_from(ELEMENTS), st.lists(st.text(max_size=20), max_size=2)))
@settings(max_examples=60, deadline=None)
def test_whatever_is_said_makes_a_valid_record(metadata: dict[str, list[str]]) -> None:
    header = envelope.header("oai:archive.example:x", 0, ("openaire",), removed=False)
    for format_ in RECORD_FORMATS:
        record = envelope.record(header, format_.write(described(metadata)))
        inside = envelope.listed("ListRecords", (record,))
        valid(envelope.document("http://archive.example/-/oai", 0, {"verb": "ListRecords"}, inside))


@pytest.fixture
def hostile(archive: NewArchive) -> Iterator[Repository]:
    """An Archive with an item whose every word is hostile."""
    words = "".join(char for char in HOSTILE if not "\ud800" <= char <= "\udfff")
    with repository(archive) as held:
        metadata = dict.fromkeys(("creator", "subject", "description", "date", "type", "language"), words)
        held.put(1, words, **metadata, rights=words.replace("\x00", ""))
        held.look()
        yield held


def test_hostile_words_break_out_of_no_answer(hostile: Repository) -> None:
    for prefix in texts(hostile.ask("ListMetadataFormats"), "metadataPrefix"):
        answer = hostile.ask("ListRecords", metadataPrefix=prefix)
        assert identifiers(answer) == [hostile.name(1)]
        assert not list(answer.iter("{*}b"))
    hostile.ask("ListSets")


def test_datacite_says_the_same_as_everywhere(archive: NewArchive) -> None:
    with repository(archive) as held:
        held.put(1, "Title", creator=["Silva, Maria"], type="tese", date="2020-05-06", language="pt")
        held.look()
        answer = held.ask("GetRecord", identifier=held.name(1), metadataPrefix="oai_datacite")
        assert texts(answer, "schemaVersion") == ["4.7"]
        assert (texts(answer, "creatorName"), texts(answer, "publicationYear")) == (
            ["Silva, Maria"],
            ["2020"],
        )
        general = [kind.get("resourceTypeGeneral") for kind in answer.iter("{*}resourceType")]
        assert general == ["Dissertation"]
        namespaces = {etree.QName(element).namespace for element in answer.iter("{*}resource")}
        assert namespaces == {"http://datacite.org/schema/kernel-4"}
