"""A move of all files to another place: its order, its journal, and what ends it. Both places are folders here."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import BinaryIO

import pytest

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.preservation import moving
from ibi.archive.preservation.moving import MoveResult, move_files
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.settings import ArchiveSettings
from support.archive.preservation_fixture import NAME, OTHER, ArchiveFolder, flip, make_archive
from support.engines import by_hand

PLACE = "s3://bucket/archive"
FILES = {"a.txt": b"one", "b%20c.txt": b"two" * 1000, "empty": b""}


class There(FolderFiles):
    """The new place; `on_put` is called before each file is put there."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.on_put: Callable[[str], object] = bool
        self.changed = b""
        """What is read of each file there instead, if anything."""
        self.refuses = False

    def create_folders(self) -> None:
        if self.refuses:
            raise PermissionError(13, "Permission denied", str(self.where))
        super().create_folders()

    def put(self, forms: IBIForms, file: StoredFile, source: BinaryIO) -> bool:
        self.on_put(file.name)
        return super().put(forms, file, source)

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        if self.changed:
            self.path_of(forms, file).write_bytes(self.changed)
        return super().open(forms, file)


class Here(FolderFiles):
    """The old place; `at_last` is called when all files are copied, and no other command is at work any more."""

    at_last: Callable[[Catalogue], object] = bool

    def place_files(self, catalogue: Catalogue) -> None:
        type(self).at_last(catalogue)
        super().place_files(catalogue)


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> There:
    place = There(tmp_path / "there")
    (tmp_path / "there").mkdir()

    def store_of(data: Path, settings: ArchiveSettings) -> FolderFiles:
        return place if settings.files else Here(data)

    monkeypatch.setattr(moving, "file_store_of", store_of)
    monkeypatch.setattr(moving, "AT_ONCE", 1)
    return place


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive", files="")
    kept.put(NAME, FILES)
    kept.put(OTHER, {"a.txt": b"one"})
    return kept


def files_in(folder: Path) -> dict[str, bytes]:
    """All that lies below col/, but the sidecars."""
    return {
        path.relative_to(folder / "col").as_posix(): path.read_bytes()
        for path in (folder / "col").rglob("*")
        if path.is_file() and path.name != "item.json"
    }


def line(name: str, file: str) -> str:
    content = FILES[file]
    return f"{sha256(content).hexdigest()} {name}/doc/{file}\n"


def facts_of(result: MoveResult) -> tuple[int, int, list[str]]:
    return result.files, result.copied, [str(problem) for problem in result.problems]


def journal(kept: ArchiveFolder) -> str | None:
    path = kept.data / "moving-files.txt"
    return path.read_text() if path.exists() else None


def test_all_files_move_and_the_old_ones_stay(kept: ArchiveFolder, there: There, tmp_path: Path) -> None:
    progress = list[int]()
    before = files_in(kept.data)
    assert facts_of(move_files(kept.directory, PLACE, progress.append)) == (4, 4, [])
    assert progress == [4, 4]
    assert files_in(tmp_path / "there") == files_in(kept.data) == before
    assert {len(content) for content in before.values()} == {3, 3000, 0}
    assert there.read_sidecar(kept.held().forms) == FolderFiles(kept.data).read_sidecar(kept.held().forms)
    assert (ArchiveSettings.read(kept.data).files, journal(kept)) == (PLACE, None)
    with pytest.raises(SetupError, match="the files are there already"):
        move_files(kept.directory, PLACE)


def test_the_stores_own_addresses_are_given_out_only_where_there_is_a_store(
    tmp_path: Path, there: There
) -> None:
    kept = make_archive(tmp_path / "archive", files="")
    there.create_folders()
    replace(ArchiveSettings.read(kept.data), files=PLACE, files_redirect=True).write(kept.data)
    move_files(kept.directory, "")
    settings = ArchiveSettings.read(kept.data)
    assert (settings.files, settings.files_redirect) == ("", False)


