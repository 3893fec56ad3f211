"""A value of each field of an item, and whole items with any values that they may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes

from hypothesis import strategies as st

from ibi.archive.model.file_names import media_type
from ibi.archive.model.item import ELEMENTS, Access, Holding, MetadataValue, StoredFile
from ibi.identifier.forms import IBIForms
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ContentType, ItemState

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
    "institution": {"pt": "Uma universidade"},
    "replacement": OTHER,
}
"""A value of each field that is not the usual one; a field that is missing here makes the tests fail."""
WITH: dict[str, dict[str, Any]] = {
    "target": {"files": {"a.txt": "a.txt"}},
    "embargo": {"access": "embargoed"},
    "reason": {"state": "Deleted"},
    "replacement": {"state": "Deleted"},
}
"""What a field needs besides."""


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
"""Any text that a database can keep."""

VALUES = st.builds(MetadataValue, TEXTS, st.sampled_from([None, "pt", "pt-BR", "eng"]))
METADATA = st.dictionaries(
    st.sampled_from(ELEMENTS), st.lists(VALUES, min_size=1, max_size=3).map(tuple), max_size=4
).map(lambda read: {name: read[name] for name in ELEMENTS if name in read})
"""Dublin Core, in the order of its elements; not empty."""

_URLS = st.text("abc/?=&%~.:@", max_size=8).map("https://far.example/{}".format)
_REPS = st.builds(
    "{}.example/b/20{:02}/01.02.03.{:02}".format,
    st.sampled_from("abc"),
    *[st.integers(0, 59)] * 2,
)
_IBIPS = st.text("3579BDFHKMPRTbdfk", min_size=1, max_size=6).map("LK47B6W/{}".format)
_LINKS = (
    _REPS.map("rep {}".format)
    | _IBIPS.map("ibip {}".format)
    | st.builds("rep {} ibip {}".format, _REPS, _IBIPS)
)
LINKS = _LINKS.map(IBIForms.parse)
"""Names of items: one form or both."""

_BYTES = st.sampled_from([byte for byte in range(0x20, 0x100) if byte not in b"/\\\x7f"])
_PARTS = st.lists(_BYTES, max_size=4).map(lambda raw: quote_from_bytes(bytes(raw), safe="@!"))
_DIGESTS = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def _files(draw: st.DrawFn) -> tuple[StoredFile, ...]:
    """Files in the order of their names, none of which could be taken for another one or for its folder."""
    paths = draw(st.lists(st.lists(_PARTS, min_size=1, max_size=2), max_size=3))
    names = sorted("/".join(f"{number}{part}" for part in path) for number, path in enumerate(paths))
    return tuple(
        StoredFile(name, draw(st.integers(0, 2**53 - 1)), draw(_DIGESTS), media_type(name)) for name in names
    )


def _whole(fields: Mapping[str, Any]) -> Holding:
    """An item of these fields, without those that it may not have besides the others."""
    state, access = fields["state"], fields["access"]
    deleted, files = state is ItemState.DELETED, fields["files"]
    kept = () if deleted or fields["url"] else files
    without = {
        "files": kept,
        "url": "" if deleted else fields["url"],
        "target": kept[-1].name if kept and fields["target"] else "",
        "reason": fields["reason"] if deleted else "",
        "replacement": fields["replacement"] if deleted else None,
        "embargo": fields["embargo"] if access is Access.EMBARGOED else "",
        "unsettled": fields["unsettled"] if state is ItemState.ORIGINAL else "",
    }
    return Holding(**{**fields, **without})


ATTRIBUTES = {
    "forms": LINKS,
    "aliases": st.sampled_from(["6RPa7umaZ/UaJFT", "6qtX3pFwXQZ3r59YCT/GUQnU"])
    .map(LegacyId.parse)
    .map(lambda alias: (alias,))
    | st.just(()),
    "key": TEXTS.filter(str.isprintable),
    "state": st.sampled_from(ItemState),
    "content_type": st.sampled_from(ContentType),
    "timestamp": st.datetimes().map(lambda moment: f"{moment.replace(microsecond=0).isoformat()}Z"),
    "language": st.sampled_from([None, "en", "pt-BR"]),
    "transferable": st.booleans(),
    "url": st.just("") | _URLS,
    "files": _files(),
    "target": st.booleans(),
    "file_list_public": st.booleans(),
    "next_edition": st.none() | LINKS,
    "translations": st.dictionaries(st.sampled_from(["", "en", "pt", "pt-BR"]), LINKS, max_size=3),
    "metadata_item": st.none() | LINKS,
    "metadata": METADATA.map(lambda metadata: metadata or None),
    "formats": st.dictionaries(st.sampled_from(["oai_dc", "marc21"]), _URLS, max_size=2),
    "access": st.sampled_from(Access),
    "embargo": st.dates().map(str),
    "rights": TEXTS,
    "licence": st.just("") | _URLS,
    "reason": TEXTS,
    "institution": st.sampled_from(
        [{}, {"": "A university"}, {"": "A university", "pt": "Uma universidade"}]
    ),
    "replacement": st.none() | LINKS,
    "unsettled": st.sampled_from(["", "2026-11-21T10:00:00Z"]),
}
"""Any values that each attribute of an item may have, except for its number in a catalogue."""
ITEMS = st.fixed_dictionaries(ATTRIBUTES).map(_whole)
"""An item as a catalogue may keep it, with any values in its fields."""
