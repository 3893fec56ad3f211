"""A resolver and two Archives as `ibi up` runs them, for all tests of the client."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest

from ibi.client import Resolver
from support.network.up import Up
from support.ports import free_port
from support.programs import Program


@dataclass(frozen=True)
class Network:
    """The root URLs of the resolver and of its first Archive, and a program of that Archive."""

    resolver: str
    archive: str
    program: Program

    def count(self) -> int:
        """How many items the Archive has."""
        return len(self.program.ask("GET", "/items?limit=500").content()["items"])


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    data = tmp_path_factory.mktemp("client") / "net"
    port = free_port(3)
    with Up("--port", str(port), "--data", str(data), temporary=data.parent) as up:
        root = urlsplit(up.root)
        archive = int(root.port or 0) + 1
        program = Program(data / "first", archive)
        yield Network(up.root, f"http://127.0.0.1:{archive}", program)


@pytest.fixture
def resolver(network: Network) -> Iterator[Resolver]:
    with Resolver(network.resolver) as made:
        yield made
