"""A redirect from a dictionary, by uvloop with nothing around it: the least that a server in Python can cost.

    python -m bench.dictionary TARGETS HEADERS

A line of the file TARGETS has a target; HEADERS is a file with the header lines of a redirect, without its Location.
It parses nothing but the target, checks nothing, counts no readers, and answers any method.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import cast

import uvloop


class _Connection(asyncio.Protocol):
    """One connection; `table` has what is sent for a target, from the status line on, up to the other headers."""

    table: dict[bytes, bytes]
    headers: bytes
    _transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(self.table[data[4 : data.index(b" ", 4)]] + self.headers)


async def _serve(targets: bytes, headers: bytes) -> None:
    first = b"HTTP/1.1 302 Found\r\nlocation: http://files.example"
    _Connection.table = {target: first + target + b"\r\n" for target in targets.split()}
    _Connection.headers = headers
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(*(Path(each).read_bytes() for each in sys.argv[1:])))
