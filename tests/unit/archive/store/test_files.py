"""What the Archive writes beside the files of an item, and what stays after an interruption."""

from __future__ import annotations

import io
import stat
from hashlib import sha256

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.store import files as store_files
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import NewArchive
from support.checks.flushed_files import flushes

REP = IBIForms.parse("rep A.Example/B@80/2010/01.01.00.00")
IBIP = IBIForms.parse("ibip lk47b6w/362sfkj")
CONTENT = b"some bytes"
FILE = StoredFile("a/b.txt", len(CONTENT), sha256(CONTENT).hexdigest(), "text/plain")


def test_a_sidecar_is_replaced_whole_for_its_owner_alone_and_flushed(archive: NewArchive) -> None:
    files = archive.folder
    path = files.sidecar_path(REP)
    with flushes() as flushed:
        files.write_sidecar(REP, b"first, and longer")
    assert flushed.lacking(archive.data / "col") == []
    for text in (b"second", b"third, and longer again"):
        files.write_sidecar(REP, text)
        assert files.read_sidecar(REP) == text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert [each.name for each in path.parent.iterdir()] == ["item.json"]


def test_a_sidecar_that_an_interrupted_process_has_begun_is_written_anew(archive: NewArchive) -> None:
    files = archive.folder
    files.write_sidecar(REP, b"first")
    path = files.sidecar_path(REP)
    left = path.with_name(".item.json.new")
    left.write_bytes(b"cut off, and longer than the next")
    files.write_sidecar(REP, b"second")
    assert files.read_sidecar(REP) == b"second"
    assert not left.exists()


def test_a_sidecar_that_cannot_be_written_is_told_with_its_path(archive: NewArchive) -> None:
    files = archive.folder
    path = files.sidecar_path(REP)
    path.mkdir(parents=True)
    with pytest.raises(SetupError, match=f"{path} cannot be written: Is a directory"):
        files.write_sidecar(REP, b"text")


def test_a_sidecar_may_be_as_long_as_the_limit_and_no_longer(
    archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_files, "LONGEST_SIDECAR", 10)
    files = archive.folder
    files.write_sidecar(REP, b"x" * 10)
    assert len(files.read_sidecar(REP)) == 10
    files.write_sidecar(REP, b"x" * 11)
    with pytest.raises(OSError, match="File too large"):
        files.read_sidecar(REP)


def test_sidecars_are_found_in_the_folders_of_items_only_in_order(archive: NewArchive) -> None:
    files = archive.folder
    for forms in (REP, IBIP):
        files.write_sidecar(forms, str(forms.main).encode())
    root = archive.data / "col"
    for elsewhere in ("item.json", "a.example/item.json", "a.example/b@80/2010/item.json"):
        (root / elsewhere).write_bytes(b"of no item")
    inside = root / "a.example/b@80/2010/01.01.00.00/doc"
    inside.mkdir()
    (inside / "item.json").write_bytes(b"a file of the item")
    (root / "LK47B6W/362SFKJ/item.json").unlink()
    (root / "LK47B6W/362SFKJ/item.json").symlink_to(inside / "item.json")
    found = list(files.sidecars())
    assert [path for path, _ in found] == [
        "LK47B6W/362SFKJ/item.json",
        "a.example/b@80/2010/01.01.00.00/item.json",
    ]
    assert isinstance(found[0][1], OSError)
    assert found[-1][1] == b"A.Example/B@80/2010/01.01.00.00"


def test_only_the_listed_bytes_are_put_into_a_place_again(archive: NewArchive) -> None:
    files = archive.folder
    assert files.put(REP, FILE, io.BytesIO(CONTENT))
    with files.open(REP, FILE) as opened:
        assert opened.read() == CONTENT
    assert files.put(REP, FILE, io.BytesIO(CONTENT))
    assert not files.put(REP, FILE, io.BytesIO(CONTENT[:-1]))
    assert not files.path_of(REP, FILE).exists()


def test_a_staged_file_is_found_in_staging_until_it_is_moved(archive: NewArchive) -> None:
    files = archive.folder
    with archive.item_store.staging_session():
        staging = files.stage_stream("a.txt")
        staging.write(CONTENT)
        staged = staging.finish()
        assert files.path_of(REP, staged) == archive.data / "staging" / staged.staged
        files.discard(staged)
        files.discard(staged)
        assert files.path_of(REP, staged) == archive.data / "col/a.example/b@80/2010/01.01.00.00/doc/a.txt"
