"""Why a change of an item is refused, whole; a refused change leaves everything as it was."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_item, timestamp_text
from ibi.archive.store.item_changes import ItemPlacement, deposit, edit, removal_notice, remove
from ibi.archive.store.tables.copies import CopySource, save_source
from ibi.errors import AlreadyHeld, BadItem, Conflict, HoldingError, IbiError, NotHeld
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from support.archive.archive_fixture import NOW, WHEN, NewArchive
from support.archive.search_fixture import item

NAMES = [str(item(number)["rep"]) for number in range(9)]
FORMS = [parse_ibi(name) for name in NAMES]
LEGACY = LegacyId.parse("6qtX3pFwXQZ3r59YCT/GUKUk")


@pytest.fixture
def held(archive: NewArchive) -> NewArchive:
    """An Archive: 1 a Portuguese original with an edition 2, 3 a copy, 4 a copy of known origin, 5 removed."""
    archive.load(
        item(1, "Um") | {"next_edition": f"rep {NAMES[2]}", "key": "a key", "language": "pt"},
        item(2, "Dois"),
        item(3, "Three") | {"state": "Copy"},
        item(4, "Four") | {"state": "Copy"},
        item(5, "Gone"),
    )
    with archive.item_store.unit_of_work("maria") as work:
        work.remove(work.get(FORMS[5]))
        source = CopySource(archive="http://far.example/")
        save_source(work.writer.run, work.get(FORMS[4]).number, source)
    return archive


def everything(archive: NewArchive) -> list[Holding]:
    return list(archive.catalogue.all())


def new(archive: NewArchive, number: int, place: ItemPlacement | None = None, **facts: object) -> Holding:
    value = {name: each for name, each in item(number, "New").items() if name not in facts} | facts
    draft = read_item({name: each for name, each in value.items() if each is not None})
    return deposit(archive.item_store, draft, [], "maria", place).holding


REMOVED = f"{NAMES[5]} was removed on {{date}}"
REFUSED: dict[str, tuple[Callable[[NewArchive], object], type[IbiError], str]] = {
    "a copy": (lambda a: edit(a.item_store, FORMS[3], {}, "m"), HoldingError,
               f"{NAMES[3]} is a copy; it is edited where its original is"),
    "a copy from there": (lambda a: edit(a.item_store, FORMS[4], {}, "m"), HoldingError,
                          f"{NAMES[4]} is a copy; it is edited where its original is: http://far.example/"),
    "a removed item": (lambda a: edit(a.item_store, FORMS[5], {}, "m"), HoldingError, REMOVED),
    "an unknown item": (lambda a: edit(a.item_store, FORMS[8], {}, "m"), NotHeld, f"{NAMES[8]} is not held here"),
    "an unknown field": (lambda a: edit(a.item_store, FORMS[1], {"state": "Copy", "z": 1}, "m"), BadItem,
                         "state cannot be edited"),
    "a missing file": (lambda a: edit(a.item_store, FORMS[1], {}, "m", without=["a.txt"]), BadItem,
                       f"{NAMES[1]} has no such file"),
    "an older edit": (lambda a: edit(a.item_store, FORMS[1], {}, "m", unchanged_since="2000-01-01T00:00:00Z"), Conflict,
                      f"{NAMES[1]} has been changed meanwhile, on {WHEN}, so nothing was done"),
    "an older removal": (lambda a: remove(a.item_store, FORMS[1], "", "m", unchanged_since="x"), Conflict,
                         f"{NAMES[1]} has been changed meanwhile, on {WHEN}, so nothing was done"),
    "the service": (lambda a: remove(a.item_store, a.settings.service.main, "", "m"), HoldingError,
                    "archive.example/w/2020/01.01.00.00 is the Archive service and cannot be removed"),
    "itself": (lambda a: remove(a.item_store, FORMS[1], "", "m", FORMS[1]), BadItem,
               "an item cannot take its own place"),
    "a removed one": (lambda a: remove(a.item_store, FORMS[1], "", "m", FORMS[5]), HoldingError, REMOVED),
    "an older id": (lambda a: remove(a.item_store, FORMS[1], "", "m", LEGACY), BadItem,
                    "the item that takes its place is named by an IBI or by its persistent URL"),
    "a circle": (lambda a: edit(a.item_store, FORMS[2], {"next_edition": f"rep {NAMES[1]}"}, "m"), BadItem,
                 f"the editions of {NAMES[2]} would go in a circle"),
    "a new copy": (lambda a: new(a, 6, state="Copy"), BadItem,
                   "what is deposited is an original; copies are made by copying, or imported"),
    "a held name": (lambda a: new(a, 1), AlreadyHeld, f"{NAMES[1]}, or its key, is already held"),
    "a held key": (lambda a: new(a, 6, key="a key"), AlreadyHeld, f"{NAMES[1]}, or its key, is already held"),
    "a second edition": (lambda a: new(a, 6, ItemPlacement(edition_of=FORMS[1])), BadItem,
                         f"{NAMES[1]} already has a next edition: {NAMES[2]}"),
    "an edition of a copy": (lambda a: new(a, 6, ItemPlacement(edition_of=FORMS[3])), HoldingError,
                             f"{NAMES[3]} is a copy; it is edited where its original is"),
    "no language": (lambda a: new(a, 6, ItemPlacement(translation_of=FORMS[1])), BadItem,
                    "a translation needs its language, such as en or pt-BR"),
    "the same language": (lambda a: new(a, 6, ItemPlacement(translation_of=FORMS[1]), language="pt"), BadItem,
                          f"{NAMES[1]} is already there in this language: pt"),
    "no metadata": (lambda a: new(a, 6, ItemPlacement(metadata_as_item=True), metadata=None), BadItem,
                    "there are no metadata to be made an item"),
    "the future": (lambda a: new(a, 6, timestamp=timestamp_text(NOW + 86_401)), BadItem,
                   "the timestamp 2023-11-15T22:13:21Z lies in the future"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_each_refusal_is_a_sentence_and_changes_nothing(held: NewArchive, case: str) -> None:
    act, kind, sentence = REFUSED[case]
    before = everything(held)
    gone = held.catalogue.held(FORMS[5])
    with pytest.raises(IbiError) as refused:
        act(held)
    assert (type(refused.value), str(refused.value)) == (kind, sentence.format(date=gone.timestamp))
    assert everything(held) == before


def test_a_timestamp_may_be_a_day_ahead(held: NewArchive) -> None:
    assert new(held, 6, timestamp=timestamp_text(NOW + 86_400)).timestamp == "2023-11-15T22:13:20Z"


def test_an_archive_that_has_retired_takes_nothing_in(held: NewArchive) -> None:
    held.settings = replace(held.settings, retired=True)
    with pytest.raises(HoldingError) as refused:
        new(held, 6)
    assert str(refused.value) == "this Archive has retired and takes nothing in"


def test_a_removed_item_says_when_why_and_what_takes_its_place() -> None:
    gone = Holding(forms=IBIForms.of(FORMS[1]), timestamp=WHEN)
    other = IBIForms.of(FORMS[2])
    removed = f"{NAMES[1]} was removed on {WHEN}"
    for holding, sentence in (
        (gone, removed),
        (replace(gone, reason="old"), f"{removed}: old"),
        (replace(gone, replacement=other), f"{removed}, and {NAMES[2]} takes its place"),
        (replace(gone, replacement=other, reason="old"), f"{removed}, and {NAMES[2]} takes its place: old"),
    ):
        assert str(removal_notice(holding)) == sentence
