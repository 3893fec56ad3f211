"""The HTTP server: what arrives, what is refused, and how it closes."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ibi.http.server.protocol import HEAD_BYTES

PROGRAM = r"""
import asyncio, os, resource, sys
from ibi.http.server import service as serving
from ibi.http.server import progress, protocol
from ibi.http.server.workers import serve

protocol.REQUEST_SECONDS = 1
progress.BODY_PAUSE_SECONDS = 2
progress.BODY_GRACE_SECONDS = 3
drained = asyncio.Event()

async def app(scope, receive, send):
    path = scope["raw_path"]
    if path == b"/slow":
        await asyncio.sleep(1)
    if path == b"/waiting":
        await drained.wait()
    if path == b"/broken":
        raise RuntimeError("a fault of ours")
    if path == b"/take":
        return await take(scope, receive, send)
    body = repr((path, scope["query_string"], os.getpid())).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})

async def take(scope, receive, send):
    # The body, read slowly if so asked: how much came, and how large this process has been.
    size, largest, message = 0, 0, {"more_body": True}
    while message.get("more_body"):
        message = await receive()
        if message["type"] != "http.request":
            os.write(1, b"gone\n")
            return
        size += len(message["body"])
        largest = max(largest, len(message["body"]))
        if scope["query_string"] == b"slowly":
            await asyncio.sleep(4 if size == len(message["body"]) else 0.01)
    body = repr((size, largest, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)).encode()
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
    more = {"largest_body": int(sys.argv[3])}
    return [serving.Service(app, started, stopping, close, draining=draining, **more)]

