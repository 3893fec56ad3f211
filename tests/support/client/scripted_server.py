"""Servers that break what they should do: scripted answers, and a proxy that loses answers of the server behind it."""

from __future__ import annotations

import itertools
import ssl
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Script = bytes | Iterable[bytes]
"""An answer as it goes over the wire, perhaps without end; the connection is closed behind it."""


class Scripted:
    """A running server: where it is, and the requests that came: "GET /path", their headers and their bodies."""

    def __init__(self, server: ThreadingHTTPServer, scheme: str) -> None:
        self.port = int(server.server_address[1])
        self.root = f"{scheme}://127.0.0.1:{self.port}"
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def log_message(self, *_: object) -> None:
        pass

    def _body(self) -> bytes:
        there: Scripted = self.server.there
        there.requests.append(f"{self.command} {self.path}")
        there.headers.append({name.lower(): value for name, value in self.headers.items()})
        there.bodies.append(self.rfile.read(int(self.headers.get("content-length", "0"))))
        return there.bodies[-1]

    def _answer(self) -> None:
        self._body()
        script = next(self.server.scripts)
        with suppress(OSError):  # the client has gone
            for piece in [script] if isinstance(script, bytes) else script:
                self.wfile.write(piece)
        self.close_connection = True

    do_GET = do_HEAD = do_POST = _answer  # noqa: N815 - as the library calls them


class _Losing(_Handler):
    def _pass_on(self) -> None:
        body = self._body()
        kind = HTTPConnection if self.server.there.root.startswith("http:") else HTTPSConnection
        connection = kind("127.0.0.1", self.server.behind, timeout=60)
        connection.request(self.command, self.path, body, dict(self.headers.items()))
        reply = connection.getresponse()
        content = reply.read()
        head = "".join(f"{name}: {value}\r\n" for name, value in reply.getheaders())
        whole = f"HTTP/1.1 {reply.status} X\r\n{head}\r\n".encode() + content
        connection.close()
        share = next(self.server.scripts)
        self.wfile.write(whole[: int(len(whole) * share)])
        self.close_connection = True

    do_GET = do_POST = _pass_on  # noqa: N815 - as the library calls them


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that it waits for their end


def answer(status: int, body: bytes = b"{}", kind: str = "application/json", **headers: str) -> bytes:
    """A whole answer; names of headers with "_" for "-"."""
    given = {"content-type": kind, "content-length": str(len(body)), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + body


@contextmanager
def scripted(*scripts: Script, context: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """A server that gives these answers one after the other, and then the last one again."""
    with _running(_Handler, scripts, context) as there:
        yield there


@contextmanager
def losing(port: int, *shares: float, context: ssl.SSLContext | None = None) -> Iterator[Scripted]:
    """A proxy of a server that passes on so much of each answer, 0 to 1, then whole ones; with a context, by https."""
    with _running(_Losing, (*shares, 1), context, behind=port) as there:
        yield there


@contextmanager
def _running(
    handler: type[_Handler], scripts: tuple[Any, ...], context: ssl.SSLContext | None, **more: object
) -> Iterator[Scripted]:
    with _Server(("127.0.0.1", 0), handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        there = Scripted(server, "http" if context is None else "https")
        given = itertools.chain(scripts, itertools.repeat(scripts[-1]))
        vars(server).update(there=there, scripts=given, **more)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield there
        finally:
            server.shutdown()
            thread.join()
