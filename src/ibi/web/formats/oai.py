"""The formats in which harvesters can have records, by metadataPrefix (OAI-PMH 2.0, 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.oai.envelope import xml_text, xml_value
from ibi.archive.oai.formats import RecordFormat
from ibi.exchange import host_of
from ibi.web.formats import datacite, oai_dc
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from ibi.archive.website.formats import Described

_WRAPPED: Final = (
    '<oai_datacite xmlns="http://schema.datacite.org/oai/oai-1.1/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://schema.datacite.org/oai/oai-1.1/ http://schema.datacite.org/oai/oai-1.1/oai.xsd">'
    "<schemaVersion>4.7</schemaVersion><datacentreSymbol>{archive}</datacentreSymbol>"
    "<payload>{resource}</payload></oai_datacite>"
)


_LANG: Final = {"{http://www.w3.org/XML/1998/namespace}lang": "xml:lang"}


def _datacite(item: Described) -> str:
    return _text(datacite.resource(record(item)))


def _text(element: Element) -> str:
    """An element whose names have no namespaces of their own, as text; in half the time that ElementTree takes."""
    values = ""
    for name, value in element.items():
        values += f" {_LANG.get(name, name)}={xml_value(value)}"
    inside = "".join(map(_text, element)) if len(element) else ""
    return f"<{element.tag}{values}>{xml_text(element.text or '')}{inside}</{element.tag}>"


def _wrapped(item: Described) -> str:
    return _WRAPPED.format(archive=xml_text(host_of(item.archive)), resource=_datacite(item))


RECORD_FORMATS: Final = (
    RecordFormat(
        "oai_dc",
        "http://www.openarchives.org/OAI/2.0/oai_dc.xsd",
        "http://www.openarchives.org/OAI/2.0/oai_dc/",
        oai_dc.write,
    ),
    RecordFormat(
        "oai_datacite",
        "http://schema.datacite.org/oai/oai-1.1/oai.xsd",
        "http://schema.datacite.org/oai/oai-1.1/",
        _wrapped,
    ),
    RecordFormat(
        "datacite",
        "https://schema.datacite.org/meta/kernel-4.7/metadata.xsd",
        datacite.NAMESPACE,
        _datacite,
    ),
)
"""All of them; oai_dc every harvester knows."""
