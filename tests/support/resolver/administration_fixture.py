"""A resolver that is served whole, with an administrator, and those who ask it: with a browser, or with a token."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ibi.accounts.people import Accounts, Role
from ibi.accounts.tokens import Scope
from ibi.app.resolver import open_registry, resolver_service
from ibi.identifier.forms import IBIForms
from ibi.resolver.registry.registry import Registry
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.shared.store import store_of
from support.archive.administration_fixture import PASSWORD, Librarian
from support.engines.shared_store import in_wanted_store, run_in_registry
from support.ports import free_port
from support.programs import Program
from support.served import served

SERVICE = IBIForms.parse("rep urlib.net/www/2014/03.22.01.53 ibip J8LNKB5R7W/3FUQHC5")
MADE = "2026-11-22T10:00:00Z"


@dataclass
class AdministeredResolver(Program):
    """A resolver that is served, and what lies in its data directory."""

    registry: Registry = field(kw_only=True)

    def browser(self, name: str = "") -> Librarian:
        """A new browser; signed in, where a name is given."""
        librarian = Librarian(self.port)
        if name:
            assert librarian.sign_in(name).status == 303
        return librarian

    def get_json(self, path: str, *scopes: Scope) -> Any:
        """The JSON of a good answer to GET."""
        return self.ask("GET", path, None, *(scopes or (Scope.READ,))).content()


@contextmanager
def administered_resolver(folder: Path) -> Iterator[AdministeredResolver]:
    """Serve a new resolver until the end of the block."""
    port = free_port()
    data = folder / "resolver"
    data.mkdir()
    in_wanted_store(data)
    ResolverSettings(address=f"127.0.0.1:{port}", service=SERVICE, mirror_key="SECRETKEY").write(data)
    registry = open_registry(data, new=True)
    Accounts(data).add("root", Role.ADMINISTRATOR, PASSWORD, MADE)
    with served(lambda: resolver_service(data), f"127.0.0.1:{port}"):
        yield AdministeredResolver(data, port, registry=registry)
    registry.close()


@contextmanager
def unwritable(data: Path) -> Iterator[None]:
    """A disk, or a store, in which nothing can be added to the evidence."""
    if store_of(data) is not None:
        run_in_registry(data, "ALTER TABLE evidence_head RENAME TO aside")
        yield
        run_in_registry(data, "ALTER TABLE aside RENAME TO evidence_head")
        return
    head, moved = data / "evidence.head", data / "aside"
    if head.exists():
        head.rename(moved)
    head.mkdir()
    try:
        yield
    finally:
        head.rmdir()
        if moved.exists():
            os.replace(moved, head)  # noqa: PTH105 - back to where it was
