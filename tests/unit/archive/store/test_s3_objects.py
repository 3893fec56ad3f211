"""Files of items as objects of an S3 store, step by step: how they come, where they lie, and when they go."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import io
import logging
import stat
import threading
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.model.item_json import read_item
from ibi.archive.store import s3_files
from ibi.archive.store.item_changes import deposit
from ibi.archive.store.s3_files import UNLISTED_SECONDS, S3File, S3Files
from ibi.errors import BadItem, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.runtime.durable_files import locked_file
from support.archive.archive_fixture import NewArchive
from support.in_memory.s3 import ENDPOINT, PLACE, MemoryS3, memory_s3

NAME = "a.example/b/2010/01.01.00.00"
FORMS = IBIForms.parse(f"rep {NAME}")
DOC = f"col/{NAME}/doc"
MIB = 1 << 20


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def stored(name: str, content: bytes, kind: str = "text/plain", staged: str = "") -> StoredFile:
    return StoredFile(name, len(content), digest(content), kind, staged)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryS3]:
    with memory_s3(monkeypatch) as made:
        yield made


@pytest.fixture
def files(bucket: MemoryS3, archive: NewArchive) -> S3Files:
    """The files of an Archive in that store."""
    del bucket
    made = S3Files(archive.data, PLACE, str(archive.settings.service.main))
    made.create_folders()
    archive.file_store = made
    return made


def put(archive: NewArchive, contents: dict[str, bytes]) -> None:
    staged = []
    for name, content in contents.items():
        staging = archive.file_store.stage_stream(name)
        staging.write(content[:1])
        staging.write(memoryview(content[1:]))
        staged.append(staging.finish())
    value = {"rep": NAME, "files": dict.fromkeys(contents, "x")}
    deposit(archive.item_store, read_item(value), staged, "maria")


def held_files(archive: NewArchive) -> tuple[StoredFile, ...]:
    found = archive.catalogue.holding(parse_ibi(NAME))
    assert found is not None
    return found.files


def calls(bucket: MemoryS3, name: str) -> list[tuple[Any, ...]]:
    return [(*arguments, *named.values()) for called, arguments, named in bucket.calls if called == name]


def test_a_place_says_where_it_is_and_staging_is_for_its_owner(files: S3Files, archive: NewArchive) -> None:
    assert (files.where, files.is_remote) == (PLACE, True)
    assert stat.S_IMODE((archive.data / "staging").stat().st_mode) == 0o700
    files.check()


def test_files_are_put_hashed_and_copied_to_their_places(
    files: S3Files, archive: NewArchive, bucket: MemoryS3
) -> None:
    contents = {"a.txt": b"x" * MIB, "b.html": b"y" * (MIB + 1), "same.txt": b"x" * MIB}
    put(archive, contents)
    assert held_files(archive) == (
        stored("a.txt", contents["a.txt"]), stored("b.html", contents["b.html"], "text/html"),
        stored("same.txt", contents["a.txt"]),
    )  # fmt: skip
    objects = sorted(f"{DOC}/{digest(content)}" for content in (contents["a.txt"], contents["b.html"]))
    assert bucket.names() == sorted([*objects, f"col/{NAME}/item.json", "ibi-archive.json"])
    puts = [each[:3] for each in calls(bucket, "put") if each[0] != "ibi-archive.json"]
    kinds = [
        (type(content) is bytes, kind["Content-Type"])
        for key, content, kind in puts
        if key.startswith("staging")
    ]
    assert kinds == [(True, "text/plain"), (False, "text/html"), (True, "text/plain")]
    [sidecar] = [kind for key, _, kind in puts if key.endswith("/item.json")]
    assert sidecar == {"Content-Type": "application/json"}
    for file in held_files(archive):
        with files.open(FORMS, file) as opened:
            assert opened.readable()
            assert opened.read() == contents[file.name]
    [(path, text)] = files.sidecars()
    assert (path, text) == (f"{NAME}/item.json", files.read_sidecar(FORMS))


@pytest.mark.usefixtures("files")
def test_what_the_store_may_not_copy_by_itself_is_put_in_parts(
    archive: NewArchive, bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "COPIED_INSIDE", 10)
    monkeypatch.setattr(s3_files, "READ_SIZE", 4)
    put(archive, {"a.txt": b"0123456789", "b.html": b"0123456789A"})
    assert [target for _, target in calls(bucket, "copy")] == [f"{DOC}/{digest(b'0123456789')}"]
    ranges = [
        (start, length) for key, start, length in calls(bucket, "get_range") if str(key).startswith("staging")
    ]
    assert ranges == [(0, 4), (4, 4), (8, 3)]
    key = f"{DOC}/{digest(b'0123456789A')}"
    assert bucket.content(key) == b"0123456789A"
    assert [each[2] for each in calls(bucket, "put") if each[0] == key] == [{"Content-Type": "text/html"}]


def test_a_file_is_read_in_parts_from_any_place(
    bucket: MemoryS3, files: S3Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "READ_SIZE", 4)
    monkeypatch.setattr("ibi.archive.store.s3_client.READ_SIZE", 4)
    bucket.store.put("a", b"0123456789")
    file = S3File(files.client, "a", 10)
    buffer = bytearray(3)
    read = [bytes(buffer[: file.readinto(buffer)]) for _ in range(6)]
    assert read == [b"012", b"3", b"456", b"7", b"89", b""]
    assert calls(bucket, "get_range") == [("a", 0, 4), ("a", 4, 4), ("a", 8, 2)]
    assert [file.range(2, 3), file.range(8, 9), file.range(10, 1)] == [b"234", b"89", b""]

    async def parts(start: int, size: int) -> list[bytes]:
        async with aclosing(file.parts(start, size)) as pieces:
            return [piece async for piece in pieces]

    assert asyncio.run(parts(1, 9)) == [b"1234", b"5678", b"9"]
    for start, size, expected in (
        (1, 9, [b"1234", b"5678", b"9"]),
        (2, 4, [b"2345"]),
        (2, 3, [b"234"]),
        (3, 0, []),
    ):
        file.begin(start, size)
        assert asyncio.run(parts(start, size)) == expected
    assert asyncio.run(parts(0, 2)) == [b"01"]  # what was begun was taken


def test_a_listed_file_is_opened_where_it_is_and_a_missing_or_other_one_refused(
    files: S3Files, bucket: MemoryS3
) -> None:
    file = stored("a.txt", b"one", staged="s")
    key = f"{DOC}/{file.sha256}"

    def refused(error: type[OSError]) -> OSError:
        with pytest.raises(error) as caught:
            files.open(FORMS, file)
        return caught.value

    missing = refused(FileNotFoundError)
    assert (missing.errno, missing.strerror, missing.filename) == (2, "No such file or directory", "a.txt")
    for place in (key, "staging/s"):
        bucket.store.put(place, b"four")
        assert str(refused(OSError)) == "the stored file is not the one that was listed"
        bucket.store.put(place, b"one")
        with files.open(FORMS, file) as opened:
            assert opened.read() == b"one"
    bucket.store.delete(["ibi-archive.json", key, "staging/s"])
    with pytest.raises(SetupError) as unclaimed:
        files.open(FORMS, file)
    assert str(unclaimed.value).startswith(f"{PLACE} at {ENDPOINT} is not prepared for this Archive")


def test_bytes_are_put_into_a_place_again_only_if_they_are_the_listed_ones(
    files: S3Files, bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_files, "READ_SIZE", 2)
    file = stored("a.txt", b"three")
    key = f"{DOC}/{file.sha256}"
    assert not files.put(FORMS, file, io.BytesIO(b"threE"))
    assert not files.put(FORMS, file, io.BytesIO(b"three and"))
    assert bucket.names() == ["ibi-archive.json"]
    for before in (None, b"threE", b"longer"):
        if before is not None:
            bucket.store.put(key, before)
        assert files.put(FORMS, file, io.BytesIO(b"three"))
        assert bucket.names() == [key, "ibi-archive.json"]
        assert bucket.content(key) == b"three"
    puts = len(calls(bucket, "put"))
    unread = io.BytesIO(b"")
    assert files.put(FORMS, file, unread)  # it is there: nothing is read
    assert len(calls(bucket, "put")) == puts


def test_a_staged_file_that_is_lost_is_told_and_one_that_was_placed_before_is_noted(
    files: S3Files, archive: NewArchive, bucket: MemoryS3, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(S3Files, "place_files", lambda *_: None)  # as if killed before it
        put(archive, {"a.txt": b"one", "b.txt": b"two", "c.txt": b"six"})
    one, two, six = held_files(archive)
    assert one.staged
    bucket.store.delete([f"staging/{each.staged}" for each in (one, two)])
    bucket.store.put(f"{DOC}/{one.sha256}", b"one")
    bucket.store.put(f"{DOC}/{two.sha256}", b"other")
    files.place_files(archive.catalogue)
    assert held_files(archive) == (replace(one, staged=""), two, replace(six, staged=""))
    assert bucket.content(f"{DOC}/{six.sha256}") == b"six"
    assert not [key for key in bucket.names() if key.startswith("staging")]
    bucket.store.delete([f"{DOC}/{two.sha256}"])
    caplog.set_level(logging.WARNING)
    files.place_files(archive.catalogue)
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("ERROR", f"b.txt of {NAME} is missing from staging")
    ]
    assert held_files(archive)[1] == two


def test_objects_that_no_item_lists_go_after_a_day(
    files: S3Files, archive: NewArchive, bucket: MemoryS3
) -> None:
    put(archive, {"a.txt": b"one", "b.txt": b"two"})
    bucket.store.put("staging/left", b"x")
    bucket.store.put(f"{DOC}/{digest(b'old')}", b"old")
    bucket.store.put(f"col/{NAME}/other", b"no file")
    bucket.store.put(
        f"col/b.example/none/2010/01.01.00.00/doc/{digest(b'x')}", b"of an item that is not known"
    )
    bucket.store.put("col/no name/doc/x", b"x")
    everything = bucket.names()
    moments = [each["last_modified"].timestamp() for page in bucket.store.list() for each in page]
    assert files.remove_old_unlisted(archive.catalogue, min(moments) + UNLISTED_SECONDS) == 0
    assert bucket.names() == everything
    assert files.remove_old_unlisted(archive.catalogue, max(moments) + UNLISTED_SECONDS + 1) == 2
    assert bucket.names() == [
        key for key in everything if key not in {"staging/left", f"{DOC}/{digest(b'old')}"}
    ]


def test_what_a_sidecar_names_stays_although_a_catalogue_that_was_set_back_does_not_list_it(
    files: S3Files, archive: NewArchive, bucket: MemoryS3
) -> None:
    put(archive, {"a.txt": b"one"})
    newer, gone = f"{DOC}/{digest(b'newer')}", f"{DOC}/{digest(b'gone')}"
    for key in (newer, gone):
        bucket.store.put(key, b"x")
    text = files.read_sidecar(FORMS).replace(digest(b"one").encode(), digest(b"newer").encode())
    files.write_sidecar(FORMS, text)
    far = 4e9
    assert files.remove_old_unlisted(archive.catalogue, far) == 1
    assert newer in bucket.names()
    assert gone not in bucket.names()
    bucket.store.delete([f"col/{NAME}/item.json"])
    assert files.remove_old_unlisted(archive.catalogue, far) == 1
    assert newer not in bucket.names()


@pytest.mark.usefixtures("files")
def test_a_file_that_an_item_no_longer_has_goes_at_once(archive: NewArchive, bucket: MemoryS3) -> None:
    put(archive, {"a.txt": b"one", "b.txt": b"two", "same.txt": b"one"})
    for left, keys in ((("b.txt", "same.txt"), (b"one", b"two")), (("b.txt",), (b"two",)), ((), ())):
        with archive.item_store.unit_of_work("maria") as work:
            held = work.get(parse_ibi(NAME))
            work.change(held, replace(held, files=tuple(file for file in held.files if file.name in left)))
        found = [key for key in bucket.names() if key.startswith(DOC)]
        assert found == sorted(f"{DOC}/{digest(content)}" for content in keys)
    assert archive.catalogue.paths_to_remove() == []


def test_what_cannot_be_deleted_now_is_told_and_stays(
    files: S3Files, bucket: MemoryS3, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    del bucket
    caplog.set_level(logging.WARNING)

    def refuse(_: list[str]) -> None:
        raise SetupError("not now")

    monkeypatch.setattr(files.client, "delete", refuse)
    assert not files.put(FORMS, stored("a.txt", b"one"), io.BytesIO(b"two"))
    logged = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert logged == [("WARNING", "objects that are not needed stay for a day: not now")]


def test_readers_are_sent_to_placed_files_only_where_it_is_wanted(
    archive: NewArchive, bucket: MemoryS3
) -> None:
    del bucket
    file = stored("a.txt", b"one")
    for redirect in (False, True):
        files = S3Files(archive.data, PLACE, "x", redirect=redirect)
        signed = f"http://signed.example/{DOC}/{file.sha256}?GET&300"
        assert files.signed_url(FORMS, file) == (signed if redirect else "")
        assert files.signed_url(FORMS, replace(file, staged="s")) == ""


def test_sidecars_that_cannot_be_read_are_named_with_the_reason(files: S3Files, bucket: MemoryS3) -> None:
    for key in ("col/a/item.json", "col/b/item.json", "col/b/doc/x", "col/c/item.json.old"):
        bucket.store.put(key, key.encode())
    listed = iter(files.sidecars())
    first = next(listed)
    bucket.store.delete(["col/b/item.json"])
    second = next(listed)
    assert first == ("a/item.json", b"col/a/item.json")
    assert second[0] == "b/item.json"
    assert isinstance(second[1], FileNotFoundError)
    assert list(listed) == []


def test_any_number_may_stage_but_none_while_files_are_moved(files: S3Files, archive: NewArchive) -> None:
    lock = archive.data / "ingest.lock"
    with (
        files.staging_session(archive.catalogue),
        files.staging_session(archive.catalogue),
        pytest.raises(BlockingIOError),
        locked_file(lock, fcntl.LOCK_EX | fcntl.LOCK_NB),
    ):
        pass
    with locked_file(lock, fcntl.LOCK_EX | fcntl.LOCK_NB):
        pass
    with files.placing() as check:
        check()
        with (
            pytest.raises(BlockingIOError),
            locked_file(archive.data / "settle.lock", fcntl.LOCK_EX | fcntl.LOCK_NB),
        ):
            pass


def test_a_place_is_checked_before_anything_is_put_there(
    files: S3Files, archive: NewArchive, bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(S3Files, "place_files", lambda *_: None)
        put(archive, {"a.txt": b"one"})
    before = bucket.names()
    for act in (
        lambda other: other.check(),
        lambda other: other.write_sidecar(FORMS, b"x"),
        lambda other: other.stage_stream("a.txt").finish(),
        lambda other: other.place_files(archive.catalogue),
        lambda other: other.remove_old_unlisted(archive.catalogue, 4e9),
        lambda other: list(other.sidecars()),
        lambda other: other.create_folders(),
    ):
        with pytest.raises(SetupError, match="belongs to another Archive"):
            act(S3Files(archive.data, PLACE, "other.example/w/2020/01.01.00.00"))
    assert bucket.names() == before
    files.place_files(archive.catalogue)
    assert files.where == PLACE


def test_who_has_lost_the_right_to_place_files_changes_nothing(
    files: S3Files, archive: NewArchive, bucket: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(archive, {"a.txt": b"one"})
    with monkeypatch.context() as patch:
        patch.setattr(S3Files, "place_files", lambda *_: None)
        with archive.item_store.unit_of_work("maria") as work:
            staging = files.stage_stream("b.txt")
            staging.write(b"two")
            held = work.get(parse_ibi(NAME))
            work.change(held, replace(held, files=()), [staging.finish()])
    bucket.store.put("staging/left", b"x")
    before, removed = bucket.names(), archive.catalogue.paths_to_remove()

    @contextmanager
    def lost() -> Iterator[Any]:
        def check() -> None:
            raise SetupError("the right was lost")

        yield check

    monkeypatch.setattr(files, "placing", lost)
    for act in (
        lambda: files.place_files(archive.catalogue),
        lambda: files.remove_old_unlisted(archive.catalogue, 4e9),
    ):
        with pytest.raises(SetupError, match="the right was lost"):
            act()
    assert (bucket.names(), archive.catalogue.paths_to_remove()) == (before, removed)
    assert [file.name for file in held_files(archive) if file.staged] == ["b.txt"]


def test_a_received_file_has_a_random_name_and_goes_when_it_is_not_needed(
    files: S3Files, bucket: MemoryS3
) -> None:
    staged = [files.stage_stream("a.txt").finish() for _ in range(2)]
    assert len({each.staged for each in staged}) == 2
    assert {len(each.staged) for each in staged} == {32}
    files.discard(staged[0])
    for _ in range(3000):
        if f"staging/{staged[0].staged}" not in bucket.names():
            break
        threading.Event().wait(0.005)
    assert bucket.names() == ["ibi-archive.json", f"staging/{staged[1].staged}"]
    receiving = files.stage_stream("b.txt")
    receiving.discard()
    receiving.discard()
    with pytest.raises(ValueError, match="closed file"):
        receiving.write(b"x")


def test_names_that_a_folder_would_refuse_are_refused_here(files: S3Files) -> None:
    for name in ("../x", "a//b", "x" * 300):
        with pytest.raises(BadItem):
            files.stage_stream(name)
        with pytest.raises(BadItem):
            files.open(FORMS, replace(stored("a.txt", b"one"), name=name))


def test_where_no_file_can_be_received_the_folder_is_told(
    bucket: MemoryS3, tmp_path: Path, archive: NewArchive
) -> None:
    del bucket
    data = tmp_path / "data"
    made = S3Files(data, PLACE, "x")
    made.create_folders()
    (data / "staging").rmdir()
    with made.staging_session(archive.catalogue):
        assert (data / "staging").is_dir()
    (tmp_path / "file").touch()
    no_folder = S3Files(tmp_path / "file", PLACE, "x")
    for session in (no_folder.staging_session(archive.catalogue), no_folder.placing()):
        with pytest.raises(SetupError) as refused, session:
            pass
        assert str(refused.value) == f"no file can be kept in {tmp_path / 'file'}: Not a directory"
