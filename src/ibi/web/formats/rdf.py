"""Write an item in RDF, as Turtle and RDF/XML: the triples of our JSON-LD (pure).

The graph is built from the facts themselves, because a reader of JSON-LD would fetch the context of schema.org
from the network.
"""

from __future__ import annotations

import re
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from ibi.web.formats.embedded import facts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rdflib import BNode, Graph, URIRef

    from ibi.web.formats.record import ItemRecord

# As that context has it: its terms are http, and these values are resources or dates.
_TERMS: Final = "http://schema.org/"
_RESOURCES: Final = frozenset({"url", "sameAs", "license", "contentUrl"})
_DATES: Final = frozenset({"datePublished", "dateModified"})
MOST_VALUES: Final = 250
"""Values of one property, such as authors; JSON-LD has all: rdflib takes 0.4 s for a thousand people (T10: huge
answers)."""

_WEB: Final = ("http://", "https://")
# Neither an IRI nor XML may have them; those who deposit type the values (T14: injected text).
_NOT_IN_IRI: Final = re.compile(r'[\s\x00-\x1f<>"{}|\\^`\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]')
_NOT_IN_XML: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def write_turtle(item: ItemRecord) -> bytes:
    """Write the item as Turtle, in UTF-8."""
    return _graph(item).serialize(format="turtle", encoding="utf-8")


def write_xml(item: ItemRecord) -> bytes:
    """Write the item as RDF/XML, in UTF-8."""
    return _graph(item).serialize(format="xml", encoding="utf-8")


def _graph(item: ItemRecord) -> Graph:
    # Imported only here: most processes never write RDF, and rdflib takes a fifth of a second.
    from rdflib import Graph

    graph = Graph("SimpleMemory", bind_namespaces="core")
    graph.bind("schema", _TERMS)
    # Numbered, because the same facts must give the same bytes, from which the ETag is made.
    _add(graph, facts(item), (f"b{number:05}" for number in count()))
    return graph


def _add(graph: Graph, node: dict[str, Any], names: Iterator[str]) -> URIRef | BNode:
    """Add a JSON-LD object, with those inside it; return its node."""
    from rdflib import RDF, BNode, Literal, URIRef

    subject = _iri(node["@id"]) if "@id" in node else BNode(next(names))
    for name, value in node.items():
        if name == "@type":
            graph.add((subject, RDF.type, URIRef(_TERMS + value)))
        if name.startswith("@"):
            continue
        for each in value[:MOST_VALUES] if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                graph.add((subject, URIRef(_TERMS + name), _add(graph, each, names)))
            elif isinstance(each, bool):
                graph.add((subject, URIRef(_TERMS + name), Literal(each)))
            elif name in _RESOURCES and each.lower().startswith(_WEB):
                graph.add((subject, URIRef(_TERMS + name), _iri(each)))
            else:
                datatype = URIRef(f"{_TERMS}Date") if name in _DATES else None
                text = Literal(_NOT_IN_XML.sub("\ufffd", each), datatype=datatype)
                graph.add((subject, URIRef(_TERMS + name), text))
    return subject


def _iri(text: str) -> URIRef:
    from rdflib import URIRef

    return URIRef(_NOT_IN_IRI.sub(lambda match: quote(match[0]), _NOT_IN_XML.sub("\ufffd", text)))
