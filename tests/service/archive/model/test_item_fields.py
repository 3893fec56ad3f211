"""Each field of an item, defined once, comes through everything that keeps, gives, copies and shows items."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.archive.admin.item_form import item_from_form
from ibi.archive.api.openapi import SCHEMAS
from ibi.archive.ingest.sources.table import read_table
from ibi.archive.model.handover import fingerprint
from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_fields import BY_NAME, EDITED, ITEM_FIELDS, FormKind
from ibi.archive.model.item_json import Draft, read_item, usual_facts, write_item
from ibi.archive.replication.fetching import TAKEN
from ibi.archive.store.item_changes import ItemPlacement, deposit
from support.archive.archive_fixture import NewArchive
from support.archive.item_samples import SAMPLES, WITH
from surface.commands import parsers

NAME = "a.example/b/2020/01.01.00.00"
BY_THEMSELVES = {"forms", "number", "key", "timestamp", "files", "unsettled"}
"""Attributes that are no facts of the item, or read together with others."""

OF_ITS_METADATA = {
    *(
        "file_list_public",
        "formats",
        "institution",
        "language",
        "licence",
        "metadata",
        "rights",
        "transferable",
    ),
}
"""What the item of an item's metadata takes over from it."""
OF_WHAT_IS_REMOVED = {
    *("access", "aliases", "contenttype", "embargo", "file_list_public", "institution", "language"),
    *("licence", "metadata", "metadata_item", "next_edition", "rights", "transferable", "translations"),
}
"""What an item keeps when it is removed."""

AT_A_HAND_OVER = {
    *("access", "aliases", "contenttype", "embargo", "file_list_public", "formats", "language", "licence"),
    *("metadata", "metadata_item", "next_edition", "replacement", "rights", "target", "transferable"),
    *("translations", "url"),
}
"""What both Archives compare at a hand-over: an Archive that does not know a field could not compare it."""

EACH = pytest.mark.parametrize("name", [each.name for each in ITEM_FIELDS])


def described(name: str) -> dict[str, Any]:
    """An item with this field."""
    return {"rep": NAME, "timestamp": "2020-01-01T00:00:00Z", **WITH.get(name, {}), name: SAMPLES[name]}


def holding_of(value: Mapping[str, Any]) -> Holding:
    """The item as it would be held, without its files."""
    draft = read_item(value)
    assert draft.forms is not None
    return draft.holding(draft.forms, "2020-01-01T00:00:00Z")


def cells(column: str, value: Any) -> dict[str, str]:
    """The cells of a table, by column, that say the same as a value in JSON."""
    match value:
        case {"value": text, "lang": tag}:
            return {f"{column}.{tag}": text}
        case dict():
            return {k: v for key, each in value.items() for k, v in cells(f"{column}.{key}", each).items()}
        case list():
            return {k: v for each in value for k, v in cells(column, each).items()}
        case False:
            return {column: "no"}
    return {column: value}


def test_every_attribute_of_an_item_is_a_field_and_the_other_way_round() -> None:
    attributes = {each.name for each in dataclasses.fields(Holding)} - BY_THEMSELVES
    assert sorted(each.attribute for each in ITEM_FIELDS) == sorted(attributes)
    assert SAMPLES.keys() == BY_NAME.keys()


@EACH
def test_what_is_written_is_read_again(name: str) -> None:
    field = BY_NAME[name]
    holding = holding_of(described(name))
    assert getattr(holding, field.attribute) != usual_facts([name])[field.attribute]
    assert write_item(holding)[name] == SAMPLES[name]


@EACH
def test_the_catalogue_keeps_it(archive: NewArchive, name: str) -> None:
    holding = holding_of(described(name))
    archive.catalogue.put(holding)
    kept = archive.catalogue.holding(holding.forms.main)
    assert kept is not None
    assert getattr(kept, BY_NAME[name].attribute) == getattr(holding, BY_NAME[name].attribute)
    assert json.dumps(write_item(kept)) == json.dumps(write_item(holding))  # false, not 0


@EACH
def test_a_table_has_columns_for_it(name: str) -> None:
    needed = {word: value for word, value in WITH.get(name, {}).items() if word != "files"}
    files = {"files": ";".join(WITH.get(name, {}).get("files", ""))}
    row = {"rep": NAME, **needed, **files, **cells(name, SAMPLES[name])}
    (record,) = read_table(BytesIO("\n".join((",".join(row), ",".join(row.values()), "")).encode()))
    assert isinstance(record.draft, Draft), record.draft
    attribute = BY_NAME[name].attribute
    assert record.draft.facts[attribute] == read_item(described(name)).facts[attribute]


