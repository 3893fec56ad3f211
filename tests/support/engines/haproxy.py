"""A real HAProxy in front of several nodes: it asks each whether it is ready, and sends readers to those that are."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

# Reads that a node has not begun to answer go to another one; what changes something is never sent twice.
_CONFIGURATION = """
global
    maxconn 500
defaults
    mode http
    timeout connect 1s
    timeout client 60s
    timeout server 60s
    option forwardfor
    option redispatch 1
    retries 3
    retry-on conn-failure empty-response
frontend readers
    bind 127.0.0.1:{port}
    default_backend nodes
backend nodes
    balance roundrobin
    http-request disable-l7-retry unless METH_GET or METH_HEAD
    option httpchk
    http-check send meth GET uri /-/readyz hdr host {host}
    default-server check inter 200ms fall 2 rise 1
    http-error status 503 content-type "text/plain" string "no node is ready; ask again in a moment" hdr Retry-After 2
{servers}
"""


def haproxy_program() -> str | None:
    """The path of HAProxy, None if it is not installed."""
    return shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin:/usr/bin")


@contextmanager
def balancer(folder: Path, port: int, nodes: Sequence[int], host: str) -> Iterator[None]:
    """Pass requests to a port on to nodes at other ports, until the end of the block; `host`: their own name."""
    program = haproxy_program()
    assert program is not None, "HAProxy is not installed"
    servers = "\n".join(f"    server node{number} 127.0.0.1:{each}" for number, each in enumerate(nodes))
    configuration = folder / "haproxy.cfg"
    configuration.write_text(_CONFIGURATION.format(port=port, host=host, servers=servers))
    with (folder / "haproxy.log").open("wb") as log:
        process = subprocess.Popen([program, "-f", str(configuration)], stdout=log, stderr=log)
    try:
        end = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "haproxy.log").read_text()
                assert time.monotonic() < end, "HAProxy does not listen"
                time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(10)
