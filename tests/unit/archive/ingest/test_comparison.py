"""What a held item takes over from a record that describes it again, and in what the two differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.ingest.comparison import differences, renewed, shown_differences, updated
from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.model.item_json import CONTENT_KEY, Draft
from ibi.errors import BadItem, HoldingError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.protocol.vocabulary import ItemState

OLD, NEW = f"{CONTENT_KEY}old", f"{CONTENT_KEY}new"
FORMS = IBIForms.of(parse_ibi("archive.example/first/2026/09.14.16.40"))


@pytest.mark.parametrize(
    ("held", "described", "kept"),
    [
        ("", "", ""), ("", OLD, OLD), ("", "own", "own"),
        (OLD, "", OLD), (OLD, NEW, NEW), (OLD, "own", "own"),
        ("own", "", "own"), ("own", NEW, "own"), ("own", "other", "other"),
    ],
)  # fmt: skip
def test_a_key_of_a_depositor_gives_way_to_another_one_only(held: str, described: str, kept: str) -> None:
    holding = Holding(forms=FORMS, timestamp="2026-01-01T00:00:00Z", key=held)
    assert updated(holding, Draft(None, described, None, {}, {})).key == kept


REP, IBIP = "archive.example/first/2026/09.14.16.40", "LK47B6W/362SFKH"
BOTH = IBIForms.parse(f"rep {REP} ibip {IBIP}")
ONLY_IBIP = IBIForms.of(parse_ibi(IBIP))
OTHER = IBIForms.of(parse_ibi("archive.example/other/2026/09.14.16.40"))
FIRST, SECOND = (LegacyId.parse(text) for text in ("6RPa7umaZ/UaJFT", "6qtX3pFwXQZGivnJSY/M7t24"))
FILE = StoredFile("b.txt", 1, "0" * 64, "text/plain")
HELD = Holding(
    forms=FORMS, number=7, aliases=(FIRST,), key="own", timestamp="2026-01-01T00:00:00Z", language="en",
    metadata={"title": (MetadataValue("T"),), "creator": (MetadataValue("C"),)}, url="http://far.example/",
)  # fmt: skip


def draft(forms: IBIForms | None = None, files: dict[str, str] | None = None, **facts: Any) -> Draft:
    return Draft(forms, "", None, files or {}, facts)


@pytest.mark.parametrize(
    ("described", "changes"),
    [
        (draft(), {}),
        (draft(language="pt"), {"language": "pt"}),
        (draft(metadata={"title": (MetadataValue("U"),)}), {
            "metadata": {"title": (MetadataValue("U"),), "creator": (MetadataValue("C"),)},
        }),
        (draft(metadata=None), {}),
        (draft(aliases=(SECOND, FIRST)), {"aliases": (FIRST, SECOND)}),
        (draft(state=ItemState.ORIGINAL), {}),
        (draft(state=ItemState.DELETED, url=""), {"state": ItemState.DELETED, "url": ""}),
        (draft(files={"a.txt": "a"}), {"url": ""}),
        (draft(files={"a.txt": "a"}, url="http://b.example/"), {"url": "http://b.example/"}),
        (draft(ONLY_IBIP), {"forms": BOTH}),
        (draft(BOTH), {"forms": BOTH}),
        (draft(OTHER), HoldingError(f"{REP} keeps its name for ever; another name is another item")),
        (draft(state=ItemState.COPY), BadItem("state cannot be edited")),
        (draft(access=Access.EMBARGOED, embargo="2031-01-31"), {
            "access": Access.EMBARGOED, "embargo": "2031-01-31",
        }),
        (draft(access=Access.EMBARGOED), BadItem),
        (draft(embargo="2031-01-31"), BadItem),
    ],
)  # fmt: skip
def test_an_update_changes_what_a_record_has_and_nothing_else(
    described: Draft, changes: dict[str, Any] | HoldingError | type[HoldingError]
) -> None:
    if isinstance(changes, dict):
        assert updated(HELD, described) == replace(HELD, **changes)
        return
    expected = changes if isinstance(changes, type) else type(changes)
    with pytest.raises(expected) as refused:
        updated(HELD, described)
    if not isinstance(changes, type):
        assert str(refused.value) == str(changes)


def test_the_missing_form_of_a_name_is_added_and_what_is_known_by_an_older_id_stays() -> None:
    held = replace(HELD, forms=ONLY_IBIP)
    assert updated(held, draft(BOTH)).forms == BOTH
    assert updated(replace(HELD, forms=BOTH), draft(ONLY_IBIP)).forms == BOTH


def test_access_that_is_no_embargo_any_more_ends_its_date() -> None:
    held = replace(HELD, access=Access.EMBARGOED, embargo="2031-01-31")
    assert updated(held, draft(access=Access.OPEN)) == replace(held, access=Access.OPEN, embargo="")
    assert updated(held, draft(language="pt")) == replace(held, language="pt")
    assert updated(held, draft(embargo="2032-01-31")) == replace(held, embargo="2032-01-31")


def test_files_are_added_and_replaced_in_the_order_of_their_names() -> None:
    held = replace(HELD, files=(FILE,), url="")
    new = (StoredFile("c.txt", 2, "1" * 64, "text/plain"), StoredFile("a.txt", 3, "2" * 64, "text/plain"))
    assert updated(held, draft(), new).files == (new[1], FILE, new[0])
    other = replace(FILE, size=5)
    assert updated(held, draft(), (other,)).files == (other,)


def test_a_description_keeps_what_it_does_not_have_itself() -> None:
    described = Holding(forms=FORMS, timestamp="2027-01-01T00:00:00Z", language="pt")
    kept = replace(described, number=7, key="own", timestamp=HELD.timestamp)
    assert renewed(HELD, draft(FORMS), described) == kept
    assert renewed(HELD, draft(FORMS), described, (FILE,)) == replace(kept, files=(FILE,))
    with_time = Draft(FORMS, "new", described.timestamp, {}, {})
    found = renewed(HELD, with_time, replace(described, key="new"))
    assert found == replace(kept, key="new", timestamp=described.timestamp)
    # A name that the item does not have stands in the description, and so among the differences.
    assert renewed(HELD, draft(BOTH), replace(described, forms=BOTH)).forms == BOTH
    assert renewed(replace(HELD, forms=BOTH), draft(FORMS), described).forms == BOTH
    assert renewed(HELD, draft(), replace(described, forms=OTHER)).forms == FORMS


def test_items_differ_by_attributes_wherever_their_files_are() -> None:
    files = (FILE, replace(FILE, name="a.txt"))
    held = replace(HELD, files=files)
    same = replace(HELD, files=(files[1], replace(FILE, staged="x")))
    assert (differences(held, same), shown_differences(held, same)) == ([], "")
    described = replace(
        held,
        language="pt",
        files=(FILE,),
        metadata={"title": (MetadataValue("T"),), "date": (MetadataValue("1"),)},
    )
    assert differences(held, described) == ["language", "files", "metadata"]
    assert shown_differences(held, described) == "language, files, metadata.date"
    assert (
        shown_differences(replace(held, metadata=None), replace(held, metadata={"title": ()}))
        == "metadata.title"
    )
