"""Write oai_openaire for harvesters: the OpenAIRE Guidelines for Literature Repository Managers 4 (pure).

An item has Dublin Core and the facts of the Archive, so it says neither who paid for it nor which version of
the text it is. DataCite's terms of the guidelines are those of version 4.1, which has no translations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.model.item import Access
from ibi.archive.oai.envelope import xml_text, xml_value
from ibi.web.formats.datacite import CONTRIBUTORS, ORCID, URI
from ibi.web.formats.oai_dc import three_letters
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ibi.archive.model.formats import DescribedItem
    from ibi.web.formats.record import ItemKind, ItemRecord, Person, Text

NAMESPACE: Final = "http://namespace.openaire.eu/schema/oaire/"
SCHEMA: Final = "https://www.openaire.eu/schema/repo-lit/4.0/openaire.xsd"
_HEAD: Final = (
    f'<oaire:resource xmlns:oaire="{NAMESPACE}" xmlns:datacite="http://datacite.org/schema/kernel-4"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    f' xsi:schemaLocation="{NAMESPACE} {SCHEMA}">'
)
_COAR: Final = "http://purl.org/coar"
_ACCESS: Final = {
    Access.OPEN: ("c_abf2", "open access"),
    Access.EMBARGOED: ("c_f1cf", "embargoed access"),
    Access.RESTRICTED: ("c_16ec", "restricted access"),
    Access.CLOSED: ("c_14cb", "metadata only access"),
}
"""Access of an item -> concept and label of the COAR Access Rights."""
_TYPES: Final = {
    "doctoral": ("c_db06", "doctoral thesis"), "master": ("c_bdcc", "master thesis"),
    "bachelor": ("c_7a1f", "bachelor thesis"), "map": ("c_12cd", "map"),
    "JournalArticle": ("c_6501", "journal article"), "Preprint": ("c_816b", "preprint"), "Book": ("c_2f33", "book"),
    "BookChapter": ("c_3248", "book part"), "ConferencePaper": ("c_5794", "conference paper"),
    "Poster": ("c_6670", "conference poster"), "Presentation": ("c_8544", "lecture"), "Report": ("c_93fc", "report"),
    "Text": ("c_18cf", "text"), "Dataset": ("c_ddb1", "dataset"), "Software": ("c_5ce6", "software"),
    "Image": ("c_c513", "image"), "Audiovisual": ("c_8a7e", "moving image"), "Sound": ("c_18cc", "sound"),
}  # fmt: skip
"""Genre, or DataCite's name of the kind -> concept and label of the COAR Resource Types 2."""
_OTHER: Final = ("c_1843", "other")
_PRODUCTS: Final = {"Dataset": "dataset", "Software": "software"}
_NO_LITERATURE: Final = frozenset({"Image", "Audiovisual", "Sound", "Collection", "Other"})


def write(item: DescribedItem) -> str:
    """Write the item as one element oaire:resource, which declares its own namespaces and schema."""
    facts = record(item)
    # Values that have nothing but characters that XML forbids are left out.
    return "".join((_HEAD, *filter(None, _elements(facts)), "</oaire:resource>"))


