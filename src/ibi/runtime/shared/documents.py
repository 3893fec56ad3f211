"""Documents in the shared store: texts that every node must have alike, by the names of the files they stand for.

`accounts.json`, `tokens.json`, `institution.toml`, `attestation.key`, `nonce`, and the settings without `store`; of an
Archive also `resolvers.toml` and `peers.toml`.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from ibi.errors import SetupError
from ibi.runtime.shared.store import store_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sqlalchemy import Connection

    from ibi.runtime.shared.store import SharedStore

_READ: Final = "SELECT content FROM document WHERE name = %(name)s"
_MAKE: Final = (
    "INSERT INTO document (name, content) VALUES (%(name)s, %(content)s) ON CONFLICT (name) DO NOTHING"
)
_WRITE: Final = (
    "INSERT INTO document (name, content) VALUES (%(name)s, %(content)s)"
    " ON CONFLICT (name) DO UPDATE SET content = excluded.content"
)
_REMOVE: Final = "DELETE FROM document WHERE name = %(name)s"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext(%(name)s))"


class DocumentChange(NamedTuple):
    """A document that is locked: its `text`, None if there is none; `write` and `remove` hold with the block's end."""

    name: str
    text: str | None
    run: Connection

    def write(self, text: str) -> None:
        """Write another text."""
        self.run.exec_driver_sql(_WRITE, {"name": self.name, "content": text})

    def remove(self) -> None:
        """Remove it."""
        self.run.exec_driver_sql(_REMOVE, {"name": self.name})


class Documents:
    """The documents in one store. Its methods raise SetupError while the store cannot be reached.

    In a process that watches the store, a document that was read once is kept in memory, and read again by the
    watching thread: so an event loop may call `read` and `version`.
    """

    def __init__(self, store: SharedStore) -> None:
        self.store = store

    def read(self, name: str) -> str | None:
        """Return a text; None if there is none."""
        if not self.store.is_watched:
            return self._fetch(name)
        if name not in self.store.texts:
            self.store.follow(f"document {name}", partial(self._keep, name))
        return self.store.texts[name]

    def refresh(self) -> None:
        """Read again what this process has in memory: under a lock, to see what other nodes have just changed."""
        for name in list(self.store.texts):
            self._keep(name)

    def version(self, name: str) -> int:
        """Return a number that differs after each change, as far as this process knows; 0 for none yet."""
        return self.store.count(f"document {name}")

    def make(self, name: str, text: str) -> str:
        """Write a text unless there is one already; return the one that is there now."""
        with self.store.transaction() as run:
            run.exec_driver_sql(_MAKE, {"name": name, "content": text})
            found: str = run.exec_driver_sql(_READ, {"name": name}).scalar_one()
        self._show(name)
        return found

    @contextmanager
    def changing(self, name: str) -> Iterator[DocumentChange]:
        """Lock a document for all nodes, and yield it; where the block raises, nothing is changed."""
        self.store.check_reached()
        with self.store.transaction() as run:
            # An advisory lock, because a document that is not there yet has no row to lock.
            run.exec_driver_sql(_LOCK, {"name": f"document {name}"})
            yield DocumentChange(name, run.exec_driver_sql(_READ, {"name": name}).scalar(), run)
        self._show(name)

    def _show(self, name: str) -> None:
        """Let a change of this process show in it at once, before the watching thread has read of it."""
        if name in self.store.texts:
            with suppress(SetupError):
                self._keep(name)
        self.store.note_changed(f"document {name}")

    def _keep(self, name: str) -> None:
        # Under a lock of the process, so that what was read earlier never replaces what was read later.
        with self.store.reading:
            self.store.texts[name] = self._fetch(name)

    def _fetch(self, name: str) -> str | None:
        self.store.check_reached()
        with self.store.transaction() as run:
            found: str | None = run.exec_driver_sql(_READ, {"name": name}).scalar()
        return found


def documents_of(data: Path) -> Documents | None:
    """Return the documents of a data directory that has a shared store; None for any other. Raises SetupError."""
    store = store_of(data)
    return None if store is None else Documents(store)


def follow_documents(data: Path, names: Iterable[str]) -> None:
    """Follow the changes of the shared store from now on, if there is one, with these documents in memory.

    No event loop reads them from the store then. Raises SetupError if it is away.
    """
    documents = documents_of(data)
    if documents is None:
        return
    documents.store.watch()
    for name in names:
        documents.read(name)
