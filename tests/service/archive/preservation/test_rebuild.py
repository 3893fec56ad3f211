"""Sidecars and rebuilding: what lies beside the files tells all about them, so that a lost catalogue can be remade."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibi.archive.model.item import Access, Holding, MetadataValue, StoredFile
from ibi.archive.preservation.check import check
from ibi.archive.preservation.rebuild import rebuild
from ibi.archive.store import sidecars
from ibi.archive.store.sidecars import read_sidecar, sidecar_text, write_outdated
from ibi.archive.store.tables.history import ItemEvent
from ibi.errors import BadItem, IbiError, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.identifier.legacy import LegacyId
from ibi.minting.machine import this_machine
from ibi.protocol.vocabulary import ContentType, ItemState
from support.archive.preservation_fixture import LINKED, NAME, OTHER, WHO, ArchiveFolder, make_archive
from support.engines import by_hand

THIRD = "a.example/b/2013/01.01.00.00"


pytestmark = pytest.mark.one_store(
    "sqlite", "a catalogue in PostgreSQL is not rebuilt: test_in_postgresql sees it refused"
)


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    """An Archive whose items with files have lived a little."""
    kept = make_archive(tmp_path / "archive")
    kept.put(
        NAME, {"a.txt": b"aaaa", "caf%E9": b"b"}, metadata={"title": ["T", {"value": "U", "lang": "pt"}]}
    )
    kept.put(OTHER, {"z.txt": b"zz"}, ibip="LK47B6W/362SFKH", key="mine", aliases=["6RPa7umaZ/UaJFT"])
    kept.put(THIRD, {"gone.txt": b"gone"})
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(THIRD)), "asked for")
        held = work.get(parse_ibi(NAME))
        work.change(held, replace(held, language="pt", next_edition=IBIForms.parse(f"rep {OTHER}")))
    write(kept)
    return kept


def write(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue:
        write_outdated(catalogue, kept.file_store)


def lose(kept: ArchiveFolder) -> None:
    for path in kept.data.glob("catalogue.sqlite*"):
        path.unlink()


def sidecars_of(kept: ArchiveFolder) -> list[dict[str, object]]:
    """Everything but the Archive service, which is made from the settings."""
    return [item for item in kept.everything() if not str(item["rep"]).startswith("archive.example")]


def differences(kept: ArchiveFolder) -> list[str]:
    return [str(each.what) for each in check(kept.directory, this_machine())]


names = st.sampled_from([NAME, OTHER, LINKED, THIRD])
words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
forms = names.map(lambda name: IBIForms.parse(f"rep {name}")) | names.map(
    lambda name: IBIForms.parse(f"rep {name} ibip LK47B6W/362SFKH")
)
holdings = st.builds(
    Holding,
    forms=forms,
    aliases=st.sampled_from([(), (LegacyId.parse("6RPa7umaZ/UaJFT"),)]),
    key=st.sampled_from(["", "mine"]),
    state=st.sampled_from([ItemState.ORIGINAL, ItemState.COPY]),
    content_type=st.sampled_from(list(ContentType)),
    timestamp=st.just("2014-01-02T17:23:57Z"),
    language=st.sampled_from([None, "pt-BR"]),
    transferable=st.booleans(),
    files=st.just(
        (StoredFile("a%20b", 1, "ab" * 32, "text/plain"), StoredFile("c", 0, "cd" * 32, "image/png"))
    ),
    target=st.sampled_from(["", "c"]),
    file_list_public=st.booleans(),
    next_edition=st.none() | forms,
    translations=st.dictionaries(st.sampled_from(["", "pt", "en"]), forms, max_size=2),
    metadata_item=st.none() | forms,
    metadata=st.none()
    | st.fixed_dictionaries(
        {"title": words.map(lambda text: (MetadataValue(text, "pt"), MetadataValue(text)))}
    ),
    formats=st.sampled_from([{}, {"oai_dc": "http://x.example/"}]),
    access=st.sampled_from([Access.OPEN, Access.CLOSED, Access.RESTRICTED]),
    rights=words.map(str.strip),
    licence=st.sampled_from(["", "https://example.org/by"]),
)
events = st.lists(
    st.builds(
        ItemEvent,
        words,
        words,
        words,
        st.dictionaries(words, words | st.integers() | st.lists(words), max_size=3),
    ),
    max_size=4,
)


@given(holding=holdings, history=events)
def test_an_item_json_tells_the_item_and_its_history_without_loss(
    holding: Holding, history: list[ItemEvent]
) -> None:
    assert read_sidecar(sidecar_text(holding, history)) == (holding, history)


def test_an_item_json_tells_a_removed_item() -> None:
    left = Holding(
        forms=IBIForms.parse(f"rep {NAME}"),
        state=ItemState.DELETED,
        timestamp="2014-01-02T17:23:57Z",
        reason="asked for",
    )
    assert read_sidecar(sidecar_text(left, [])) == (left, [])


@pytest.mark.parametrize(
    "text",
    [b"", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"version": 2, "item": {}, "history": []}',
     b'{"version": 1, "item": [], "history": []}', b'{"version": 1, "item": {"files": {"x": 1}}, "history": []}',
     b'{"version": 1, "item": {"rep": "x"}, "history": []}'],
)  # fmt: skip
def test_what_is_no_item_json_is_one_sentence(text: bytes) -> None:
    with pytest.raises(IbiError):
        read_sidecar(text)


def test_every_change_of_an_item_with_files_is_told_beside_them(kept: ArchiveFolder) -> None:
    path = kept.folder.sidecar_path(kept.held().forms)
    holding, history = read_sidecar(path.read_bytes())
    assert holding == replace(kept.held(), number=0)
    assert [event.what for event in history] == ["deposited", "edited"]
    gone, history = read_sidecar(kept.folder.sidecar_path(kept.held(THIRD).forms).read_bytes())
    assert (gone.state, gone.reason) == (ItemState.DELETED, "asked for")
    assert [event.what for event in history] == ["deposited", "removed"]


def test_an_item_json_can_be_read_by_people(kept: ArchiveFolder) -> None:
    kept.put(LINKED, {"a.txt": b"a"}, metadata={"title": ["Não é em inglês"]})
    write(kept)
    text = kept.folder.sidecar_path(kept.held(LINKED).forms).read_text()
    assert text.count("\n") > 5
    assert "Não é em inglês" in text


def test_a_linked_item_has_no_item_json(kept: ArchiveFolder) -> None:
    held = kept.put(LINKED, url="http://far.example/")
    write(kept)
    assert not kept.folder.sidecar_path(held.forms).exists()


def test_a_sidecar_that_cannot_be_written_stays_owed(kept: ArchiveFolder) -> None:
    path = kept.folder.sidecar_path(kept.held().forms)
    path.unlink()
    path.mkdir()
    (path / "in the way").touch()
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        held = work.get(parse_ibi(NAME))
        work.change(held, replace(held, language="en"))
    with pytest.raises(SetupError, match="cannot be written"):
        write(kept)
    (path / "in the way").unlink()
    path.rmdir()
    write(kept)
    assert read_sidecar(path.read_bytes())[0].language == "en"


@pytest.mark.proves("ARC-07")
def test_a_lost_catalogue_is_made_anew_without_loss_of_what_has_files(kept: ArchiveFolder) -> None:
    before = sidecars_of(kept)
    lose(kept)
    rebuilt = rebuild(kept.directory)
    assert (rebuilt.kept, rebuilt.added, rebuilt.problems) == (False, 3, [])
    assert sidecars_of(kept) == before
    assert differences(kept) == []
    assert kept.path("a.txt").read_bytes() == b"aaaa"


def test_a_sound_catalogue_stays_and_nothing_is_added_to_it(kept: ArchiveFolder) -> None:
    kept.put(LINKED, url="http://far.example/")
    before = kept.everything()
    rebuilt = rebuild(kept.directory)
    assert (rebuilt.kept, rebuilt.added, rebuilt.brought_on) == (True, 0, 0)
    assert kept.everything() == before


def test_a_catalogue_that_has_forgotten_is_brought_on(kept: ArchiveFolder) -> None:
    kept.put(LINKED, url="http://far.example/")
    with closing(sqlite3.connect(kept.data / "catalogue.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    saved = (kept.data / "catalogue.sqlite").read_bytes()
    kept.put("a.example/b/2020/01.01.00.00", {"new.txt": b"new"})
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        held = work.get(parse_ibi(NAME))
        work.change(held, replace(held, language="en"))
    write(kept)
    before = kept.everything()
    lose(kept)
    (kept.data / "catalogue.sqlite").write_bytes(saved)
    assert differences(kept)
    rebuilt = rebuild(kept.directory)
    assert (rebuilt.kept, rebuilt.added, rebuilt.brought_on) == (True, 1, 1)
    assert kept.everything() == before
    assert differences(kept) == []


def test_what_was_never_said_is_put_right(kept: ArchiveFolder) -> None:
    before = kept.everything()
    by_hand.run(kept.data, "UPDATE item SET rights = 'all yours' WHERE number = 2")
    assert rebuild(kept.directory).brought_on == 1
    assert kept.everything() == before
    assert differences(kept) == []


def test_a_catalogue_with_a_row_that_cannot_be_read_is_made_anew(kept: ArchiveFolder) -> None:
    before = sidecars_of(kept)
    by_hand.run(kept.data, "UPDATE item SET metadata = '{' WHERE number = 2")
    assert rebuild(kept.directory).kept is False
    assert sidecars_of(kept) == before


def test_a_damaged_catalogue_is_kept_aside(kept: ArchiveFolder) -> None:
    before = sidecars_of(kept)
    path = kept.data / "catalogue.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    lose(kept)
    path.write_bytes(b"noise" * 5000)
    assert rebuild(kept.directory).added == 3
    assert sidecars_of(kept) == before
    (old_catalogue,) = (kept.data / "lost+found").rglob("catalogue.sqlite")
    assert old_catalogue.read_bytes() == b"noise" * 5000


def test_an_item_json_that_is_damaged_is_left_out_and_told(kept: ArchiveFolder) -> None:
    kept.folder.sidecar_path(kept.held().forms).write_bytes(b"{")
    lose(kept)
    rebuilt = rebuild(kept.directory)
    assert rebuilt.added == 2
    (problem,) = rebuilt.problems
    assert f"{NAME}/item.json" in str(problem)


def test_nothing_is_rebuilt_while_the_archive_is_served(kept: ArchiveFolder) -> None:
    with kept.directory.serve_lock(), pytest.raises(SetupError, match="being served"):
        rebuild(kept.directory)


def test_an_item_json_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sidecars, "VERSION", 2)
    text = sidecar_text(Holding(forms=IBIForms.parse(f"rep {NAME}"), timestamp="x"), [])
    monkeypatch.undo()
    with pytest.raises(BadItem, match="another version"):
        read_sidecar(text)
