"""What a format may write about an item, and how a document in it is served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ibi.archive.model.formats import OAI_DC, DescribedItem, Format, described
from ibi.archive.model.item import Holding, MetadataValue
from ibi.identifier.forms import IBIForms, Name

NAME, META = "a.example/b/2010/01.01.00.00", "a.example/b/2010/01.01.00.01"
TITLE = {"title": (MetadataValue("One"),)}
ITEM = Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="2020-01-01T00:00:00Z", metadata=TITLE)
BASE, RESOLVER, DAY = "http://a.example", "http://urlib.example/", "2026-11-22"


def _lookup(*held: Holding) -> object:
    def find(name: Name) -> Holding | None:
        return next((each for each in held if each.forms.names(name)), None)

    return find


def _described(item: Holding, *held: Holding, resolver: str = RESOLVER) -> DescribedItem | None:
    return described(_lookup(*held), item, BASE, resolver, "an Archive", DAY)  # type: ignore[arg-type]  # a look-up


def test_an_item_is_described_by_its_own_metadata_or_by_those_of_its_metadata_item() -> None:
    own = _described(ITEM)
    assert own == DescribedItem(ITEM, TITLE, BASE, "http://urlib.example", "an Archive", DAY)
    assert own.url == f"http://urlib.example/{NAME}"
    meta = replace(ITEM, forms=IBIForms.parse(f"rep {META}"))
    linked = replace(ITEM, metadata=None, metadata_item=meta.forms)
    assert _described(linked, meta) == replace(own, holding=linked)
    assert _described(linked) is None
    assert _described(replace(ITEM, metadata=None)) is None


def test_without_a_resolver_links_begin_with_the_archive() -> None:
    found = _described(ITEM, resolver="")
    assert found is not None
    assert (found.root, found.url) == (BASE, f"{BASE}/{NAME}")


@pytest.mark.parametrize(
    ("names", "institution"),
    [
        ({}, "this one"),
        ({"": "usual", "pt": "Português"}, "usual"),
        ({"pt": "Português", "en": "English"}, "Português"),
    ],
)
def test_the_institution_is_that_of_the_item_or_this_one(names: dict[str, str], institution: str) -> None:
    found = _described(replace(ITEM, institution=names))
    assert found is not None
    assert replace(found, publisher="this one").institution == institution
    assert found.institution == (institution if names else "")


@pytest.mark.parametrize(
    ("kind", "header"),
    [
        ("text/plain", "text/plain; charset=utf-8"),
        ("application/x-bibtex", "application/x-bibtex; charset=utf-8"),
        ("application/xml", "application/xml"),
    ],
)
def test_a_document_of_text_names_its_encoding(kind: str, header: str) -> None:
    assert Format("a", "A", (kind, "text/other"), OAI_DC.write).content_type == header


def test_dublin_core_is_written_from_the_metadata_whatever_the_options() -> None:
    found = _described(ITEM)
    assert found is not None
    assert OAI_DC.write(found, {"style": "x"}).count(b"<dc:title>One</dc:title>") == 1
    assert (OAI_DC.name, OAI_DC.profile) == ("oai_dc", "http://www.openarchives.org/OAI/2.0/oai_dc/")
    assert OAI_DC.media_types == ("application/xml", "text/xml")
