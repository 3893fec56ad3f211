"""The title of an item, as programs that are not ours read it in each of our formats."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pybtex.database
import rdflib
import rispy

from ibi.protocol.vocabulary import FORMAT_BY_TYPE


def title(kind: str, body: bytes, subject: str) -> str:  # noqa: PLR0911 - one way of reading for each format
    """Return the title in a document of this media type; `subject`: the item's persistent URL."""
    text, name = body.decode(), FORMAT_BY_TYPE[kind]
    if name == "bibtex":
        [entry] = pybtex.database.parse_string(text, "bibtex").entries.values()
        return str(entry.fields["title"]).strip("{}")
    if name == "ris":
        return str(rispy.loads(text)[0]["title"])
    if name == "csl":
        return str(json.loads(text)["title"])
    if name == "datacite-json":
        return str(json.loads(text)["titles"][0]["title"])
    if name == "jsonld":
        return str(json.loads(text)["name"])
    if name == "datacite-xml":
        return ET.fromstring(text).findtext(".//{*}title") or ""  # noqa: S314 - written by us
    if name in {"turtle", "rdfxml"}:
        graph = rdflib.Graph().parse(data=text, format="turtle" if name == "turtle" else "xml")
        return str(graph.value(rdflib.URIRef(subject), rdflib.URIRef("http://schema.org/name")))
    return text.split("). ")[1].partition(".")[0]  # APA: after the year