def _elements(item: ItemRecord) -> Iterator[str]:
    yield _group("title", (_text("datacite:title", text) for text in item.titles))
    yield _group("creator", (_person("creator", person) for person in item.creators))
    yield _group("contributor", (_person("contributor", person) for person in item.contributors))
    yield _group("alternateIdentifier", _alternate(item))
    yield _group("relatedIdentifier", _related(item))
    dates = [("Issued", str(item.issued or f"{item.year:04}")), ("Available", item.embargo)]
    known = dates if item.access is Access.EMBARGOED else dates[:1]
    yield _group("date", (_element("datacite:date", day, dateType=kind) for kind, day in known))
    yield _element("dc:language", three_letters(item.language) or "und")
    yield _element("dc:publisher", item.publisher)
    yield _type(item.kind)
    yield from (_text("dc:description", text) for text in item.descriptions)
    yield from (_element("dc:format", kind) for kind in dict.fromkeys(file.media_type for file in item.files))
    yield _element("datacite:identifier", item.url, identifierType="PURL")
    concept, label = _ACCESS[item.access]
    yield _element("datacite:rights", label, rightsURI=f"{_COAR}/access_right/{concept}")
    yield _element("dc:source", str(item.source))
    yield _group("subject", (_text("datacite:subject", text) for text in item.subjects))
    words = " ".join(item.rights) or item.licence
    address = {"uri": item.licence} if URI.fullmatch(item.licence) else {}
    yield _element("oaire:licenseCondition", words, **address)
    yield from (_element("dc:coverage", place) for place in item.coverage)
    yield _group("size", (_element("datacite:size", f"{file.size} B") for file in item.files))
    yield from _files(item)
    first, _, last = item.source.pages.partition("-")
    parts = (item.source.name, item.source.volume, item.source.number, first, last)
    for name, text in zip(("Title", "Volume", "Issue", "StartPage", "EndPage"), parts, strict=True):
        yield _element(f"oaire:citation{name}", text)


def _type(kind: ItemKind) -> str:
    concept, label = _TYPES.get(kind.genre) or _TYPES.get(kind.datacite, _OTHER)
    general = "other research product" if kind.datacite in _NO_LITERATURE else "literature"
    return _element(
        "oaire:resourceType",
        label,
        resourceTypeGeneral=_PRODUCTS.get(kind.datacite, general),
        uri=f"{_COAR}/resource_type/{concept}",
    )


def _alternate(item: ItemRecord) -> Iterator[str]:
    names = [
        *((name, "IBI") for name in item.names),
        (item.doi, "DOI"),
        *((address, "URL") for address in item.addresses),
    ]
    for name, kind in names:
        yield _element("datacite:alternateIdentifier", name, alternateIdentifierType=kind)


def _related(item: ItemRecord) -> Iterator[str]:
    links = item.related
    related = [
        *((url, "PURL", "IsNewVersionOf") for url in links.earlier),
        (links.next_edition, "PURL", "IsPreviousVersionOf"),
        (links.metadata_item, "PURL", "HasMetadata"),
        (links.original, "URL", "IsIdenticalTo"),
    ]
    for url, kind, relation in related:
        yield _element("datacite:relatedIdentifier", url, relatedIdentifierType=kind, relationType=relation)


def _files(item: ItemRecord) -> Iterator[str]:
    """Yield the files, which are listed only if they are open to all readers."""
    access = f"{_COAR}/access_right/{_ACCESS[Access.OPEN][0]}"
    for file in item.files:
        yield _element("oaire:file", file.url, accessRightsURI=access, mimeType=file.media_type)


def _person(role: str, person: Person) -> str:
    name = f"{person.family}, {person.given}" if person.family else person.name
    kind = {"nameType": "Personal"} if person.family or person.orcid else {}
    inside = _element(f"datacite:{role}Name", name, **kind)
    if not inside:
        return ""
    if person.family:
        inside += _element("datacite:givenName", person.given) + _element(
            "datacite:familyName", person.family
        )
    if person.orcid:
        known = f"{ORCID}/{person.orcid}"
        inside += _element("datacite:nameIdentifier", known, nameIdentifierScheme="ORCID", schemeURI=ORCID)
    what = f' contributorType="{CONTRIBUTORS[person.role]}"' if role == "contributor" else ""
    return f"<datacite:{role}{what}>{inside}</datacite:{role}>"


def _text(name: str, text: Text) -> str:
    return _element(name, text.value, **({"xml:lang": text.language} if text.language else {}))


def _group(name: str, elements: Iterable[str]) -> str:
    inside = "".join(elements)
    return f"<datacite:{name}s>{inside}</datacite:{name}s>" if inside else ""


def _element(name: str, text: str, **attributes: str) -> str:
    """Write an element; "" if it has no text."""
    inside = xml_text(text)
    words = "".join(f" {each}={xml_value(value)}" for each, value in attributes.items())
    return f"<{name}{words}>{inside}</{name}>" if inside else ""
