"""The records that a reader finds in a text: items, and what is wrong with the others."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from ibi.archive.ingest.sources.records import SourceRecord
from ibi.archive.model.item_json import Draft
from ibi.errors import IbiError

Source = Callable[[io.BytesIO], Iterator[SourceRecord]]


def read(source: Source, text: str | bytes) -> list[SourceRecord]:
    """All records of a text."""
    return list(source(io.BytesIO(text if isinstance(text, bytes) else text.encode())))


def one(source: Source, text: str | bytes) -> Draft:
    """The item of the only record of a text."""
    (found,) = read(source, text)
    assert isinstance(found.draft, Draft), str(found.draft)
    return found.draft


def problems(source: Source, text: str | bytes) -> list[tuple[int, str]]:
    """The line and the sentence of each record that cannot be read."""
    return [(each.line, str(each.draft)) for each in read(source, text) if isinstance(each.draft, IbiError)]


def values_of(draft: Draft, element: str) -> list[str]:
    """The values of an element of Dublin Core."""
    return [statement.value for statement in draft.facts["metadata"].get(element, ())]
