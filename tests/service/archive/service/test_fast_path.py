"""The fast path and the application answer alike, whatever comes in and however it comes."""

from __future__ import annotations

import random
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.app.archive import archive_service
from ibi.http.server.config import Answer
from ibi.http.server.protocol import MOST_PER_TURN
from ibi.http.server.service import Service
from ibi.runtime.settings import ArchiveSettings
from support.cli.archive_commands import ibi, make_archive
from support.ports import free_port
from support.served import served

ITEM, GONE = "a.archive.example/b/2010/01.01.00.00", "a.archive.example/b/2010/01.01.00.01"
UNKNOWN = "a.archive.example/b/2011/01.01.00.00"
LAST = b"GET /-/healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_CHANGING = re.compile(
    rb"(?i)^date: [^\r]*|(?<=^x-request-id: )[0-9a-f]{16}|(?<=^urlkey)[^\r\n]*|(?<=urlkey \{)[^}]*",
    re.MULTILINE,
)


class BothPaths:
    """One Archive served twice, with and without its fast path; `taken` counts what the fast path looked up."""

    def __init__(self, data: Path, ports: tuple[int, int]) -> None:
        self.path = f"/{ArchiveSettings.read(data).service.main}".encode()
        self.ports = ports
        self.taken: Counter[bool] = Counter()
        self._data = data
        self._made = 0

    def make(self) -> Service:
        service = replace(archive_service(self._data), started=None, stopping=None)
        self._made += 1
        ask = service.at_once
        assert ask is not None
        if self._made == 2:
            return replace(service, at_once=None)

        def counted(*request: Any) -> Answer | None:
            answer = ask(*request)
            self.taken[answer is not None] += 1
            return answer

        return replace(service, at_once=counted)

    def say(self, pieces: list[bytes]) -> tuple[bytes, bytes]:
        """What both answer until they hang up, to the same bytes in the same pieces; what changes left out."""
        fast, application = (_response(port, pieces) for port in self.ports)
        return _CHANGING.sub(b"*", fast), _CHANGING.sub(b"*", application)


def _response(port: int, pieces: list[bytes]) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for piece in pieces:
            try:
                connection.sendall(piece)
            except OSError:  # it was refused before its end
                break
        heard = b""
        try:
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                heard += part
        except OSError:
            pass
        return heard


@contextmanager
def both(folder: Path) -> Iterator[BothPaths]:
    data, ports = folder / "a", (free_port(), free_port())
    make_archive(data, ports[0])
    replace(ArchiveSettings.read(data), trusted_resolvers=("127.0.0.0/8",), reuse_seconds=60).write(data)
    (folder / "x.txt").write_text("whatever it is")
    (folder / "items.jsonl").write_text(
        f'{{"rep": "{ITEM}", "files": {{"x.txt": "x.txt"}}, "target": "x.txt", "metadata": {{"title": ["a"]}}}}\n'
        f'{{"rep": "{GONE}", "state": "Deleted", "timestamp": "2012-01-01T00:00:00Z"}}\n'
    )
    ibi("archive", "import", "--data", data, folder / "items.jsonl")
    paths = BothPaths(data, ports)
    with served(paths.make, *(f"127.0.0.1:{port}" for port in ports)):
        yield paths


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory, stored_in: str) -> Iterator[BothPaths]:
    with both(tmp_path_factory.mktemp(stored_in)) as made:
        yield made


SUBJECTS = (
    "clientinformation.ipaddress=192.0.2.7&parsedibiurl.ibi={}&servicesubject=urlRequest",
    "servicesubject=urlRequest&clientinformation.ipaddress=::1&parsedibiurl.ibi={}&parsedibiurl.verblist=GetMetadata()",
    "servicesubject=urlRequest&clientinformation.ipaddress=::1&parsedibiurl.ibi={}&parsedibiurl.filepath=x.txt",
    "servicesubject=urlRequest&parsedibiurl.ibi={}",
    "servicesubject=acknowledgment&urlkey=0123456789",
    "servicesubject=confirmationRequest",
    "servicesubject=inclusionRequest",
    "servicesubject=nothing",
    "servicesubject",
    "servicesubject=urlRequest&servicesubject=urlRequest",
    "service%73ubject=urlRequest",
    "servicesubject=%ff%zz",
    "",
)
NAMES = (ITEM, ITEM, GONE, UNKNOWN, "LK47B6W/362SFKH", "no%20name", "%00", "")
HOSTS = (*[b"localhost"] * 10, b"a.archive.example", b"stranger.example", b"127.0.0.1:80")
TAME = (
    b"Accept: text/html",
    b"Purpose: prefetch",
    b"X-Forwarded-For: 192.0.2.9",
    b"X: y\r\nX: z",
    b"Content-Length: 0",
)
WILD = (
    *TAME,
    b"Connection: close",
    b"Connection: keep-alive",
    b"Connection: Upgrade\r\nUpgrade: websocket",
    b"Expect: 100-continue",
    b"Content-Length: x",
    b": no name",
    b"X-Long: " + b"y" * 20_000,
)


