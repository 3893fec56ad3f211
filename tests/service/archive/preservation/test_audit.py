"""Audits: every stored file is read again, every fault is found, remembered, and mended with the same bytes alone."""

from __future__ import annotations

import asyncio
import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.preservation.audit import (
    CHUNK,
    PORTION,
    Audit,
    AuditDuty,
    FileReading,
    fault_message,
    known_fault,
    opening_fault,
)
from ibi.archive.preservation.repair import put_back
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.tables import fixity
from ibi.archive.store.tables.catalogue import Catalogue
from ibi.archive.store.tables.fixity import AuditResult, FileFault
from ibi.errors import BadItem, NotHeld
from ibi.identifier.forms import IBIForms, Name, parse_ibi
from support.archive.preservation_fixture import NAME, OTHER, WHO, ArchiveFolder, flip, make_archive
from support.concurrency.open_files import open_files

NOW = 1_700_000_000.0


@pytest.fixture
def kept(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"a.txt": b"aaaa", "b/c.txt": b"c" * 5000, "empty": b""})
    kept.put(OTHER, {"z.txt": b"zz"})
    return kept


def audit(kept: ArchiveFolder, **how: bool) -> list[AuditResult]:
    with kept.catalogue() as catalogue:
        return list(Audit(catalogue, kept.file_store, lambda: NOW).all(**how))


def faults(kept: ArchiveFolder) -> dict[str, FileFault]:
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        return {known.listed.file.name: known.fault for known in fixity.faults(run)}


def test_a_whole_archive_has_no_faults_and_remembers_when_each_file_was_good(kept: ArchiveFolder) -> None:
    found = audit(kept)
    assert [(each.listed.file.name, each.fault) for each in found] == [
        ("a.txt", None), ("b/c.txt", None), ("empty", None), ("z.txt", None),
    ]  # fmt: skip
    held = kept.held()
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        assert {fixity.last_good(run, held.number, file) for file in held.files} == {"2023-11-14T22:13:20Z"}
        assert fixity.faults(run) == []


def test_each_kind_of_fault_is_found_and_named(kept: ArchiveFolder) -> None:
    flip(kept.path("a.txt"), 3)
    kept.path("b/c.txt").write_bytes(b"c" * 4999)
    kept.path("empty").unlink()
    kept.path("z.txt", OTHER).unlink()
    kept.path("z.txt", OTHER).mkdir()
    assert {each.listed.file.name: each.fault for each in audit(kept)} == {
        "a.txt": FileFault.DIGEST, "b/c.txt": FileFault.SIZE, "empty": FileFault.MISSING, "z.txt": FileFault.UNREADABLE,
    }  # fmt: skip
    assert faults(kept).keys() == {"a.txt", "b/c.txt", "empty", "z.txt"}


@pytest.mark.parametrize("bit", [0, 39_999])
def test_a_single_bit_is_found(kept: ArchiveFolder, bit: int) -> None:
    flip(kept.path("b/c.txt"), bit)
    assert [each.listed.file.name for each in audit(kept) if each.fault] == ["b/c.txt"]


def test_a_known_fault_stands_in_the_way_until_the_file_is_mended_or_replaced(kept: ArchiveFolder) -> None:
    flip(kept.path("a.txt"), 0)
    audit(kept)
    held = kept.held()
    file = held.file("a.txt")
    assert file
    with kept.catalogue() as catalogue:
        assert "a.txt of " + NAME in str(known_fault(catalogue, held, file))
    flip(kept.path("a.txt"), 0)
    audit(kept)
    with kept.catalogue() as catalogue:
        assert known_fault(catalogue, held, file) is None


def test_when_a_file_was_last_good_is_known_of_a_damaged_one(kept: ArchiveFolder) -> None:
    audit(kept)
    flip(kept.path("a.txt"), 0)
    with kept.catalogue() as catalogue:
        list(Audit(catalogue, kept.file_store, lambda: NOW + 86_400).all())
        with catalogue.reading() as run:
            (known,) = fixity.faults(run)
    assert (known.good, known.read) == ("2023-11-14T22:13:20Z", "2023-11-15T22:13:20Z")


