"""Uploads that can be resumed: over HTTP as tus 1.0.0 has them, and on disk through restarts and kills."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from base64 import b64encode
from collections.abc import Callable, Iterator
from email.utils import parsedate_to_datetime
from hashlib import sha256
from pathlib import Path

import pytest

from ibi.accounts.tokens import Scope
from ibi.archive.api import uploads
from ibi.archive.api.uploads import LIFETIME, LONGEST_METADATA, Uploads
from ibi.errors import NotHeld
from ibi.http.response import Refusal
from support.archive.api_fixture import (
    BYTES,
    LARGEST,
    TITLE,
    Asking,
    asking,
    begun,
    brought,
    deposited,
    json_of,
    path_of,
    refused,
    whole,
)
from support.archive.archive_fixture import NOW, Clock, NewArchive
from support.checks.flushed_files import flushes
from support.concurrency.threads import waits_for
from support.ports import free_port

NO_LENGTH = "Upload-Length must be a whole number"
NO_METADATA = "Upload-Metadata is a short printable text"


@pytest.fixture
def api(new_archive: Callable[..., NewArchive]) -> Iterator[Asking]:
    with asking(new_archive) as made:
        yield made


def offset_of(api: Asking, path: str) -> int:
    answer = api.ask("HEAD", path, None, Scope.DEPOSIT)
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-store")
    return int(answer.headers["upload-offset"])


def left(api: Asking) -> list[str]:
    """What lies in the folder of uploads, besides its lock."""
    return sorted(path.name for path in (api.archive.data / "uploads").iterdir() if path.name != "lock")


def test_what_an_upload_was_told_to_have_is_flushed(api: Asking) -> None:
    folder = api.archive.data / "uploads"
    with flushes() as flushed:
        path = begun(api, 300)
        assert flushed.lacking(folder, moments=False) == []
        assert brought(api, path, 0, bytes(200)).status == 204
        assert flushed.lacking(folder, moments=False) == []
        with (folder / f"{path.rpartition('/')[2]}.part").open("ab") as part:
            part.write(bytes(50))  # of a process that was killed before it flushed them
        assert offset_of(api, path) == 250
        assert flushed.lacking(folder, moments=False) == []


# --- over HTTP -------------------------------------------------------------------------------------------------------


def test_the_supported_parts_of_tus_are_listed_without_a_token(api: Asking) -> None:
    answer = api.ask("OPTIONS", "/uploads")
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["tus-version"] == "1.0.0"
    assert answer.headers["tus-max-size"] == str(LARGEST)
    assert answer.headers["tus-extension"] == "creation,expiration,termination"


def test_an_upload_comes_in_pieces_and_becomes_a_file(api: Asking) -> None:
    content = bytes(range(256)) * 9000
    metadata = f"filename {b64encode(b'a.bin').decode()}"
    path = begun(api, len(content), upload_metadata=metadata)
    for start in range(0, len(content), 1_000_000):
        assert offset_of(api, path) == start
        answer = brought(api, path, start, content[start : start + 1_000_000])
        assert (answer.status, answer.body) == (204, b"")
        assert int(answer.headers["upload-offset"]) == min(start + 1_000_000, len(content))
        assert parsedate_to_datetime(answer.headers["upload-expires"]).timestamp() == NOW + LIFETIME
    head = api.ask("HEAD", path, None, Scope.DEPOSIT)
    assert (head.headers["upload-length"], head.headers["upload-metadata"]) == (str(len(content)), metadata)
    item = api.ask("POST", "/items", {"uploads": {"a.bin": path.rpartition("/")[2]}}, Scope.DEPOSIT)
    assert json_of(item)["files"]["a.bin"]["sha256"] == sha256(content).hexdigest()
    assert api.served.get(f"/col/{json_of(item)['rep']}/doc/a.bin").body == content
    assert (left(api), api.staging) == ([], [])
    assert api.ask("HEAD", path, None, Scope.DEPOSIT).status == 404


def test_an_upload_is_put_as_a_file_of_an_item(api: Asking) -> None:
    path = deposited(api)
    upload = whole(api, b"from an upload")
    both = (Scope.DEPOSIT, Scope.EDIT)
    refused(api.ask("PUT", f"{path}/files/a.txt?upload={upload}", None, Scope.EDIT, if_match="*"), 403)
    refused(api.ask("PUT", f"{path}/files/a.txt?upload={upload}", None, *both, if_match="*"), 404)
    token = api.token(*both)
    begin = api.ask("POST", "/uploads", None, token=token, upload_length="3")
    mine = path_of(begin)
    api.ask("PATCH", mine, b"abc", token=token, upload_offset="0", content_type=BYTES)
    target = f"{path}/files/a.txt?upload={mine.rpartition('/')[2]}"
    assert api.ask("PUT", target, None, token=token, if_match="*").status == 201
    assert api.served.get(f"/col/{path.removeprefix('/items/')}/doc/a.txt").body == b"abc"
    assert len(left(api)) == 2  # the other one


def test_uploads_come_and_files_go_in_one_edit(api: Asking) -> None:
    path = deposited(api)
    both = (Scope.DEPOSIT, Scope.EDIT)
    assert api.ask("PUT", f"{path}/files/old.txt", b"old", *both, if_match="*").status == 201
    upload = path_of(api.ask("POST", "/uploads", None, *both, upload_length="3"))
    api.ask("PATCH", upload, b"abc", *both, upload_offset="0", content_type=BYTES)
    edit = {"uploads": {"new.txt": upload.rpartition("/")[2]}, "without": ["old.txt"], "target": "new.txt"}
    refused(api.ask("PATCH", path, edit, Scope.EDIT, if_match="*"), 403)
    refused(api.ask("PATCH", path, edit, *both, if_match='"of another time"'), 412)
    refused(api.ask("PATCH", path, {**edit, "without": ["none.txt"]}, *both, if_match="*"), 422)
    assert (len(left(api)), api.staging) == (2, [])  # the upload is still there
    item = json_of(api.ask("PATCH", path, edit, *both, if_match="*"))
    assert (list(item["files"]), item["target"]) == (["new.txt"], "new.txt")
    assert api.served.get(f"/col/{path.removeprefix('/items/')}/doc/new.txt").body == b"abc"
    assert (left(api), api.staging) == ([], [])


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
def test_a_file_that_is_added_leaves_the_link_where_it_led(api: Asking, method: str) -> None:
    both = (Scope.DEPOSIT, Scope.EDIT)
    path = deposited(api, TITLE, ("report.pdf", b"report"))
    name = path.removeprefix("/items/")
    led = f"/col/{name}/doc/report.pdf"
    assert api.get(f"/{name}").headers["location"].endswith(led)
    upload = path_of(api.ask("POST", "/uploads", None, *both, upload_length="6"))
    api.ask("PATCH", upload, b"errata", *both, upload_offset="0", content_type=BYTES)
    mine = upload.rpartition("/")[2]
    if method == "PATCH":
        edit = {"uploads": {"errata.pdf": mine}}
        item = api.ask("PATCH", path, edit, *both, if_match="*").content()
    else:
        item = api.ask("PUT", f"{path}/files/errata.pdf?upload={mine}", None, *both, if_match="*").content(
            201
        )
    assert (sorted(item["files"]), item["target"]) == (["errata.pdf", "report.pdf"], "report.pdf")
    assert api.get(f"/{name}").headers["location"].endswith(led)
    api.ask("PATCH", path, {"target": "errata.pdf"}, Scope.EDIT, if_match="*").content()
    assert api.get(f"/{name}").headers["location"].endswith(f"/col/{name}/doc/errata.pdf")


def test_an_empty_upload_is_complete_at_once(api: Asking) -> None:
    upload = begun(api, 0).rpartition("/")[2]
    answer = api.ask("POST", "/items", {"uploads": {"empty": upload}}, Scope.DEPOSIT)
    assert json_of(answer)["files"]["empty"]["size"] == 0


def test_a_wrong_offset_is_told_the_right_one(api: Asking) -> None:
    path = begun(api, 10)
    brought(api, path, 0, b"abc")
    for wrong in (0, 2, 4, 10, 10**17):
        answer = brought(api, path, wrong, b"x")
        assert (answer.headers["upload-offset"], answer.headers["tus-resumable"]) == ("3", "1.0.0")
        assert refused(answer, 409) == "the upload goes on at 3"
    assert offset_of(api, path) == 3


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.0", "9" * 19, "٣", "0x1"])
def test_an_offset_that_is_no_number_is_refused(api: Asking, offset: str) -> None:
    path = begun(api, 10)
    given = {"upload_offset": offset.encode().decode("latin-1")} if offset else {}
    answer = api.ask("PATCH", path, b"x", Scope.DEPOSIT, content_type=BYTES, **given)
    assert refused(answer, 400) == "Upload-Offset must be a whole number"
    assert answer.headers["tus-resumable"] == "1.0.0"


@pytest.mark.parametrize(
    ("headers", "status", "why"),
    [
        ({}, 400, NO_LENGTH),
        ({"upload_length": "-1"}, 400, NO_LENGTH),
        ({"upload_length": "x"}, 400, NO_LENGTH),
        ({"upload_defer_length": "1"}, 400, NO_LENGTH),
        ({"upload_length": str(LARGEST + 1)}, 413, f"an upload may have at most {LARGEST} bytes"),
        (
            {"upload_length": "1", "tus_resumable": "0.2.2"},
            412,
            "only version 1.0.0 of tus is understood here",
        ),
        ({"upload_length": "1", "upload_metadata": "x" * (LONGEST_METADATA + 1)}, 400, NO_METADATA),
        ({"upload_length": "1", "upload_metadata": "a\x80b"}, 400, NO_METADATA),
    ],
)
def test_an_upload_that_cannot_be_is_not_begun(
    api: Asking, headers: dict[str, str], status: int, why: str
) -> None:
    answer = api.ask("POST", "/uploads", None, Scope.DEPOSIT, **headers)
    assert refused(answer, status) == why
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert status != 412 or answer.headers["tus-version"] == "1.0.0"
    assert not (api.archive.data / "uploads").exists()


def test_the_longest_metadata_and_the_largest_upload_are_taken(api: Asking) -> None:
    path = begun(api, LARGEST, upload_metadata="x" * LONGEST_METADATA)
    found = api.ask("HEAD", path, None, Scope.DEPOSIT)
    assert found.headers["upload-metadata"] == "x" * LONGEST_METADATA
    assert found.headers["upload-length"] == str(LARGEST)


def test_more_bytes_than_were_announced_are_refused(api: Asking) -> None:
    path = begun(api, 5)
    refused(brought(api, path, 0, b"123456"), 413)
    assert offset_of(api, path) == 0
    assert brought(api, path, 0, b"12345").status == 204
    refused(brought(api, path, 5, b"6"), 413)


def test_bytes_of_another_type_or_without_a_length_are_refused(api: Asking) -> None:
    path = begun(api, 5)
    other = brought(api, path, 0, b"12345", content_type="application/json")
    assert refused(other, 415) == f"the body must be {BYTES}"
    assert other.headers["tus-resumable"] == "1.0.0"
    refused(brought(api, path, 0, b"12345", content_encoding="gzip"), 415)
    head = f"PATCH /-/api{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {BYTES}\r\n"
    who = f"Authorization: Bearer {api.token(Scope.DEPOSIT)}\r\nUpload-Offset: 0\r\n\r\n"
    with socket.create_connection(("127.0.0.1", api.served.port)) as connection:
        connection.sendall((head + who).encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 411 ")
    assert offset_of(api, path) == 0


def test_an_upload_belongs_to_the_token_that_began_it(api: Asking) -> None:
    path = begun(api, 5)
    others = (Scope.DEPOSIT, Scope.READ)
    assert api.ask("HEAD", path, None, *others).status == 404
    refused(api.ask("PATCH", path, b"12345", *others, upload_offset="0", content_type=BYTES), 404)
    refused(api.ask("DELETE", path, None, *others), 404)
    assert brought(api, path, 0, b"12345").status == 204
    upload = {"uploads": {"a": path.rpartition("/")[2]}}
    refused(api.ask("POST", "/items", upload, *others), 404)
    assert (api.staging, len(left(api))) == ([], 2)


def test_an_upload_can_be_given_up(api: Asking) -> None:
    path = begun(api, 5)
    assert api.ask("DELETE", path, None, Scope.DEPOSIT).status == 204
    assert left(api) == []
    refused(api.ask("DELETE", path, None, Scope.DEPOSIT), 404)


@pytest.mark.parametrize("name", ["x", "..", "%2e%2e", "0" * 31, "0" * 32, "A" * 32, "..%2fcatalogue"])
def test_what_is_no_upload_is_not_found(api: Asking, name: str) -> None:
    assert api.ask("HEAD", f"/uploads/{name}", None, Scope.DEPOSIT).status == 404
    refused(api.ask("DELETE", f"/uploads/{name}", None, Scope.DEPOSIT), 404)


def test_an_upload_that_is_not_complete_becomes_nothing(api: Asking) -> None:
    path = begun(api, 5)
    brought(api, path, 0, b"123")
    upload = path.rpartition("/")[2]
    assert "3 of 5" in refused(api.ask("POST", "/items", {"uploads": {"a": upload}}, Scope.DEPOSIT), 409)
    assert (api.staging, offset_of(api, path), api.archive.catalogue.count()) == ([], 3, 1)


def test_a_deposit_that_is_refused_leaves_its_uploads(api: Asking) -> None:
    upload = whole(api, b"abc")
    for value in (
        {"uploads": {"a": upload, "A": whole(api, b"x")}},
        {"uploads": {"a": upload, "b": upload}},
        {"uploads": {"../a": upload}},
        {"uploads": {"a": upload}, "target": "b"},
        {"uploads": {"a": upload}, "edition_of": "a.example/b/1999/01.01.00.00"},
    ):
        assert api.ask("POST", "/items", value, Scope.DEPOSIT).status in {404, 422}
        assert api.staging == []
    assert api.ask("POST", "/items", {"uploads": {"a": upload}}, Scope.DEPOSIT).status == 201


def test_those_whose_network_knows_no_patch_may_post(api: Asking) -> None:
    path = begun(api, 3)
    given = {"x_http_method_override": "PATCH", "upload_offset": "0", "content_type": BYTES}
    assert api.ask("POST", path, b"abc", Scope.DEPOSIT, **given).status == 204
    refused(api.ask("POST", path, b"abc", Scope.DEPOSIT), 405)
    refused(api.ask("POST", "/items", b"", Scope.DEPOSIT, x_http_method_override="DELETE"), 422)


def test_what_came_before_the_client_went_away_is_kept(api: Asking) -> None:
    path = begun(api, 5_000_000)
    head = f"PATCH /-/api{path} HTTP/1.1\r\nHost: x\r\nContent-Type: {BYTES}\r\nContent-Length: 5000000\r\n"
    who = f"Authorization: Bearer {api.token(Scope.DEPOSIT)}\r\nUpload-Offset: 0\r\n\r\n"
    content = os.urandom(5_000_000)
    with socket.create_connection(("127.0.0.1", api.served.port)) as connection:
        connection.sendall((head + who).encode() + content[:2_345_678])
        while offset_of(api, path) < 1_000_000:
            pass
        busy = brought(api, path, offset_of(api, path), b"x")
        refused(busy, 409)
    while (answer := brought(api, path, (at := offset_of(api, path)), content[at:])).status == 409:
        pass  # the end of the other request has not been noticed yet
    assert (answer.status, at) == (204, 2_345_678)
    item = api.ask("POST", "/items", {"uploads": {"a": path.rpartition("/")[2]}}, Scope.DEPOSIT)
    assert json_of(item)["files"]["a"]["sha256"] == sha256(content).hexdigest()


def test_one_token_has_so_many_uploads_and_no_more(api: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST_UPLOADS", 2)
    first = begun(api, 1)
    begun(api, 1)
    full = api.ask("POST", "/uploads", None, Scope.DEPOSIT, upload_length="1")
    why = "too much is being uploaded with this token; finish or cancel another upload first"
    assert (refused(full, 429), full.headers["retry-after"]) == (why, "60")
    assert api.ask("POST", "/uploads", None, Scope.ADMIN, upload_length="1").status == 201
    api.ask("DELETE", first, None, Scope.DEPOSIT)
    begun(api, 1)


def test_one_token_has_so_many_bytes_under_way_and_no_more(api: Asking) -> None:
    for _ in range(uploads.MOST_LARGEST):
        begun(api, LARGEST)
    refused(api.ask("POST", "/uploads", None, Scope.DEPOSIT, upload_length="1"), 429)


def test_an_upload_expires_a_day_after_its_last_bytes(api: Asking) -> None:
    path = begun(api, 5)
    api.archive.clock.now += LIFETIME - 1
    assert brought(api, path, 0, b"12").status == 204
    api.archive.clock.now += LIFETIME - 1
    assert offset_of(api, path) == 2
    refused(brought(api, path, 0, b"12"), 409)  # brings nothing, and begins no new day
    api.archive.clock.now += 1
    assert api.ask("HEAD", path, None, Scope.DEPOSIT).status == 410
    expired = f"the upload {path.rpartition('/')[2]} has expired; begin it again"
    assert refused(brought(api, path, 2, b"345"), 410) == expired
    begun(api, 1)  # a new upload removes the expired ones
    assert len(left(api)) == 2
    assert api.ask("HEAD", path, None, Scope.DEPOSIT).status == 404


def test_expired_uploads_are_removed_also_without_a_new_one(api: Asking) -> None:
    begun(api, 5)
    store = Uploads(api.archive.data / "uploads", api.archive.clock.seconds, LARGEST)
    store.expire()
    assert len(left(api)) == 2
    api.archive.clock.now += LIFETIME
    store.expire()
    assert left(api) == []
    Uploads(api.archive.data / "none", api.archive.clock.seconds, LARGEST).expire()


# --- on disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads", Clock().seconds, 1 << 30)


def test_an_upload_survives_a_restart(tmp_path: Path, store: Uploads) -> None:
    upload = store.start("a", 5, "x y").id
    with store.writing(upload, "a") as writing:
        writing.write(b"123")
    again = Uploads(tmp_path / "uploads", Clock().seconds, 1 << 30)
    found = again.find(upload, "a")
    assert (found.offset, found.length, found.metadata, found.expires) == (3, 5, "x y", NOW + LIFETIME)


def test_two_never_write_to_one_upload(store: Uploads) -> None:
    upload = store.start("a", 5, "").id
    with store.writing(upload, "a"):
        with pytest.raises(Refusal, match="another request"), store.writing(upload, "a"):
            pass
        with pytest.raises(Refusal, match="another request"), store.whole(upload, "a"):
            pass
        with pytest.raises(Refusal, match="another request"):
            store.delete(upload, "a")
        assert store.find(upload, "a").offset == 0
    store.delete(upload, "a")
    with pytest.raises(NotHeld), store.writing(upload, "a"):
        pass


def test_the_beginning_of_an_upload_that_was_interrupted_is_cleared_away(
    tmp_path: Path, store: Uploads
) -> None:
    kept = store.start("a", 5, "").id
    folder = tmp_path / "uploads"
    for number, facts in enumerate([None, b"", b'{"token"', b"[]", b'{"token": "a"}']):
        (folder / f"{number:032x}.part").write_bytes(b"x")
        if facts is not None:
            (folder / f"{number:032x}.json").write_bytes(facts)
        with pytest.raises(NotHeld):
            store.find(f"{number:032x}", "a")
    store.expire()
    assert {path.stem for path in folder.iterdir() if path.name != "lock"} == {kept}


def test_uploads_are_begun_one_after_the_other_so_that_each_counts_for_the_next(
    tmp_path: Path, store: Uploads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "MOST_UPLOADS", 1)
    (tmp_path / "uploads").mkdir()
    upload = waits_for(tmp_path / "uploads" / "lock", lambda: store.start("a", 5, "")).id
    with pytest.raises(Refusal, match="too much"):
        store.start("a", 5, "")
    store.delete(upload, "a")


def test_an_upload_that_is_being_begun_is_not_taken_for_an_interrupted_one(
    tmp_path: Path, store: Uploads
) -> None:
    upload = store.start("a", 5, "").id
    waits_for(tmp_path / "uploads" / "lock", store.expire)
    assert store.find(upload, "a").length == 5


def test_an_expired_upload_that_is_still_written_to_stays(tmp_path: Path) -> None:
    clock = Clock()
    store = Uploads(tmp_path / "uploads", clock.seconds, 100)
    upload = store.start("a", 5, "").id
    with store.writing(upload, "a") as writing:
        clock.now += LIFETIME
        store.expire()
        writing.write(b"12345")
    assert store.find(upload, "a").offset == 5
    clock.now += LIFETIME
    with pytest.raises(Refusal, match="expired"):
        store.find(upload, "a")


WRITE = """
import sys, time
from pathlib import Path
from ibi.archive.api.uploads import Uploads
store = Uploads(Path(sys.argv[1]), time.time, 1 << 40)
upload = sys.argv[2]
with store.writing(upload, "a") as writing:
    at = writing.found.offset
    while True:
        writing.write(at.to_bytes(8, "big") * 128)
        at += 1024
        print(at, flush=True)