@EACH
def test_a_copy_has_it(name: str) -> None:
    if BY_NAME[name].attribute in {"reason", "replacement"}:  # a removed item has no copies
        return
    assert name in TAKEN


def test_what_passes_to_the_item_of_its_metadata_was_decided(archive: NewArchive) -> None:
    taken = set()
    own = {
        "state",
        "reason",
        "replacement",
        "metadata_item",
        "contenttype",
        "target",
    }  # other ones there, or none
    for number, name in enumerate(sorted(SAMPLES.keys() - own)):
        value = (
            {"metadata": {"title": ["A title"]}}
            | described(name)
            | {"rep": f"{NAME}.{number:02}", "files": {}}
        )
        item = deposit(
            archive.item_store, read_item(value), (), "tester", ItemPlacement(metadata_as_item=True)
        ).holding
        assert item.metadata_item is not None
        made = archive.catalogue.holding(item.metadata_item.main)
        assert made is not None
        taken |= {name} if write_item(made).get(name) == SAMPLES[name] else set()
    assert taken == OF_ITS_METADATA


def test_what_a_removed_item_keeps_was_decided(archive: NewArchive) -> None:
    kept = set()
    for number, name in enumerate(sorted(SAMPLES.keys() - {"state", "reason", "replacement"})):
        holding = holding_of(described(name) | {"rep": f"{NAME}.{number:02}"})
        archive.catalogue.put(holding)
        with archive.item_store.unit_of_work("tester") as work:
            left = work.remove(work.get(holding.forms.main))
        kept |= {name} if write_item(left).get(name) == SAMPLES[name] else set()
    assert kept == OF_WHAT_IS_REMOVED


def test_what_a_hand_over_compares_was_decided() -> None:
    found, usual = set(), holding_of({"rep": NAME, "timestamp": "2020-01-01T00:00:00Z"})
    for name, attribute in ((each.name, each.attribute) for each in ITEM_FIELDS):
        item = holding_of(described(name))
        without = dataclasses.replace(item, **{attribute: getattr(usual, attribute)})
        found |= {name} if fingerprint(item) != fingerprint(without) else set()
    assert found == AT_A_HAND_OVER


@EACH
def test_programs_are_told_of_it(name: str) -> None:
    assert SCHEMAS["item"]["properties"][name] == BY_NAME[name].schema
    assert name in SCHEMAS["deposit"]["properties"]
    assert (name in SCHEMAS["edit"]["properties"]) is not BY_NAME[name].admin_only


@EACH
def test_documents_and_the_help_of_imports_tell_of_it(name: str) -> None:
    root = Path(__file__).parents[4]
    assert f"`{name}`" in (root / "docs" / "reference" / "formats.md").read_text(encoding="utf-8")
    assert f"  {name:<20} {BY_NAME[name].meaning}\n" in parsers()["ibi archive import"].format_help()


@pytest.mark.parametrize("name", [each.name for each in EDITED if each.form is not FormKind.NONE])
def test_a_form_that_has_it_gives_it(name: str) -> None:
    typed = "no" if BY_NAME[name].form is FormKind.TRUTH else str(SAMPLES[name])
    assert item_from_form(Form([(name, typed)]))[name] == SAMPLES[name]
    assert BY_NAME[name].label


def test_the_form_of_the_administration_asks_for_each(archive: NewArchive) -> None:
    from ibi.accounts.layout import Layout
    from ibi.archive.admin.item_pages import ItemFormPage
    from ibi.web.administration_pages import render
    from support.web.unnamed import BRANDING

    page = render(Layout(ItemFormPage({})), "en", BRANDING).decode()
    fields = [each for each in EDITED if each.form is not FormKind.NONE and each.name != "target"]
    assert [each.name for each in fields if f'name="{each.name}"' not in page] == []
    counts = {each.name: page.count(f'name="{each.name}"') for each in fields}
    assert counts == {name: len(Access) if name == "access" else 1 for name in counts}
    assert archive.catalogue.count() >= 1


def test_an_item_with_all_of_them_is_one_line() -> None:
    value = described("rights") | {
        name: SAMPLES[name] for name in ("language", "licence", "metadata", "transferable")
    }
    assert json.loads(json.dumps(write_item(holding_of(value)))) == value
