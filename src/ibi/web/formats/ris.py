"""RIS: one reference, a field a line, in UTF-8 (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.web.formats.record import Record


def write(item: Record) -> bytes:
    """The item as one RIS reference."""
    lines = (f"{tag}  - {value}".rstrip(" ") if value else "" for tag, value in _fields(item))
    return "".join(f"{line}\r\n" for line in (*filter(None, lines), "ER  - ")).encode("utf-8", "replace")


def _fields(item: Record) -> Iterator[tuple[str, str]]:
    yield "TY", item.kind.ris
    yield "TI", item.title
    for person in item.creators:
        yield "AU", person.name
    for person in item.contributors:
        yield "A2", person.name
    if item.issued:
        yield "PY", f"{item.issued.year:04}"
        yield "DA", "/".join(f"{part:02}" if part else "" for part in (*item.issued, 0))
    yield "PB", item.publisher
    yield "T2", item.source
    for text in item.subjects:
        yield "KW", text.value
    for text in item.descriptions:
        yield "AB", text.value
    yield "LA", item.language
    yield "DO", item.doi
    yield "UR", item.url
    yield "ID", item.names[0]
    if item.removed:
        yield "N1", f"removed on {item.updated[:10]}"
