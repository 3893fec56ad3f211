"""Write DataCite 4.7 as XML, and as the JSON of DataCite's own interface (pure).

Both are written from the same facts, so they cannot differ. A required value that the metadata lack is
":unav" (the schema's appendix on unknown values). Relations: editions, translations, metadata, original of a copy.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

from ibi.archive.model.item import Access
from ibi.archive.model.record_values import ADVISER
from ibi.archive.oai.envelope import xml_text, xml_value
from ibi.http.request import host_of
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ibi.archive.model.formats import DescribedItem
    from ibi.web.formats.record import ItemRecord, Person

NAMESPACE: Final = "http://datacite.org/schema/kernel-4"
_SCHEMA: Final = f"{NAMESPACE} https://schema.datacite.org/meta/kernel-4.7/metadata.xsd"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
_ATTRIBUTES: Final = {
    "lang": "{http://www.w3.org/XML/1998/namespace}lang", "rightsUri": "rightsURI", "schemeUri": "schemeURI",
}  # fmt: skip
"""Attributes whose name in XML differs from the name in JSON."""
_URI: Final = re.compile(
    r"https?://(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})+(?:#[A-Za-z0-9._~/-]*)?"
)
"""What validators of XML take as a URI (`anyURI`); not "%" without two digits, which old URLs of licences may have."""
_UNAVAILABLE: Final = ":unav"
ORCID: Final = "https://orcid.org"
SEMANTICS: Final = "info:eu-repo/semantics/"
CONTRIBUTORS: Final = {ADVISER: "Supervisor", "": "Other"}
"""Role of a contributor -> contributorType."""

ACCESS_RIGHTS: Final = {
    Access.OPEN: f"{SEMANTICS}openAccess",
    Access.EMBARGOED: f"{SEMANTICS}embargoedAccess",
    Access.RESTRICTED: f"{SEMANTICS}restrictedAccess",
    Access.CLOSED: f"{SEMANTICS}closedAccess",
}
"""Access of an item -> its term of COAR and OpenAIRE."""
_SINGULAR: Final = {
    "creators": "creator", "titles": "title", "subjects": "subject", "contributors": "contributor",
    "dates": "date", "alternateIdentifiers": "alternateIdentifier", "relatedIdentifiers": "relatedIdentifier",
    "sizes": "size", "formats": "format", "rightsList": "rights", "descriptions": "description",
    "geoLocations": "geoLocation",
}  # fmt: skip
_WRAPPED: Final = (
    '<oai_datacite xmlns="http://schema.datacite.org/oai/oai-1.1/"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xsi:schemaLocation="http://schema.datacite.org/oai/oai-1.1/ http://schema.datacite.org/oai/oai-1.1/oai.xsd">'
    "<schemaVersion>4.7</schemaVersion><datacentreSymbol>{archive}</datacentreSymbol>"
    "<payload>{resource}</payload></oai_datacite>"
)
_LANG: Final = {"{http://www.w3.org/XML/1998/namespace}lang": "xml:lang"}


def write_json(item: ItemRecord) -> bytes:
    """Write the item as one JSON object, in UTF-8."""
    value = {
        "url": item.url,
        **({"doi": item.doi} if item.doi else {}),
        **_facts(item),
        "schemaVersion": NAMESPACE,
    }
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def write_xml(item: ItemRecord) -> bytes:
    """Write the item as an XML document, in UTF-8."""
    top = _resource(item)
    ET.indent(top, " ")
    written: bytes = ET.tostring(top, "utf-8", xml_declaration=True)
    return written


def write_record(item: DescribedItem) -> str:
    """Write a record for harvesters in DataCite's own format."""
    return _text(_resource(record(item)))


def write_oai_record(item: DescribedItem) -> str:
    """Write a record for harvesters in the format oai_datacite, which wraps DataCite's own."""
    return _WRAPPED.format(archive=xml_text(host_of(item.archive)), resource=write_record(item))


def _text(element: ET.Element) -> str:
    """Write an element without namespaces in its names as text, in half the time of ElementTree."""
    values = ""
    for name, value in element.items():
        values += f" {_LANG.get(name, name)}={xml_value(value)}"
    inside = "".join(map(_text, element)) if len(element) else ""
    return f"<{element.tag}{values}>{xml_text(element.text or '')}{inside}</{element.tag}>"


def _resource(item: ItemRecord) -> ET.Element:
    """Make the element `resource` of the item, which declares its own namespaces and schema."""
    top = ET.Element("resource", {"xmlns": NAMESPACE, "xmlns:xsi": _XSI, "xsi:schemaLocation": _SCHEMA})
    _add(top, "identifier", item.url, {"identifierType": "PURL"})
    for name, value in _facts(item).items():
        if name == "publisher":
            _add(top, name, value["name"])
        elif name == "types":
            _add(top, "resourceType", value["resourceType"], _only(value, "resourceTypeGeneral"))
        elif isinstance(value, list):
            group = ET.SubElement(top, name)
            for each in value:
                _member(group, name, each)
        else:
            _add(top, name, str(value))
    return top


