"""Write an item's metadata in formats for programs, and as citations; `FORMATS` lists all of them.

No writer reads a database or the network: each gets a `record.ItemRecord`, or the `DescribedItem` it is made of.

Entry points: `FORMATS` lists each format with its media types and its writer; `record.record` prepares an
item; `RECORD_FORMATS` are the formats for harvesters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.model.formats import OAI_DC, Format
from ibi.archive.oai.envelope import RecordFormat
from ibi.errors import NotHeld
from ibi.protocol.vocabulary import METADATA_FORMATS
from ibi.runtime.i18n import our_language
from ibi.web.formats import citation, datacite, embedded, oai_dc, openaire, rdf
from ibi.web.formats.citation import STYLES
from ibi.web.formats.record import kind_of, record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.model.formats import DescribedItem
    from ibi.web.formats.record import ItemRecord


def _plain(write: Callable[[ItemRecord], bytes]) -> Callable[[DescribedItem, Mapping[str, str]], bytes]:
    """Return a writer that ignores options."""
    return lambda item, _options: write(record(item))


def _cited(item: DescribedItem, options: Mapping[str, str]) -> bytes:
    """Write the citation in a style, "abnt" or "apa" (default), and one of our languages. Raises NotHeld."""
    style = options.get("style", "apa").lower()
    if style not in STYLES:
        known = ", ".join(STYLES)
        raise NotHeld("there is no style {style} here; there are: {styles}", style=style[:40], styles=known)
    text = citation.plain(STYLES[style](record(item), our_language(options.get("locale")), item.day))
    return f"{text}\n".encode("utf-8", "replace")


def schema_kind(item: DescribedItem) -> str:
    """Return the type of an item in schema.org: "ScholarlyArticle"."""
    return kind_of(statement.value for statement in item.metadata.get("type", ())).schema


def _format(
    name: str, label: str, write: Callable[[DescribedItem, Mapping[str, str]], bytes], profile: str = ""
) -> Format:
    return Format(name, label, METADATA_FORMATS[name], write, profile)


_SCHEMA: Final = "https://schema.org/"

CITATION: Final = _format("citation", "Citation", _cited)

FORMATS: Final = (
    _format("csl", "CSL JSON", _plain(citation.write)),
    _format("bibtex", "BibTeX", _plain(citation.write_bibtex)),
    _format("ris", "RIS", _plain(citation.write_ris)),
    _format(
        "datacite-xml", "DataCite (XML)", _plain(datacite.write_xml), "http://datacite.org/schema/kernel-4"
    ),
    _format("datacite-json", "DataCite (JSON)", _plain(datacite.write_json)),
    _format("jsonld", "schema.org (JSON-LD)", _plain(embedded.write), _SCHEMA),
    _format("turtle", "schema.org (Turtle)", _plain(rdf.write_turtle), _SCHEMA),
    _format("rdfxml", "schema.org (RDF/XML)", _plain(rdf.write_xml), _SCHEMA),
    OAI_DC,
    CITATION,
)
"""All formats, in the order of pages and headers; of those that `Accept` prefers equally, the first wins."""

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
        datacite.write_oai_record,
    ),
    RecordFormat(
        "datacite",
        "https://schema.datacite.org/meta/kernel-4.7/metadata.xsd",
        datacite.NAMESPACE,
        datacite.write_record,
    ),
    RecordFormat("oai_openaire", openaire.SCHEMA, openaire.NAMESPACE, openaire.write),
)
"""The formats for harvesters by metadataPrefix (OAI-PMH 2.0, 3.4), which requires oai_dc."""