"""


@pytest.mark.long
def test_a_kill_in_the_middle_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    from time import time

    store = Uploads(tmp_path / "uploads", time, 1 << 40)
    upload = store.start("a", 1 << 40, "").id
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    acknowledged = 0
    for _ in range(5):
        command = [sys.executable, "-c", textwrap.dedent(WRITE), str(tmp_path / "uploads"), upload]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            assert writer.stdout is not None
            for _ in range(50):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        assert store.find(upload, "a").offset >= acknowledged
    content = next((tmp_path / "uploads").glob("*.part")).read_bytes()
    for at in range(0, len(content) - 1024, 1024):
        assert content[at : at + 8] == at.to_bytes(8, "big")


FULL = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from support.archive.api_fixture import LARGEST, api_of
from support.archive.archive_fixture import RENDERER, make_archive
from ibi.archive.service.service import ArchiveService
from ibi.http.server.service import Service, listen, run

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
archive = make_archive(Path(sys.argv[1]), sys.argv[2], {})
app = ArchiveService(archive.settings, archive.catalogue, archive.file_store, archive.clock.seconds, RENDERER,
                     api=api_of(archive).answer)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

async def main():
    await run([Service(app, close=app.close, largest_body=LARGEST)], [listen(sys.argv[2])],
              lambda _: print("ready", flush=True), asyncio.Event())

asyncio.run(main())
"""


