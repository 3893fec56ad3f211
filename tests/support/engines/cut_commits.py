"""A connection to PostgreSQL that breaks at the commit of a new item, so that the client does not hear of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from support.engines.postgresql import PostgreSQL

Cut = Literal["", "before", "after", "late"]
"""Where the next commit breaks: it never arrives, its answer does not, or it arrives after it was given up."""


class CommitCutter:
    """What lies between a client and a cluster; `cut` is "" again after a commit was cut."""

    def __init__(self, cluster: PostgreSQL) -> None:
        self._cluster = cluster
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.cut: Cut = ""
        self.arrive = threading.Event()
        """Set it, and a commit that is late arrives."""
        self.committed = threading.Event()
        """Set when PostgreSQL has answered to a commit that was cut."""

    def url(self, database: str) -> str:
        """The URL of a database of the cluster by this way."""
        return database.replace(f":{self._cluster.port}/", f":{self._listener.getsockname()[1]}/")

    def run(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self._cluster.port))
            for target in (self._there, self._back):
                threading.Thread(target=target, args=(client, server), daemon=True).start()

    def close(self) -> None:
        """Take no more connections."""
        self.arrive.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _there(self, client: socket.socket, server: socket.socket) -> None:
        item_is_new = False
        with suppress(OSError):
            while data := client.recv(1 << 16):
                item_is_new = item_is_new or b"INSERT INTO item " in data
                if item_is_new and b"COMMIT" in data and self.cut:
                    self._lose(data, client, server)
                    return
                server.sendall(data)
        _end(server)

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                if b"COMMIT" in data:
                    self.committed.set()
                client.sendall(data)
        _end(client)

    def _lose(self, commit: bytes, client: socket.socket, server: socket.socket) -> None:
        cut, self.cut = self.cut, ""
        if cut == "late":
            _end(client)
            self.arrive.wait()
        if cut == "after":
            client.shutdown(socket.SHUT_WR)  # what comes back fails
        if cut != "before":
            self.committed.clear()
            server.sendall(commit)
            assert self.committed.wait(20)
        _end(client)
        _end(server)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def way_to(cluster: PostgreSQL) -> Iterator[CommitCutter]:
    """Open a way until the end of the block."""
    way = CommitCutter(cluster)
    taking = threading.Thread(target=way.run)
    taking.start()
    try:
        yield way
    finally:
        way.close()
        taking.join(10)
