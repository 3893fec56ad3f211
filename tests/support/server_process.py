"""A small application behind our server, in a process of its own: with limits that a test need not wait for."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

PROGRAM = r"""
import sys
from ibi.http.server import progress
from ibi.http.server.service import Service
from ibi.http.server.workers import serve

options = dict(option.split("=") for option in sys.argv[1:])
progress.SILENT_SECONDS = int(options.get("silent_seconds", progress.SILENT_SECONDS))
proxies = tuple(filter(None, [options.get("proxies")]))

async def app(scope, receive, send):
    if scope["raw_path"] == b"/headers":
        while (await receive()).get("more_body"):
            pass
        text = repr(scope["headers"]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(text))]})
        await send({"type": "http.response.body", "body": text})
        return
    left = 64 << 20 if scope["raw_path"] == b"/large" else 5
    headers = [(b"content-length", b"%d" % left)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while left:
        piece = min(left, 1 << 16)
        left -= piece
        await send({"type": "http.response.body", "body": bytes(piece), "more_body": left > 0})

serve(lambda: [Service(app, proxies=lambda: proxies)], ["127.0.0.1:0"], lambda urls: print(*urls, flush=True))
"""


class ServerProcess:
    """A served application: "/large" has 64 MiB, "/headers" shows the headers as they are once the body has been read,
    anything else has five bytes.

    Options: "silent_seconds=N", how long a client may take nothing; "proxies=NETWORK", a trusted proxy.
    """

    def __init__(self, *options: str) -> None:
        self._options = options

    def __enter__(self) -> Self:
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *self._options],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline().rpartition(":")[2])
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.communicate(timeout=60)

    def open(self) -> socket.socket:
        """Open a connection to it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)
