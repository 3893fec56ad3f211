"""A head is read as RFC 9112 says: one host, the target before the header, nothing after its end (T24, T34)."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from support.network.up import Up
from support.ports import free_port
from support.server_process import ServerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The ports of a resolver and of an Archive in a process of their own."""
    with Up("--port", str(free_port(3)), temporary=tmp_path_factory.mktemp("up")) as up:
        first = int(up.root.rstrip("/").rpartition(":")[2])
        yield {"resolver": first, "Archive": first + 1}


def _say(port: int, raw: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def _status(port: int, head: bytes) -> int:
    return int(_say(port, head + b"\r\n\r\n").split()[1])


@pytest.mark.parametrize("service", ["resolver", "Archive"])
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /-/healthz HTTP/1.1\r\nHost: 127.0.0.1", 200),
        (b"GET /-/healthz HTTP/1.1\r\nHost: [::1]:80", 200),
        (b"GET /-/healthz HTTP/1.0", 200),
        (b"GET /-/healthz HTTP/1.1", 400),
        (b"GET /-/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1", 400),
        (b"GET /-/healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nhost: evil.example", 400),
        (b"GET /-/healthz HTTP/1.1\r\nHost: 127.0.0.1, evil.example", 400),
        (b"GET /-/healthz HTTP/1.1\r\nHost: 127.0.0.1@evil.example", 400),
        (b"GET /-/healthz HTTP/1.1\r\nHost: evil.example/127.0.0.1", 400),
        (b"GET http://127.0.0.1/-/about HTTP/1.1\r\nHost: evil.example", 200),
        (b"GET http://evil.example/-/about HTTP/1.1\r\nHost: 127.0.0.1", 421),
        (b"GET http://127.0.0.1@evil.example/-/about HTTP/1.1\r\nHost: 127.0.0.1", 400),
        (b"GET http://127.0.0.1?x HTTP/1.1\r\nHost: 127.0.0.1", 200),
    ],
)
def test_a_request_names_one_host_and_that_of_its_target_counts(
    ports: dict[str, int], service: str, head: bytes, status: int
) -> None:
    assert _status(ports[service], head) == status


def test_after_two_hosts_the_connection_ends(ports: dict[str, int]) -> None:
    two = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert _say(ports["resolver"], two * 2).count(b"HTTP/1.1 ") == 1


def test_what_comes_after_a_body_is_no_header() -> None:
    head = b"POST /headers HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with ServerProcess() as server:
        answer = _say(server.port, head + b"1\r\na\r\n0\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"192.0.2.1" not in answer
