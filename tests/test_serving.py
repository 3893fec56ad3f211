"""The door through which requests come in: what arrives, what is refused, and how it closes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.errors import SetupError
from ibi.serving import HEAD_BYTES, listen

PROGRAM = r"""
import asyncio, os, sys
from ibi import serving
from ibi.serving.workers import serve

serving.REQUEST_SECONDS = 1
drained = asyncio.Event()

async def app(scope, receive, send):
    path = scope["raw_path"]
    if path == b"/slow":
        await asyncio.sleep(1)
    if path == b"/waiting":
        await drained.wait()
    if path == b"/broken":
        raise RuntimeError("a fault of ours")
    body = repr((path, scope["query_string"], os.getpid())).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

async def started():
    os.write(1, b"started\n")
    await asyncio.sleep(3600)

async def stopping():
    os.write(1, b"stopping\n")
    raise RuntimeError("nobody listens")

async def draining():
    os.write(1, b"draining\n")
    drained.set()

async def close():
    os.write(1, b"closed\n")

def make():
    return [serving.Service(app, started, stopping, close, draining=draining)]

serve(make, [sys.argv[1]], lambda urls: print("ready", *urls, flush=True), int(sys.argv[2]))
"""


class Door:
    """A served application in its own process."""

    def __init__(self, workers: int = 1) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
            "PYTHONWARNINGS": "error",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), "127.0.0.1:0", str(workers)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said.startswith("ready http://127.0.0.1:"), self.process.communicate()
        self.port = int(said.rpartition(":")[2])

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def say(self, raw: bytes) -> bytes:
        with self.open() as connection:
            connection.sendall(raw)
            return _all(connection)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> tuple[int, list[str]]:
        self.process.send_signal(by)
        return self.wait()

    def wait(self) -> tuple[int, list[str]]:
        """The exit status, and the words said since it was ready."""
        assert self.process.stdout is not None
        with self.process.stdout as said:
            words = said.read().split()
        return self.process.wait(20), sorted(words)


def _all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:  # the other side closed while we were still talking
        pass
    return received


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    running = Door()
    yield running
    running.stop()


def _get(target: bytes, more: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n" + more + b"\r\n"


@pytest.mark.proves("MSG-07")
def test_path_and_query_arrive_as_they_were_sent(door: Door) -> None:
    assert rb"(b'/a%2Fb/..//c;x', b'x=%41+&&y'," in door.say(_get(b"/a%2Fb/..//c;x?x=%41+&&y"))


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\x02\r\n\r\n", _get(b"/\xff\xfe"), b"GET\r\n\r\n", b"SSH-2.0-x\r\n\r\n"]
)
def test_what_is_not_http_gets_400(door: Door, raw: bytes) -> None:
    assert door.say(raw).startswith(b"HTTP/1.1 400 ")


def test_a_long_head_is_refused_whole_or_in_pieces(door: Door) -> None:
    assert door.say(_get(b"/" + b"a" * HEAD_BYTES)).startswith(b"HTTP/1.1 431 ")
    assert door.say(_get(b"/", b"X: " + b"a" * HEAD_BYTES + b"\r\n")).startswith(b"HTTP/1.1 431 ")
    assert door.say(b"GET / HTTP/1.1\r\nX: " + b"a" * 3 * HEAD_BYTES).startswith(b"HTTP/1.1 431 ")
    assert door.say(_get(b"/" + b"a" * (HEAD_BYTES - 1000))).startswith(b"HTTP/1.1 200 ")


def test_a_body_nobody_wants_is_refused_when_it_is_long(door: Door) -> None:
    assert b"431" in door.say(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + b"a" * 90_000)


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", b"\r\n", b"GET / HTTP/1.1\r\nHost: a"])
def test_a_request_that_does_not_arrive_is_not_waited_for(door: Door, beginning: bytes) -> None:
    assert door.say(beginning).startswith(b"HTTP/1.1 408 ")


def test_many_requests_fit_into_one_connection(door: Door) -> None:
    with door.open() as connection:
        connection.sendall(_get(b"/1").replace(b"close", b"keep-alive") * 3 + _get(b"/last"))
        assert _all(connection).count(b"HTTP/1.1 200 OK") == 4


def test_a_fault_of_the_application_is_not_shown(door: Door) -> None:
    answer = door.say(_get(b"/broken"))
    assert b"RuntimeError" not in answer
    assert b"fault of ours" not in answer


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_on_a_signal_it_says_goodbye_finishes_what_runs_and_closes(by: signal.Signals) -> None:
    door = Door()
    with door.open() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert door.say(_get(b"/")).startswith(b"HTTP/1.1 200 OK")  # so the slow request has been read by now
        assert door.stop(by) == (0, ["closed", "draining", "started", "stopping"])
        assert _all(connection).startswith(b"HTTP/1.1 200 OK")


def test_workers_share_the_address_and_only_one_speaks_for_the_service() -> None:
    door = Door(workers=2)
    answered = {door.say(_get(b"/")).rpartition(b" ")[2] for _ in range(60)}
    assert len(answered) == 2
    assert door.stop() == (0, ["closed", "closed", "draining", "draining", "started", "stopping"])


def test_every_worker_drains_before_requests_are_cut_off() -> None:
    door = Door(workers=2)
    waiting = []
    for _ in range(40):
        waiting.append(door.open())
        waiting[-1].sendall(_get(b"/waiting"))
        door.say(_get(b"/"))
    assert door.stop()[0] == 0
    answers = [_all(connection) for connection in waiting]
    for connection in waiting:
        connection.close()
    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in answers)
    assert len({answer.rpartition(b" ")[2] for answer in answers}) == 2


def test_a_worker_that_dies_ends_all_of_them() -> None:
    door = Door(workers=2)
    worker = int(door.say(_get(b"/")).rpartition(b" ")[2].rstrip(b")"))
    os.kill(worker, signal.SIGKILL)
    status, words = door.wait()
    assert status == 1
    assert {"SetupError:", "unexpectedly"} <= {word.rpartition(".")[2] for word in words}


@pytest.mark.parametrize(
    "bind", ["127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999", "192.0.2.1:80", "no such host:80", "[::1:80"]
)
def test_an_address_that_cannot_be_listened_on_is_a_sentence(bind: str) -> None:
    with pytest.raises(SetupError, match="cannot listen on"):
        listen(bind)


def test_a_taken_address_is_a_sentence() -> None:
    with listen("127.0.0.1:0") as taken, pytest.raises(SetupError, match="cannot listen on"):
        listen(f"127.0.0.1:{taken.getsockname()[1]}")
