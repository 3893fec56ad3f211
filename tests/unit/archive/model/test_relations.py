"""What leads to the target of a relation: the URL of it, of one of its files, and of their list, for each reader."""

from __future__ import annotations

from typing import Any

import pytest

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.model.relations import ItemRelations, RelationTarget, held_by
from ibi.identifier.forms import IBIForms, Name
from ibi.protocol.vocabulary import ContentType, ItemState

REP = "a.example/b/2010/01.01.00.00"
BASE = "http://archive.example"
FILES = (StoredFile("a.txt", 1, "", "text/plain"), StoredFile("b/c.txt", 1, "", "text/plain"))
METADATA = {"title": (MetadataValue("A title"),)}


def item(**facts: Any) -> Holding:
    return Holding(forms=IBIForms.parse(f"rep {REP}"), timestamp="2020-01-01T00:00:00Z", **facts)


def target(holding: Holding | None, kind: str) -> RelationTarget:
    """An item itself, a format of it to which a link leads, or a page of its metadata."""
    formats = {
        "item": None,
        "format": "marc21",
        "page": None,
        "page in a format": "oai_dc",
        "linkset": "linkset",
    }
    page = kind in {"page", "page in a format", "linkset"}
    return RelationTarget(IBIForms.parse(f"rep {REP}"), holding, formats[kind], page)


KINDS = ("item", "format", "page", "page in a format", "linkset")
WITH_FILES = item(files=FILES, target="a.txt", formats={"marc21": "http://far.example/marc"})
LINKED = item(url="http://far.example/", metadata=METADATA)
RECORD = item(
    content_type=ContentType.METADATA, metadata=METADATA, formats={"marc21": "http://far.example/marc"}
)
FILE, FILE_LIST = f"{BASE}/col/{REP}/doc/a.txt", f"{BASE}/-/files/{REP}"
PAGE, ITEM = f"{BASE}/-/metadata/{REP}", f"{BASE}/-/item/{REP}"
MARC, LINKSET = "http://far.example/marc", f"{BASE}/-/linkset/{REP}"
OF_PAGES = [PAGE, f"{PAGE}?format=oai_dc", LINKSET]
NOT_WITHHELD = [False] * 5


@pytest.mark.parametrize(
    ("holding", "withheld", "urls", "file_urls", "lists", "are_withheld"),
    [
        (None, False, [None] * 5, [None] * 5, [None] * 5, NOT_WITHHELD),
        (item(state=ItemState.DELETED), True, [None] * 5, [None] * 5, [None] * 5, NOT_WITHHELD),
        (WITH_FILES, False, [FILE, MARC, *OF_PAGES], [FILE, *[None] * 4], [FILE_LIST] * 2 + [None] * 3, NOT_WITHHELD),
        (LINKED, False, ["http://far.example/", None, *OF_PAGES], [None] * 5, [FILE_LIST] * 2 + [None] * 3,
         NOT_WITHHELD),
        (RECORD, False, [PAGE, MARC, *OF_PAGES], [None] * 5, [FILE_LIST] * 2 + [None] * 3, NOT_WITHHELD),
        (item(), False, [ITEM, None, *OF_PAGES], [None] * 5, [FILE_LIST] * 2 + [None] * 3, NOT_WITHHELD),
    ],
    ids=["not held", "removed", "with files", "linked", "metadata", "empty"],
)  # fmt: skip
def test_each_target_of_an_open_item_has_its_urls(
    holding: Holding | None,
    withheld: bool,
    urls: list[str | None],
    file_urls: list[str | None],
    lists: list[str | None],
    are_withheld: list[bool],
) -> None:
    found = ItemRelations(lambda _: None, BASE, item(), lambda _: withheld)
    targets = [target(holding, kind) for kind in KINDS]
    assert [found.url(each) for each in targets] == urls
    assert [found.file_url(each, "a.txt") for each in targets] == file_urls
    assert [found.file_list_url(each) for each in targets] == lists
    assert [found.is_withheld(each) for each in targets] == are_withheld


@pytest.mark.parametrize(
    ("facts", "urls", "are_withheld"),
    [
        ({"files": FILES, "target": "a.txt"}, [ITEM, MARC, *OF_PAGES], [True, False, False, False, False]),
        ({"content_type": ContentType.METADATA, "metadata": METADATA}, [ITEM, None, *OF_PAGES],
         [True, True, False, False, False]),
    ],
    ids=["data", "metadata"],
)  # fmt: skip
def test_what_is_withheld_has_a_page_in_its_place_and_metadata_stored_with_it_are_open(
    facts: dict[str, Any], urls: list[str | None], are_withheld: list[bool]
) -> None:
    closed = item(access=Access.CLOSED, formats={"marc21": "http://far.example/marc"}, **facts)
    found = ItemRelations(lambda _: None, BASE, closed, lambda _: True)
    targets = [target(closed, kind) for kind in KINDS]
    assert [found.url(each) for each in targets] == urls
    assert [found.is_withheld(each) for each in targets] == are_withheld
    # No answer tells which files there are.
    assert [found.file_url(each, "none.txt") for each in targets] == [FILE_LIST, None, None, None, None]
    # Another reader may have it.
    open_to_some = ItemRelations(lambda _: None, BASE, closed, lambda _: False)
    assert [open_to_some.is_withheld(each) for each in targets] == NOT_WITHHELD


def test_an_archive_without_pages_knows_only_what_lives_elsewhere() -> None:
    found = ItemRelations(lambda _: None, None, item())
    kept = [WITH_FILES, LINKED, RECORD]
    assert [found.url(target(each, kind)) for each in kept for kind in KINDS] == [
        None, MARC, None, None, None,
        "http://far.example/", None, None, None, None,
        None, MARC, None, None, None,
    ]  # fmt: skip
    assert [found.file_url(target(WITH_FILES, kind), "a.txt") for kind in KINDS] == [None] * 5


def test_a_reader_gets_data_or_metadata() -> None:
    data, metadata = ContentType.DATA, ContentType.METADATA
    assert [target(None, kind).content_type for kind in KINDS] == [metadata] * 5
    assert [target(WITH_FILES, kind).content_type for kind in KINDS] == [data, *[metadata] * 4]
    assert [target(RECORD, kind).content_type for kind in KINDS] == [metadata] * 5


@pytest.mark.parametrize(
    ("link", "held", "found", "looked_up"),
    [
        (f"rep {REP} ibip LK47B6W/362SFKH", "LK47B6W/362SFKH", True, [REP, "LK47B6W/362SFKH"]),
        (f"rep {REP} ibip LK47B6W/362SFKH", REP, True, [REP]),
        (f"rep {REP} ibip LK47B6W/362SFKH", "", False, [REP, "LK47B6W/362SFKH"]),
        (f"rep {REP}", "", False, [REP]),
        ("ibip LK47B6W/362SFKH", "", False, ["LK47B6W/362SFKH"]),
    ],
)
def test_an_item_is_found_under_either_of_its_names(
    link: str, held: str, found: bool, looked_up: list[str]
) -> None:
    lookups = list[str]()

    def lookup(name: Name) -> Holding | None:
        lookups.append(str(name))
        return item() if str(name) == held else None

    assert (held_by(lookup, IBIForms.parse(link)) is not None, lookups) == (found, looked_up)


def test_an_item_that_is_not_settled_is_as_one_elsewhere() -> None:
    unsettled = item(unsettled="2026-11-21T10:00:00Z")
    assert held_by(lambda _: unsettled, unsettled.forms) is None
