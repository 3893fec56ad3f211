"""Who advised a thesis: how it is written in Dublin Core, read by imports, and told by pages and formats."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.archive.admin.item_form import PersonRow, item_from_form
from ibi.archive.ingest.sources.bibtex import item_of
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.model.item_json import Draft
from ibi.archive.model.record_values import ADVISER, Author, as_adviser, contributor
from ibi.identifier.forms import IBIForms
from ibi.web.formats import FORMATS, citation, embedded, oai_dc, openaire
from ibi.web.formats.record import record

ORCID = "0000-0002-1825-0097"
URL = f"https://orcid.org/{ORCID}"


@pytest.mark.parametrize(
    "text",
    [
        "Silva, Maria [adviser]",
        "Silva, Maria (orientadora)",
        "Silva, Maria (Orientador(a))",
        "Silva, Maria [Advisor]",
        "Silva, Maria (supervisor)",
    ],
)
def test_a_role_behind_a_name_is_read(text: str) -> None:
    assert contributor(text) == Author("Silva, Maria", "", ADVISER)


def test_a_role_stands_beside_an_orcid() -> None:
    known = Author("Silva, Maria", ORCID, ADVISER)
    assert contributor(f"Silva, Maria [adviser] ({URL})") == known
    assert contributor(f"Silva, Maria ({URL}) (orientadora)") == known
    assert contributor(as_adviser(f"Silva, Maria ({URL})")) == known
    assert as_adviser("Silva, Maria [adviser]") == "Silva, Maria [adviser]"


@pytest.mark.parametrize(
    "text", ["Silva, Maria", "[adviser]", "(orientador)", "Silva (coorientador)", "Orientador, Ana", "", " "]
)
def test_what_is_no_role_stays_in_the_name(text: str) -> None:
    assert contributor(text).role == ""
    assert contributor(text).name == text


ITEM = DescribedItem(
    Holding(forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00"), timestamp="2026-01-01T00:00:00Z"),
    {
        "title": (MetadataValue("T"),),
        "type": (MetadataValue("doctoral thesis"),),
        "creator": (MetadataValue("Lima, Ana"),),
        "contributor": (MetadataValue("Reis, Rui"), MetadataValue(f"Silva, Maria [adviser] ({URL})")),
    },
    "http://a.example",
    "http://urlib.net",
    "a.example",
    "2026-01-01",
)


def test_formats_tell_the_role_where_they_have_a_place_for_it() -> None:
    written = next(each for each in FORMATS if each.name == "datacite-json").write(ITEM, {})
    assert [each["contributorType"] for each in json.loads(written)["contributors"]] == [
        "Other",
        "Supervisor",
    ]
    assert openaire.write(ITEM).count('contributorType="Supervisor"') == 1
    references = citation.write_ris(record(ITEM)).decode()
    assert "A2  - Reis, Rui" in references
    assert "A3  - Silva, Maria" in references
    assert "  advisor = {Silva, Maria}," in citation.write_bibtex(record(ITEM)).decode()
    assert "<dc:contributor>Silva, Maria</dc:contributor>" in oai_dc.write(ITEM)
    assert [each["name"] for each in embedded.facts(record(ITEM))["contributor"]] == [
        "Rui Reis",
        "Maria Silva",
    ]


def _metadata(draft: object) -> Any:
    assert isinstance(draft, Draft), draft
    return [each.value for each in draft.facts["metadata"]["contributor"]]


@pytest.mark.parametrize("column", ["adviser", "orientador", "dc.contributor.advisor", "contributor.advisor"])
def test_a_table_has_a_column_for_advisers(column: str) -> None:
    (row,) = read_table(BytesIO(f"title,{column},contributor\nT,Silva A; Reis B,Lima C\n".encode()))
    assert sorted(_metadata(row.draft)) == ["Lima C", "Reis B [adviser]", "Silva A [adviser]"]


def test_references_have_advisers() -> None:
    fields = [("title", "T"), ("advisor", "Maria Silva and Rui Reis"), ("editor", "Ana Lima")]
    people = item_of("phdthesis", "k", fields)["metadata"]["contributor"]
    assert people == ["Lima, Ana", "Silva, Maria [adviser]", "Reis, Rui [adviser]"]
    (found,) = read_ris(BytesIO(b"TY  - THES\nTI  - T\nA3  - Silva, Maria\nA2  - Reis, Rui\nER  - \n"))
    assert _metadata(found.draft) == ["Reis, Rui", "Silva, Maria [adviser]"]
    (found,) = read_ris(BytesIO(b"TY  - JOUR\nTI  - T\nA3  - Silva, Maria\nER  - \n"))
    assert _metadata(found.draft) == ["Silva, Maria"]


def test_the_form_gives_and_keeps_the_role() -> None:
    def typed(row: PersonRow) -> Any:
        fields = {
            "who": "person", "who.family": row.family, "who.given": row.given, "who.orcid": row.orcid,
            "who.role": row.role, "who.text": row.text, "who.lang": "",
        }  # fmt: skip
        return item_from_form(Form([*fields.items()]))["metadata"]

    new = PersonRow(True, "Silva", "Maria", ORCID, ADVISER)
    assert typed(new) == {"contributor": [f"Silva, Maria [adviser] ({URL})"]}
    kept = PersonRow.of("Silva, Maria (orientadora)", role="contributor")
    assert (kept.family, kept.given, kept.role) == ("Silva", "Maria", ADVISER)
    assert typed(kept) == {"contributor": ["Silva, Maria (orientadora)"]}
    assert typed(kept._replace(role="contributor")) == {"contributor": ["Silva, Maria"]}
    assert typed(kept._replace(role="creator")) == {"creator": ["Silva, Maria"]}
