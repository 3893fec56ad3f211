"""A resolver that is served whole, with an administrator, and those who ask it: with a browser, or with a token."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archive.administration_world import PASSWORD, Librarian
from ibi import assembly
from ibi.identifier.forms import IBIForms
from ibi.resolver.registry import Registry
from ibi.settings import ResolverSettings
from ibi.signing_in.accounts import Accounts
from ibi.signing_in.roles import Role
from ibi.tokens import Scope
from support.ports import free_port
from support.programs import Program
from support.served import served

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
MADE = "2026-11-22T10:00:00Z"


@dataclass
class Desk(Program):
    """A resolver that is served, and what lies in its data directory."""

    registry: Registry = field(kw_only=True)

    def somebody(self, name: str = "") -> Librarian:
        """A new browser; signed in, where a name is given."""
        librarian = Librarian(self.port)
        if name:
            assert librarian.sign_in(name).status == 303
        return librarian

    def told(self, path: str, *scopes: Scope) -> Any:
        """The JSON of a good answer to GET."""
        return self.ask("GET", path, None, *(scopes or (Scope.READ,))).said()


@contextmanager
def desk_at(folder: Path) -> Iterator[Desk]:
    """Serve a new resolver until the end of the block."""
    port = free_port()
    data = folder / "resolver"
    data.mkdir()
    ResolverSettings(address=f"127.0.0.1:{port}", service=SERVICE, mirror_key="SECRETKEY").write(data)
    registry = assembly.registry(data, new=True)
    Accounts(data).add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
    with served(lambda: assembly.resolver_service(data), f"127.0.0.1:{port}"):
        yield Desk(data, port, registry=registry)
    registry.close()


@contextmanager
def unwritable(data: Path) -> Iterator[None]:
    """A disk on which nothing can be added to the evidence."""
    head, aside = data / "evidence.head", data / "aside"
    if head.exists():
        head.rename(aside)
    head.mkdir()
    try:
        yield
    finally:
        head.rmdir()
        if aside.exists():
            os.replace(aside, head)  # noqa: PTH105 - back to where it was
