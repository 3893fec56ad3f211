"""URL requests that wait for PostgreSQL are answered as by the ordinary path, each from one snapshot."""

from __future__ import annotations

import json
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.archive.service.later import TRIES
from ibi.archive.store.data_directory import DataDirectory
from ibi.http.server.config import Answer
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_ibi
from ibi.minting.machine import this_machine
from ibi.protocol.url_list import UrlList
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import ibi, make_archive, until
from support.engines.postgresql import PostgreSQL
from support.ports import free_port
from support.served import served

CHAIN = 2 * TRIES
_CHANGING = re.compile(
    rb"(?i)^date: [^\r]*|(?<=^x-request-id: )[0-9a-f]{16}|(?<=^urlkey)[^\r\n]*|(?<=urlkey \{)[^}]*",
    re.MULTILINE,
)
VERBS = (
    "",
    "GetLastEdition",
    "GetMetadata()",
    "GetMetadata(oai_dc)",
    "GetTranslation()",
    "GetTranslation(fr)",
    "GetFileList()",
)


def name_of(number: int) -> str:
    """The name of an item."""
    return f"a.archive.example/b/2010/01.{number // 60 + 1:02}.00.{number % 60:02}"


def _items() -> Iterator[dict[str, Any]]:
    """Items of all kinds, and links between them."""
    for number in range(CHAIN):  # a chain of editions, longer than is read at once
        yield {
            "rep": name_of(number),
            "url": f"http://far.example/{number}",
            "next_edition": name_of(number + 1),
        }
    yield {"rep": name_of(CHAIN), "url": "http://far.example/last"}
    absent = "b.example/b/2010/01.01.00.00"
    links = {"fr": name_of(0), "pt": absent, "de": name_of(41)}
    yield {"rep": name_of(40), "language": "en", "translations": links, "url": "http://far.example/en"}
    yield {
        "rep": name_of(41),
        "files": {"x.txt": "x.txt", "%C3%A7.txt": "x.txt"},
        "target": "x.txt",
        "metadata": {"title": ["a"]},
    }
    yield {
        "rep": name_of(42),
        "metadata_item": name_of(43),
        "url": "http://far.example/data",
        "access": "embargoed",
        "embargo": "2999-01-01",
    }
    yield {"rep": name_of(43), "contenttype": "Metadata", "metadata": {"title": ["of it"]}}
    yield {"rep": name_of(44), "metadata": {"title": ["long " * 20_000]}}  # too large for the event loop
    yield {"rep": name_of(45), "state": "Deleted", "timestamp": "2012-01-01T00:00:00Z"}


class Stage:
    """An Archive in PostgreSQL, served twice: with answers that come later, and by its application alone."""

    def __init__(self, data: Path, ports: tuple[int, int]) -> None:
        self.data, self.ports = data, ports
        self.path = f"/{ArchiveSettings.read(data).service.main}".encode()
        self.came: Counter[bool] = Counter()
        """How many answers came later, and how many requests went back to the application."""
        self._made = 0

    def make(self) -> Service:
        """Return the service of the next port."""
        service = replace(archive_service(self.data), started=None, stopping=None)
        self._made += 1
        ask = service.later
        assert ask is not None
        if self._made == 2:
            return replace(service, at_once=None)

        def counted(target: bytes, head: Any, peer: str, done: Any) -> bool:
            def note(answer: Answer | None) -> None:
                self.came[answer is not None] += 1
                done(answer)

            return ask(target, head, peer, note)

        return replace(service, later=counted)

    def asking(self, name: str, verbs: str = "") -> bytes:
        """A URL request."""
        query = f"clientinformation.ipaddress=192.0.2.7&parsedibiurl.ibi={name}&parsedibiurl.verblist={verbs}"
        return b"GET %b?%b&servicesubject=urlRequest HTTP/1.1\r\nHost: localhost\r\n\r\n" % (
            self.path,
            query.encode(),
        )