def _member(group: ET.Element, name: str, each: Any) -> None:
    """Add one value of a group: a text, a text with attributes, or a person or place with child elements."""
    element = _SINGULAR[name]
    if isinstance(each, str):
        _add(group, element, each)
    elif element in each:
        _add(group, element, each[element], {key: value for key, value in each.items() if key != element})
    elif name == "geoLocations":
        _add(ET.SubElement(group, element), "geoLocationPlace", each["geoLocationPlace"])
    else:
        person = ET.SubElement(group, element, _only(each, "contributorType"))
        _add(person, f"{element}Name", each["name"], _only(each, "nameType"))
        for part, text in _only(each, "givenName", "familyName").items():
            _add(person, part, text)
        for known in each.get("nameIdentifiers", ()):
            _add(
                person,
                "nameIdentifier",
                known["nameIdentifier"],
                _only(known, "nameIdentifierScheme", "schemeUri"),
            )


def _only(values: Mapping[str, str], *names: str) -> dict[str, str]:
    return {name: values[name] for name in names if name in values}


def _add(parent: ET.Element, name: str, text: str, attributes: Mapping[str, str] | None = None) -> None:
    named = {_ATTRIBUTES.get(key, key): value for key, value in (attributes or {}).items()}
    ET.SubElement(parent, name, named).text = text


def _facts(item: ItemRecord) -> dict[str, Any]:
    """Return the facts of both formats, under their names in the JSON, without empty values."""
    kind = item.kind
    names = [
        *((name, "IBI") for name in item.names),
        *([(item.doi, "DOI")] if item.doi else []),
        *((address, "URL") for address in item.addresses),
    ]
    facts: dict[str, Any] = {
        "creators": [_person(person) for person in item.creators] or [{"name": _UNAVAILABLE}],
        "titles": [{"title": text.value, **_lang(text.language)} for text in item.titles],
        "publisher": {"name": item.publisher},
        "publicationYear": f"{item.year:04}",
        "types": {"resourceType": item.type or kind.csl, "resourceTypeGeneral": kind.datacite},
        "subjects": [{"subject": text.value, **_lang(text.language)} for text in item.subjects],
        "contributors": [
            {**_person(person), "contributorType": CONTRIBUTORS[person.role]} for person in item.contributors
        ],
        "dates": list(_dates(item)),
        "language": item.language if _is_tag(item.language) else "",
        "alternateIdentifiers": [
            {"alternateIdentifier": name, "alternateIdentifierType": kind_of_name}
            for name, kind_of_name in names
        ],
        "relatedIdentifiers": list(_related(item)),
        "sizes": list(dict.fromkeys(f"{file.size} B" for file in item.files)),
        "formats": list(dict.fromkeys(file.media_type for file in item.files)),
        "rightsList": list(_rights(item)),
        "descriptions": [
            {"description": text.value, "descriptionType": "Abstract", **_lang(text.language)}
            for text in item.descriptions
        ],
        "geoLocations": [{"geoLocationPlace": place} for place in item.coverage],
    }
    return {name: value for name, value in facts.items() if value}


def _person(person: Person) -> dict[str, Any]:
    if not person.family and not person.orcid:
        return {"name": person.name}
    facts: dict[str, Any] = {"name": person.name, "nameType": "Personal"}  # an ORCID is that of a person
    if person.family:
        facts |= {
            "name": f"{person.family}, {person.given}",
            "givenName": person.given,
            "familyName": person.family,
        }
    if person.orcid:
        known = f"{ORCID}/{person.orcid}"
        facts["nameIdentifiers"] = [
            {"nameIdentifier": known, "nameIdentifierScheme": "ORCID", "schemeUri": ORCID}
        ]
    return facts


def _dates(item: ItemRecord) -> Iterator[dict[str, str]]:
    if item.issued:
        yield {"date": str(item.issued), "dateType": "Issued"}
    if item.access is Access.EMBARGOED:
        yield {"date": item.embargo, "dateType": "Available"}
    why = {"dateInformation": item.reason} if item.removed and item.reason else {}
    yield {"date": item.updated, "dateType": "Withdrawn" if item.removed else "Updated", **why}


def _related(item: ItemRecord) -> Iterator[dict[str, str]]:
    """Yield the URLs of related items; HasTranslation and IsTranslationOf exist since DataCite 4.6."""
    links = item.related
    # Two translations of the same item have no relation to each other that DataCite knows.
    translated = [links.translated] if links.translated else list(links.translations)
    related = [
        *((url, "IsNewVersionOf") for url in links.earlier),
        (links.next_edition, "IsPreviousVersionOf"),
        *((url, "IsTranslationOf" if links.translated else "HasTranslation") for url in translated),
        (links.metadata_item, "HasMetadata"),
    ]
    for url, relation in related:
        if url:
            yield {"relatedIdentifier": url, "relatedIdentifierType": "PURL", "relationType": relation}
    if links.original:
        yield {
            "relatedIdentifier": links.original, "relatedIdentifierType": "URL", "relationType": "IsIdenticalTo",
        }  # fmt: skip


def _rights(item: ItemRecord) -> Iterator[dict[str, str]]:
    if not item.removed:
        address = ACCESS_RIGHTS[item.access]
        yield {"rights": address.rpartition("/")[2], "rightsUri": address}
    for words in item.rights:
        yield {"rights": words}
    if item.licence:
        yield {
            "rights": item.licence,
            **({"rightsUri": item.licence} if _URI.fullmatch(item.licence) else {}),
        }


def _lang(tag: str | None) -> dict[str, str]:
    return {"lang": tag} if tag else {}


def _is_tag(text: str) -> bool:
    """Return whether a text may be a language tag; Dublin Core allows any words as a language."""
    parts = text.split("-")
    return all(part.isascii() and part.isalnum() and len(part) <= 8 for part in parts) and parts[0].isalpha()  # noqa: PLR2004 - RFC 5646
