"""The bytes of items: where they lie, and that nothing else is ever reached."""

from __future__ import annotations

import errno
import grp
import hashlib
import os
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from ibi.archive.model.file_names import file_parts, media_type
from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.tables.rows import ListedFile
from ibi.errors import BadItem, SetupError
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import NewArchive
from support.checks.flushed_files import flushes
from support.checks.full_disk import files_of_at_most
from support.concurrency.open_files import open_files
from support.concurrency.threads import until_waiting, waits_for

REP = IBIForms.parse("rep A.Example/B@80/2010/01.01.00.00 ibip LK47B6W/362SFKH")
IBIP = IBIForms.parse("ibip lk47b6w/362sfkj")


def store(archive: NewArchive, forms: IBIForms, name: str, content: bytes) -> StoredFile:
    source = archive.data / "source"
    source.write_bytes(content)
    with archive.item_store.staging_session():
        staged = archive.file_store.stage(name, source)
        with archive.item_store.unit_of_work("tester") as work:
            work.add(Holding(forms=forms, timestamp="2020-01-01T00:00:00Z"), [staged])
    held = archive.catalogue.holding(forms.main)
    assert held is not None
    return held.files[0]


@pytest.mark.proves("GEN-11", "SVC-11")
@pytest.mark.parametrize(
    ("forms", "name", "path"),
    [
        (REP, "a.txt", b"a.example/b@80/2010/01.01.00.00/doc/a.txt"),
        (REP, "Relat%f3rio%20Final.pdf", b"a.example/b@80/2010/01.01.00.00/doc/Relat\xf3rio Final.pdf"),
        (REP, "figures/one.png", b"a.example/b@80/2010/01.01.00.00/doc/figures/one.png"),
        (IBIP, "a.txt", b"LK47B6W/362SFKJ/doc/a.txt"),
    ],
)
def test_files_lie_in_the_folders_of_the_canonical_name(
    archive: NewArchive, forms: IBIForms, name: str, path: bytes
) -> None:
    file = store(archive, forms, name, b"content")
    with open(bytes(archive.data) + b"/col/" + path, "rb") as found:  # noqa: PTH123 - a path of bytes
        assert found.read() == b"content"
    assert (file.size, file.sha256) == (7, hashlib.sha256(b"content").hexdigest())
    with archive.file_store.open(forms, file) as opened:
        assert opened.read() == b"content"


@pytest.mark.parametrize("name", ["", "/", "a//b", "a/../b", "..", "a/.", "a%2F..%2Fb", "a%5cb", "a%0ab", "a%7f", "a?b",
                                  "a b", "%2e%2e", "a%2", "{a}", "\u00e9", "x" * 1025, "%41" * 256,
                                  "a/" * 300])  # fmt: skip
def test_names_that_could_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadItem):
        file_parts(name)
    with pytest.raises((BadItem, OSError)):
        FolderFiles(tmp_path).open(REP, StoredFile(name, 0, "", ""))


def test_a_symbolic_link_is_never_followed(archive: NewArchive, tmp_path: Path) -> None:
    file = store(archive, REP, "figures/one.png", b"1234567")
    doc = archive.data / "col/a.example/b@80/2010/01.01.00.00/doc"
    (tmp_path / "secret").write_bytes(b"7654321")
    (doc / "figures/one.png").unlink()
    (doc / "figures/one.png").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        archive.file_store.open(REP, file)
    (doc / "figures/one.png").unlink()
    (doc / "figures").rename(tmp_path / "moved")
    (doc / "figures").symlink_to(tmp_path / "moved")
    with pytest.raises(OSError, match="irectory"):
        archive.file_store.open(REP, file)


def test_a_file_of_another_size_is_not_the_one_that_was_listed(archive: NewArchive) -> None:
    file = store(archive, REP, "a.txt", b"content")
    (archive.data / "col/a.example/b@80/2010/01.01.00.00/doc/a.txt").write_bytes(b"longer content")
    with pytest.raises(OSError, match="not the one"):
        archive.file_store.open(REP, file)


def test_removal_takes_the_files_of_one_item_and_their_folders(archive: NewArchive) -> None:
    first = store(archive, REP, "sub/a.txt", b"1")
    second = store(archive, IBIP, "a.txt", b"2")
    with archive.item_store.unit_of_work("tester") as work:
        work.remove(work.get(REP.main))
    with pytest.raises(FileNotFoundError):
        archive.file_store.open(REP, first)
    with archive.file_store.open(IBIP, second) as opened:
        assert opened.read() == b"2"
    assert [path.name for path in (archive.data / "col" / REP.main.canonical).iterdir()] == ["item.json"]


def test_a_staged_file_is_flushed_with_its_name_before_an_item_lists_it(archive: NewArchive) -> None:
    source = archive.data / "source"
    source.write_bytes(b"content")
    with archive.item_store.staging_session():
        with flushes() as flushed:
            archive.file_store.stage("a.txt", source)
        assert flushed.lacking(archive.data / "staging") == []


