"""Files that are replaced or removed while they are given out: what is said of bytes is always true of them."""

from __future__ import annotations

import base64
import gc
import hashlib
import io
import json
import logging
import os
import socket
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import BinaryIO

import pytest

from ibi.archive.model.item import StoredFile
from ibi.archive.pages.bundle import MOST_OPEN
from ibi.archive.store.files import FolderFiles
from ibi.archive.store.item_changes import edit, remove
from ibi.identifier.forms import IBIForms, parse_ibi
from support.archive.archive_fixture import WHEN, Answer, NewArchive, Served, listener, serving

IBI = "a.example/b/2010/01.01.00.00"
NAME = parse_ibi(IBI)
FILE = f"/col/{IBI}/doc/a.bin"
ZIP = f"/-/zip/{IBI}"
OLD, NEW, LONGER = b"old " * 100, b"new " * 100, b"longer " * 100
BIG = bytes(range(256)) * 80_000


class Interrupted(FolderFiles):
    """A storage in which something happens just before, or just after, a file is opened."""

    before: Callable[[], None] | None = None
    after: Callable[[], None] | None = None

    def open(self, forms: IBIForms, file: StoredFile) -> BinaryIO:
        if self.before is not None:
            self.before()
        opened = super().open(forms, file)
        if self.after is not None:
            self.after()
        return opened


def _once(what: Callable[[], None]) -> Callable[[], None]:
    left = [what]
    return lambda: left.pop()() if left else None


def _replace(archive: NewArchive, content: bytes, name: str = "a.bin") -> None:
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream(name)
        staging.write(content)
        edit(archive.item_store, NAME, {}, "tester", staged=[staging.finish()])


def _take_out(archive: NewArchive) -> None:
    edit(archive.item_store, NAME, {}, "tester", without=["a.bin"])


def _remove(archive: NewArchive) -> None:
    remove(archive.item_store, NAME, "withdrawn", "tester")


@contextmanager
def _served(archive: NewArchive, **files: bytes) -> Iterator[tuple[Served, Interrupted]]:
    """Serve an Archive of one item with these files; "_" in their names stands for "."."""
    for name, content in files.items():
        (archive.data / name).write_bytes(content)
    file_store = Interrupted(archive.data)
    archive.file_store = file_store
    names = {name.replace("_", "."): name for name in files}
    assert archive.load({"rep": IBI, "timestamp": WHEN, "files": names}).added == 1
    with serving(archive, listener()) as served:
        yield served, file_store


def _assert_true(answer: Answer, content: bytes) -> None:
    """What an answer says of its bytes is true, and they are these."""
    assert (answer.status, answer.body) == (200, content)
    digest = hashlib.sha256(content)
    assert answer.headers["etag"] == f'"{digest.hexdigest()}"'
    assert answer.headers["repr-digest"] == f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"


# One file


@pytest.mark.proves("SVC-11")
@pytest.mark.parametrize("new", [NEW, LONGER])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_file_that_is_replaced_while_it_is_opened_comes_with_its_own_digest(
    new_archive: Callable[..., NewArchive], new: bytes, moment: str
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, file_store):
        setattr(file_store, moment, _once(lambda: _replace(archive, new)))
        _assert_true(served.get(FILE), new)
        _assert_true(served.get(FILE), new)


@pytest.mark.proves("SVC-11")
def test_a_version_that_came_back_is_not_confused_with_the_one_between(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, file_store):
        file_store.before = _once(lambda: _replace(archive, NEW))
        file_store.after = _once(lambda: _replace(archive, OLD))
        _assert_true(served.get(FILE), OLD)


@pytest.mark.proves("SVC-11")
def test_a_file_that_is_listed_and_not_yet_moved_comes_with_its_own_digest(
    new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, file_store):
        with monkeypatch.context() as patch:
            patch.setattr(Interrupted, "place_files", lambda *_: None)
            staging = file_store.stage_stream("a.bin")
            staging.write(NEW)
            edit(archive.item_store, NAME, {}, "tester", staged=[staging.finish()])
        assert archive.catalogue.staged_files()
        _assert_true(served.get(FILE), NEW)
        file_store.before = _once(lambda: file_store.place_files(archive.catalogue))
        _assert_true(served.get(FILE), NEW)
        assert not archive.catalogue.staged_files()


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("harm", "status"), [(_take_out, 404), (_remove, 410)])
@pytest.mark.parametrize("accept", ["text/html", "text/plain"])
def test_a_file_that_goes_while_it_is_opened_is_gone(
    new_archive: Callable[..., NewArchive],
    moment: str,
    harm: Callable[[NewArchive], None],
    status: int,
    accept: str,
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, file_store):
        setattr(file_store, moment, _once(lambda: harm(archive)))
        answer = served.get(FILE, accept=accept)
        again = served.get(FILE, accept=accept)
        assert (answer.status, again.status) == (status, status)
        assert status == 404 or "withdrawn" in answer.text


def test_a_file_that_never_comes_to_rest_is_refused_for_now(new_archive: Callable[..., NewArchive]) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, file_store):
        contents = (b"%04d" % number * 100 for number in range(1000))
        file_store.before = lambda: _replace(archive, next(contents))
        answer = served.get(FILE)
        assert (answer.status, "try again later" in answer.text) == (503, True)
        assert b"0002" < next(contents) < b"0010"  # it was tried a few times, and not for ever


