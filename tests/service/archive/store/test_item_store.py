"""What all changes of items have in common: what is stored of an original, and the moments that are written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_item
from ibi.archive.store.item_changes import deposit
from ibi.archive.store.item_store import ItemStore
from ibi.errors import BadItem, HoldingError
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import WHEN, NewArchive

NAMES = {"": "Institute of Rivers", "pt": "Instituto dos Rios"}
A_SECOND_LATER = "2023-11-14T22:13:21Z"
A_DAY_LATER = "2023-11-15T22:13:20Z"
LATER_THAN_A_DAY = "2023-11-15T22:13:21Z"


def _item_store(archive: NewArchive, *, retired: bool = False) -> ItemStore:
    return ItemStore(
        archive.catalogue, archive.file_store, archive.mint, archive.clock.seconds, archive.settings.service,
        lambda *_: None, retired=retired, institution=lambda: NAMES,
    )  # fmt: skip


@pytest.fixture
def item_store(archive: NewArchive) -> ItemStore:
    """Of an institution with NAMES."""
    return _item_store(archive)


@pytest.fixture
def held(item_store: ItemStore) -> Holding:
    """An original, deposited at WHEN."""
    return deposit(item_store, read_item({"url": "http://far.example/x"}), [], "maria").holding


@pytest.mark.parametrize("state", list(ItemState))
@pytest.mark.parametrize("names", [NAMES, {"": NAMES[""]}, {}], ids=["its own", "another", "none"])
def test_only_an_original_that_names_the_institution_itself_is_stored_without_the_name(
    item_store: ItemStore, held: Holding, state: ItemState, names: Mapping[str, str]
) -> None:
    given = replace(held, state=state, institution=names)
    at_home = state is ItemState.ORIGINAL and names == NAMES
    assert item_store.at_home(given) == replace(given, institution={} if at_home else names)


def test_a_timestamp_may_be_a_day_ahead_and_no_more(item_store: ItemStore, held: Holding) -> None:
    item_store.check_new(replace(held, timestamp=A_DAY_LATER), lambda _: None)
    with pytest.raises(BadItem) as refused:
        item_store.check_new(replace(held, timestamp=LATER_THAN_A_DAY), lambda _: None)
    assert str(refused.value) == f"the timestamp {LATER_THAN_A_DAY} lies in the future"


def test_an_archive_that_has_retired_takes_no_item(archive: NewArchive, held: Holding) -> None:
    with pytest.raises(HoldingError, match="this Archive has retired and takes nothing in"):
        _item_store(archive, retired=True).check_new(held, lambda _: None)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2023-11-14T22:13:19Z", WHEN),
        (WHEN, A_SECOND_LATER),
        (A_SECOND_LATER, "2023-11-14T22:13:22Z"),
        ("2023-12-31T23:59:59Z", "2024-01-01T00:00:00Z"),
    ],
)
def test_each_change_has_a_later_timestamp(
    item_store: ItemStore, held: Holding, before: str, after: str
) -> None:
    with item_store.unit_of_work("maria") as work:
        assert work.moment == WHEN
        assert work.next_timestamp(replace(held, timestamp=before)) == after


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ({"unsettled": WHEN}, {"unsettled": WHEN}, "came back from a backup of"),
        ({"state": ItemState.DELETED}, {}, f"was removed on {WHEN}"),
        ({"transferable": False}, {"state": ItemState.COPY}, "is an original that must stay in this Archive"),
    ],
)
def test_a_change_that_a_rule_forbids_is_refused_with_the_reason(
    item_store: ItemStore, held: Holding, old: dict[str, Any], new: dict[str, Any], problem: str
) -> None:
    name = held.forms.main
    with item_store.unit_of_work("maria") as work, pytest.raises(HoldingError, match=f"^{name} {problem}"):
        work.change(replace(held, **old), replace(held, **new))
