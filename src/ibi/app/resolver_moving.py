"""Moves a resolver from the files of its data directory into a store that nodes share, or back.

What is left behind stays as it is; but a store is no resolver any more once it is in files, so that its other nodes do
not start. Nothing may run meanwhile: what is being served is not moved, and if the evidence has grown once all is
copied, nothing is switched. What was broken off is done again from the beginning by the same command.
"""

from __future__ import annotations

import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ibi.app.resolver_joining import join, resolver_store
from ibi.app.resolver_stores import REGISTRY
from ibi.errors import SetupError
from ibi.http.metrics.numbers import FOLDER as METRICS
from ibi.http.metrics.shared_counters import is_counted
from ibi.resolver.evidence.files import EvidenceFiles
from ibi.resolver.evidence.log import EVIDENCE_FILE
from ibi.resolver.evidence.table import EvidenceTable
from ibi.resolver.registry.copying import copy_registry, registry_file, registry_rows
from ibi.runtime.durable_files import replace_file, setup_errors
from ibi.runtime.environment import environment_store
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.documents import Documents
from ibi.runtime.shared.store import STORE, STORE_FILES, SharedStore, close_store, store_of, store_url
from ibi.runtime.signing import FILE as KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ibi.resolver.evidence.chain import Anchor

_DOCUMENTS: Final = (KEY, "accounts.json", "tokens.json", Institution.FILE)
_SETTINGS: Final = ResolverSettings.FILE
_BEFORE: Final = "resolver.toml.before-store"


def move_to_store(data: Path, url: str) -> None:
    """Move a resolver into a store, and let its settings name that. Raises SetupError; then nothing is switched."""
    if store_url(data):
        raise SetupError("{path} names a store already", path=data / _SETTINGS)
    settings, log = ResolverSettings.read(data), EvidenceFiles(data / EVIDENCE_FILE)
    _check_stopped(data)
    with resolver_store(url) as documents:
        store = documents.store
        table = EvidenceTable(data / EVIDENCE_FILE, store)
        if not _is_moved(documents, settings, table, log):
            with registry_file(data / REGISTRY) as source, _unchanged(log):
                copy_registry(registry_rows(source), store.engine)
                table.fill(log.lines())
                _check_same(table, log)
            # The settings come last: a store that has them is a resolver.
            for name in (*_DOCUMENTS, _SETTINGS):
                with documents.changing(name) as document:
                    if (data / name).exists():
                        document.write(_read(data / name))
                    else:  # from before an earlier move into files
                        document.remove()
    _check_stopped(data)  # it may have been started meanwhile
    with setup_errors("{path} cannot be written: {reason}", path=data / _BEFORE):
        replace_file(data / _BEFORE, _read(data / _SETTINGS).encode())
    join(data, url)
    close_store(data)


def move_to_files(data: Path) -> None:
    """Move a resolver that no node serves out of its store, into files of a data directory that has none.

    Raises SetupError; then the resolver is where it was.
    """
    store, log = store_of(data), EvidenceFiles(data / EVIDENCE_FILE)
    if store is None:
        raise SetupError("{path} names no store", path=data / _SETTINGS)
    variable = STORE_FILES[_SETTINGS]
    if environment_store(variable):  # the settings could not lead to the files
        raise SetupError("{name} is decided by {variable} in the environment", name=STORE, variable=variable)
    for path in (data / REGISTRY, log.path, log.head_path):
        if path.exists():
            raise SetupError("{path} is in the way: move it elsewhere first", path=path)
    try:
        with store.alone():
            _fill_files(data, store, log)
    finally:
        close_store(data)


def _fill_files(data: Path, store: SharedStore, log: EvidenceFiles) -> None:
    documents, table = Documents(store), EvidenceTable(log.path, store)
    texts = {name: documents.read(name) for name in (*_DOCUMENTS, _SETTINGS)}
    try:
        _copy_to_files(data, store, table, log)
        for name, text in texts.items():
            path = data / name
            with setup_errors("{path} cannot be written: {reason}", path=path):
                if text is not None:
                    replace_file(path, text.encode())
                elif path.exists():  # from before the store, and removed there
                    path.rename(path.with_name(f"{name}.before-store"))
    except BaseException:
        for path in (data / REGISTRY, log.path, log.head_path):
            path.unlink(missing_ok=True)
        raise
    with documents.changing(_SETTINGS) as document:
        document.remove()


def _copy_to_files(data: Path, store: SharedStore, table: EvidenceTable, log: EvidenceFiles) -> None:
    rows = registry_rows(store.engine)
    with registry_file(data / REGISTRY) as target, _unchanged(table):
        copy_registry(rows, target)
        with setup_errors("{path} cannot be written: {reason}", under=log.path):
            log.fill(table.lines())
        _check_same(log, table)


def _check_stopped(data: Path) -> None:
    """Refuse files that are being served: what is registered there while it is moved would be lost."""
    with setup_errors("{path} cannot be read: {reason}", under=data / METRICS):
        if is_counted(data / METRICS):
            raise SetupError("the resolver is being served: stop it, and run this once more")


def _is_moved(
    documents: Documents, settings: ResolverSettings, table: EvidenceTable, log: EvidenceFiles
) -> bool:
    """Whether a store has all of this resolver already. Raises SetupError if it has another one, or a later state."""
    text = documents.read(_SETTINGS)
    if text is None:
        return False
    if tomllib.loads(text).get("service") == str(settings.service) and _last(table) == _last(log):
        return True
    raise SetupError(
        "the store holds a resolver already: take another database, or join it with `init --store`"
    )


@contextmanager
def _unchanged(log: EvidenceFiles | EvidenceTable) -> Iterator[None]:
    """Raise SetupError if something is written into the evidence meanwhile."""
    before = _last(log)
    yield
    if _last(log) != before:
        raise SetupError("something was written meanwhile: stop the resolver, and run this once more")


def _check_same(copy: EvidenceFiles | EvidenceTable, log: EvidenceFiles | EvidenceTable) -> None:
    found = copy.verify()
    if found.fault is not None or found.last != _last(log):
        raise SetupError("the evidence was not copied as it is: {reason}", reason=found.fault or found.last)


def _last(log: EvidenceFiles | EvidenceTable) -> Anchor:
    """Return the last entry of a log. Raises SetupError for one that is not as it was written."""
    with setup_errors("{path} cannot be read: {reason}", under=log.path):
        found = log.verify()
    if found.fault is not None:
        raise SetupError("{path}: {reason}", path=log.path, reason=found.fault)
    return found.last


def _read(path: Path) -> str:
    with setup_errors("{path} cannot be read: {reason}", path=path):
        return path.read_text(encoding="utf-8")
