"""The table of formats: under which names and media types an item can be had, and who writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ibi.archive.website.formats import OAI_DC, Format
from ibi.errors import NotHeld
from ibi.texts import our_language
from ibi.web.formats import bibtex, csl, datacite, json_ld, ris
from ibi.web.formats.citation import STYLES
from ibi.web.formats.kinds import kind_of
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ibi.archive.website.formats import Described
    from ibi.web.formats.record import Record


def _plain(write: Callable[[Record], bytes]) -> Callable[[Described, Mapping[str, str]], bytes]:
    """A writer that knows no options."""
    return lambda item, _options: write(record(item))


def _cited(item: Described, options: Mapping[str, str]) -> bytes:
    """The citation in a style, "abnt" or "apa" (by default), and one of our languages. Raises NotHeld."""
    style = options.get("style", "apa").lower()
    if style not in STYLES:
        known = ", ".join(STYLES)
        raise NotHeld("there is no style {style} here; there are: {styles}", style=style[:40], styles=known)
    text = STYLES[style](record(item), our_language(options.get("locale")), item.day)
    return f"{text}\n".encode("utf-8", "replace")


def schema_kind(item: Described) -> str:
    """What schema.org calls the kind of an item: "ScholarlyArticle"."""
    return kind_of(statement.value for statement in item.metadata.get("type", ())).schema


CITATION: Final = Format("citation", "Citation", ("text/x-bibliography",), _cited)

FORMATS: Final = (
    Format("csl", "CSL JSON", ("application/vnd.citationstyles.csl+json",), _plain(csl.write)),
    Format("bibtex", "BibTeX", ("application/x-bibtex", "text/x-bibtex"), _plain(bibtex.write)),
    Format("ris", "RIS", ("application/x-research-info-systems",), _plain(ris.write)),
    Format(
        "datacite-xml",
        "DataCite (XML)",
        ("application/vnd.datacite.datacite+xml",),
        _plain(datacite.write_xml),
        "http://datacite.org/schema/kernel-4",
    ),
    Format(
        "datacite-json",
        "DataCite (JSON)",
        ("application/vnd.datacite.datacite+json",),
        _plain(datacite.write_json),
    ),
    Format(
        "jsonld",
        "schema.org (JSON-LD)",
        ("application/ld+json",),
        _plain(json_ld.write),
        "https://schema.org/",
    ),
    OAI_DC,
    CITATION,
)
"""All formats, those first that are told first."""
