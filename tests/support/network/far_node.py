"""A network namespace for one node, whose link to this machine can be cut; needs root.

The node reaches a port of this machine's loopback through a relay at the other end of the link. When the link is cut,
the server at that port sees what it would see of a machine that has lost its network: nothing.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

_BYTES = 65_536


class FarNode:
    """The namespace and its link. `command` runs something there; `address` and `port` lead to the server."""

    def __init__(self, server_port: int) -> None:
        number = os.getpid() % 60_000
        self._name = f"ibi{number}"
        base = f"10.{200 + number // 15_000}.{number // 64 % 250}."
        last = number % 64 * 4
        self.address, self._there = f"{base}{last + 1}", f"{base}{last + 2}"
        self._server_port = server_port
        self.port = 0

    def __enter__(self) -> Self:
        near, far = f"{self._name}a", f"{self._name}b"
        _run("ip", "netns", "add", self._name)
        try:
            _run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self._name)
            _run("ip", "address", "add", f"{self.address}/30", "dev", near)
            _run("ip", "link", "set", near, "up")
            _run("ip", "-n", self._name, "address", "add", f"{self._there}/30", "dev", far)
            _run("ip", "-n", self._name, "link", "set", far, "up")
            _run("ip", "-n", self._name, "link", "set", "lo", "up")
            self._listener = socket.create_server((self.address, 0))
        except BaseException:
            _run("ip", "netns", "delete", self._name)
            raise
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        _run("ip", "netns", "delete", self._name)

    def command(self, *arguments: str) -> list[str]:
        """The arguments of a program that runs there."""
        return ["ip", "netns", "exec", self._name, *arguments]

    def cut(self) -> None:
        """Cut the link: what is sent is lost, and no one is told."""
        _run("ip", "link", "set", f"{self._name}a", "down")

    def mend(self) -> None:
        """Let the link work again."""
        _run("ip", "link", "set", f"{self._name}a", "up")

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._server_port))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_BYTES):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
