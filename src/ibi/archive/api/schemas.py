"""The shapes of what goes over the JSON interface, as JSON Schema; docs/contract.md says them in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEXT: Final = {"type": "string"}
_TRUTH: Final = {"type": "boolean"}
_TEXTS: Final = {"type": "object", "additionalProperties": _TEXT}
_MOMENT: Final = {"type": "string", "format": "date-time"}
_NUMBER: Final = {"type": "integer", "minimum": 0}
_STATEMENT: Final = {
    "oneOf": [
        _TEXT,
        {
            "type": "object",
            "properties": {"value": _TEXT, "lang": _TEXT},
            "required": ["value"],
            "additionalProperties": False,
        },
    ]
}
_FILE: Final = {
    "type": "object",
    "properties": {"size": _NUMBER, "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}, "type": _TEXT},
    "required": ["size", "sha256", "type"],
}

# What can be edited.
_FACTS: Final[dict[str, Any]] = {
    "contenttype": {"enum": ["Data", "Metadata"]},
    "language": {"type": "string", "pattern": "^[A-Za-z]{2}(-[A-Za-z]{2})?$"},
    "transferable": _TRUTH,
    "url": {"type": "string", "format": "uri"},
    "target": _TEXT,
    "file_list_public": _TRUTH,
    "next_edition": _TEXT,
    "translations": _TEXTS,
    "metadata_item": _TEXT,
    "metadata": {
        "type": "object",
        "additionalProperties": {"oneOf": [_TEXT, {"type": "array", "items": _STATEMENT}]},
    },
    "formats": _TEXTS,
    "access": {"enum": ["open", "embargoed", "restricted", "closed"]},
    "embargo": {"type": "string", "format": "date"},
    "rights": _TEXT,
    "licence": {"type": "string", "format": "uri"},
}
# What is the item's from its beginning on, and may be given by an administrator.
_OWN: Final[dict[str, Any]] = {
    "rep": _TEXT,
    "ibip": _TEXT,
    "aliases": {"type": "array", "items": _TEXT},
    "key": {"type": "string", "maxLength": 512},
    "state": {"enum": ["Original", "Copy", "Deleted"]},
    "timestamp": _MOMENT,
    "reason": _TEXT,
}
_HISTORY: Final = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"moment": _MOMENT, "who": _TEXT, "what": _TEXT, "detail": {"type": "object"}},
        "required": ["moment", "who", "what", "detail"],
    },
}
_COPY: Final = {
    "type": "object",
    "additionalProperties": True,
    "description": "of a copy: where its original is, and how far it is known to equal it",
}

SCHEMAS: Final[Mapping[str, Any]] = {
    "item": {
        "type": "object",
        "properties": {
            **_OWN,
            **_FACTS,
            "files": {"type": "object", "additionalProperties": _FILE},
            "copy": _COPY,
            "history": _HISTORY,
            "thanks": _NUMBER,
        },
        "required": ["timestamp"],
    },
    "deposit": {
        "type": "object",
        "properties": {
            **_OWN,
            **_FACTS,
            "uploads": {
                **_TEXTS,
                "description": "complete uploads, by the names that their files shall have",
            },
            "edition_of": {**_TEXT, "description": "the item that was the last edition until now"},
            "translation_of": {**_TEXT, "description": "an item in another language"},
            "metadata_of": {**_TEXT, "description": "the item that this one describes"},
            "metadata_as_item": {**_TRUTH, "description": "make the metadata an item of their own"},
        },
        "additionalProperties": False,
    },
    "edit": {
        "type": "object",
        "description": "what changes; null takes a fact away",
        "properties": {name: {"anyOf": [schema, {"type": "null"}]} for name, schema in _FACTS.items()},
        "additionalProperties": False,
    },
    "history": _HISTORY,
    "upload": {
        "type": "object",
        "description": "an upload tells how it stands in headers: Upload-Offset, Upload-Length, Upload-Expires",
    },
    "problem": {
        "type": "object",
        "description": "RFC 9457; detail is a sentence in the reader's language",
        "properties": {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
        "required": ["type", "title", "status", "detail"],
    },
}
"""By the names under which routes refer to them."""