def test_a_removal_of_files_is_flushed_before_the_catalogue_forgets_them(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(archive, REP, "sub/a.txt", b"1")
    left, flush = dict[str, list[str]](), os.fsync

    def noting(handle: int) -> None:
        flush(handle)
        place = Path(f"/proc/self/fd/{handle}")
        if place.is_dir():
            left[place.readlink().name] = os.listdir(handle)

    monkeypatch.setattr(os, "fsync", noting)
    with archive.item_store.unit_of_work("tester") as work:
        work.remove(work.get(REP.main))
    assert left["sub"] == left["doc"] == []
    assert "doc" not in left["01.01.00.00"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.pdf", "application/pdf"), ("a.html", "text/html"), ("a.js", "text/javascript"), ("a.TXT", "text/plain"),
        ("a.svg", "image/svg+xml"), ("a.txt.gz", "application/octet-stream"),
        ("@relatorio", "application/octet-stream"),
        ("a.xml", "application/xml"),
    ],
)  # fmt: skip
def test_types_are_told_by_the_end_of_a_name(name: str, expected: str) -> None:
    assert media_type(name) == expected


def test_a_name_is_decoded_once_then_taken_apart() -> None:
    assert file_parts("a%2Fb") == (b"a", b"b")
    assert file_parts("a%252Fb") == (b"a%2Fb",)


def test_what_one_process_is_staging_is_cleared_by_no_other_until_all_have_ended(archive: NewArchive) -> None:
    folder = archive.data / "staging"
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("a.txt")
        for _ in range(2):  # as other processes; the end of the first one ends only its own right
            with archive.item_store.staging_session():
                pass
        staging.write(b"content")
        staged = staging.finish()
        assert [path.name for path in folder.iterdir()] == [staged.staged]
        with archive.item_store.unit_of_work("tester") as work:
            work.add(Holding(forms=REP, timestamp="2020-01-01T00:00:00Z"), [staged])
        archive.file_store.stage_stream("b.txt").finish()
    assert list(folder.iterdir()) == []  # cleared at the end already
    assert archive.folder.path_of(REP, staged).read_bytes() == b"content"


def test_the_first_of_two_processes_that_stage_may_end_first(archive: NewArchive) -> None:
    with ExitStack() as first:
        first.enter_context(archive.item_store.staging_session())
        with archive.item_store.staging_session():
            staged = archive.file_store.stage_stream("a.txt").finish()
            first.close()
            assert [path.name for path in (archive.data / "staging").iterdir()] == [staged.staged]


def test_what_an_interrupted_process_has_staged_is_cleared_before_the_next_one_stages(
    archive: NewArchive,
) -> None:
    left = archive.data / "staging" / ("0" * 32)
    with archive.item_store.staging_session():
        pass
    left.write_bytes(b"left")
    with archive.item_store.staging_session():
        assert not left.exists()


def test_files_are_moved_by_one_process_at_a_time(archive: NewArchive) -> None:
    waits_for(archive.data / "settle.lock", lambda: archive.file_store.place_files(archive.catalogue))


def test_a_file_that_is_deleted_while_files_are_moved_never_reaches_its_place(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its removal was due already when the mover looked for removals: no mover would look again."""
    catalogue, read = archive.catalogue, archive.catalogue.staged_files
    deleting = Thread(target=lambda: _remove(archive), daemon=True)

    def staged_files() -> list[ListedFile]:
        found = read()
        if not deleting.ident:
            deleting.start()
            until_waiting(archive.data / "settle.lock")  # it has committed then
        return found

    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("a.txt")
        staging.write(b"content")
        catalogue.put(Holding(forms=REP, timestamp="2020-01-01T00:00:00Z", files=(staging.finish(),)))
        monkeypatch.setattr(catalogue, "staged_files", staged_files)
        archive.file_store.place_files(catalogue)
        deleting.join(20)
        assert not deleting.is_alive()
    assert not (archive.data / "col" / REP.main.canonical / "doc").exists()
    assert list((archive.data / "staging").iterdir()) == []


def _remove(archive: NewArchive) -> None:
    with archive.item_store.unit_of_work("tester") as work:
        work.remove(work.get(REP.main))


def test_nothing_of_a_file_stays_that_a_full_disk_refuses(archive: NewArchive, tmp_path: Path) -> None:
    """Closing it writes once more what is buffered, and is refused, too."""
    folder, source = archive.data / "staging", tmp_path / "source"
    source.write_bytes(b"x" * 100)
    archive.file_store.create_folders()
    with files_of_at_most(10):
        staging = archive.file_store.stage_stream("a.txt")
        staging.write(b"x" * 100)
        with pytest.raises(OSError, match="too large"):
            staging.finish()
        staging.discard()
        assert list(folder.iterdir()) == []
        with pytest.raises(SetupError, match=f"^no file can be kept in {archive.data}: File too large"):
            archive.file_store.stage("a.txt", source)
        assert list(folder.iterdir()) == []


def test_a_session_of_staging_leaves_no_file_open(archive: NewArchive) -> None:
    with archive.item_store.staging_session():
        pass
    before = open_files(archive.data)
    with archive.item_store.staging_session():
        assert "ingest.lock" in open_files(archive.data)
    assert open_files(archive.data) == before
    assert "ingest.lock" not in before


def test_a_file_that_cannot_be_shared_with_the_group_is_refused_and_closed(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_handle: int, _mode: int) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    shared = FolderFiles(archive.data, grp.getgrgid(os.getgid()).gr_name)
    with archive.item_store.staging_session():
        monkeypatch.setattr(os, "fchmod", fail)
        with pytest.raises(SetupError, match="Operation not permitted"):
            shared.stage_stream("a.txt")
    assert not [name for name in open_files(archive.data) if name.startswith("staging/")]
    assert list((archive.data / "staging").iterdir()) == []


def test_what_is_no_regular_file_is_refused_and_closed(archive: NewArchive, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with archive.item_store.staging_session(), pytest.raises(BadItem, match="not a regular file"):
        archive.file_store.stage("a.txt", tmp_path / "pipe")