def test_a_move_that_was_interrupted_goes_on_where_it_was(kept: ArchiveFolder, there: There) -> None:
    def fail(name: str) -> None:
        if name == "empty":
            raise SetupError("the store has gone")

    there.on_put = fail
    with pytest.raises(SetupError, match="the store has gone"):
        move_files(kept.directory, PLACE)
    where = f"{there.where}\n"
    assert journal(kept) == where + line(NAME, "a.txt") + line(NAME, "b%20c.txt")
    assert ArchiveSettings.read(kept.data).files == ""
    with (kept.data / "moving-files.txt").open("a") as cut:
        cut.write(line(OTHER, "a.txt")[:70])
    put = list[str]()
    there.on_put = put.append
    assert facts_of(move_files(kept.directory, PLACE)) == (4, 2, [])
    assert (put, journal(kept)) == (["empty", "a.txt"], None)


def test_the_journal_of_a_move_to_another_place_counts_for_nothing(kept: ArchiveFolder, there: There) -> None:
    lines = line(NAME, "a.txt") + line(NAME, "b%20c.txt")
    (kept.data / "moving-files.txt").write_text(f"s3://other/place\n{lines}")
    put = list[str]()
    there.on_put = put.append
    assert facts_of(move_files(kept.directory, PLACE)) == (4, 4, [])
    assert put == [*FILES, "a.txt"]


def _damaged(kept: ArchiveFolder, _there: There) -> None:
    flip(kept.path("a.txt"), 1)


def _longer(kept: ArchiveFolder, _there: There) -> None:
    kept.path("a.txt").write_bytes(b"more")


def _missing(kept: ArchiveFolder, _there: There) -> None:
    kept.path("a.txt").unlink()


def _damaged_there(_kept: ArchiveFolder, there: There) -> None:
    there.changed = b"oNe"


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (_damaged, "a.txt of {} is damaged: its SHA-256 is not the one that was listed"),
        (_damaged_there, "a.txt of {} is damaged: its SHA-256 is not the one that was listed"),
        (_longer, "a.txt of {} does not have the size that was listed"),
        (_missing, "a.txt of {} is missing"),
    ],
)
def test_a_file_that_cannot_be_copied_is_told_and_nothing_is_switched(
    tmp_path: Path, there: There, harm: Callable[[ArchiveFolder, There], None], sentence: str
) -> None:
    kept = make_archive(tmp_path / "archive", files="")
    kept.put(NAME, {"a.txt": b"one"})
    harm(kept, there)
    assert facts_of(move_files(kept.directory, PLACE)) == (1, 0, [sentence.format(NAME)])
    assert ArchiveSettings.read(kept.data).files == ""
    assert journal(kept) == f"{there.where}\n"


def test_a_file_that_is_removed_meanwhile_is_no_fault(kept: ArchiveFolder, there: There) -> None:
    def remove(name: str) -> None:
        if name == "empty":
            with kept.item_store() as item_store, item_store.unit_of_work("maria") as work:
                work.remove(work.get(parse_ibi(OTHER)))

    there.on_put = remove
    assert facts_of(move_files(kept.directory, PLACE)) == (3, 3, [])
    assert ArchiveSettings.read(kept.data).files == PLACE


def test_what_comes_during_the_move_is_copied_too(kept: ArchiveFolder, there: There) -> None:
    late = "a.example/b/2013/01.01.00.00"
    progress = list[int]()

    def deposit(files: int) -> None:
        progress.append(files)
        if len(progress) == 1:
            kept.put(late, {"late.txt": b"late"})

    assert facts_of(move_files(kept.directory, PLACE, deposit)) == (5, 5, [])
    assert progress == [4, 5, 5]
    held = kept.held(late)
    with there.open(held.forms, held.files[0]) as file:
        assert file.read() == b"late"


