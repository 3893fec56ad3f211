"""Whatever an item has in its fields: it is read back from a line, a catalogue and a sidecar as it was written."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import read_line, write_item
from ibi.archive.replication.fetching import read_description
from ibi.archive.store.sidecars import read_sidecar, sidecar_text, tells_the_same
from ibi.archive.store.tables.catalogue import Catalogue
from support.archive.archive_fixture import make_archive
from support.archive.item_samples import ATTRIBUTES, ITEMS

if TYPE_CHECKING:
    from collections.abc import Iterator


class Undone(Exception):
    """Ends a transaction without its changes."""


FEWER = settings(max_examples=max(1, settings().max_examples // 3))  # a whole item each


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    """One for all examples, each of which leaves it without items."""
    archive = make_archive(tmp_path_factory.mktemp("read back") / "archive", "archive.example", {})
    yield archive.catalogue
    archive.catalogue.close()


def test_items_have_every_attribute() -> None:
    """One that is missing has its usual value in all items, and the tests below prove nothing of it."""
    assert ATTRIBUTES.keys() == {each.name for each in fields(Holding)} - {"number"}


@FEWER
@given(item=ITEMS)
def test_the_catalogue_keeps_every_field(catalogue: Catalogue, item: Holding) -> None:
    with suppress(Undone), catalogue.writing() as writer:
        put = replace(item, number=writer.add(item))
        assert [writer.holding(name) for name in item.names] == [put] * len(item.names)
        if item.key:
            assert writer.holding_by_key(item.key) == put
        raise Undone


@FEWER
@given(item=ITEMS)
def test_a_line_tells_every_field_but_what_lies_in_files(item: Holding) -> None:
    line = json.dumps(write_item(item)).encode()
    value = json.loads(line)
    value["files"] = dict.fromkeys(value.get("files", {}), "here")
    draft = read_line(json.dumps(value).encode())
    assert draft.forms == item.forms
    assert list(draft.files) == [file.name for file in item.files]
    assert draft.holding(item.forms, "", item.files) == replace(item, unsettled="")


@FEWER
@given(item=ITEMS)
def test_a_sidecar_and_a_description_for_a_copy_tell_every_field(item: Holding) -> None:
    assert read_sidecar(sidecar_text(item, [])) == (item, [])
    # The catalogue also has a number, and where a file lies that is not settled yet; a sidecar has neither.
    held = replace(item, number=7, files=tuple(replace(file, staged="of-this-name") for file in item.files))
    assert tells_the_same(item, held)
    another = f"{(int(item.timestamp[:4]) + 1) % 10_000:04}{item.timestamp[4:]}"
    assert not tells_the_same(item, replace(held, timestamp=another))
    if item.files:
        assert not tells_the_same(item, replace(held, files=held.files[1:]))
    described = read_description(json.loads(json.dumps(write_item(item))), item.forms.main)
    assert described == replace(item, key="", reason="", replacement=None, unsettled="")
