"""A served resolver that counts what its fast path gives, and the Archives around it."""

from __future__ import annotations

import re
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path

from ibi.app.resolver import open_registry, resolver_service
from ibi.http.server.config import Answer
from ibi.http.server.head import Head
from ibi.http.server.service import Service
from ibi.identifier.forms import parse_ibi
from ibi.resolver.registry.published_list import ListedArchive
from proofs.resolver.lending import ADDRESS, Archive, service_of
from support.ports import free_port
from support.resolver.shared_files import until
from support.served import served


class FastPathResolver:
    """A resolver at 127.0.0.1:`port`; `taken` counts what its fast path looked up, by whether it gave an answer."""

    def __init__(self, data: Path, around: list[Archive], *trusted: str) -> None:
        self.data = data
        self.trusted = tuple(map(ip_network, trusted))
        self.around = around
        self.port = free_port()
        self.taken: Counter[bool] = Counter()

    def make(self) -> Service:
        service = resolver_service(self.data, trusted=self.trusted)
        at_once = service.at_once
        assert at_once is not None

        def counted(method: bytes, target: bytes, head: Head, peer: str) -> Answer | None:
            answer = at_once(method, target, head, peer)
            self.taken[answer is not None] += 1
            return answer

        return replace(service, at_once=counted)

    def ask(self, target: str, headers: str = "", method: str = "GET", host: str = ADDRESS) -> str:
        """Return the head of the answer."""
        request = f"{method} /{target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(request)
            heard = b""
            while b"\r\n\r\n" not in heard:
                heard += line.recv(65_536)
        return heard.partition(b"\r\n\r\n")[0].decode()

    def given(self, target: str, headers: str = "", method: str = "GET") -> str | None:
        """Return the location from the fast path; None where it left the request to the application."""
        before = self.taken[True]
        answer = self.ask(target, headers, method)
        return where(answer) if self.taken[True] > before else None

    def warm(self, *targets: str, headers: str = "") -> None:
        """Ask for these until the fast path gives them."""
        for target in targets:
            until(lambda target=target: self.given(target, headers) is not None)  # type: ignore[misc]  # a default binds it

    def metrics(self) -> dict[str, float]:
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as line:
            line.sendall(b"GET /-/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            text = line.makefile("rb").read().decode()
        return {
            name: float(value)
            for name, value in re.findall(r"^ibi_resolver_(\S+) (\S+)$", text, re.MULTILINE)
        }

    def include(self, *around: Archive) -> None:
        """Include exactly these, as another process would."""
        known = open_registry(self.data)
        since = "2026-01-01T00:00:00Z"
        known.mirror(
            "these Archives",
            [
                ListedArchive(
                    parse_ibi(service_of(a.number)), f"127.0.0.1:{a.port}", (), confirmed=True, since=since
                )
                for a in around
            ],
            time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(1_800_000_000 + len(around))),
        )
        known.close()


def where(answer: str) -> str | None:
    found = re.search(r"(?m)^location: (\S+)", answer)
    return found[1] if found else None


@contextmanager
def serve_fast_path(data: Path, around: list[Archive], *trusted: str) -> Iterator[FastPathResolver]:
    made = FastPathResolver(data, around, *trusted)
    with served(made.make, f"127.0.0.1:{made.port}"):
        yield made
