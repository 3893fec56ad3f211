"""How a service stops, follows a signal and takes a socket that was handed down; and what it notes of requests."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ibi.http.server.service import Service, listen, run

CANARY = "canary7"
PROGRAM = r"""
import asyncio, os, sys, time
from concurrent.futures import ThreadPoolExecutor
from ibi.http.server import service as serving
from ibi.http.server import protocol
from ibi.runtime import logging as logs
from ibi.http.server.workers import serve

drained = asyncio.Event()
threads = ThreadPoolExecutor(1)

async def long(executor):
    # Nobody can end a thread, and this one is waited for also by who is cancelled.
    running = asyncio.get_running_loop().run_in_executor(executor, time.sleep, 120)
    os.write(1, b"long\n")
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.wait([running])

async def stopping():
    # Until the server has been told to stop, and has told its connections.
    await drained.wait()
    await asyncio.sleep(1)

async def app(scope, receive, send):
    path = scope["raw_path"]
    if path == b"/slow":
        await stopping()
    if path.startswith(b"/long"):
        await long(threads if path == b"/long-of-ours" else None)
    if path == b"/broken":
        raise ValueError(f"{path} {scope['query_string']} {scope['client']}")
    body = b"0123456789"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
    if path == b"/halves":
        await send({"type": "http.response.body", "body": body[:5], "more_body": True})
        await stopping()
        body = body[5:]
    await send({"type": "http.response.body", "body": body})

async def draining():
    os.write(1, b"draining\n")
    drained.set()

def make():
    look = lambda: os.write(1, b"looked\n")
    return [serving.Service(app, draining=draining, reload=look, drain_seconds=1 if "short" in sys.argv else 20)]

if "patient" in sys.argv:
    protocol.FIRST_REQUEST_SECONDS = protocol.NEXT_REQUEST_SECONDS = 20
logs.set_up("json")
more = dict(workers=int(sys.argv[2]), access_log="access" in sys.argv)
serve(make, [sys.argv[1]], lambda urls: print("ready", *urls, flush=True), **more)
"""


class Served:
    """The application in its own processes, at a socket that this test holds and hands down."""

    def __init__(self, listener: socket.socket, workers: int = 1, *more: str) -> None:
        self.port = listener.getsockname()[1]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                textwrap.dedent(PROGRAM),
                f"fd://{listener.fileno()}",
                str(workers),
                *more,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[listener.fileno()],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(__file__).parents[4] / "src"),
                "PYTHONWARNINGS": "error",
            },
        )

    def line(self) -> str:
        """The next line that it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def open(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def term(self) -> None:
        """Tell it to stop, and wait until it has heard."""
        self.process.send_signal(signal.SIGTERM)
        assert self.line() == "draining"

    def end(self) -> str:
        """Wait for the end; what it wrote on stderr."""
        _, written = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, written
        return written


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


Begin = Callable[..., Served]


@pytest.fixture
def begin(listener: socket.socket) -> Iterator[Begin]:
    """Begins to serve with so many processes; whatever a test leaves running is ended."""
    begun: list[Served] = []

    def make(workers: int = 1, *more: str) -> Served:
        begun.append(Served(listener, workers, *more))
        assert begun[-1].line() == f"ready http://127.0.0.1:{begun[-1].port}"
        return begun[-1]

    yield make
    for each in begun:
        if each.process.poll() is None:
            each.process.terminate()
        each.process.communicate(timeout=20)


def ask(connection: socket.socket, path: str = "/") -> None:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())


def answer(connection: socket.socket) -> bytes:
    """One answer with a body of ten bytes, or what came of it."""
    received = b""
    while not received.partition(b"\r\n\r\n")[2].endswith(b"0123456789"):
        piece = connection.recv(65536)
        if not piece:
            break
        received += piece
    return received.lower()


def is_last(received: bytes) -> bool:
    assert received.startswith(b"http/1.1 200 ok"), received
    return b"connection: close" in received


def test_workers_end_when_their_parent_is_killed(begin: Begin) -> None:
    served = begin(2)
    with served.open() as connection:
        ask(connection)
        assert answer(connection).endswith(b"0123456789")
    served.process.kill()
    output, _ = served.process.communicate(timeout=60)  # the workers hold the pipes open as long as they live
    assert output.count("draining") == 2


def test_a_question_in_the_moment_of_stopping_is_answered_on_every_kind_of_connection(
    begin: Begin,
) -> None:
    served = begin(1, "patient")
    with served.open() as kept, served.open() as silent, served.open() as busy, served.open() as halves:
        ask(kept)
        assert not is_last(answer(kept))
        ask(busy, "/slow")
        ask(halves, "/halves")
        assert halves.recv(20).startswith(
            b"HTTP/1.1 200"
        )  # its head has gone: it cannot say that it is the last
        served.term()
        time.sleep(0.5)  # the listening socket is closed, and the connections have been told
        for connection in (kept, silent):
            ask(connection)
            assert is_last(answer(connection))
            assert connection.recv(1) == b""
        assert is_last(answer(busy))
        answer(halves)
        ask(halves)
        assert is_last(answer(halves))
    served.end()