def tame(paths: BothPaths, chance: random.Random) -> bytes:
    """A request after which another one can come."""
    path = chance.choice([paths.path] * 8 + [paths.path.upper(), b"/", b"/-/api/servicesubject", b"//x"])
    target = path + b"?" + chance.choice(SUBJECTS).format(chance.choice(NAMES)).encode()
    lines = [b"Host: " + chance.choice(HOSTS), *chance.sample(TAME, chance.choice([0, 0, 0, 1, 2]))]
    return b"%b %b HTTP/1.1\r\n%b\r\n\r\n" % (
        chance.choice([b"GET"] * 8 + [b"HEAD", b"OPTIONS"]),
        target,
        b"\r\n".join(lines),
    )


def wild(paths: BothPaths, chance: random.Random) -> bytes:
    """A request of any kind, or nearly one, after which nothing else comes."""
    path = chance.choice([paths.path] * 8 + [b"http://a.example" + paths.path, b"*", b"", b"/x" * 9_000])
    query = chance.choice((*SUBJECTS, "servicesubject=urlRequest&x=" + "y" * 9_000)).format(
        chance.choice(NAMES)
    )
    target = path + b"?" + query.encode() + chance.choice([b""] * 9 + [b"#x", b"?", b" x", b"\xe9"])
    method = chance.choice([b"GET"] * 12 + [b"HEAD", b"POST", b"get", b"FLY"])
    version = chance.choice([b"HTTP/1.1"] * 12 + [b"HTTP/1.0", b"HTTP/2.0"])
    lines = [b"Host: " + chance.choice(HOSTS)] if chance.random() < 0.9 else []
    lines += chance.sample(WILD, chance.choice([0, 0, 1, 2]))
    body = b""
    if chance.random() < 0.1:
        body = b"some body"
        lines.append(chance.choice([b"Content-Length: 9", b"Content-Length: 5", b"Content-Length: 90"]))
    text = b"%b %b %b\r\n" % (method, target, version) + b"".join(x + b"\r\n" for x in lines) + b"\r\n" + body
    return text if chance.random() < 0.9 else text[: chance.randrange(len(text))]


def broken(text: bytes, chance: random.Random) -> list[bytes]:
    """A text in some pieces."""
    places = sorted(chance.sample(range(len(text) + 1), chance.choice([0, 0, 1, 3])))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


def asking(paths: BothPaths, name: str) -> bytes:
    return b"GET %b?%b HTTP/1.1\r\nHost: localhost\r\n\r\n" % (paths.path, SUBJECTS[0].format(name).encode())


@pytest.mark.long
def test_the_answers_of_both_paths_cannot_be_told_apart(paths: BothPaths) -> None:
    chance = random.Random(seed := random.randrange(10**6))
    for number in range(400):
        if chance.random() < 0.5:
            pieces = [wild(paths, chance)]  # as a whole: what is refused early is not read to its end
        else:
            some = [tame(paths, chance) for _ in range(chance.choice([1, 2, 5, 25]))]
            pieces = broken(b"".join(some) + LAST, chance)
        fast, application = paths.say(pieces)
        assert fast == application, (seed, number, pieces)
    assert paths.taken[True] > 100
    assert paths.taken[False] > 10


def test_however_many_come_in_together_others_have_their_turn_and_each_is_answered_in_order(
    paths: BothPaths,
) -> None:
    names = [ITEM if number % 3 else UNKNOWN for number in range(5 * MOST_PER_TURN)]
    text = b"".join(asking(paths, name) for name in names)
    before = paths.taken[True]
    fast, application = paths.say([text + LAST])
    assert fast == application
    assert paths.taken[True] - before == len(names)
    lengths = [int(found) for found in re.findall(rb"content-length: (\d+)", fast)]
    assert [bool(length) for length in lengths[:-1]] == [name == ITEM for name in names]


@pytest.mark.one_store("sqlite", "the event loop never waits for a database")
def test_requests_one_after_the_other_stay_on_the_fast_path(paths: BothPaths) -> None:
    before = paths.taken[True]
    with socket.create_connection(("127.0.0.1", paths.ports[0]), timeout=30) as connection:
        for number in range(50):
            connection.sendall(asking(paths, ITEM if number % 2 else GONE))
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\ndate: ")
    assert paths.taken[True] - before == 50