def test_the_same_bytes_from_elsewhere_mend_a_file(kept: ArchiveFolder, tmp_path: Path) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    (tmp_path / "saved").write_bytes(b"aaaa")
    before = kept.held()
    with kept.item_store() as item_store:
        put_back(item_store, parse_ibi(NAME), "a.txt", tmp_path / "saved", WHO)
    assert faults(kept) == {}
    assert kept.held() == before
    assert kept.path("a.txt").read_bytes() == b"aaaa"
    assert kept.everything()[0]["history"][-1]["what"] == "repaired"
    assert [each.fault for each in audit(kept)] == [None] * 4


def test_other_bytes_mend_nothing(kept: ArchiveFolder, tmp_path: Path) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    (tmp_path / "other").write_bytes(b"aaab")
    with kept.item_store() as item_store, pytest.raises(BadItem, match="their SHA-256 differs"):
        put_back(item_store, parse_ibi(NAME), "a.txt", tmp_path / "other", WHO)
    with kept.item_store() as item_store:
        with pytest.raises(NotHeld, match=r"has no file x\.txt"):
            put_back(item_store, parse_ibi(NAME), "x.txt", tmp_path / "other", WHO)
        with pytest.raises(NotHeld, match="is not held here"):
            put_back(item_store, parse_ibi(f"{NAME}.59"), "a.txt", tmp_path / "other", WHO)
    assert faults(kept) == {"a.txt": FileFault.MISSING}
    assert kept.staging() == []


def test_an_interrupted_audit_goes_on_where_it_was(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue:
        walk = Audit(catalogue, kept.file_store, lambda: NOW).all()
        first = [next(walk).listed.file.name, next(walk).listed.file.name]
        walk.close()
    rest = [each.listed.file.name for each in audit(kept, go_on=True)]
    assert first == ["a.txt", "b/c.txt"]
    assert rest in (["b/c.txt", "empty", "z.txt"], ["empty", "z.txt"])
    assert len(audit(kept, go_on=True)) == 4  # the last one was ended, so this one starts from the beginning


def test_a_file_that_is_listed_no_longer_is_no_fault(kept: ArchiveFolder) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(NAME)), "gone")
    assert faults(kept) == {}
    assert [each.listed.file.name for each in audit(kept)] == ["z.txt"]


def test_what_was_found_in_a_file_is_forgotten_when_an_audit_ends_that_did_not_meet_it(
    kept: ArchiveFolder,
) -> None:
    def known() -> set[str]:
        with kept.catalogue() as catalogue, catalogue.reading() as run:
            return {fixity.last_good(run, held.number, file) for file in held.files}

    held = kept.held()
    audit(kept)
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(NAME)), "gone")
    with kept.catalogue() as catalogue:
        walk = Audit(catalogue, kept.file_store, lambda: NOW).all()
        next(walk)
        walk.close()
    assert known() == {"2023-11-14T22:13:20Z"}
    audit(kept, go_on=True)
    assert known() == {""}