SERVED = "all files are copied, but the Archive is being served: stop it, and run the same command again"
AT_WORK = "all files are copied, but another command is at work in this Archive; try again"


@pytest.mark.parametrize(("lock", "sentence"), [("serve.lock", SERVED), ("ingest.lock", AT_WORK)])
def test_while_others_are_at_work_nothing_is_switched(
    kept: ArchiveFolder, there: There, lock: str, sentence: str
) -> None:
    with (kept.data / lock).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_SH)
        with pytest.raises(SetupError) as refused:
            move_files(kept.directory, PLACE)
    assert str(refused.value) == sentence
    assert ArchiveSettings.read(kept.data).files == ""
    assert len((journal(kept) or "").splitlines()) == 5
    put = list[str]()
    there.on_put = put.append
    assert (facts_of(move_files(kept.directory, PLACE)), put) == ((4, 0, []), [])


def test_what_waits_for_its_place_is_put_there_before_the_switch(kept: ArchiveFolder, there: There) -> None:
    place = kept.path("a.txt")
    place.rename(kept.data / "staging/moved")
    by_hand.harm(kept.data, "UPDATE file SET staged = 'moved' WHERE name = 'a.txt' AND item = 2")
    assert facts_of(move_files(kept.directory, PLACE)) == (4, 4, [])
    assert (place.read_bytes(), list((kept.data / "staging").iterdir())) == (b"one", [])
    with there.open(kept.held().forms, kept.held().files[0]) as file:
        assert file.read() == b"one"


def test_what_is_damaged_at_last_stops_the_move(
    kept: ArchiveFolder, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = "a.example/b/2013/01.01.00.00"

    def add(catalogue: Catalogue) -> None:
        missing = StoredFile("late.txt", 4, sha256(b"late").hexdigest(), "text/plain")
        with catalogue.writing() as writer:
            forms = IBIForms.parse(f"rep {late}")
            writer.add(Holding(forms=forms, timestamp="2026-01-01T00:00:00Z", files=(missing,)))

    monkeypatch.setattr(Here, "at_last", add)
    assert facts_of(move_files(kept.directory, PLACE)) == (5, 4, [f"late.txt of {late} is missing"])
    assert ArchiveSettings.read(kept.data).files == ""
    assert there.where in (journal(kept) or "")


def test_a_place_that_refuses_is_named(kept: ArchiveFolder, there: There) -> None:
    there.refuses = True
    with pytest.raises(SetupError) as refused:
        move_files(kept.directory, PLACE)
    assert str(refused.value) == f"no file can be kept in {there.where}: Permission denied"


def test_what_the_environment_decides_is_not_moved(
    kept: ArchiveFolder, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBI_ARCHIVE_FILES", "s3://bucket/other")
    with pytest.raises(SetupError, match="files is decided by IBI_ARCHIVE_FILES in the environment"):
        move_files(kept.directory, PLACE)
    assert not (Path(there.where) / "col").exists()


def test_the_switch_comes_last_after_all_files_are_flushed_and_while_no_node_serves(
    kept: ArchiveFolder, there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[object]()

    @contextmanager
    def alone() -> Iterator[None]:
        seen.append("alone")
        yield
        seen.append((ArchiveSettings.read(kept.data).files, journal(kept) is None))

    def sync() -> None:
        seen.append(("flushed", ArchiveSettings.read(kept.data).files, len(files_in(Path(there.where)))))

    there.on_put = lambda name: seen.append(journal(kept)) if name == "a.txt" else None
    monkeypatch.setattr(moving, "store_of", lambda data: SimpleNamespace(alone=alone, data=data))
    monkeypatch.setattr(moving, "os", SimpleNamespace(sync=sync))
    move_files(kept.directory, PLACE, lambda _: seen.append(len((journal(kept) or "").splitlines())))
    where = f"{there.where}\n"
    assert seen == [where, where, 5, "alone", 5, ("flushed", "", 4), (PLACE, False)]
