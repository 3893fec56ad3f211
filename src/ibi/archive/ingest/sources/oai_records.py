"""Reads records of OAI-PMH as items: where an item is, its names, and its Dublin Core made plain.

What DSpace and OJS write is put right where it would mislead readers: DSpace gives the days on which an item
came in before the date of the work, and OJS writes abstracts in HTML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from ibi.archive.model.record_values import (
    doi_address,
    language_of,
    licence_among,
    names_in,
    web_address,
    without_html,
)


@dataclass(slots=True)
class OaiRecord:
    """A record: its header, and its Dublin Core as (element, text, language)."""

    identifier: str = ""
    datestamp: str = ""
    deleted: bool = False
    values: list[tuple[str, str, str]] = field(default_factory=list)


def item_of(record: OaiRecord, host: str) -> dict[str, Any]:
    """Make the object of a record, as in a JSON line; `host` is the repository's.

    Its url is its landing page: its first URL on the repository's own host, else its first URL, else the URL of its
    DOI. A record with an IBI becomes a copy under that name, and gets no other name (ARC-04: never original and copy
    together).
    """
    values: dict[str, list[Any]] = {}
    for element, text, language in _in_order(record.values):
        plain = without_html(text)
        values.setdefault(element, []).append({"value": plain, "lang": language} if language else plain)
    texts = [text for element, text, _ in record.values if element == "identifier"]
    value: dict[str, Any] = {"key": record.identifier, "metadata": values}
    if record.datestamp:
        value["timestamp"] = record.datestamp
    # An IBI may be given as it is, as a persistent URL, or after "oai:host:".
    own = record.identifier.split(":", 2)[2:] if record.identifier.startswith("oai:") else []
    names = names_in([*own, *texts], only_names=True)
    if forms := {form: names[form] for form in ("rep", "ibip") if form in names}:
        value |= forms | {"state": "Copy"}
    if (url := _landing_page(texts, host)) is not None:
        value["url"] = url
    spoken = (language_of(text) for element, text, _ in record.values if element == "language")
    if (tag := next(filter(None, spoken), None)) is not None:
        value["language"] = tag
    if licence := licence_among(text for element, text, _ in record.values if element == "rights"):
        value["licence"] = licence
    return value


def _in_order(values: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return the values, but the dates that are moments, when something was done to a record, after the others."""
    return sorted(values, key=lambda value: value[0] == "date" and _MOMENT.fullmatch(value[1]) is not None)


def _landing_page(texts: list[str], host: str) -> str | None:
    urls = [url for text in texts if (url := web_address(text)) is not None]
    at_home = (url for url in urls if _host(url) == host.lower())
    by_doi = (url for text in texts if (url := doi_address(text)) is not None)
    return next(at_home, None) or next(iter(urls), None) or next(by_doi, None)


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


_MOMENT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
