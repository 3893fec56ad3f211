"""Records are read by an XML parser, as a harvester reads them: each value of the depositor is found again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree  # type: ignore[import-untyped]  # it has no types

from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue, write_oai_dc
from ibi.archive.oai import envelope
from ibi.identifier.forms import IBIForms
from ibi.web.formats import RECORD_FORMATS, datacite, oai_dc
from ibi.web.formats.record import record
from support.archive.item_samples import METADATA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from ibi.web.formats.record import ItemRecord

    Metadata = Mapping[str, tuple[MetadataValue, ...]]

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40")
LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
LINES = {"title": (MetadataValue("a\rb\r\nc\nd\te]]>&#13;<x/>", "pt"),)}
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def item(metadata: Metadata) -> DescribedItem:
    holding = Holding(forms=FORMS, timestamp="2026-09-15T16:40:00Z", metadata=metadata)
    root, resolver = "http://archive.example", "http://resolver.example"
    return DescribedItem(holding, metadata, root, resolver, "archive.example", "2026-11-27")


def values(document: bytes | str, name: str) -> list[tuple[str, str | None]]:
    """What the elements of a name say, each with its language."""
    found = etree.fromstring(document).iter(f"{{*}}{name}")
    return [(element.text or "", element.get(LANGUAGE)) for element in found]


@given(metadata=METADATA)
@example(metadata=LINES)
def test_the_depositors_dublin_core_is_found_again_as_it_is(metadata: Metadata) -> None:
    document = write_oai_dc(metadata)
    for name, wanted in metadata.items():
        assert values(document, name) == [(NOT_XML.sub("\ufffd", text), tag) for text, tag in wanted]
    assert len(list(etree.fromstring(document))) == sum(map(len, metadata.values()))


@given(metadata=METADATA)
@example(metadata=LINES)
def test_a_harvester_finds_what_the_depositor_said(metadata: Metadata) -> None:
    header = envelope.header("oai:archive.example:x", 0, ("openaire",), removed=False)
    inside = envelope.listed("ListRecords", (envelope.record(header, oai_dc.write(item(metadata))),))
    document = envelope.document("http://archive.example/-/oai", 0, {"verb": "ListRecords"}, inside)
    for name in (
        "title",
        "creator",
        "subject",
        "description",
        "publisher",
        "contributor",
        "source",
        "relation",
    ):
        wanted = [(NOT_XML.sub("", text).strip(), tag) for text, tag in metadata.get(name, ())]
        found = values(document, name)
        assert [each for each in dict.fromkeys(wanted) if each[0]] == list(dict.fromkeys(found)), name
    for name in ("date", "type", "identifier", "rights", "coverage"):  # beside other values
        wanted = [(NOT_XML.sub("", text).strip(), tag) for text, tag in metadata.get(name, ())]
        found = values(document, name)
        assert {text for text, _ in wanted if text and name != "date"} <= {text for text, _ in found}


@given(
    days=st.lists(st.dates(), min_size=1, max_size=3), tags=st.lists(st.sampled_from(["pt", "en-GB", "wa"]))
)
def test_a_harvester_finds_dates_and_languages(days: list[date], tags: list[str]) -> None:
    wanted: dict[str, list[str]] = {"date": [str(day) for day in days], "language": tags}
    document = oai_dc.write(item({key: tuple(map(MetadataValue, each)) for key, each in wanted.items()}))
    assert [text for text, _ in values(document, "date")] == list(dict.fromkeys(map(str, days)))
    codes = {"pt": "por", "en-GB": "eng", "wa": "wln"}
    assert [text for text, _ in values(document, "language")] == list(dict.fromkeys(map(codes.get, tags)))


def reported(of: ItemRecord) -> dict[str, list[str]]:
    """What DataCite tells of an item, by the names of its elements."""
    return {
        # DataCite has a name in parts as "family, given", however its comma was written.
        "creatorName": [
            f"{person.family}, {person.given}" if person.family else person.name for person in of.creators
        ],
        "subject": [text.value for text in of.subjects],
        "description": [text.value for text in of.descriptions],
        "publisher": [of.publisher],
    }


@given(metadata=METADATA)
@example(metadata=LINES)
@example(metadata={"title": (MetadataValue(""),), "creator": (MetadataValue("0,0"),)})
def test_datacite_tells_what_the_record_tells(metadata: Metadata) -> None:
    of = record(item(metadata))
    documents: list[bytes | str] = [datacite.write_xml(of)]
    documents += [each.write(item(metadata)) for each in RECORD_FORMATS if "datacite" in each.prefix]
    for document in documents:
        assert values(document, "title")[0][0] == of.title
        for name, expected in reported(of).items():
            found = [text for text, _ in values(document, name)]
            assert [text for text in found if text in expected] == [text for text in expected if text], name