def test_a_connection_whose_answer_had_begun_before_the_stop_is_closed_behind_it() -> None:
    async def play() -> None:
        stop, ready, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def app(_scope: Any, _receive: Any, send: Any) -> None:
            headers = [(b"content-length", b"2")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"1", "more_body": True})
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"2"})

        listener = listen("127.0.0.1:0")
        serving = asyncio.create_task(
            run([Service(app, drain_seconds=120)], [listener], lambda _: ready.set(), stop)
        )
        await ready.wait()
        reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        async with asyncio.timeout(20):
            assert b"connection: close" not in await reader.readuntil(b"\r\n\r\n1")
            stop.set()
            await asyncio.sleep(0.5)  # the connection has been told
            go_on.set()
            assert await reader.read() == b"2"
            await serving
        writer.close()

    asyncio.run(play())


def test_connections_that_say_nothing_do_not_hold_up_the_end(begin: Begin) -> None:
    served = begin()
    with served.open() as kept, served.open() as silent:
        ask(kept)
        answer(kept)
        served.term()
        assert kept.recv(1) == b""
        assert silent.recv(1) == b""
        assert served.process.wait(20) == 0
    served.end()


@pytest.mark.long
@pytest.mark.parametrize(("workers", "path"), [(1, "/long-of-ours"), (2, "/long")])
def test_what_runs_in_threads_for_very_long_does_not_hold_up_the_end(
    begin: Begin, workers: int, path: str
) -> None:
    served = begin(workers, "short")
    with served.open() as connection:
        ask(connection, path)
        assert served.line() == "long"
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(60) == 0
    served.end()


def test_requests_are_answered_while_one_process_goes_and_another_one_comes(
    begin: Begin, listener: socket.socket
) -> None:
    over, failed, requests = threading.Event(), [], []

    def read() -> None:
        while not over.is_set():
            requests.append(1)
            try:
                with socket.create_connection(listener.getsockname(), timeout=20) as connection:
                    ask(connection)
                    is_last(answer(connection))
            except (OSError, AssertionError) as error:
                failed.append(error)

    served = begin(2)
    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    coming = begin(2)
    served.term()
    served.end()
    over.set()
    for reader in readers:
        reader.join()
    coming.term()
    coming.end()
    assert failed == []
    assert len(requests) > 20


def test_what_waits_at_the_socket_is_answered_by_the_next_process(
    begin: Begin, listener: socket.socket
) -> None:
    served = begin()
    served.term()
    served.end()
    with socket.create_connection(listener.getsockname(), timeout=20) as waiting:
        ask(waiting)
        coming = begin()
        assert not is_last(answer(waiting))
    coming.term()
    coming.end()


@pytest.mark.parametrize("workers", [1, 3])
def test_every_process_looks_at_its_settings_when_it_is_told_to(begin: Begin, workers: int) -> None:
    served = begin(workers)
    served.process.send_signal(signal.SIGHUP)
    assert [served.line() for _ in range(workers)] == ["looked"] * workers
    served.process.send_signal(signal.SIGTERM)
    served.end()


@pytest.mark.proves("REG-08")
def test_an_access_log_tells_what_was_asked_but_no_query_and_not_who_asked(begin: Begin) -> None:
    served = begin(1, "access")
    for path in (f"/a%20b?key={CANARY}", f"/broken?{CANARY}", f"/a%3F{CANARY}", f"/\x1b[2J{CANARY}?x"):
        with served.open() as connection:
            ask(connection, path)
            connection.recv(65536)
    served.term()
    written = served.end()
    assert CANARY not in written.replace(f"2J{CANARY}", "")
    assert not re.search(r"127\.0\.0\.1.{0,3}\d{5}", written)
    lines = [json.loads(line) for line in written.splitlines()]
    entries = [line for line in lines if line["logger"] == "ibi.access"]
    assert [(line["method"], line["path"], line["status"], line["bytes"]) for line in entries] == [
        ("GET", "/a%20b", 200, 10),
        ("GET", "/broken", 500, 0),
        ("GET", "/a%3F***", 200, 10),
    ]
    assert all(0 <= line["seconds"] < 20 for line in entries)
    [error] = [line for line in lines if "error" in line]  # uvicorn's words, scrubbed like ours
    assert (error["logger"], error["error"][0][:12]) == ("uvicorn.error", "ValueError: ")


def test_without_the_setting_there_is_no_access_log(begin: Begin) -> None:
    served = begin()
    with served.open() as connection:
        ask(connection)
        answer(connection)
    served.term()
    assert served.end() == ""
