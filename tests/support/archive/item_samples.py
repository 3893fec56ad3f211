"""A value of each field of an item."""

from __future__ import annotations

from typing import Any

OTHER = "a.example/b/2021/02.02.00.00"
"""The name of another item."""

SAMPLES: dict[str, Any] = {
    "aliases": ["6RPa7umaZ/UaJFT"],
    "state": "Copy",
    "contenttype": "Metadata",
    "language": "pt-BR",
    "transferable": False,
    "url": "http://elsewhere.example/x",
    "target": "a.txt",
    "file_list_public": False,
    "next_edition": OTHER,
    "translations": {"pt": OTHER},
    "metadata_item": OTHER,
    "metadata": {"title": ["A title", {"value": "Um título", "lang": "pt"}]},
    "formats": {"oai_dc": "http://elsewhere.example/dc.xml"},
    "access": "closed",
    "embargo": "2031-01-31",
    "rights": "Some rights",
    "licence": "https://creativecommons.org/licenses/by/4.0/",
    "reason": "By mistake",
}
"""A value of each field that is not the usual one; a field that is missing here makes the tests fail."""
WITH: dict[str, dict[str, Any]] = {
    "target": {"files": {"a.txt": "a.txt"}},
    "embargo": {"access": "embargoed"},
    "reason": {"state": "Deleted"},
}
"""What a field needs besides."""
