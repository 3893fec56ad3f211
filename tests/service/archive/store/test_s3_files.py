"""Files in an S3 store: what lies where, what is removed when, and whose place it is. A real SeaweedFS answers."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.preservation.audit import Audit
from ibi.archive.preservation.repair import put_back
from ibi.archive.store import s3_client, s3_files
from ibi.archive.store.s3_files import UNLISTED_SECONDS, S3Files
from ibi.archive.store.tables.fixity import FileFault
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.database import advisory_lock
from support.archive.preservation_fixture import NAME, OTHER, WHO, ArchiveFolder, make_archive
from support.engines.postgresql import PostgreSQL
from support.engines.seaweedfs import BUCKET, KEY, SECOND, SECRET, SeaweedFS

OWNER = "archive.example/w/2020/01.01.00.00"
ITEM = f"col/{NAME}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def s3(seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch) -> SeaweedFS:
    """The store, which programs of this test find by their environment."""
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    return seaweedfs


@pytest.fixture
def place() -> str:
    return f"s3://{BUCKET}/{secrets.token_hex(6)}/files"


@pytest.fixture
def kept(s3: SeaweedFS, place: str, tmp_path: Path) -> ArchiveFolder:
    """An Archive whose files are in the store."""
    del s3
    return make_archive(tmp_path / "archive", files=place)


def keys(s3: SeaweedFS, place: str, below: str = "") -> list[str]:
    prefix = place.removeprefix(f"s3://{BUCKET}/")
    return [key for key in s3.keys(prefix) if key.startswith(below)]


def files_of(kept: ArchiveFolder, name: str = NAME) -> dict[str, bytes]:
    item, found = kept.held(name), {}
    for file in item.files:
        with kept.file_store.open(item.forms, file) as opened:
            found[file.name] = opened.read()
    return found


def later(kept: ArchiveFolder, seconds: float = UNLISTED_SECONDS + 60) -> int:
    """Do the removal of old objects as it is done some time later."""
    store = kept.file_store
    assert isinstance(store, S3Files)
    with kept.catalogue() as catalogue:
        return store.remove_old_unlisted(catalogue, time.time() + seconds)


def edit(kept: ArchiveFolder, files: Mapping[str, bytes], without: str = "") -> None:
    with kept.item_store() as item_store:
        staged = []
        for name, content in files.items():
            staging = item_store.file_store.stage_stream(name)
            staging.write(content)
            staged.append(staging.finish())
        with item_store.unit_of_work(WHO) as work:
            held = work.get(parse_ibi(NAME))
            stay = tuple(file for file in held.files if file.name != without)
            work.change(held, replace(held, files=stay), staged)


def test_objects_are_named_by_their_digest_below_the_item(
    kept: ArchiveFolder, s3: SeaweedFS, place: str
) -> None:
    files = {"a.txt": b"one", "caf%E9/b%20c": b"two", "same": b"one", "empty": b""}
    kept.put(NAME, files)
    expected = {f"{ITEM}/doc/{digest(content)}" for content in files.values()}
    assert set(keys(s3, place)) == {*expected, f"{ITEM}/item.json", "ibi-archive.json"}
    assert files_of(kept) == files
    assert all(not file.staged for file in kept.held().files)
    assert kept.staging() == []
    listed = json.loads(kept.file_store.read_sidecar(kept.held().forms))["item"]["files"]
    assert {name: facts["sha256"] for name, facts in listed.items()} == {
        name: digest(content) for name, content in files.items()
    }


def test_a_file_goes_at_once_and_the_same_bytes_under_another_name_stay(
    kept: ArchiveFolder, s3: SeaweedFS, place: str
) -> None:
    kept.put(NAME, {"a.txt": b"one", "same": b"one", "b.txt": b"two"})
    edit(kept, {}, without="b.txt")
    edit(kept, {}, without="same")
    assert keys(s3, place, f"{ITEM}/doc") == [f"{ITEM}/doc/{digest(b'one')}"]
    assert files_of(kept) == {"a.txt": b"one"}
    with kept.item_store() as item_store, item_store.unit_of_work(WHO) as work:
        work.remove(work.get(parse_ibi(NAME)))
    assert keys(s3, place, f"{ITEM}/doc") == []


def test_replaced_bytes_stay_for_a_day_for_those_who_are_reading_them(
    kept: ArchiveFolder, s3: SeaweedFS, place: str
) -> None:
    kept.put(NAME, {"a.txt": b"old"})
    held = kept.held()
    reader = kept.file_store.open(held.forms, held.files[0])
    edit(kept, {"a.txt": b"new"})
    assert reader.read() == b"old"
    assert later(kept, 0) == 0
    assert len(keys(s3, place, f"{ITEM}/doc")) == 2
    assert later(kept) == 1
    assert files_of(kept) == {"a.txt": b"new"}
    assert keys(s3, place, f"{ITEM}/doc") == [f"{ITEM}/doc/{digest(b'new')}"]


def test_what_was_staged_and_never_listed_goes_after_a_day_and_what_is_listed_stays(
    kept: ArchiveFolder, s3: SeaweedFS, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kept.item_store() as item_store:
        item_store.file_store.stage_stream("left.txt").finish()
    monkeypatch.setattr(S3Files, "place_files", lambda *_: None)  # as if killed before it
    kept.put(NAME, {"a.txt": b"one"})
    assert (later(kept, 0), later(kept)) == (0, 1)
    staged = kept.held().files[0].staged
    assert keys(s3, place, "staging") == [f"staging/{staged}"]
    assert files_of(kept) == {"a.txt": b"one"}
    monkeypatch.undo()
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    with kept.catalogue() as catalogue:
        kept.file_store.place_files(catalogue)
    assert keys(s3, place, "staging") == []
    assert files_of(kept) == {"a.txt": b"one"}


@pytest.mark.one_store("sqlite", "puts an older copy of the file back")
def test_objects_that_only_a_newer_catalogue_knew_are_never_removed(
    kept: ArchiveFolder, s3: SeaweedFS, place: str
) -> None:
    kept.put(NAME, {"a.txt": b"one"})
    before = (kept.data / "catalogue.sqlite").read_bytes()
    edit(kept, {"b.txt": b"two"})
    kept.put(OTHER, {"c.txt": b"three"})
    expected = keys(s3, place)
    (kept.data / "catalogue.sqlite").write_bytes(before)  # as from a backup
    for part in ("-wal", "-shm"):
        (kept.data / f"catalogue.sqlite{part}").unlink(missing_ok=True)
    assert later(kept) == 0
    assert keys(s3, place) == expected


def test_large_files_are_put_and_placed_in_parts(
    kept: ArchiveFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "COPIED_INSIDE", 1 << 20)
    content = secrets.token_bytes(1 << 20) * 20
    kept.put(NAME, {"large": content})
    assert files_of(kept) == {"large": content}
    held = kept.held()
    with kept.file_store.open(held.forms, held.files[0]) as opened:
        assert opened.read(10) == content[:10]
        assert hashlib.sha256(content[10:]).digest() == hashlib.sha256(opened.read()).digest()


def test_an_audit_reads_objects_again_and_a_repair_puts_them_back(
    kept: ArchiveFolder, s3: SeaweedFS, place: str, tmp_path: Path
) -> None:
    kept.put(NAME, {"a.txt": b"one", "b.txt": b"two", "c.txt": b"six"})
    prefix = place.removeprefix(f"s3://{BUCKET}/")
    s3.put(f"{prefix}/{ITEM}/doc/{digest(b'one')}", b"onE")
    s3.put(f"{prefix}/{ITEM}/doc/{digest(b'six')}", b"longer")
    s3.store(prefix).delete(f"{ITEM}/doc/{digest(b'two')}")
    with kept.catalogue() as catalogue:
        found = {
            result.listed.file.name: result.fault
            for result in Audit(catalogue, kept.file_store, time.time).all()
        }
    expected = {"a.txt": FileFault.DIGEST, "b.txt": FileFault.MISSING, "c.txt": FileFault.SIZE}
    assert found == expected
    for name, content in {"a.txt": b"one", "b.txt": b"two", "c.txt": b"six"}.items():
        (tmp_path / "copy").write_bytes(content)
        with kept.item_store() as item_store:
            put_back(item_store, parse_ibi(NAME), name, tmp_path / "copy", WHO)
    assert files_of(kept) == {"a.txt": b"one", "b.txt": b"two", "c.txt": b"six"}


def test_one_of_several_nodes_places_and_removes_files_at_a_time(
    s3: SeaweedFS, place: str, tmp_path: Path, postgresql: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    del s3
    store = postgresql.new_database()
    one, other = (S3Files(tmp_path / name, place, OWNER, store=store) for name in ("one", "other"))
    monkeypatch.setattr(advisory_lock, "WAIT_SECONDS", 1)
    with one.placing() as check:
        with (
            pytest.raises(SetupError, match="the lock of files in the database cannot be held"),
            other.placing(),
        ):
            pass
        check()
        postgresql.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with other.placing(), pytest.raises(SetupError, match="cannot be held"):
            check()  # as one that had stood still for too long


# Whose place it is


def test_two_archives_cannot_have_one_place(kept: ArchiveFolder, place: str, tmp_path: Path) -> None:
    kept.put(NAME, {"a.txt": b"one"})
    other = "other.example/w/2020/01.01.00.00"
    with pytest.raises(SetupError, match=r"belongs to another Archive: archive.example/w/2020"):
        S3Files(tmp_path, place, other).create_folders()
    with pytest.raises(SetupError, match="give each Archive a prefix of its own"):
        S3Files(tmp_path, place, other).check()
    with pytest.raises(SetupError, match="another Archive"):
        S3Files(tmp_path, place, other).stage_stream("a").finish()
    S3Files(tmp_path, place, OWNER).create_folders()


def test_a_bucket_that_is_missing_and_a_place_without_a_marker_are_told(
    s3: SeaweedFS, tmp_path: Path
) -> None:
    del s3
    with pytest.raises(SetupError, match=r"there is no bucket no-bucket at http://127.0.0.1:.*: make it"):
        S3Files(tmp_path, "s3://no-bucket/x", OWNER).create_folders()
    unclaimed = S3Files(tmp_path, f"s3://{BUCKET}/{secrets.token_hex(6)}", OWNER)
    with pytest.raises(SetupError, match=r"its object ibi-archive.json is missing"):
        unclaimed.check()
    with pytest.raises(SetupError, match="there is no bucket no-bucket"):
        S3Files(tmp_path, "s3://no-bucket/x", OWNER).check()
    # A missing place is no missing file, which an audit would record.
    for missing in (unclaimed, S3Files(tmp_path, "s3://no-bucket/x", OWNER)):
        with pytest.raises(SetupError):
            missing.open(IBIForms.parse(f"rep {NAME}"), StoredFile("a", 1, "0" * 64, ""))


@pytest.mark.parametrize(
    "text", ["s3://", "s3://B/x", "s3://bucket/../x", "bucket/x", "http://x/y", "s3://bucket/x y"]
)
def test_what_names_no_place_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"files are kept in a place like s3://bucket/prefix"):
        S3Files(tmp_path, text, OWNER)


def test_a_variable_that_the_store_cannot_read_is_told(
    s3: SeaweedFS, monkeypatch: pytest.MonkeyPatch, place: str, tmp_path: Path
) -> None:
    del s3
    monkeypatch.setenv("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "perhaps")
    with pytest.raises(SetupError, match=r"cannot be used now: .*failed to parse \"perhaps\" as boolean"):
        S3Files(tmp_path, place, OWNER)


def test_refused_keys_are_told(kept: ArchiveFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.put(NAME, {"a.txt": b"one"})
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(SetupError, match=r"the keys for s3://.* are refused by http://127.0.0.1"):
        files_of(kept)


def test_keys_in_a_file_are_read_again_before_they_end(
    kept: ArchiveFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.put(NAME, {"a.txt": b"one"})
    file = tmp_path / "credentials"

    def give(key: str, secret: str) -> None:
        file.write_text(f"[archive]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")

    monkeypatch.setattr(s3_client, "KEYS_SECONDS", 0.2)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_PROFILE", "archive")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    give(KEY, SECRET)
    assert files_of(kept) == {"a.txt": b"one"}
    give("ended", "ended")
    time.sleep(0.5)
    with pytest.raises(SetupError, match="refused"):
        files_of(kept)
    give(*SECOND)
    time.sleep(0.5)
    assert files_of(kept) == {"a.txt": b"one"}
    file.unlink()
    time.sleep(0.5)
    with pytest.raises(SetupError, match="no keys for S3 can be read from"):
        files_of(kept)


def test_a_missing_package_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(s3_client, "import_module", missing)
    with pytest.raises(SetupError, match=r"pip install 'ibi\[s3\]'"):
        S3Files(tmp_path, f"s3://{BUCKET}/{secrets.token_hex(6)}", OWNER)
