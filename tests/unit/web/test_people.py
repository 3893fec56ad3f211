"""Names of people, their ORCIDs, and the tags that gatherers of references read."""

from __future__ import annotations

import pytest

from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.archive.model.record_values import Author, author
from ibi.identifier.forms import IBIForms
from ibi.web.formats import embedded
from ibi.web.formats.record import record

GOOD = "0000-0002-1825-0097"


@pytest.mark.parametrize(
    "text",
    [
        f"Silva, Maria (https://orcid.org/{GOOD})",
        f"Silva, Maria [ORCID: {GOOD}]",
        f"Silva, Maria; orcid.org/{GOOD}",
        f"Silva, Maria ORCID {GOOD}",
        f"Silva, Maria <http://www.orcid.org/{GOOD}>",
        f"{GOOD} Silva, Maria",
    ],
)
def test_an_orcid_is_read_out_of_a_name(text: str) -> None:
    assert author(text) == Author("Silva, Maria", GOOD)
    assert author(text).url == f"https://orcid.org/{GOOD}"


def test_an_orcid_may_end_in_an_x_and_may_stand_alone() -> None:
    assert author("Ana 0000-0002-1694-233x") == Author("Ana", "0000-0002-1694-233X")
    assert author(GOOD) == Author(GOOD, GOOD)


@pytest.mark.parametrize(
    "text",
    ["Silva, Maria", "Silva 0000-0002-1825-0098", "Silva 0000-0002-1825-00971", "10000-0002-1825-0097", ""],
)
def test_what_is_no_orcid_stays_in_the_name(text: str) -> None:
    assert author(text) == Author(text)


def test_a_long_name_costs_no_long_search() -> None:
    text = "(" * 100_000
    assert author(text) == Author(text)


def _item(**metadata: tuple[str, ...]) -> DescribedItem:
    files = (
        StoredFile("a.txt", 1, "0" * 64, "text/plain"),
        StoredFile("b.pdf", 1, "0" * 64, "application/pdf"),
    )
    holding = Holding(
        forms=IBIForms.parse("rep a.example/b/2010/01.01.00.00"),
        timestamp="2026-01-01T00:00:00Z",
        language="pt-BR",
        files=files,
    )
    statements = {name: tuple(map(MetadataValue, values)) for name, values in metadata.items()}
    return DescribedItem(
        holding, statements, "http://a.example", "http://r.example", "a.example", "2026-11-22"
    )


def test_highwire_tags_tell_people_date_where_it_came_out_and_the_pdf() -> None:
    item = record(
        _item(
            title=("On names",),
            creator=(f"Silva, Maria ({GOOD})", "INPE"),
            date=("2014-03-02",),
            type=("doctoral thesis",),
            publisher=("USP",),
            subject=("names",),
        )
    )
    assert embedded.tags(item, "http://a.example/-/item/x") == [
        ("citation_title", "On names"),
        ("citation_author", "Silva, Maria"),
        ("citation_author_orcid", f"https://orcid.org/{GOOD}"),
        ("citation_author", "INPE"),
        ("citation_publication_date", "2014/03/02"),
        ("citation_dissertation_institution", "USP"),
        ("citation_language", "pt-BR"),
        ("citation_keywords", "names"),
        ("citation_abstract_html_url", "http://a.example/-/item/x"),
        ("citation_public_url", "http://r.example/a.example/b/2010/01.01.00.00"),
        ("citation_pdf_url", "http://a.example/col/a.example/b/2010/01.01.00.00/doc/b.pdf"),
    ]


def test_an_article_tells_its_journal() -> None:
    item = record(_item(title=("x",), type=("article",), source=("Journal of Names",), publisher=("P",)))
    tags = dict(embedded.tags(item, "u"))
    assert (tags["citation_journal_title"], tags["citation_publisher"]) == ("Journal of Names", "P")
    assert "citation_publication_date" not in tags


def test_json_ld_names_people_by_their_orcid() -> None:
    body = embedded.write(record(_item(title=("x",), creator=(f"Silva, Maria ({GOOD})", f"Ana {GOOD}"))))
    assert body.count(f'"@id": "https://orcid.org/{GOOD}"'.encode()) == 2
    assert b"Maria Silva" in body