@pytest.mark.proves("SVC-11")
@pytest.mark.long
def test_readers_beside_a_writer_get_each_version_as_itself(new_archive: Callable[..., NewArchive]) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD) as (served, _):
        answers: list[Answer] = []
        end = time.monotonic() + 3

        def read() -> None:
            while time.monotonic() < end:
                answers.append(served.get(FILE))

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        while time.monotonic() < end:
            _replace(archive, os.urandom(len(OLD)))
        for reader in readers:
            reader.join()
        assert len({answer.body for answer in answers}) > 2
        for answer in answers:
            _assert_true(answer, answer.body)


# All of an item in one


@contextmanager
def _begun(served: Served) -> Iterator[HTTPResponse]:
    """A zip file of which only the head was read; of the rest as much is on its way as fits into small buffers."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=10)
    connection.sock = socket.socket()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    connection.sock.connect(("127.0.0.1", served.port))
    try:
        connection.request("GET", ZIP)
        with connection.getresponse() as reply:
            assert reply.status == 200
            yield reply
    finally:
        connection.close()


def _unpacked(content: bytes) -> dict[str, bytes]:
    """The files of a bundle, each of which is what its item.json lists."""
    bundle = zipfile.ZipFile(io.BytesIO(content))
    assert bundle.testzip() is None
    listed = json.loads(bundle.read(f"{IBI}/item.json"))["files"]
    files = {name: bundle.read(f"{IBI}/doc/{name}") for name in listed}
    assert {name: file["sha256"] for name, file in listed.items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in files.items()
    }
    return files


def _many(count: int) -> dict[str, bytes]:
    """A large file, and more than so many small ones after it."""
    return {"a_bin": BIG, **{f"f{number:03}": OLD for number in range(count)}}


def _logged(caplog: pytest.LogCaptureFixture) -> Sequence[logging.LogRecord]:
    return [record for record in caplog.records if record.name.startswith("ibi")]


@pytest.mark.proves("ARC-16")
@pytest.mark.parametrize("new", [NEW, LONGER, None])
def test_a_zip_that_has_begun_holds_what_was_listed_then(
    new_archive: Callable[..., NewArchive], new: bytes | None
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=BIG, b_txt=OLD) as (served, _):
        with _begun(served) as reply:
            if new is None:
                _remove(archive)
            else:
                _replace(archive, new, "b.txt")
            assert _unpacked(reply.read()) == {"a.bin": BIG, "b.txt": OLD}
        if new is None:
            assert served.get(ZIP).status == 410
        else:
            assert _unpacked(served.get(ZIP).body) == {"a.bin": BIG, "b.txt": new}


@pytest.mark.proves("ARC-16")
@pytest.mark.parametrize("new", [NEW, LONGER, None])
def test_a_zip_of_too_many_files_breaks_off_rather_than_hold_another_version(
    new_archive: Callable[..., NewArchive], caplog: pytest.LogCaptureFixture, new: bytes | None
) -> None:
    archive = new_archive("127.0.0.1")
    last = f"f{MOST_OPEN:03}"
    with _served(archive, **_many(MOST_OPEN + 1)) as (served, _):
        assert len(_unpacked(served.get(ZIP).body)) == MOST_OPEN + 2
        caplog.clear()
        with _begun(served) as reply:
            if new is None:
                _remove(archive)
            else:
                _replace(archive, new, last)
            with pytest.raises(IncompleteRead) as broken:
                reply.read()
        with pytest.raises(zipfile.BadZipFile):
            zipfile.ZipFile(io.BytesIO(broken.value.partial))
        assert served.get("/-/healthz").status == 200
    logged = _logged(caplog)
    assert [record.levelname for record in logged] == ["ERROR"]
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.proves("ARC-16")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_zip_whose_files_are_replaced_while_they_are_opened_is_one_of_the_new_ones(
    new_archive: Callable[..., NewArchive], moment: str
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, a_bin=OLD, b_txt=OLD) as (served, file_store):
        setattr(file_store, moment, _once(lambda: _replace(archive, NEW, "b.txt")))
        assert _unpacked(served.get(ZIP).body) == {"a.bin": OLD, "b.txt": NEW}
        setattr(file_store, moment, _once(lambda: _remove(archive)))
        assert served.get(ZIP).status == 410


def _open_files(archive: NewArchive) -> list[Path]:
    """The files of an Archive that this process, in which it answers, has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one by which we look
            found.append(each.readlink())
    return [path for path in found if path.is_relative_to(archive.data / "col")]


def test_zips_keep_a_bounded_number_of_files_open_and_none_when_their_readers_have_gone(
    new_archive: Callable[..., NewArchive],
) -> None:
    archive = new_archive("127.0.0.1")
    with _served(archive, **_many(MOST_OPEN + 5)) as (served, _):
        for _ in range(8):  # more than there are places for at one time
            assert served.get(ZIP, "HEAD").status == 200
            with _begun(served):
                assert MOST_OPEN <= len(_open_files(archive)) <= MOST_OPEN + 1
            end = time.monotonic() + 10
            while _open_files(archive) and time.monotonic() < end:
                time.sleep(0.01)
                gc.collect()
            assert not _open_files(archive)
        with _begun(served) as reply:
            _replace(archive, NEW, "f000")
            assert _unpacked(reply.read())["f000"] == OLD
