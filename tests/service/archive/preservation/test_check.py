"""`ibi archive check`: a whole Archive has no differences, and each difference is one sentence with what to do."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.preservation.audit import Audit
from ibi.archive.preservation.check import check
from ibi.archive.preservation.file_check import Difference
from ibi.archive.store import sidecars
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.minting.machine import this_machine
from support.archive.preservation_fixture import LINKED, NAME, OTHER, WHO, ArchiveFolder, flip, make_archive
from support.engines import by_hand


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa", "caf%E9/b.txt": b"b"})
    kept.put(OTHER, {"z.txt": b"zz"}, ibip="LK47B6W/362SFKH")
    kept.put(LINKED, url="http://far.example/")
    return kept


def differences(kept: ArchiveFolder) -> list[Difference]:
    return list(check(kept.directory, this_machine()))


def problems_of(kept: ArchiveFolder) -> list[str]:
    return [str(difference.what) for difference in differences(kept)]


def settle(kept: ArchiveFolder) -> None:
    for difference in check(kept.directory, this_machine()):
        assert difference.mend
        difference.mend()


def write_sidecars(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue:
        sidecars.write_outdated(catalogue, kept.file_store)


def harm(kept: ArchiveFolder, *statements: str) -> None:
    """Change the catalogue past all of our laws."""
    by_hand.harm(kept.data, *statements)


@pytest.mark.proves("ARC-01", "ARC-04")
def test_a_whole_archive_has_no_differences(kept: ArchiveFolder) -> None:
    assert problems_of(kept) == []
    write_sidecars(kept)
    assert problems_of(kept) == []


def test_looking_changes_nothing(kept: ArchiveFolder) -> None:
    before = {
        path: path.read_bytes()
        for path in kept.data.rglob("*")
        if path.is_file() and "sqlite" not in path.name
    }
    differences(kept)
    assert {
        p: p.read_bytes() for p in kept.data.rglob("*") if p.is_file() and "sqlite" not in p.name
    } == before


def test_files_that_are_missing_or_have_another_size_are_told(kept: ArchiveFolder) -> None:
    kept.path("a.txt").unlink()
    kept.path("z.txt", OTHER).write_bytes(b"zzz")
    assert problems_of(kept) == [
        f"a.txt of {NAME} is missing",
        f"z.txt of {OTHER} does not have the size that was listed",
    ]
    assert all(difference.mend is None for difference in differences(kept))


def test_a_damage_that_an_audit_has_found_is_told(kept: ArchiveFolder) -> None:
    flip(kept.path("a.txt"), 0)
    assert problems_of(kept) == []
    with kept.catalogue() as catalogue:
        list(Audit(catalogue, kept.file_store, lambda: 0.0).all())
    (sentence,) = problems_of(kept)
    assert "damaged" in sentence


def test_a_file_that_an_audit_found_missing_is_told_until_an_audit_finds_it(kept: ArchiveFolder) -> None:
    content = kept.path("a.txt").read_bytes()
    kept.path("a.txt").unlink()
    with kept.catalogue() as catalogue:
        list(Audit(catalogue, kept.file_store, lambda: 0.0).all())
        assert problems_of(kept) == [f"a.txt of {NAME} is missing"]
        kept.path("a.txt").write_bytes(content)
        (found,) = differences(kept)
        assert "was missing or had another size, and is not given out" in str(found.what)
        assert "ibi archive audit" in str(found.remedy)
        list(Audit(catalogue, kept.file_store, lambda: 0.0).all())
    assert problems_of(kept) == []


def test_a_fault_that_is_recorded_and_seen_is_told_once(kept: ArchiveFolder) -> None:
    kept.path("a.txt").unlink()
    kept.path("a.txt").symlink_to("/etc/passwd")
    with kept.catalogue() as catalogue:
        list(Audit(catalogue, kept.file_store, lambda: 0.0).all())
    assert len(problems_of(kept)) == 1


def test_what_is_not_listed_is_told_and_moved_aside_if_asked(kept: ArchiveFolder) -> None:
    beside = kept.path("a.txt").with_name("extra")
    beside.write_bytes(b"x")
    (kept.data / "col/stray").mkdir()
    (kept.data / "col/stray/y").write_bytes(b"y")
    (kept.data / "col/link").symlink_to("/etc/passwd")
    assert problems_of(kept) == [
        f"col/{NAME}/doc/extra is not listed", "col/link is not listed", "col/stray/y is not listed",
    ]  # fmt: skip
    settle(kept)
    assert problems_of(kept) == []
    assert not beside.exists()
    lost = sorted(path.name for path in (kept.data / "lost+found").rglob("*") if not path.is_dir())
    assert lost == ["extra", "link", "y"]
    assert kept.path("a.txt").read_bytes() == b"aaaa"


def test_a_file_in_the_place_of_a_folder_or_behind_a_link_is_told(
    kept: ArchiveFolder, tmp_path: Path
) -> None:
    folder = kept.path("a.txt").parent
    folder.rename(tmp_path / "doc")
    folder.symlink_to(tmp_path / "doc")
    sentences = problems_of(kept)
    assert len(sentences) == 3  # both files, and the link itself
    assert any("is not listed" in sentence for sentence in sentences)


def test_what_was_left_in_staging_is_told_and_cleared(kept: ArchiveFolder) -> None:
    (kept.data / "staging/left").write_bytes(b"x")
    (sentence,) = problems_of(kept)
    assert "staging" in sentence
    settle(kept)
    assert (kept.staging(), problems_of(kept)) == ([], [])


def test_while_a_process_is_staging_its_files_are_no_difference(kept: ArchiveFolder) -> None:
    with (kept.data / "ingest.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        (kept.data / "staging/under way").write_bytes(b"x")
        assert problems_of(kept) == []


def test_what_was_committed_and_not_settled_is_put_right(kept: ArchiveFolder) -> None:
    listed = kept.held().file("a.txt")
    assert listed
    os.rename(kept.path("a.txt"), kept.data / "staging/moved")  # noqa: PTH104 - as a kill would have left it
    harm(kept, "UPDATE file SET staged = 'moved' WHERE name = 'a.txt'")
    (sentence,) = problems_of(kept)
    assert "interrupted" in sentence
    settle(kept)
    assert problems_of(kept) == []
    assert kept.path("a.txt").read_bytes() == b"aaaa"


def test_editions_in_a_circle_are_shown_once(kept: ArchiveFolder) -> None:
    chain = {NAME: f"rep {OTHER}", LINKED: "ibip LK47B6W/362SFKH", OTHER: f"rep {LINKED}"}
    for name, following in chain.items():
        harm(kept, f"UPDATE item SET next_edition = '{following}' WHERE rep = '{name}'")  # noqa: S608 - names of ours
    assert sum("circle" in sentence for sentence in problems_of(kept)) == 1


def test_a_link_that_states_another_language_than_its_translation_is_told_and_mended(
    kept: ArchiveFolder,
) -> None:
    kept.put("a.example/b/2013/01.01.00.00", url="http://far.example/pt", language="pt-BR")
    kept.put("a.example/b/2014/01.01.00.00", url="http://far.example/es", language="es")
    links = '{"fr": "rep a.example/b/2014/01.01.00.00", "pt": "rep a.example/b/2013/01.01.00.00"}'
    harm(kept, f"UPDATE item SET translations = '{links}' WHERE rep = '{LINKED}'")  # noqa: S608 - names of ours
    (sentence,) = problems_of(kept)
    assert sentence == (
        f"{LINKED} names a.example/b/2014/01.01.00.00 as its translation into fr, but that is in es"
    )
    settle(kept)
    assert problems_of(kept) == []
    assert sorted(kept.held(LINKED).translations) == ["es", "pt"]
    both = '{"fr": "rep a.example/b/2014/01.01.00.00", "es": "rep a.example/b/2013/01.01.00.00"}'
    harm(kept, f"UPDATE item SET translations = '{both}' WHERE rep = '{LINKED}'")  # noqa: S608 - names of ours
    assert [difference.mend is None for difference in differences(kept)] == [True, False]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE item SET file_count = 9 WHERE rep = 'a.example/b/2010/01.01.00.00'", "as many files"),
        ("DELETE FROM name WHERE name = 'a.example/b/2010/01.01.00.00'", "no main name"),
        ("DELETE FROM name WHERE name = 'LK47B6W/362SFKH'", "does not lead to its item"),
        ("UPDATE item SET state = 'Deleted' WHERE rep = 'a.example/b/2010/01.01.00.00'", "removed, and has"),
        ("UPDATE item SET transferable = (1 = 1)", "must stay"),
        ("UPDATE item SET metadata = '{' WHERE number = 2", "cannot be read"),
        ("UPDATE item SET ibip = 'x' WHERE number = 2", ""),
        ("UPDATE item SET translations = '[]' WHERE number = 2", "cannot be read"),
    ],
)
def test_a_catalogue_that_contradicts_itself_is_told(kept: ArchiveFolder, statement: str, words: str) -> None:
    harm(kept, statement)
    sentences = problems_of(kept)
    assert sentences
    assert any(words in sentence for sentence in sentences)


@pytest.mark.one_store("sqlite", "PostgreSQL lets no program leave out its foreign keys")
def test_a_file_of_no_item_is_told(kept: ArchiveFolder) -> None:
    harm(kept, "INSERT INTO file (item, name, size, sha256, media_type) VALUES (99, 'x', 1, '', '')")
    assert any("belong to nothing" in sentence for sentence in problems_of(kept))


@pytest.mark.one_store("sqlite", "no session of PostgreSQL can leave out its checks")
def test_a_law_of_the_tables_that_was_broken_is_told(kept: ArchiveFolder) -> None:
    harm(kept, "PRAGMA ignore_check_constraints = 1", "UPDATE item SET state = 'Nothing' WHERE number = 2")
    assert any("damaged" in sentence for sentence in problems_of(kept))


@pytest.mark.one_store("sqlite", "damages the file")
def test_a_catalogue_that_is_gone_or_noise_is_a_sentence(kept: ArchiveFolder) -> None:
    path = kept.data / "catalogue.sqlite"
    for content in (b"", b"noise" * 1000, path.read_bytes()[:5000]):
        path.write_bytes(content)
        (sentence,) = problems_of(kept)
        assert "catalogue" in sentence
    path.unlink()
    (sentence,) = problems_of(kept)
    assert "does not exist" in sentence


def test_settings_that_cannot_be_read_are_told(kept: ArchiveFolder) -> None:
    (kept.data / "archive.toml").write_text("address = ")
    assert len(problems_of(kept)) == 1


@pytest.mark.one_store("sqlite", "a catalogue in PostgreSQL has the state in a row")
def test_a_minting_state_that_is_lost_is_told(tmp_path: Path) -> None:
    kept = make_archive(
        tmp_path / "archive", mint_host="archive.example", mint_ip="127.0.0.1", for_trying=True
    )
    assert problems_of(kept) == []
    (kept.data / "minting/state").unlink()
    assert any("minting state" in sentence for sentence in problems_of(kept))
    (kept.data / "minting/lock").unlink()
    assert any("minting state" in sentence for sentence in problems_of(kept))


def test_an_item_json_that_is_lost_or_changed_is_told_and_written_anew(kept: ArchiveFolder) -> None:
    write_sidecars(kept)
    path = kept.folder.sidecar_path(kept.held().forms)
    content = path.read_bytes()
    for harmed in (None, b"{}", content.replace(b"a.txt", b"b.txt"), content[:-40]):
        path.unlink()
        if harmed is not None:
            path.write_bytes(harmed)
        (sentence,) = problems_of(kept)
        assert "item.json" in sentence
        settle(kept)
        assert (problems_of(kept), path.read_bytes()) == ([], content)


@pytest.mark.one_store("sqlite", "puts an older copy of the file back")
def test_a_catalogue_that_has_forgotten_is_told_and_nothing_is_moved(kept: ArchiveFolder) -> None:
    """As after a put back catalogue, or a write-ahead log that was cut off."""
    with closing(sqlite3.connect(kept.data / "catalogue.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saved = (kept.data / "catalogue.sqlite").read_bytes()
    kept.put("a.example/b/2020/01.01.00.00", {"new.txt": b"new"})
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        held = work.get(parse_ibi(NAME))
        work.change(held, replace(held, language="pt"))
    write_sidecars(kept)
    for part in ("-wal", "-shm"):
        (kept.data / f"catalogue.sqlite{part}").unlink(missing_ok=True)
    (kept.data / "catalogue.sqlite").write_bytes(saved)
    found = differences(kept)
    assert [str(each.what) for each in found] == [
        f"the catalogue lacks changes of {NAME} that its item.json has",
        "the catalogue does not know the item of col/a.example/b/2020/01.01.00.00/item.json",
    ]
    assert all(each.mend is None for each in found)


def test_a_catalogue_that_says_what_was_never_said_is_told_and_not_believed(kept: ArchiveFolder) -> None:
    """A database has no checksums: a bit that turned in a text is seen here alone."""
    write_sidecars(kept)
    harm(kept, "UPDATE item SET rights = 'all yours' WHERE number = 2")
    (difference,) = differences(kept)
    assert "never made" in str(difference.what)
    assert difference.mend is None


def test_names_that_are_no_text_are_shown_anyhow(kept: ArchiveFolder) -> None:
    (kept.data / "col" / os.fsdecode(b"\xff\xfe")).write_bytes(b"")
    (sentence,) = problems_of(kept)
    sentence.encode()


def test_a_next_edition_elsewhere_is_no_difference(kept: ArchiveFolder) -> None:
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        held = work.get(parse_ibi(NAME))
        work.change(held, replace(held, next_edition=IBIForms.parse("rep far.example/b/2010/01.01.00.00")))
    assert problems_of(kept) == []
