"""Write the metadata that programs read inside the page of an item (pure).

Search engines read JSON-LD with the terms of schema.org. It can be put into a page as it is, because no
character of it ends a script element. Google Scholar, Zotero and others read tags (citation_title, …).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.model.item import Access

if TYPE_CHECKING:
    from ibi.web.formats.record import File, ItemRecord, Person


# The first three characters could end a script element; the others end a line in old JavaScript.
_IN_PAGES: Final = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})
# In schema.org, the files of a data set are its `distribution`, and those of other items `encoding`.
_FILES: Final = {"Dataset": "distribution"}


def write(item: ItemRecord, indent: int | None = 1) -> bytes:
    """Write the item as a JSON-LD document, in UTF-8; for a page, use `indent` None."""
    return json.dumps(facts(item), ensure_ascii=False, indent=indent).translate(_IN_PAGES).encode()


def facts(item: ItemRecord) -> dict[str, Any]:
    """Return what is known of the item in the words of schema.org, as a JSON-LD object."""
    kind, translated = item.kind.schema, item.related.translated
    known = {
        "@context": "https://schema.org",
        "@type": kind,
        "@id": item.url,
        "url": item.url,
        "identifier": [{"@type": "PropertyValue", "propertyID": "IBI", "value": name} for name in item.names],
        "sameAs": [*([f"https://doi.org/{item.doi}"] if item.doi else []), *item.addresses],
        "name": item.title,
        "alternateName": [text.value for text in item.titles[1:]],
        "author": [_person(person) for person in item.creators],
        "contributor": [_person(person) for person in item.contributors],
        "publisher": {"@type": "Organization", "name": item.publisher},
        "datePublished": str(item.issued) if item.issued else "",
        "dateModified": item.updated,
        "inLanguage": item.language,
        "description": "\n".join(text.value for text in item.descriptions),
        "keywords": [text.value for text in item.subjects],
        "spatialCoverage" if kind == "Dataset" else "contentLocation": list(item.coverage),
        "license": item.licence,
        "conditionsOfAccess": " ".join(item.rights),
        "isAccessibleForFree": item.access is Access.OPEN and not item.removed,
        "creativeWorkStatus": "Removed" if item.removed else "",
        _FILES.get(kind, "encoding"): [_file(each, kind) for each in item.files],
        "translationOfWork": {"@id": translated} if translated else "",
        "workTranslation": [] if translated else [{"@id": url} for url in item.related.translations],
        "subjectOf": [{"@id": item.related.metadata_item}] if item.related.metadata_item else [],
    }
    return {name: value for name, value in known.items() if value not in ("", [], None)}


def _file(file: File, kind: str) -> dict[str, str]:
    return {
        "@type": "DataDownload" if kind in _FILES else "MediaObject",
        "contentUrl": file.url,
        "encodingFormat": file.media_type,
        "contentSize": f"{file.size} B",
        "sha256": file.sha256,
    }


def _person(person: Person) -> dict[str, str]:
    """Describe a creator. An undivided name may be an institution's: it gets no type without an ORCID."""
    known = {"@id": f"https://orcid.org/{person.orcid}"} if person.orcid else {}
    if not person.family:
        return {**({"@type": "Person", **known} if known else {}), "name": person.name}
    return {
        "@type": "Person",
        **known,
        "name": f"{person.given} {person.family}",
        "familyName": person.family,
        "givenName": person.given,
    }


MOST: Final = 50
"""Meta elements of one name on a page, such as `citation_author`."""

_PUBLISHED_BY: Final = {
    "thesis": "citation_dissertation_institution",
    "report": "citation_technical_report_institution",
}
_INSIDE: Final = {
    "article-journal": "citation_journal_title",
    "paper-conference": "citation_conference_title",
    "chapter": "citation_inbook_title",
}


def tags(item: ItemRecord, page: str) -> list[tuple[str, str]]:
    """Return (name, content) of each tag, in order. `page`: the URL of the page that has the tags."""
    # Some works have thousands of authors: tags for all of them would be longer than the page.
    authors = []
    for person in item.creators[:MOST]:
        authors.append(("citation_author", person.name))
        if person.orcid:
            authors.append(("citation_author_orcid", f"https://orcid.org/{person.orcid}"))
    first_page, _, last_page = item.source.pages.partition("-")
    named = [
        ("citation_title", item.title),
        *authors,
        ("citation_publication_date", str(item.issued).replace("-", "/") if item.issued else ""),
        (_PUBLISHED_BY.get(item.kind.csl, "citation_publisher"), item.publisher),
        (_INSIDE.get(item.kind.csl, ""), item.source.name if item.kind.csl in _INSIDE else ""),
        ("citation_volume", item.source.volume),
        ("citation_issue", item.source.number),
        ("citation_firstpage", first_page),
        ("citation_lastpage", last_page),
        ("citation_language", item.language),
        ("citation_doi", item.doi),
        *(("citation_keywords", text.value) for text in item.subjects[:MOST]),
        ("citation_abstract_html_url", page),
        ("citation_public_url", item.url),
        (
            "citation_pdf_url",
            next((f.url for f in item.files if f.media_type.startswith("application/pdf")), ""),
        ),
    ]
    return [(name, content) for name, content in named if content]
