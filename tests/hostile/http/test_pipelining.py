"""Clients that send many requests at once, or read nothing: neither memory nor other readers pay for them (T30)."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ibi.http.server.connections import MOST_CONNECTIONS
from support.network.up import Up
from support.ports import free_port
from support.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"
EACH = 20
"""Requests of each connection that come at once."""
MOST_GROWTH = 30 << 20


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A resolver and two Archives in a process of their own."""
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as up:
        yield up


def _port(network: Up) -> int:
    """The port of the resolver; those of the Archives follow."""
    return int(network.root.rstrip("/").rpartition(":")[2])


def _memory(pid: int) -> int:
    """Return the bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _flood(port: int, seconds: float) -> int:
    """Send requests on one connection without end, read what comes; return how many bytes went."""
    chunk, sent, end = REQUEST * 8192, 0, time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setblocking(False)
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(chunk)
            with contextlib.suppress(BlockingIOError):
                connection.recv(1 << 20)
    return sent


@pytest.mark.parametrize("service", ["resolver", "Archive"])
def test_requests_without_end_on_one_connection_take_no_memory(network: Up, service: str) -> None:
    port = _port(network) + (service == "Archive")
    _flood(port, 0.3)
    before = _memory(network.pid)
    assert _flood(port, 2) > len(REQUEST)
    assert _memory(network.pid) - before < MOST_GROWTH


def test_a_new_reader_is_answered_beside_hundreds_of_connections_with_many_requests(network: Up) -> None:
    port = _port(network)
    took: list[float] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), timeout=30) as reader:
                reader.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                assert reader.recv(12) == b"HTTP/1.1 200"
            took.append(time.monotonic() - began)

    with contextlib.ExitStack() as stack:
        others = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(500)]
        reading = threading.Thread(target=read)
        reading.start()
        for other in others:
            other.sendall(REQUEST * EACH)
        answered = _drain(others, 500 * EACH)
        done.set()
        reading.join(60)
    assert answered == 500 * EACH
    took.sort()
    assert took[len(took) * 99 // 100] < 1, (len(took), took[-5:])


def _drain(connections: list[socket.socket], wanted: int) -> int:
    """Read until so many answers have come on all connections together, or nothing comes for a while."""
    answered = 0
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        while answered < wanted and (ready := selector.select(20)):
            for key, _ in ready:
                piece = key.fileobj.recv(1 << 20)  # type: ignore[union-attr]  # it is a socket
                answered += piece.count(b"HTTP/1.1 ")
                if not piece:
                    selector.unregister(key.fileobj)
    return answered


def read_all(connection: socket.socket) -> None:
    while connection.recv(1 << 20):
        pass


def test_a_client_that_reads_nothing_loses_its_connection() -> None:
    with ServerProcess("silent_seconds=1") as server:
        stuck, steady = server.open(), server.open()
        with stuck, steady:
            for connection in (stuck, steady):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
            received, end = 0, time.monotonic() + 12
            while time.monotonic() < end:
                received += len(steady.recv(4096))
                time.sleep(0.01)
            assert received > 1 << 16  # a slow client goes on
            with pytest.raises(ConnectionResetError):
                read_all(stuck)


def test_one_client_has_so_many_connections_and_a_proxy_has_more() -> None:
    with ServerProcess("proxies=192.0.2.1") as server, contextlib.ExitStack() as stack:
        held = [stack.enter_context(server.open()) for _ in range(MOST_CONNECTIONS)]
        for connection in held[::50]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
        refused = stack.enter_context(server.open())
        head, _, body = refused.recv(1000).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert body == b"too many connections of your address\n"
        assert f"content-length: {len(body)}".encode() in head.split(b"\r\n")
        held[0].close()
        time.sleep(0.2)
        again = stack.enter_context(server.open())
        again.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert again.recv(12) == b"HTTP/1.1 200"
    with ServerProcess("proxies=127.0.0.1") as server, contextlib.ExitStack() as stack:
        for connection in [stack.enter_context(server.open()) for _ in range(300)][::30]:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
