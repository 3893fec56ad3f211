"""What RIS says: reference by reference, each an item or one clear sentence."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.ingest.importing import FileImporter
from ibi.archive.ingest.sources.records import SourceRecord
from ibi.archive.ingest.sources.ris import LONGEST_REFERENCE, read_ris
from ibi.archive.model.item_json import LONGEST_LINE, Draft
from ibi.errors import IbiError
from support.archive.archive_fixture import NewArchive

ENTRY = """\
TY  - JOUR
TI  - Names that stay,
      addresses that move
AU  - Banon, Gerald Jean Francis
AU  - Banon, Lise Christine
A2  - Silva, Maria
PY  - 2014
DA  - 2014/05/3/
T2  - A Journal
VL  - 12
IS  - 3
SP  - 45
EP  - 67
KW  - names
KW  - addresses
AB  - Abstract.
LA  - Português
DO  - 10.1000/xyz
UR  - http://far.example/a paper
SN  - 1234-5678
ER  -
"""


def read(text: str | bytes) -> list[SourceRecord]:
    return list(read_ris(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def one(text: str | bytes) -> Draft:
    (found,) = read(text)
    assert isinstance(found.draft, Draft), str(found.draft)
    return found.draft


def test_a_reference_tells_place_and_dublin_core() -> None:
    facts = one(ENTRY).facts
    metadata_values = {name: [each.value for each in values] for name, values in facts["metadata"].items()}
    assert metadata_values == {
        "title": ["Names that stay, addresses that move"],
        "creator": ["Banon, Gerald Jean Francis", "Banon, Lise Christine"],
        "contributor": ["Silva, Maria"],
        "subject": ["names", "addresses"],
        "description": ["Abstract."],
        "date": ["2014-05-03"],
        "type": ["article"],
        "identifier": ["http://far.example/a%20paper", "https://doi.org/10.1000/xyz", "1234-5678"],
        "source": ["A Journal, v. 12, n. 3, p. 45-67"],
        "language": ["Português"],
    }
    assert facts["url"] == "http://far.example/a%20paper"
    assert facts["language"] == "pt"


@pytest.mark.parametrize(
    ("line", "rep"),
    [
        ("ID  - sid.inpe.br/mtc-m21/2012/06.05.15.34.39", "sid.inpe.br/mtc-m21/2012/06.05.15.34.39"),
        (
            "UR  - http://urlib.net/sid.inpe.br/mtc-m21/2012/06.05.15.34.39",
            "sid.inpe.br/mtc-m21/2012/06.05.15.34.39",
        ),
        ("ID  - Silva2014", None),
        ("ID  - see sid.inpe.br/mtc-m21/2012/06.05.15.34.39", None),
    ],
)
def test_a_name_of_the_standard_is_the_name_of_the_item(line: str, rep: str | None) -> None:
    draft = one(f"TY  - GEN\n{line}\nTI  - x\nER  - \n")
    assert (str(draft.forms.rep) if draft.forms else None) == rep
    assert "url" not in draft.facts
    assert bool(draft.key) is (rep is None)


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2014", "2014"),
        ("2014/05//", "2014-05"),
        ("2014-5-3", "2014-05-03"),
        ("03/05/2014", "2014-05-03"),
        ("spring", None),
        ("20140503", None),
    ],
)
def test_a_date_is_as_exact_as_it_is_told(text: str, date: str | None) -> None:
    metadata = one(f"TY  - GEN\nTI  - x\nPY  - {text}\nER  - \n").facts["metadata"]
    assert [each.value for each in metadata.get("date", ())] == ([date] if date else [])


def test_a_reference_that_cannot_be_read_harms_no_other() -> None:
    records = read(
        f"TI  - lost\nER  -\n\n{ENTRY}TY  - BOOK\nUR  - x\nLA  - pt\nTY  - BOOK\nTI  - no end\nnoise"
    )
    assert [(each.line, isinstance(each.draft, Draft)) for each in records] == [
        (1, False), (4, True), (25, True), (28, True),
    ]  # fmt: skip
    assert "begins with a line TY" in str(records[0].draft)


@pytest.mark.parametrize(
    ("lines", "element", "values"),
    [
        ("TI  - a\nT1  - b", "title", ["a"]),
        ("PY  - spring\nDA  - 2001\nY1  - 2002", "date", ["2001"]),
        ("PY  - 2014/00/05", "date", ["2014-05"]),
        ("A2  - E\nA3  - Souza\nA4  - L", "contributor", ["E", "Souza", "L"]),
        ("T2  - J\nSP  - 4\nEP  - 4", "source", ["J, p. 4"]),
        ("T2  - J\nSP  - 4", "source", ["J, p. 4"]),
        ("T2  - J\nEP  - 9", "source", ["J, p. 9"]),
        ("DO  - 10.1234/a\nM3  - 10.1234/b", "identifier", [f"https://doi.org/10.1234/{x}" for x in "ab"]),
        ("TI  -\n  late\n\n again", "title", ["late again"]),
        ("TI  - \nT1  - b", "title", ["b"]),
    ],
)
def test_the_lines_of_a_tag_become_an_element(lines: str, element: str, values: list[str]) -> None:
    metadata = one(f"TY  - XXXX\n{lines}\nER  - \n").facts["metadata"]
    assert [each.value for each in metadata[element]] == values
    assert [each.value for each in metadata["type"]] == ["XXXX"]


def test_the_one_who_advised_a_thesis_is_told_from_other_contributors() -> None:
    metadata = one("TY  - THES\nA2  - E\nA3  - Souza\nA4  - L\nER  -\n").facts["metadata"]
    assert [each.value for each in metadata["contributor"]] == ["E", "L", "Souza [adviser]"]


def test_a_reference_is_called_by_its_number_else_by_its_title() -> None:
    text = "TY  - BOOK\nID  - 7\nTI  - a\nER  -\nTY  - BOOK\nTI  - b\nER  -\nTY  - BOOK\nER  -\n"
    assert [each.name for each in read(text)] == ["7", "b", ""]


def test_lines_after_the_end_of_a_reference_are_told_where_they_begin() -> None:
    text = "TY  - BOOK\nTI  - a\nER  - \n\nTI  - lost\nTI  - more\nER  - 3\nno tag"
    sentence = "a reference of RIS begins with a line TY"
    assert [(each.line, str(each.draft)) for each in read(text)][1:] == [(5, sentence), (8, sentence)]


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("lines", [1, 1000])
def test_the_longest_reference_is_read_and_a_longer_one_is_not(lines: int, more: int) -> None:
    text = "TY  - BOOK\nTI  - " + "x\n" * (lines - 1)
    text += "x" * (LONGEST_REFERENCE - len(text) - len("\n") + more) + "\n"
    (found,) = read(f"{text}ER  - \n")
    assert (found.line, isinstance(found.draft, Draft)) == (1, not more)
    if more:
        assert str(found.draft) == f"the reference is longer than {LONGEST_REFERENCE} characters"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encoding_and_line_ends_are_told_apart(encoding: str, end: str) -> None:
    text = "TY  - BOOK\nTI  - Anais da Emigração\nKW  - São José\nER  - \n".replace("\n", end)
    (title,) = one(text.encode(encoding)).facts["metadata"]["title"]
    assert title.value == "Anais da Emigração"


@pytest.mark.parametrize("long", ["x" * (3 * LONGEST_LINE), "y\n" * (LONGEST_REFERENCE // 2 + 1)])
def test_a_reference_without_end_is_one_sentence(long: str) -> None:
    records = read(f"TY  - BOOK\nTI  - {long}\nER  -\n{ENTRY}")
    assert [isinstance(each.draft, Draft) for each in records] == [False, True]
    assert "longer than" in str(records[0].draft)


@given(st.text(alphabet="TYERAUI  -\n\r\x00é{}/10.", max_size=300))
def test_any_ris_is_items_or_our_errors(text: str) -> None:
    for each in read(text):
        assert isinstance(each.draft, Draft | IbiError)


def test_a_file_of_ris_is_imported_once(archive: NewArchive) -> None:
    file = archive.data / "list.ris"
    file.write_text(ENTRY)
    refused: list[object] = []
    report = FileImporter(archive.item_store, "tester", refused.append).run(file)
    assert (report.added, refused) == (1, [])
    again = FileImporter(archive.item_store, "tester", refused.append).run(file)
    assert (again.added, again.unchanged) == (0, 1)
