"""A data directory becomes a node of a resolver whose registry, accounts and evidence are in a shared store."""

from __future__ import annotations

import json
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ibi.errors import SetupError
from ibi.identifier.forms import IBIForms
from ibi.resolver.shared.tables import check_tables, make_tables
from ibi.runtime.durable_files import make_folder, replace_file, setup_errors
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.shared.documents import Documents
from ibi.runtime.shared.store import STORE, SharedStore
from ibi.runtime.signing import signer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def resolver_store(url: str) -> Iterator[Documents]:
    """Open the store at a URL, with our tables in it, made if there are none. Raises SetupError."""
    store = SharedStore(url)
    try:
        make_tables(store.engine)
        check_tables(store.engine)
        yield Documents(store)
    finally:
        store.close()


def founded_service(documents: Documents) -> IBIForms | None:
    """Return the service of the resolver that a store holds, so that another node joins it; None if it has none."""
    text = documents.read(ResolverSettings.FILE)
    return None if text is None else IBIForms.parse(str(tomllib.loads(text)["service"]))


def found(documents: Documents, settings: ResolverSettings) -> None:
    """Put the settings of a new resolver into a store. Raises SetupError if another was first."""
    text = settings.shared_text()
    if documents.make(ResolverSettings.FILE, text) != text:
        raise SetupError("another node has just made a resolver in this store; run this once more to join it")


def join(data: Path, url: str) -> ResolverSettings:
    """Make a data directory a node of the resolver in a store; return its settings. Raises SetupError."""
    path = data / ResolverSettings.FILE
    with setup_errors("{path} cannot be made: {reason}", path=data):
        make_folder(data)
        # A JSON text is a text of TOML, too, as the URL is made of visible ASCII.
        replace_file(path, f"{STORE} = {json.dumps(url)}\n".encode())
    signer(data)  # its key is made with the resolver, so that no node makes it while readers wait
    return ResolverSettings.read(data)
