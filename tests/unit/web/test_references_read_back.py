"""References that we write are read by our own imports: the same title, people, source, date, subjects, names."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.ingest.sources.bibtex import read_bibtex
from ibi.archive.ingest.sources.ris import read_ris
from ibi.archive.model.formats import DescribedItem
from ibi.archive.model.item import Holding, MetadataValue
from ibi.archive.model.item_json import Draft
from ibi.identifier.forms import IBIForms
from ibi.web.formats.citation import write_bibtex, write_ris
from ibi.web.formats.record import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from ibi.archive.ingest.sources.records import SourceRecord
    from ibi.web.formats.record import ItemRecord

FORMS = IBIForms.parse("rep archive.example/first/2026/09.14.16.40")
words = (
    st.text("abcXYZ éãç#$%&_^~{}", min_size=1, max_size=12)
    .map(lambda text: " ".join(text.split()))
    .filter(bool)
)
names = st.from_regex(r"[A-ZÉ][a-zãç]{2,6}", fullmatch=True)
statements = st.fixed_dictionaries(
    {"title": words.map(lambda text: [text])},
    optional={
        "creator": st.lists(st.tuples(names, names).map(", ".join), min_size=1, max_size=3, unique=True),
        "date": st.dates().filter(lambda day: 1000 <= day.year < 3000).map(lambda day: [day.isoformat()]),
        "subject": st.lists(words, max_size=3, unique=True),
        "description": words.map(lambda text: [text]),
        "publisher": words.map(lambda text: [text]),
        "type": st.just(["article"]),
        "source": st.tuples(names, st.integers(1, 99), st.integers(1, 9)).map(
            lambda parts: [f"{parts[0]}, v. {parts[1]}, n. {parts[2]}, p. {parts[1]}-{parts[1] + 5}"]
        ),
    },
)


def written(metadata: dict[str, list[str]]) -> ItemRecord:
    """What a format writes of an item with these metadata."""
    values = {name: tuple(map(MetadataValue, each)) for name, each in metadata.items() if each}
    holding = Holding(forms=FORMS, timestamp="2026-09-15T16:40:00Z", metadata=values)
    root, resolver = "http://archive.example", "http://resolver.example"
    return record(DescribedItem(holding, values, root, resolver, "archive.example", "2026-11-27"))


def read(reader: Callable[[BinaryIO], Iterator[SourceRecord]], text: bytes) -> dict[str, list[str]]:
    (found,) = reader(io.BytesIO(text))
    assert isinstance(found.draft, Draft), found.draft
    metadata: dict[str, Any] = found.draft.facts["metadata"]
    return {name: [value for value, _ in each] for name, each in metadata.items()}


def reported(item: ItemRecord) -> dict[str, list[str]]:
    """What both kinds of reference tell, by element."""
    found = {
        "title": [item.title],
        "creator": [person.name for person in item.creators],
        "description": [text.value for text in item.descriptions],
        "publisher": [item.publisher],
        "source": [str(item.source)],
    }
    return {name: [value for value in each if value] for name, each in found.items()}


@settings(derandomize=True, deadline=None)
@given(metadata=statements)
def test_our_bibtex_is_read_as_it_was_written(metadata: dict[str, list[str]]) -> None:
    item = written(metadata)
    found = read(read_bibtex, write_bibtex(item))
    for name, values in reported(item).items():
        # Where BibTeX has no field for the larger work, its name stands in `howpublished`, which is read as a link.
        if name != "source" or item.kind.bibtex == "article":
            assert found.get(name, []) == values, name
    assert found.get("date", []) == ([str(item.issued)[:7]] if item.issued else [])
    assert item.url in found["identifier"]


@settings(derandomize=True, deadline=None)
@given(metadata=statements)
def test_our_ris_is_read_as_it_was_written(metadata: dict[str, list[str]]) -> None:
    item = written(metadata)
    found = read(read_ris, write_ris(item))
    for name, values in reported(item).items():
        assert found.get(name, []) == values, name
    assert found.get("date", []) == ([str(item.issued)] if item.issued else [])
    assert found.get("subject", []) == [text.value for text in item.subjects]
    assert item.url in found["identifier"]
