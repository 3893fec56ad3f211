"""CSL JSON, which citation programs read: one object, as other registries of identifiers give it (CSL 1.0.2; pure)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ibi.web.formats.record import Person, Record

_ENCODE: Final = json.JSONEncoder(ensure_ascii=False).encode


def write(item: Record) -> bytes:
    """The item as one object of CSL JSON, a fact a line, in UTF-8."""
    value: dict[str, Any] = {
        "id": item.names[0],
        "type": item.kind.csl,
        "title": item.title,
        "author": [_name(person) for person in item.creators],
        "contributor": [_name(person) for person in item.contributors],
        "issued": {"date-parts": [[part for part in item.issued if part]]} if item.issued else None,
        "publisher": item.publisher,
        "container-title": item.source,
        "DOI": item.doi,
        "URL": item.url,
        "abstract": "\n".join(text.value for text in item.descriptions),
        "keyword": ", ".join(text.value for text in item.subjects),
        "language": item.language,
        "note": f"removed on {item.updated[:10]}" if item.removed else "",
    }
    lines = ",\n ".join(f'"{name}": {_ENCODE(each)}' for name, each in value.items() if each)
    return f"{{\n {lines}\n}}".encode()


def _name(person: Person) -> dict[str, str]:
    if person.family:
        return {"family": person.family, "given": person.given}
    return {"literal": person.name}
