"""Readers and depositors of an Archive whose files are in an S3 store, which is killed, stopped, or sent to."""

from __future__ import annotations

import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from types import MappingProxyType
from urllib.parse import urlsplit

import pytest

from ibi.archive.model.item import Holding
from ibi.archive.store import s3_client
from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from support.archive.archive_fixture import REP, WHEN, NewArchive, Served, fill, listener, serving
from support.engines.seaweedfs import BUCKET, SeaweedFS

FILE = f"/col/{REP}/doc/a%20b.txt"
BIG = f"/col/{REP}/doc/@big"
CONTENT = bytes(range(256)) * 4096


@pytest.fixture
def archive(
    seaweedfs: SeaweedFS, new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> NewArchive:
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    made = new_archive("127.0.0.1", files=f"s3://{BUCKET}/{secrets.token_hex(6)}")
    fill(made)
    return made


@pytest.fixture
def served(archive: NewArchive) -> Iterator[Served]:
    with serving(archive, listener()) as served:
        yield served


def until_served(served: Served, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while served.get(FILE).status != 200:
        assert time.monotonic() < end
        time.sleep(0.2)


def fetched(url: str, headers: Mapping[str, str] = MappingProxyType({})) -> tuple[int, bytes]:
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=10)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read()


def deposit(archive: NewArchive, number: int) -> tuple[str, bytes]:
    """Deposit an item with one file; returns its path and content. Raises SetupError."""
    forms = IBIForms.parse(f"rep c.example/d/2015/01.01.00.{number:02}")
    content = secrets.token_bytes(100_000)
    with archive.item_store.staging_session():
        staging = archive.file_store.stage_stream("f")
        staging.write(content)
        file = staging.finish()
        with archive.item_store.unit_of_work("tester") as work:
            work.add(Holding(forms=forms, timestamp=WHEN), [file])
    return f"/col/{forms.main}/doc/f", content


def test_a_killed_store_is_a_503_for_files_only_and_the_archive_goes_on_by_itself(
    served: Served, archive: NewArchive, seaweedfs: SeaweedFS
) -> None:
    path, content = deposit(archive, 1)
    assert served.get(path).body == content
    seaweedfs.kill()
    try:
        answer = served.get(path)
        assert (answer.status, int(answer.headers["retry-after"]) > 0) == (503, True)
        assert served.get(f"/-/zip/{REP}").status == 503
        assert served.get(f"/-/item/{REP}").status == 200
        assert served.get(f"/{REP}").status == 302
        with pytest.raises(SetupError, match="cannot be used now"):
            deposit(archive, 2)
    finally:
        seaweedfs.start()
    until_served(served)
    assert served.get(path).body == content
    assert served.get(BIG).body == CONTENT
    assert deposit(archive, 2)[1] == served.get("/col/c.example/d/2015/01.01.00.02/doc/f").body


def test_a_store_that_dies_between_the_two_requests_for_a_file_is_a_503_and_no_half_answer(
    served: Served, seaweedfs: SeaweedFS, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    size, known = s3_client.S3Client.size, dict[str, int]()

    def alive_until_now(client: s3_client.S3Client, key: str) -> int:
        known[key] = known.get(key) or size(client, key)
        return known[key]

    with monkeypatch.context() as patched:
        patched.setattr(s3_client.S3Client, "size", alive_until_now)
        assert served.get(BIG).status == 200  # from now on its size and its type are known
        seaweedfs.kill()
        try:
            answer, head = served.get(BIG), served.get(BIG, method="HEAD")
        finally:
            seaweedfs.start()
    assert (answer.status, int(answer.headers["retry-after"]) > 0) == (503, True)
    assert (head.status, head.headers["content-length"]) == (
        200,
        str(len(CONTENT)),
    )  # for it, nothing is read
    [logged] = [each.getMessage() for each in caplog.records if each.name.startswith("ibi.archive.service")]
    assert logged.startswith("a file could not be read: the store of the files, s3://")
    until_served(served)
    assert served.get(BIG).body == CONTENT


def test_a_store_that_hangs_delays_only_those_who_want_files(served: Served, seaweedfs: SeaweedFS) -> None:
    assert served.get(FILE).status == 200
    statuses, began = list[int](), time.monotonic()
    readers = [threading.Thread(target=lambda: statuses.append(served.get(FILE).status)) for _ in range(4)]
    seaweedfs.signal(signal.SIGSTOP)
    try:
        for each in readers:
            each.start()
        time.sleep(0.2)
        for path in (f"/-/item/{REP}", f"/{REP}", "/-/readyz"):
            before = time.monotonic()
            assert served.get(path).status in {200, 302}
            assert time.monotonic() - before < 1
        for each in readers:
            each.join(15)
        assert statuses == [503] * 4, statuses
        assert time.monotonic() - began < s3_client.CALL_SECONDS + 4
        before = time.monotonic()
        assert served.get(FILE).status == 503  # at once: no further thread waits
        assert time.monotonic() - before < 1
    finally:
        seaweedfs.signal(signal.SIGCONT)
    until_served(served)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_nothing_acknowledged_is_lost_and_no_reader_gets_wrong_bytes(
    how: str, served: Served, archive: NewArchive, seaweedfs: SeaweedFS
) -> None:
    kept, wrong, seen, end = dict[str, bytes](), list[object](), set[int](), threading.Event()

    def read() -> None:
        while not end.is_set():
            try:
                answer = served.get(BIG)
            except (HTTPException, OSError):
                continue  # it was broken off, which every client notices
            seen.add(answer.status)
            right = answer.body == CONTENT if answer.status == 200 else "retry-after" in answer.headers
            if answer.status not in {200, 503} or not right:
                wrong.append((answer.status, len(answer.body)))

    def write() -> None:
        number = 10
        while not end.is_set():
            try:
                path, content = deposit(archive, number)
            except SetupError:
                time.sleep(0.05)
                continue
            kept[path] = content
            number = min(number + 1, 99)
            if number == 99:
                return

    workers = [threading.Thread(target=each) for each in (read, read, write)]
    for each in workers:
        each.start()
    try:
        time.sleep(1)
        if how == "killed":
            seaweedfs.kill()
            time.sleep(2)
            seaweedfs.start()
        else:
            seaweedfs.signal(signal.SIGSTOP)
            time.sleep(s3_client.CALL_SECONDS + 1)
            seaweedfs.signal(signal.SIGCONT)
        until_served(served)
        time.sleep(1)
    finally:
        seaweedfs.signal(signal.SIGCONT)
        end.set()
        for each in workers:
            each.join(30)
    assert wrong == []
    assert seen == {200, 503}
    assert len(kept) > 2
    archive.file_store.place_files(archive.catalogue)
    for path, content in kept.items():
        assert served.get(path).body == content


def test_a_reader_is_sent_to_the_store_and_gets_her_part_there(
    seaweedfs: SeaweedFS, new_archive: Callable[..., NewArchive], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweedfs.environment().items():
        monkeypatch.setenv(name, value)
    archive = new_archive("127.0.0.1", files=f"s3://{BUCKET}/{secrets.token_hex(6)}", files_redirect=True)
    fill(archive)
    with serving(archive, listener()) as served:
        answer = served.get(BIG)
        assert (answer.status, answer.headers["cache-control"]) == (307, "private, no-store")
        url = answer.headers["location"]
        assert f"127.0.0.1:{seaweedfs.ports['s3.port']}" == urlsplit(url).netloc
        assert fetched(url) == (200, CONTENT)
        assert fetched(url, {"Range": "bytes=5-9"}) == (206, CONTENT[5:10])
        assert served.get(BIG, method="HEAD").status == 200
        # Its scripts must stay in our sandbox.
        page = served.get(f"/col/{REP}/doc/index.html")
        assert (page.status, "content-security-policy" in page.headers) == (200, True)
