"""The life of an item: deposit, edition, translation, metadata, edits and removal, with their history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_fields import ITEM_FIELDS
from ibi.archive.model.item_json import read_item
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_changes import ItemPlacement, deposit, edit, remove
from ibi.archive.store.tables import history
from ibi.errors import AlreadyHeld, BadItem, Conflict, HoldingError, NotHeld, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.archive_fixture import NewArchive
from support.archive.fixtures import IN_A_FOLDER
from support.engines import by_hand

pytestmark = pytest.mark.usefixtures("files_place")

Given = Callable[..., Holding]


@pytest.fixture
def given(archive: NewArchive) -> Given:
    """Deposits an item: (files by name, place, fields) -> Holding."""

    def give(
        files: dict[str, bytes] | None = None, place: ItemPlacement | None = None, **fields: Any
    ) -> Holding:
        contents = files or {}
        value = {**fields, "files": dict.fromkeys(contents, "")} if contents else fields
        with archive.item_store.staging_session():
            staged = []
            for name, content in contents.items():
                staging = archive.file_store.stage_stream(name)
                staging.write(content)
                staged.append(staging.finish())
            return deposit(archive.item_store, read_item(value), staged, "maria", place).holding

    return give


def now(archive: NewArchive, holding: Holding) -> Holding:
    held = archive.catalogue.holding(holding.forms.main)
    assert held is not None
    return held


def events(archive: NewArchive, holding: Holding) -> list[tuple[str, str]]:
    with archive.catalogue.reading() as run:
        return [(event.who, event.what) for event in history.events_of(run, now(archive, holding).number)]


def bytes_of(archive: NewArchive, holding: Holding, name: str) -> bytes:
    held = now(archive, holding)
    file = held.file(name)
    assert file is not None
    with archive.file_store.open(held.forms, file) as opened:
        return opened.read()


def on_disk(archive: NewArchive) -> list[str]:
    """The stored files, without what the Archive itself writes beside them."""
    files = (path for path in (archive.data / "col").rglob("*/doc/**/*") if path.is_file())
    return sorted(str(path.relative_to(archive.data / "col")) for path in files)


@IN_A_FOLDER
def test_a_deposit_is_named_stored_in_its_four_directories_and_written_into_its_history(
    archive: NewArchive, given: Given
) -> None:
    item = given({"a%20b.txt": b"aaa", "sub/c.txt": b"c"}, target="a%20b.txt", metadata={"title": ["T"]})
    held = now(archive, item)
    assert held.state is ItemState.ORIGINAL
    folder = held.forms.main.canonical
    assert on_disk(archive) == [
        f"{folder}/doc/a b.txt",
        f"{folder}/doc/sub/c.txt",
    ]
    assert bytes_of(archive, item, "sub/c.txt") == b"c"
    assert all(not file.staged for file in held.files)
    assert events(archive, item) == [("maria", "deposited")]
    assert list((archive.data / "staging").iterdir()) == []


def test_a_key_gives_the_same_item_again(archive: NewArchive, given: Given) -> None:
    first = given({"a": b"1"}, key="order-7")
    assert given({"a": b"1"}, key="order-7").forms == first.forms
    assert archive.minted == 1


@pytest.mark.proves("URL-18")
def test_a_new_edition_becomes_the_next_of_the_last_one_and_of_no_other(
    archive: NewArchive, given: Given
) -> None:
    first = given({"a": b"1"})
    second = given({"a": b"2"}, ItemPlacement(edition_of=first.forms.main))
    assert now(archive, first).next_edition == second.forms
    with pytest.raises(BadItem, match="already has a next edition"):
        given({"a": b"3"}, ItemPlacement(edition_of=first.forms.main))
    assert events(archive, first) == [("maria", "deposited"), ("maria", "edited")]


def test_editions_that_would_go_in_a_circle_are_refused(archive: NewArchive, given: Given) -> None:
    first = given({"a": b"1"})
    second = given({"a": b"2"}, ItemPlacement(edition_of=first.forms.main))
    with pytest.raises(BadItem, match="in a circle"):
        edit(archive.item_store, second.forms.main, {"next_edition": str(first.forms.main)}, "maria")
    with pytest.raises(BadItem, match="in a circle"):
        edit(archive.item_store, second.forms.main, {"next_edition": str(second.forms.main)}, "maria")
    assert now(archive, second).next_edition is None


def test_translations_know_each_other(archive: NewArchive, given: Given) -> None:
    english = given({"a": b"e"}, language="en")
    portuguese = given({"a": b"p"}, ItemPlacement(translation_of=english.forms.main), language="pt")
    french = given({"a": b"f"}, ItemPlacement(translation_of=english.forms.main), language="fr")
    assert now(archive, english).translations == {"pt": portuguese.forms, "fr": french.forms}
    assert now(archive, portuguese).translations == {"en": english.forms, "fr": french.forms}
    assert now(archive, french).translations == {"en": english.forms, "pt": portuguese.forms}
    with pytest.raises(BadItem, match="in this language"):
        given({"a": b"p"}, ItemPlacement(translation_of=english.forms.main), language="pt")


def test_a_corrected_language_reaches_every_item_that_is_linked(archive: NewArchive, given: Given) -> None:
    original = given({"a": b"o"})
    english = given({"a": b"e"}, ItemPlacement(translation_of=original.forms.main), language="en")
    french = given({"a": b"f"}, ItemPlacement(translation_of=original.forms.main), language="fr")
    edit(archive.item_store, original.forms.main, {"language": "pt"}, "ana")
    edit(archive.item_store, french.forms.main, {"language": "es"}, "ana")
    assert now(archive, original).translations == {"en": english.forms, "es": french.forms}
    assert now(archive, english).translations == {"pt": original.forms, "es": french.forms}
    assert now(archive, french).translations == {"pt": original.forms, "en": english.forms}
    for taken in ("en", "pt"):
        with pytest.raises(BadItem, match=f"in this language: {taken}"):
            edit(archive.item_store, french.forms.main, {"language": taken}, "ana")
    assert now(archive, original).translations == {"en": english.forms, "es": french.forms}
    itself = {"translations": {"en": str(english.forms), "pt": str(original.forms)}}
    edit(archive.item_store, original.forms.main, itself, "ana")
    edit(archive.item_store, original.forms.main, {"language": "gl"}, "ana")
    assert now(archive, original).translations == {"en": english.forms, "gl": original.forms}


def test_a_translation_without_a_language_is_refused(archive: NewArchive, given: Given) -> None:
    english = given({"a": b"e"}, language="en")
    with pytest.raises(BadItem, match="needs its language"):
        given({"a": b"p"}, ItemPlacement(translation_of=english.forms.main))
    assert now(archive, english).translations == {}
    portuguese = given({"a": b"p"}, ItemPlacement(translation_of=english.forms.main), language="pt")
    for each in (portuguese, english):
        with pytest.raises(BadItem, match="needs its language"):
            edit(archive.item_store, each.forms.main, {"language": None}, "ana")
    assert now(archive, english).translations == {"pt": portuguese.forms}


def test_metadata_may_be_an_item_of_their_own(archive: NewArchive, given: Given) -> None:
    item = given({"a": b"1"}, ItemPlacement(metadata_as_item=True), metadata={"title": ["T"]})
    described = now(archive, item).metadata_item
    assert described is not None
    held = archive.catalogue.holding(described.main)
    assert held is not None
    assert (held.content_type, held.metadata) == (ContentType.METADATA, item.metadata)
    record = given({"marc.xml": b"<r/>"}, ItemPlacement(metadata_of=given({"b": b"2"}).forms.main))
    assert record.content_type is ContentType.METADATA
    with pytest.raises(BadItem, match="no metadata"):
        given({"a": b"1"}, ItemPlacement(metadata_as_item=True))


def test_a_deposit_that_fails_leaves_nothing(archive: NewArchive, given: Given) -> None:
    before = archive.catalogue.count()
    with pytest.raises(NotHeld):
        given({"a": b"1"}, ItemPlacement(edition_of=parse_name("a.example/b/2020/01.01.00.00")))
    with pytest.raises(BadItem, match="too much alike"):
        given({"A.txt": b"1", "a.TXT": b"2"})
    with pytest.raises(BadItem, match="a file and a folder"):
        given({"a": b"1", "a/b": b"2"})
    assert archive.catalogue.count() == before
    with archive.item_store.staging_session():
        pass
    assert list((archive.data / "staging").iterdir()) == []
    assert on_disk(archive) == []


@IN_A_FOLDER
def test_files_are_added_replaced_and_taken_away(archive: NewArchive, given: Given) -> None:
    item = given({"a": b"1", "b/c": b"2"}, target="a")
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("a")
        staging.write(b"one")
        edited = edit(
            archive.item_store, item.forms.main, {}, "ana", staged=[staging.finish()], without=["b/c"]
        )
    assert bytes_of(archive, edited, "a") == b"one"
    assert [path.rpartition("/doc/")[2] for path in on_disk(archive)] == ["a"]
    assert edited.timestamp > item.timestamp
    assert events(archive, item) == [("maria", "deposited"), ("ana", "edited")]


def test_a_folder_may_become_a_file_and_back(archive: NewArchive, given: Given) -> None:
    item = given({"a/b": b"1"})
    for name, gone, content in (("a", "a/b", b"2"), ("a/b", "a", b"3")):
        with archive.item_store.staging_session():
            staging = archive.file_store.stage_stream(name)
            staging.write(content)
            edit(archive.item_store, item.forms.main, {}, "ana", staged=[staging.finish()], without=[gone])
        assert bytes_of(archive, item, name) == content


def test_two_editors_do_not_overwrite_each_other(archive: NewArchive, given: Given) -> None:
    item = given({"a": b"1"})
    seen = item.timestamp
    edit(archive.item_store, item.forms.main, {"rights": "mine"}, "ana", unchanged_since=seen)
    with pytest.raises(Conflict, match="changed meanwhile"):
        edit(archive.item_store, item.forms.main, {"rights": "yours"}, "rui", unchanged_since=seen)
    assert now(archive, item).rights == "mine"


def test_null_gives_back_the_usual_value_and_names_cannot_be_edited(
    archive: NewArchive, given: Given
) -> None:
    item = given({"a": b"1"}, rights="some", access="embargoed", embargo="2999-01-01")
    assert now(archive, item).access_on("2998-12-31") is Access.EMBARGOED
    assert now(archive, item).access_on("2999-01-01") is Access.OPEN
    edit(archive.item_store, item.forms.main, {"rights": None, "access": None}, "ana")
    held = now(archive, item)
    assert (held.rights, held.access, held.embargo) == ("", Access.OPEN, "")
    for odd in ("rep", "nonsense", *(each.name for each in ITEM_FIELDS if each.admin_only)):
        with pytest.raises(BadItem, match="cannot be edited"):
            edit(archive.item_store, item.forms.main, {odd: None}, "ana")


@pytest.mark.proves("ARC-13", "ARC-02")
def test_a_copy_is_not_edited_here(archive: NewArchive) -> None:
    archive.load({"rep": "a.example/b/2020/01.01.00.00", "state": "Copy", "url": "http://far.example/"})
    with pytest.raises(HoldingError, match="where its original is"):
        edit(archive.item_store, parse_name("a.example/b/2020/01.01.00.00"), {"rights": "x"}, "ana")


@pytest.mark.proves("ARC-07")
def test_a_removed_item_keeps_its_names_its_date_and_the_reason_and_stays_removed(
    archive: NewArchive, given: Given
) -> None:
    item = given({"a": b"1"}, metadata={"title": ["T"]})
    left = remove(archive.item_store, item.forms.main, "withdrawn by its author", "ana")
    held = now(archive, item)
    assert held.timestamp > item.timestamp
    assert (held.state, held.reason, held.timestamp) == (
        ItemState.DELETED,
        "withdrawn by its author",
        left.timestamp,
    )
    assert held.metadata == item.metadata
    assert on_disk(archive) == []
    with pytest.raises(HoldingError, match="was removed on"):
        edit(archive.item_store, item.forms.main, {"rights": "x"}, "ana")
    assert remove(archive.item_store, item.forms.main, "again", "rui").reason == "withdrawn by its author"
    assert events(archive, item)[-1] == ("ana", "removed")


@pytest.mark.proves("ARC-11")
def test_the_archive_service_is_never_removed(archive: NewArchive) -> None:
    with pytest.raises(HoldingError, match="cannot be removed"):
        remove(archive.item_store, archive.settings.service.main, "", "ana")


@pytest.mark.proves("ARC-01", "ARC-04")
def test_an_item_is_not_held_twice_nor_as_a_copy_beside_its_original(
    archive: NewArchive, given: Given
) -> None:
    rep = "a.example/b/2020/01.01.00.00"
    given({"a": b"1"}, rep=rep)
    with pytest.raises(AlreadyHeld):
        given({"a": b"1"}, rep=rep.upper().replace("/B/", "/b/"))
    archive.load({"rep": rep, "state": "Copy", "url": "http://far.example/"})
    assert len(archive.refused) == 1
    assert archive.catalogue.count() == 2


@pytest.mark.proves("ARC-08")
@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("UPDATE item SET state = 'Original' WHERE state = 'Deleted'", "stays removed"),
        ("UPDATE item SET state = 'Copy' WHERE state = 'Original' AND NOT transferable", "not transferable"),
        ("DELETE FROM name", "no name is taken away"),
        ("DELETE FROM item", "no item is forgotten"),
        ("DELETE FROM event", "history is not forgotten"),
        ("UPDATE name SET name = 'x' || name", "one item for ever"),
    ],
)
def test_the_rules_hold_in_the_database_whichever_program_writes(
    archive: NewArchive, given: Given, statement: str, law: str
) -> None:
    remove(archive.item_store, given({"a": b"1"}).forms.main, "", "ana")
    with pytest.raises(SetupError, match=law):
        by_hand.run(archive.data, statement)


@IN_A_FOLDER
def test_a_file_is_read_from_staging_until_it_is_settled(archive: NewArchive) -> None:
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("a")
        staging.write(b"1")
        staged = staging.finish()
        with archive.catalogue.writing() as writer:
            draft = read_item({"rep": "a.example/b/2020/01.01.00.00", "files": {"a": ""}})
            holding = draft.holding(draft.forms, "2020-01-01T00:00:00Z", (staged,))  # type: ignore[arg-type]  # it has names
            writer.add(holding)
        assert bytes_of(archive, holding, "a") == b"1"
        assert on_disk(archive) == []
    with archive.item_store.staging_session():  # the next session after a crash
        assert bytes_of(archive, holding, "a") == b"1"
        assert on_disk(archive) == ["a.example/b/2020/01.01.00.00/doc/a"]
        assert not now(archive, holding).files[0].staged


@IN_A_FOLDER
def test_a_file_that_cannot_be_moved_now_is_read_from_staging_and_the_log_says_so(
    archive: NewArchive, given: Given, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise SetupError("the disk is full")

    with archive.item_store.staging_session():  # another one, which clears nothing away meanwhile
        with monkeypatch.context() as patched:
            patched.setattr(FolderFiles, "place_files", refuse)
            item = given({"a": b"1"})
        messages = [each.getMessage() for each in caplog.records]
        assert messages == ["files stay in staging for now: the disk is full"]
        assert (bytes_of(archive, item, "a"), on_disk(archive)) == (b"1", [])
    assert (bytes_of(archive, item, "a"), len(on_disk(archive))) == (b"1", 1)


def test_a_retired_archive_takes_nothing_in(archive: NewArchive, given: Given) -> None:
    item = given({"a": b"1"})
    archive.settings = replace(archive.settings, retired=True)
    with pytest.raises(HoldingError, match="has retired"):
        given({"a": b"2"})
    assert remove(archive.item_store, item.forms.main, "", "ana").deleted


def test_what_is_deposited_is_an_original_and_of_the_present(given: Given) -> None:
    for state in ("Copy", "Deleted"):
        with pytest.raises(BadItem, match="is an original"):
            given(state=state)
    with pytest.raises(BadItem, match="lies in the future"):
        given({"a": b"1"}, timestamp="9999-12-31T23:59:59Z")


def test_the_count_of_items_leaves_out_those_removed(archive: NewArchive, given: Given) -> None:
    items = [given({"a": b"1"}) for _ in range(3)]
    before = archive.catalogue.count()
    remove(archive.item_store, items[1].forms.main, "", "ana")
    assert archive.catalogue.count() == before - 1
    with pytest.raises(BadItem):
        given({"A": b"1", "a": b"2"})
    assert archive.catalogue.count() == before - 1