def test_a_file_that_goes_while_the_audit_reads_others_is_no_fault(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue:
        walk = Audit(catalogue, kept.file_store, lambda: NOW)
        results = walk.all()
        first = next(results)
        with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
            work.remove(work.get(parse_ibi(NAME)), "gone")
        rest = list(results)
    assert [(each.listed.file.name, each.fault) for each in (first, *rest)] == [
        ("a.txt", None),
        ("z.txt", None),
    ]
    assert (walk.progress.files, walk.progress.faults) == (4, 0)
    assert faults(kept) == {}


class ReadMeanwhile(FolderFiles):
    """A store in which something happens before each piece that is read of a file."""

    before: Callable[[Path, int], None]
    """It is called with the path and how many bytes have been read."""

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        super().open(forms, file).close()
        return _Pieces(self, self.path_of(forms, file))


class _Pieces(io.BufferedReader):
    def __init__(self, store: ReadMeanwhile, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._store = store
        self._path = path

    def read(self, size: int | None = -1, /) -> bytes:
        self._store.before(self._path, self.tell())
        return super().read(size)


def meanwhile(kept: ArchiveFolder, before: Callable[[Path, int], None]) -> ReadMeanwhile:
    store = ReadMeanwhile(kept.data)
    store.before = before
    return store


LONG = 2 * CHUNK + 5


@pytest.fixture
def long(tmp_path: Path) -> ArchiveFolder:
    kept = make_archive(tmp_path / "long")
    kept.put(NAME, {"a.txt": b"aaaa", "long": bytes(LONG), "z.txt": b"zz"})
    return kept


def _fail(path: Path, read: int) -> None:
    if path.name == "long" and read:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def _shorten(path: Path, read: int) -> None:
    if path.name == "long" and read:
        os.truncate(path, CHUNK + 1)


def _lengthen(path: Path, read: int) -> None:
    if path.name == "long" and read == CHUNK:
        with path.open("ab") as file:
            file.write(b"x")


def _change(path: Path, read: int) -> None:
    if path.name == "long" and read == CHUNK:
        with path.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"x")


@pytest.mark.parametrize(
    ("happens", "fault"),
    [
        (_fail, FileFault.UNREADABLE),
        (_shorten, FileFault.SIZE),
        (_lengthen, FileFault.SIZE),
        (_change, FileFault.DIGEST),
    ],
)
def test_what_happens_to_a_file_while_it_is_read_is_its_fault_and_no_other_s(
    long: ArchiveFolder, happens: Callable[[Path, int], None], fault: FileFault
) -> None:
    with long.catalogue() as catalogue:
        walk = Audit(catalogue, meanwhile(long, happens), lambda: NOW)
        found = {each.listed.file.name: each.fault for each in walk.all()}
    assert found == {"a.txt": None, "long": fault, "z.txt": None}
    assert (walk.progress.files, walk.progress.faults) == (3, 1)
    assert walk.progress.done == walk.progress.total == LONG + 6
    assert faults(long) == {"long": fault}


def test_an_audit_tells_how_far_it_is_in_a_long_file(long: ArchiveFolder) -> None:
    seen = []
    with long.catalogue() as catalogue:
        walk = Audit(
            catalogue,
            meanwhile(long, lambda path, _: seen.append((path.name, walk.progress.done))),
            lambda: NOW,
        )
        list(walk.all())
    assert list(dict.fromkeys(seen)) == [
        ("a.txt", 0), ("a.txt", 4), ("long", 4), ("long", 4 + CHUNK), ("long", 4 + 2 * CHUNK), ("long", 4 + LONG),
        ("z.txt", 4 + LONG), ("z.txt", 4 + LONG + 2),
    ]  # fmt: skip


def test_a_file_that_was_read_to_its_end_is_closed_and_tells_the_same_again(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        (listed,) = fixity.next_files(run, fixity.AuditPosition(NOW), 1)
    reading = FileReading(kept.file_store, listed)
    assert [reading.more(), reading.more(), reading.more()] == [True, False, False]
    assert (reading.size, reading.fault) == (4, None)
    assert open_files(kept.path("a.txt").parent) == []
    stopped = FileReading(kept.file_store, listed)
    stopped.close()
    stopped.close()
    assert (stopped.more(), stopped.size, open_files(kept.path("a.txt").parent)) == (False, 0, [])


def test_opening_a_file_shows_what_is_seen_without_reading_it(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue, catalogue.reading() as run:
        listed = fixity.next_files(run, fixity.AuditPosition(NOW), 4)
    flip(kept.path("a.txt"), 3)
    kept.path("b/c.txt").write_bytes(b"c" * 4999)
    kept.path("empty").unlink()
    kept.path("z.txt", OTHER).unlink()
    kept.path("z.txt", OTHER).mkdir()
    assert [opening_fault(kept.file_store, each) for each in listed] == [
        None, FileFault.SIZE, FileFault.MISSING, FileFault.UNREADABLE,
    ]  # fmt: skip
    assert open_files(kept.data / "col") == []
    assert [str(fault_message(listed[0], fault)) for fault in FileFault] == [
        f"a.txt of {NAME} is missing",
        f"a.txt of {NAME} does not have the size that was listed",
        f"a.txt of {NAME} is damaged: its SHA-256 is not the one that was listed",
        f"a.txt of {NAME} cannot be read",
    ]


class SettledMeanwhile(Catalogue):
    """A catalogue that another process is asked for at the same time: until then, it has not moved its file."""

    moves: tuple[Path, Path] | None = None

    def holding(self, name: Name) -> Holding | None:
        if self.moves is not None:
            (source, target), self.moves = self.moves, None
            source.rename(target)
        return super().holding(name)


def test_a_file_that_comes_into_its_place_while_the_audit_looks_is_whole(kept: ArchiveFolder) -> None:
    place, staged = kept.path("b/c.txt"), kept.data / "staged"
    place.rename(staged)
    with kept.catalogue() as catalogue:
        settling = SettledMeanwhile(catalogue.engine)
        settling.moves = staged, place
        walk = Audit(settling, kept.file_store, lambda: NOW)
        assert [each.fault for each in walk.all()] == [None] * 4
        settling.close()
    assert (walk.progress.files, walk.progress.faults, walk.progress.done) == (4, 0, walk.progress.total)
    assert faults(kept) == {}


def test_a_file_that_was_replaced_is_not_blamed_for_the_old_one(kept: ArchiveFolder) -> None:
    kept.path("a.txt").unlink()
    audit(kept)
    with kept.item_store() as item_store:
        staging = item_store.file_store.stage_stream("a.txt")
        staging.write(b"new")
        staged = staging.finish()
        with item_store.unit_of_work(WHO) as work:
            held = work.get(parse_ibi(NAME))
            work.change(held, held, [staged])
    assert faults(kept) == {}
    held = kept.held()
    file = held.file("a.txt")
    assert file
    with kept.catalogue() as catalogue:
        assert known_fault(catalogue, held, file) is None


class Days:
    """A clock for the duty, which sleeps by moving it on."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept = 0.0

    def seconds(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.now += seconds


def portions(kept: ArchiveFolder, clock: Days, days: float, every: float = 3600.0) -> list[set[str]]:
    """What was read by each portion of a running Archive, over so many days."""
    read: list[set[str]] = []

    async def live() -> None:
        with kept.catalogue() as catalogue:
            duty = AuditDuty(catalogue, kept.file_store, clock.seconds, 30, clock.sleep)
            end = clock.now + days * 86_400
            while clock.now < end:
                await duty.portion()
                with catalogue.reading() as run:
                    place = fixity.position_of(run, "duty")
                    assert place
                    files = fixity.next_files(run, fixity.AuditPosition(0.0), 100)
                    read.append(
                        {
                            each.file.name
                            for each in files
                            if (each.item, each.file.name) <= (place.item, place.name)
                        }
                    )
                clock.now += every

    asyncio.run(live())
    return read


def test_a_running_archive_reads_everything_within_its_days_and_not_at_once(kept: ArchiveFolder) -> None:
    read = portions(kept, Days(), 27.5)
    assert read[-1] == {"a.txt", "b/c.txt", "empty", "z.txt"}
    assert len(read[24]) < 4
    half = next(number for number, files in enumerate(read) if len(files) >= 3)
    assert 24 * 5 < half < 24 * 27


def test_the_next_round_begins_when_the_days_are_over(kept: ArchiveFolder) -> None:
    clock = Days()
    portions(kept, clock, 28)
    flip(kept.path("z.txt", OTHER), 0)
    portions(kept, clock, 1.9)
    assert faults(kept) == {}
    portions(kept, clock, 28)
    assert faults(kept) == {"z.txt": FileFault.DIGEST}


def test_a_running_archive_finds_faults_and_sees_them_mended(kept: ArchiveFolder) -> None:
    clock = Days()
    flip(kept.path("a.txt"), 0)
    kept.path("empty").unlink()
    portions(kept, clock, 28)
    assert faults(kept) == {"a.txt": FileFault.DIGEST, "empty": FileFault.MISSING}
    flip(kept.path("a.txt"), 0)
    portions(kept, clock, 31)
    assert faults(kept) == {"empty": FileFault.MISSING}


def test_a_long_file_is_read_in_portions_and_slowly(tmp_path: Path) -> None:
    kept = make_archive(tmp_path / "archive")
    kept.put(NAME, {"long": bytes(PORTION + (3 << 20))})
    clock = Days()

    async def live() -> list[bool]:
        with kept.catalogue() as catalogue:
            duty = AuditDuty(catalogue, kept.file_store, clock.seconds, 30, clock.sleep)
            await duty.portion()
            clock.now += 28 * 86_400
            ended = []
            for _ in range(2):
                await duty.portion()
                with catalogue.reading() as run:
                    place = fixity.position_of(run, "duty")
                ended.append(bool(place and place.ended))
            return ended

    assert asyncio.run(live()) == [False, True]
    assert clock.slept >= (PORTION + (2 << 20)) / (8 << 20)


def test_a_clock_that_was_far_ahead_delays_no_audit(kept: ArchiveFolder) -> None:
    with kept.catalogue() as catalogue, catalogue.writing() as writer:
        fixity.save_position(writer.run, "duty", fixity.AuditPosition(NOW * 2))
    assert portions(kept, Days(), 28)[-1] == {"a.txt", "b/c.txt", "empty", "z.txt"}