@pytest.mark.long
def test_a_disk_that_takes_no_more_is_one_sentence_and_reading_goes_on(tmp_path: Path) -> None:
    """No file of the served process may grow beyond 300 kB, which is what a full disk says of the next write."""
    port = free_port()
    roots = [str(Path(__file__).parents[3]), *sys.path]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, roots))}
    command = [sys.executable, "-c", textwrap.dedent(FULL), str(tmp_path / "a"), f"127.0.0.1:{port}"]
    from support.archive.archive_fixture import Served, settings_for

    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            data = tmp_path / "a"
            archive = NewArchive(data, settings_for(f"127.0.0.1:{port}"), None, None, Clock())  # type: ignore[arg-type]  # it is in the other process
            api = Asking(Served(archive, port))
            path = deposited(api)
            big = bytes(400_000)
            sentences = {
                refused(api.ask("PUT", f"{path}/files/x", big, Scope.EDIT, if_match="*"), 507),
                refused(brought(api, begun(api, len(big)), 0, big), 507),
            }
            assert len(sentences) == 1
            assert api.staging == []
            assert "files" not in json_of(api.ask("GET", path))
            assert api.ask("PUT", f"{path}/files/x", b"small", Scope.EDIT, if_match="*").status == 201
            assert api.served.get(f"/col/{path.removeprefix('/items/')}/doc/x").body == b"small"
        finally:
            process.kill()
