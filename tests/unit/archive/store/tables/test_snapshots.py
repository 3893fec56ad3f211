"""What a catalogue reads in one snapshot, what it says of names that it lacks, and of rows that are damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ibi.archive.store.tables.catalogue import BoundedCatalogue, TooLarge
from ibi.archive.store.tables.rows import FILE_CHARACTERS, ListedFile
from ibi.errors import NotHeld, SetupError, Unsettled
from ibi.identifier.forms import IBIForms, parse_ibi
from support.archive.archive_fixture import NewArchive
from support.archive.search_fixture import item

if TYPE_CHECKING:
    from ibi.archive.model.item import StoredFile

NAME = parse_ibi(str(item(1)["rep"]))
OTHER = parse_ibi(str(item(2)["rep"]))


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(SetupError) as refused:
        act()
    return str(refused.value)


def path_of(archive: NewArchive) -> str:
    return str(archive.data / "catalogue.sqlite")


def test_a_snapshot_shows_one_moment_and_names_its_last_change(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    with archive.catalogue.snapshot() as snapshot:
        before, rules = snapshot.position, snapshot.rules
        with archive.catalogue.writing() as writer:
            writer.run("INSERT INTO changed (number, word, moment, rules) VALUES (99, 'word', 0, 7)")
            writer.run("UPDATE item SET rights = 'new' WHERE number = 2")
        held = snapshot.holding(NAME)
        assert held is not None
        assert (held.rights, rules) == ("", 0)
        assert snapshot.holding(OTHER) is None
    with archive.catalogue.snapshot() as snapshot:
        assert (snapshot.position, snapshot.rules) == ("99.word", 7)
        held = snapshot.holding(NAME)
        assert held is not None
        assert held.rights == "new"
    assert before != "99.word"
    with archive.catalogue.writing() as writer:
        writer.run("DELETE FROM changed")
    with archive.catalogue.snapshot() as snapshot:
        assert (snapshot.position, snapshot.rules) == ("0.", 0)


def test_a_second_snapshot_in_a_thread_is_refused_and_the_first_goes_on(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    sentence = "cannot start a transaction within a transaction"
    with archive.catalogue.snapshot() as first:
        found = refusal(archive.catalogue.begin)
        assert found == f"the database {path_of(archive)} cannot be used: {sentence}"
        assert first.holding(NAME) is not None
    with archive.catalogue.snapshot() as again:
        assert again.holding(NAME) is not None


def test_what_a_statement_of_a_snapshot_meets_is_one_sentence_and_the_next_one_is_sound(
    archive: NewArchive,
) -> None:
    archive.load(item(1, "One"))

    def fail(error: Exception) -> None:
        with archive.catalogue.snapshot():
            raise error

    driver = sqlite3.OperationalError("disk I/O error")
    assert refusal(lambda: fail(driver)) == f"the database {path_of(archive)} cannot be used: disk I/O error"
    with pytest.raises(KeyError):
        fail(KeyError())
    with archive.catalogue.snapshot() as sound:
        assert sound.holding(NAME) is not None


def test_a_row_that_cannot_be_read_is_told_without_what_is_in_it(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    for statement, reason in (
        ("UPDATE item SET metadata = 'no JSON' WHERE number = 2", "JSONDecodeError"),
        ("UPDATE item SET metadata = '[1]' WHERE number = 2", "AttributeError"),
        ("UPDATE item SET metadata = NULL, next_edition = 'rep x y' WHERE number = 2", "ParseError"),
    ):
        with archive.catalogue.writing() as writer:
            writer.run(statement)
        sentence = f"the catalogue is damaged: a row of it cannot be read ({reason})"
        assert refusal(lambda: archive.catalogue.holding(NAME)) == sentence


def test_a_catalogue_says_what_it_does_not_hold_and_shows_nothing_unsettled(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    catalogue = archive.catalogue
    for act in (catalogue.held, catalogue.settled):
        with pytest.raises(NotHeld) as refused:
            act(OTHER)
        assert str(refused.value) == f"this Archive does not hold {OTHER}"
        assert act(NAME).forms.main == NAME
    with catalogue.writing() as writer:
        writer.run("UPDATE item SET unsettled = '2026-01-01T00:00:00Z' WHERE number = 2")
    assert catalogue.held(NAME).unsettled
    with pytest.raises(Unsettled):
        catalogue.settled(NAME)
    assert (catalogue.count(), catalogue.acknowledgments(2), catalogue.acknowledgments(99)) == (2, 0, 0)
    assert list(catalogue.names_under("a.example/b")) == [str(NAME)]
    assert list(catalogue.names_under("a.example")) == [str(NAME)]
    assert list(catalogue.names_under("a.exampl")) == []


def test_an_item_is_read_at_once_only_up_to_its_size(archive: NewArchive) -> None:
    archive.load(item(1, "One"))
    held = archive.catalogue.held(NAME)
    with archive.catalogue.reading() as run:
        (metadata,) = run("SELECT metadata FROM item WHERE number = 2").fetchone()
    assert FILE_CHARACTERS == 64
    for largest, fits in ((len(metadata), True), (len(metadata) - 1, False)):
        with closing(BoundedCatalogue(archive.catalogue, largest)) as bounded:
            if fits:
                assert bounded.holding(NAME) == held
                continue
            with pytest.raises(TooLarge):
                bounded.holding(NAME)
            with pytest.raises(TooLarge), bounded.snapshot() as snapshot:
                snapshot.holding(NAME)


def test_a_file_is_listed_with_these_bytes_alone(archive: NewArchive) -> None:
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("a.txt")
        staging.write(b"one")
        staged = staging.finish()
        held = archive.catalogue.held(archive.settings.service.main)
        with archive.item_store.unit_of_work("maria") as work:
            work.change(held, held, [staged])

    def lists(forms: IBIForms, file: StoredFile) -> bool:
        return archive.catalogue.lists(ListedFile(held.number, forms, file))

    assert lists(held.forms, staged)
    assert not lists(held.forms, replace(staged, sha256="0" * 64))
    assert not lists(held.forms, replace(staged, name="b.txt"))
    assert not lists(IBIForms.of(NAME), staged)
