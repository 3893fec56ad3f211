"""nginx as a neighbour: one worker that logs nothing and keeps connections, with the servers that a row needs."""

from __future__ import annotations

import os
import re
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from bench.processes import Server, program, serving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CONFIG: Final = """
daemon off; worker_processes 1; pid {place}/pid; error_log {place}/error.log notice; {user}
events {{ worker_connections 512; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; default_type application/octet-stream;
    client_body_temp_path {place}/t1; proxy_temp_path {place}/t2; fastcgi_temp_path {place}/t3;
    uwsgi_temp_path {place}/t4; scgi_temp_path {place}/t5;
    {servers}
}}
"""


@contextmanager
def nginx(place: Path, servers: str, port: int) -> Iterator[Server]:
    """The server program with these servers, of which the first listens at `port`. Raises NotHere."""
    path = program("nginx")
    place.mkdir(exist_ok=True)
    user = "user root;" if os.geteuid() == 0 else ""
    (place / "nginx.conf").write_text(_CONFIG.format(place=place, user=user, servers=servers))
    command = (path, "-e", "stderr", "-g", "error_log stderr notice;", "-c", place / "nginx.conf")
    with serving(command, place / "nginx.log", re.compile("start worker process ")) as server:
        yield Server(port, server.pid)


def free_ports(count: int) -> list[int]:
    """Return free ports of this machine."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in found]