class KeptConnection:
    """A connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        self._heard = b""

    def ask(self, request: bytes) -> bytes:
        """The whole answer."""
        self._connection.sendall(request)
        while (end := self._heard.find(b"\r\n\r\n") + 4) < 4 or len(self._heard) < end + _length(
            self._heard[:end]
        ):
            part = self._connection.recv(65536)
            assert part, self._heard
            self._heard += part
        end += _length(self._heard[:end])
        answer, self._heard = self._heard[:end], self._heard[end:]
        return answer

    def close(self) -> None:
        self._connection.close()


def _length(head: bytes) -> int:
    found = re.search(rb"(?i)content-length: (\d+)", head)
    assert found is not None, head
    return int(found[1])


@contextmanager
def _served(data: Path) -> Iterator[Stage]:
    ports = free_port(), free_port()
    stage = Stage(data, ports)
    with served(stage.make, *(f"127.0.0.1:{port}" for port in ports)):
        yield stage


@pytest.fixture
def stage(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Stage]:
    data = tmp_path / "a"
    make_archive(data, free_port(), "--store", postgresql.new_database())
    (tmp_path / "x.txt").write_text("whatever it is")
    (tmp_path / "items.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in _items()))
    ibi("archive", "import", "--data", data, tmp_path / "items.jsonl")
    with _served(data) as made:
        yield made


def test_both_ways_give_the_same_answers_whatever_is_asked(stage: Stage) -> None:
    chance = random.Random(seed := random.randrange(10**6))
    names = [name_of(number) for number in (*range(CHAIN + 1), 40, 41, 42, 43, 44, 45, 50)]
    requests = [stage.asking(name, verbs) for name in names for verbs in VERBS]
    chance.shuffle(requests)

    def talk(part: list[bytes]) -> None:
        lines = [KeptConnection(port) for port in stage.ports]
        for request in part:
            later, application = (_CHANGING.sub(b"*", line.ask(request)) for line in lines)
            assert later.replace(b"connection: close\r\n", b"") == application, (seed, request)
        for line in lines:
            line.close()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(talk, requests[at::8]) for at in range(8)]:
            done.result()
    # What the application answers (the large item, the longest chain) is followed by one that is answered at once.
    assert stage.came[True] > len(requests) / 10
    assert stage.came[False] > 0


def test_no_answer_claims_a_position_that_it_was_not_read_at(stage: Stage) -> None:
    # Each commit writes the same new URL into two items, one of which leads to the other.
    first, last = name_of(CHAIN - 1), name_of(CHAIN)
    urls: dict[str, str] = {}
    ends = threading.Event()

    def write() -> None:
        with DataDirectory(stage.data, this_machine()).item_store() as item_store:
            for number in range(60):
                url = f"http://far.example/new/{number}"
                with item_store.unit_of_work("maria") as work:
                    for name in (first, last):
                        held = work.get(parse_ibi(name))
                        work.change(held, replace(held, url=url))
                with item_store.catalogue.snapshot() as snapshot:
                    urls[snapshot.position] = url
        ends.set()

    def read() -> list[tuple[str, str]]:
        found = []
        line = KeptConnection(stage.ports[0])
        while not ends.is_set():
            for verbs in ("", "GetLastEdition"):
                pairs = UrlList.read(line.ask(stage.asking(first, verbs)).partition(b"\r\n\r\n")[2]).pairs
                url = next(
                    str(value) for key, value in pairs.items() if key.startswith("url") and key != "urlkey"
                )
                found.append((str(pairs["changes.asof"]), url))
        line.close()
        return found

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        pool.submit(write).result()
        found = [each for reader in readers for each in reader.result()]
    known = [(position, url) for position, url in found if position in urls]
    assert len({position for position, _ in known}) > 5
    assert [each for each in known if urls[each[0]] != each[1]] == []
    assert stage.came[True] > len(found) / 2


def test_after_the_database_was_away_answers_come_later_again(stage: Stage, postgresql: PostgreSQL) -> None:
    line = KeptConnection(stage.ports[0])
    requests = stage.asking(name_of(CHAIN))
    for _ in range(2):
        assert line.ask(requests).startswith(b"HTTP/1.1 200 ")
    assert stage.came[True] == 1
    postgresql.restart()

    def comes_later() -> bool:
        before = stage.came[True]
        return line.ask(requests).startswith(b"HTTP/1.1 200 ") and stage.came[True] > before

    until(comes_later)
    line.close()