serve(make, [sys.argv[1]], lambda urls: print("ready", *urls, flush=True), int(sys.argv[2]))
"""


class ServerProcess:
    """A served application in its own process."""

    def __init__(self, workers: int = 1, largest_body: int = 0) -> None:
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[4] / "src"),
            "PYTHONWARNINGS": "error",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), "127.0.0.1:0", str(workers), str(largest_body)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready.startswith("ready http://127.0.0.1:"), self.process.communicate()
        self.port = int(ready.rpartition(":")[2])

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
        """Return the exit status, and the words printed since it was ready."""
        assert self.process.stdout is not None
        with self.process.stdout as output:
            words = output.read().split()
        return self.process.wait(60), sorted(words)


def _all(connection: socket.socket) -> bytes:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:  # the other side closed while we were still talking
        pass
    return received


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    running = ServerProcess()
    yield running
    running.stop()


def _get(target: bytes, more: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n" + more + b"\r\n"


@pytest.mark.proves("MSG-07")
def test_path_and_query_arrive_as_they_were_sent(server: ServerProcess) -> None:
    assert rb"(b'/a%2Fb/..//c;x', b'x=%41+&&y'," in server.say(_get(b"/a%2Fb/..//c;x?x=%41+&&y"))


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\x02\r\n\r\n", _get(b"/\xff\xfe"), b"GET\r\n\r\n", b"SSH-2.0-x\r\n\r\n"]
)
def test_what_is_not_http_gets_400(server: ServerProcess, raw: bytes) -> None:
    assert server.say(raw).startswith(b"HTTP/1.1 400 ")


def test_a_long_head_is_refused_whole_or_in_pieces(server: ServerProcess) -> None:
    assert server.say(_get(b"/" + b"a" * HEAD_BYTES)).startswith(b"HTTP/1.1 431 ")
    assert server.say(_get(b"/", b"X: " + b"a" * HEAD_BYTES + b"\r\n")).startswith(b"HTTP/1.1 431 ")
    assert server.say(b"GET / HTTP/1.1\r\nX: " + b"a" * 3 * HEAD_BYTES).startswith(b"HTTP/1.1 431 ")
    assert server.say(_get(b"/" + b"a" * (HEAD_BYTES - 1000))).startswith(b"HTTP/1.1 200 ")


def test_an_unwanted_body_is_refused_when_it_is_long(server: ServerProcess) -> None:
    assert b"431" in server.say(
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n" + b"a" * 90_000
    )


@pytest.mark.parametrize("beginning", [b"", b"GET / HT", b"\r\n", b"GET / HTTP/1.1\r\nHost: a"])
def test_a_request_that_does_not_arrive_is_not_waited_for(server: ServerProcess, beginning: bytes) -> None:
    assert server.say(beginning).startswith(b"HTTP/1.1 408 ")


def test_many_requests_fit_into_one_connection(server: ServerProcess) -> None:
    with server.open() as connection:
        connection.sendall(_get(b"/1").replace(b"close", b"keep-alive") * 3 + _get(b"/last"))
        assert _all(connection).count(b"HTTP/1.1 200 OK") == 4


def test_a_fault_of_the_application_is_not_shown(server: ServerProcess) -> None:
    answer = server.say(_get(b"/broken"))
    assert b"RuntimeError" not in answer
    assert b"fault of ours" not in answer


# --- bodies ----------------------------------------------------------------------------------------------------------

LARGEST = 1 << 30


@pytest.fixture(scope="module")
def wide() -> Iterator[ServerProcess]:
    """A server that accepts large bodies."""
    running = ServerProcess(largest_body=LARGEST)
    yield running
    running.stop()


def _put(size: int | None, more: bytes = b"", path: bytes = b"/take", method: bytes = b"PUT") -> bytes:
    length = b"Transfer-Encoding: chunked" if size is None else b"Content-Length: %d" % size
    return method + b" " + path + b" HTTP/1.1\r\nHost: a.example\r\n" + length + b"\r\n" + more + b"\r\n"


def _answer(connection: socket.socket) -> bytes:
    """The first answer on a connection that stays open."""
    received = b""
    while b"\r\n\r\n" not in received:
        piece = connection.recv(65536)
        if not piece:
            return received
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < size:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def _taken(answer: bytes) -> tuple[int, int, int]:
    """Bytes that came, the largest piece of them, and the KiB that the process has ever had in memory."""
    assert answer.startswith(b"HTTP/1.1 200 "), answer[:200]
    size, largest, memory = answer.rpartition(b"\r\n\r\n")[2].strip(b"()").split(b", ")
    return int(size), int(largest), int(memory)


@pytest.mark.long
def test_a_body_of_a_gigabyte_goes_through_flat_memory(wide: ServerProcess) -> None:
    piece = bytes(1 << 20)
    with wide.open() as connection:
        connection.sendall(_put(1))
        connection.sendall(b"a")
        _, _, before = _taken(_answer(connection))
        connection.sendall(_put(LARGEST))
        for _ in range(LARGEST // len(piece)):
            connection.sendall(piece)
        size, largest, after = _taken(_answer(connection))
    assert size == LARGEST
    assert largest < 1 << 20
    assert after - before < 16 * 1024


@pytest.mark.long
def test_an_application_that_does_not_read_holds_the_client_back_without_a_timeout(
    wide: ServerProcess,
) -> None:
    with wide.open() as connection:
        connection.settimeout(1)
        connection.sendall(_put(64 << 20, path=b"/take?slowly"))
        sent = 0
        with contextlib.suppress(TimeoutError):  # buffers of the kernel fill, and then nothing moves
            while sent < 32 << 20:
                sent += connection.send(bytes(1 << 16))
        assert sent < 32 << 20
        connection.settimeout(60)
        connection.sendall(bytes((64 << 20) - sent))
        assert _taken(_answer(connection))[0] == 64 << 20


def test_many_bodies_fit_into_one_connection(wide: ServerProcess) -> None:
    with wide.open() as connection:
        connection.sendall((_put(40_000) + b"a" * 40_000) * 2 + _put(None) + b"5\r\nabcde\r\n0\r\n\r\n")
        connection.sendall(_get(b"/last"))
        received = _all(connection)
    assert received.count(b"HTTP/1.1 200 OK") == 4
    assert received.count(b"(40000, ") == 2
    assert received.count(b"(5, ") == 1


def test_a_body_that_is_announced_as_too_large_is_refused_before_it_comes(wide: ServerProcess) -> None:
    for size in (LARGEST + 1, 10**18):
        with wide.open() as connection:
            connection.sendall(_put(size, b"Expect: 100-continue\r\n"))
            assert _answer(connection).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (b"POST /take HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        (b"GET /" + b"x" * 400_000, b"431"),
        (b"no request at all\r\n\r\n", b"400"),
    ],
)
def test_who_was_asking_when_the_next_request_is_refused_is_answered_first(
    wide: ServerProcess, second: bytes, status: bytes
) -> None:
    answers = wide.say(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" + second)
    first, refusal = answers.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 ")
    assert b"b'/slow'" in first
    assert refusal.startswith(status)


def test_a_body_that_grows_too_large_is_refused_and_the_reader_hears_of_it() -> None:
    server = ServerProcess(largest_body=100_000)
    with server.open() as connection:
        connection.sendall(_put(None))
        for _ in range(20):
            connection.sendall(b"2000\r\n" + b"a" * 0x2000 + b"\r\n")
        assert _answer(connection).startswith(b"HTTP/1.1 413 ")
    assert "gone" in server.stop()[1]


def test_a_reader_whose_head_is_too_long_hears_of_it_although_more_was_on_its_way(
    wide: ServerProcess,
) -> None:
    with wide.open() as connection:
        connection.sendall(b"GET /" + b"x" * 2 * HEAD_BYTES)
        for _ in range(
            3
        ):  # it is refused by now, but a client that writes all before it reads is not cut off
            time.sleep(0.1)
            connection.sendall(b"x" * 100_000)
        assert _answer(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"OPTIONS"])
def test_what_only_reads_has_the_small_limits_also_where_bodies_may_be_large(
    wide: ServerProcess, method: bytes
) -> None:
    answer = wide.say(_put(900_000, path=b"/slow", method=method) + b"a" * 90_000)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert wide.say(_put(900, path=b"/waiting", method=method) + b"a").startswith(b"HTTP/1.1 408 ")


def test_a_long_head_is_refused_also_where_bodies_may_be_large(wide: ServerProcess) -> None:
    assert wide.say(_put(5, b"X: " + b"a" * HEAD_BYTES + b"\r\n") + b"aaaaa").startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(("beyond", "status"), [(0, b"200"), (1, b"431")])
def test_a_head_may_be_exactly_as_long_as_the_limit_with_a_body_or_without(
    wide: ServerProcess, beyond: int, status: bytes
) -> None:
    for request, body in ((_get(b"/", b"X: %b\r\n"), b""), (_put(5, b"X: %b\r\n"), b"aaaaa")):
        head = request % (b"a" * (HEAD_BYTES + beyond - len(request) + len(b"%b")))
        assert len(head) == HEAD_BYTES + beyond
        with wide.open() as connection:
            connection.sendall(head)
            time.sleep(0.1)  # so that the body comes alone
            with contextlib.suppress(OSError):  # the refused one is not read
                connection.sendall(body)
            assert _answer(connection)[9:12] == status


@pytest.mark.parametrize(("beyond", "status"), [(0, b"200"), (1, b"431")])
def test_a_body_may_have_as_much_framing_as_the_limit_of_a_head_and_eight_bytes_for_each_of_its_own(
    wide: ServerProcess, beyond: int, status: bytes
) -> None:
    begun = b"1\r\na\r\n1;"
    begun += b"x" * (HEAD_BYTES + 8 + beyond - len(begun))
    with wide.open() as connection:
        connection.sendall(_put(None) + begun)
        time.sleep(0.1)  # so that the rest comes alone
        with contextlib.suppress(OSError):
            connection.sendall(b"\r\nb\r\n0\r\n\r\n")
        assert _answer(connection)[9:12] == status


@pytest.mark.parametrize("framing", [b"1;" + b"x" * 3000 + b"\r\na\r\n", b"0\r\n" + b"X: y\r\n" * 500])
def test_a_body_that_is_all_framing_is_refused(wide: ServerProcess, framing: bytes) -> None:
    request = _put(None) + framing * 400  # made before the clock of the connection runs
    with wide.open() as connection:
        with contextlib.suppress(OSError):  # it is not read to the end
            connection.sendall(request)
        assert _answer(connection)[:13] in {b"HTTP/1.1 431 ", b"HTTP/1.1 400 "}


@pytest.mark.long
@pytest.mark.parametrize("beginning", [b"", b"a", b"a" * 5000])
def test_a_body_that_stops_coming_is_not_waited_for(wide: ServerProcess, beginning: bytes) -> None:
    with wide.open() as connection:
        connection.sendall(_put(LARGEST) + beginning)
        assert _answer(connection).startswith(b"HTTP/1.1 408 ")


@pytest.mark.long
def test_a_body_that_drips_is_not_waited_for_longer_than_the_grace(wide: ServerProcess) -> None:
    with wide.open() as connection:
        connection.sendall(_put(LARGEST))
        connection.settimeout(0.5)
        answer = b""
        for _ in range(60):
            with contextlib.suppress(TimeoutError):
                answer = connection.recv(65536)
                break
            connection.sendall(b"a")
        assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_client_that_goes_away_in_the_middle_is_noticed() -> None:
    server = ServerProcess(largest_body=LARGEST)
    with server.open() as connection:
        connection.sendall(_put(LARGEST) + b"a" * 5000)
    with server.open() as connection:
        connection.sendall(_put(LARGEST) + b"a" * 5000)
        connection.shutdown(socket.SHUT_WR)
        assert _all(connection) == b""
    assert server.stop()[1].count("gone") == 2


@pytest.mark.parametrize("path", [b"/", b"/slow"])
def test_who_will_ask_nothing_more_is_answered_and_let_go(server: ServerProcess, path: bytes) -> None:
    with server.open() as connection:
        connection.settimeout(10)  # a silent connection would stay open for twice as long
        connection.sendall(b"GET %b HTTP/1.1\r\nHost: a\r\n\r\n" % path)
        connection.shutdown(socket.SHUT_WR)
        assert _all(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("more", [b"", b"Connection: close\r\n"])
def test_who_is_refused_in_the_middle_of_a_body_still_comes_to_read_why(
    wide: ServerProcess, more: bytes
) -> None:
    with wide.open() as connection:
        connection.sendall(_put(8 << 20, more, path=b"/"))
        connection.sendall(bytes(8 << 20))  # the application answers without reading any of it
        assert _answer(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.long
def test_an_unwanted_body_is_not_read_for_ever(wide: ServerProcess) -> None:
    with wide.open() as connection:
        connection.sendall(_put(LARGEST, path=b"/"))
        assert _answer(connection).startswith(b"HTTP/1.1 200 ")
        assert connection.recv(1) == b""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_requests_finish_and_closes(by: signal.Signals) -> None:
    server = ServerProcess()
    with server.open() as connection:
        connection.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = server.say(_get(b"/"))  # so the slow request has been read by now
        assert answer.startswith(b"HTTP/1.1 200 OK")
        assert server.stop(by) == (0, ["closed", "draining", "started", "stopping"])
        assert _all(connection).startswith(b"HTTP/1.1 200 OK")


def test_workers_share_the_address_and_only_one_speaks_for_the_service() -> None:
    server = ServerProcess(workers=2)
    answered: set[bytes] = set()
    end = time.monotonic() + 30  # the second one may begin later than the first is ready
    while len(answered) < 2 and time.monotonic() < end:
        answered |= {server.say(_get(b"/")).rpartition(b" ")[2] for _ in range(20)}
    assert len(answered) == 2
    assert server.stop() == (0, ["closed", "closed", "draining", "draining", "started", "stopping"])


def test_every_worker_drains_before_requests_are_cut_off() -> None:
    server = ServerProcess(workers=2)
    up = set[bytes]()
    while len(up) < 2:  # only the first worker says that it is ready
        up.add(server.say(_get(b"/")).rpartition(b" ")[2])
    waiting = []
    for _ in range(40):
        waiting.append(server.open())
        waiting[-1].sendall(_get(b"/waiting"))
        server.say(_get(b"/"))
    assert server.stop()[0] == 0
    answers = [_all(connection) for connection in waiting]
    for connection in waiting:
        connection.close()
    assert all(answer.startswith(b"HTTP/1.1 200 OK") for answer in answers)
    assert len({answer.rpartition(b" ")[2] for answer in answers}) == 2
