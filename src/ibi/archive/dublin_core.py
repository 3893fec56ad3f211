"""Dublin Core as an Archive keeps it: fifteen elements, each with values that may state their language (pure)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from ibi.archive.holding import Statement
from ibi.errors import BadItem

if TYPE_CHECKING:
    from collections.abc import Mapping

ELEMENTS = (
    "title", "creator", "subject", "description", "publisher", "contributor", "date", "type", "format",
    "identifier", "source", "language", "relation", "coverage", "rights",
)  # fmt: skip
"""The elements, in the order in which they are shown."""

_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/"
           xmlns:dc="http://purl.org/dc/elements/1.1/"
           xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
           xsi:schemaLocation="http://www.openarchives.org/OAI/2.0/oai_dc/
                               http://www.openarchives.org/OAI/2.0/oai_dc.xsd">"""
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def read_dublin_core(value: Any) -> dict[str, tuple[Statement, ...]]:
    """Metadata from JSON: {"title": ["…", {"value": "…", "lang": "pt"}], …}; one text may stand for a list.

    Raises BadItem, which says what is wrong.
    """
    if not isinstance(value, dict):
        raise BadItem("metadata is an object: an element and its values, such as title")
    odd = sorted(set(value) - set(ELEMENTS))
    if odd:
        raise BadItem("{name} is not one of the fifteen elements of Dublin Core", name=odd[0])
    read = {name: _statements(name, value[name]) for name in ELEMENTS if name in value}
    return {name: statements for name, statements in read.items() if statements}


def write_oai_dc(metadata: Mapping[str, tuple[Statement, ...]]) -> bytes:
    """The metadata as an oai_dc document (XML, UTF-8)."""
    lines = [_HEAD]
    for name in ELEMENTS:
        for value, language in metadata.get(name, ()):
            tag = f" xml:lang={quoteattr(language)}" if language else ""
            lines.append(f"  <dc:{name}{tag}>{escape(_NOT_XML.sub('�', value))}</dc:{name}>")
    return "\n".join([*lines, "</oai_dc:dc>", ""]).encode("utf-8", "replace")


def _statements(name: str, value: Any) -> tuple[Statement, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(_statement(name, each) for each in values)


def _statement(name: str, value: Any) -> Statement:
    if isinstance(value, str):
        return Statement(value)
    if isinstance(value, dict) and set(value) <= {"value", "lang"} and isinstance(value.get("value"), str):
        language = value.get("lang")
        if language is None or (isinstance(language, str) and _LANGUAGE.fullmatch(language)):
            return Statement(value["value"], language)
    raise BadItem('a value of {name} is a text or an object with "value" and "lang"', name=name)
