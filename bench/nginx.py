"""nginx as a neighbour: one worker that logs nothing and keeps connections, with the servers that a row needs.

`nginx_map` redirects from a map, with the same headers as a resolver of ours.
"""

from __future__ import annotations

import os
import re
import socket
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from bench.processes import Server, program, serving

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from bench.questions import Questions

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

_MAP: Final = """
map_hash_max_size {size}; map_hash_bucket_size {bucket};
map $uri $there {{ include {place}/keys; }}
server {{ listen 127.0.0.1:{port}; server_tokens off; {headers} location / {{ return 302 $there; }} }}
"""
_OWN: Final = {"date", "server", "location", "content-length", "content-type", "connection", "x-request-id"}


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


@contextmanager
def nginx_map(
    place: Path,
    targets: Iterable[str],
    headers: Iterable[tuple[str, str]],
    size: int = 1 << 20,
    bucket: int = 256,
) -> Iterator[Server]:
    """The server program with a redirect for each of these targets. Raises NotHere.

    `size`, `bucket`: how many buckets its table has, and their bytes.
    """
    place.mkdir()
    (place / "keys").write_text("".join(f"{target} http://files.example{target};\n" for target in targets))
    lines = " ".join(f"add_header {name} {_quoted(value)} always;" for name, value in headers)
    (port,) = free_ports(1)
    servers = _MAP.format(place=place, port=port, headers=lines, size=size, bucket=bucket)
    with nginx(place, servers, port) as server:
        yield server


def headers_of(port: int, questions: Questions) -> list[tuple[str, str]]:
    """What the redirects of ours at a port say besides what every server says in its own way."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(questions.requests()[0])
        head = line.recv(65_536).partition(b"\r\n\r\n")[0].decode("latin-1")
    pairs = (each.partition(": ") for each in head.split("\r\n")[1:])
    return [(name, value) for name, _, value in pairs if name.lower() not in _OWN]


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
