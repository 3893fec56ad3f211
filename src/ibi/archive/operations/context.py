"""The context of an operation on an Archive: stores opened for one command, or those of the server."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ibi.accounts.tokens import Scope
from ibi.api.operations import OperationContext
from ibi.api.routes import say_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from ibi.accounts.layout import PageRequest
    from ibi.api.jobs import Jobs
    from ibi.api.routes import Call
    from ibi.archive.search.indexing import Indexer
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.item_changes import Files
    from ibi.archive.store.item_store import ItemStore
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.http.request import Request


@dataclass(slots=True, kw_only=True)
class ArchiveContext(OperationContext):
    """Who does an operation, and on which Archive.

    `served`: the item store of the server, None for a command; `upload` opens an upload of the server, None:
    files are given by paths; `jobs`: those of this data directory; `indexer` makes the indexer, which the
    caller closes; `is_administrator`: whether an administrator acts; `may_read`: whether results may have
    facts that need the scope `read`; `files`: staged files of the request, which its reader discards unless
    an item lists them; `request_key`: the Idempotency-Key of a deposit, "" for none.
    """

    directory: DataDirectory
    jobs: Jobs
    indexer: Callable[[Catalogue], Indexer]
    is_administrator: bool
    may_read: bool = True
    served: ItemStore | None = None
    upload: Callable[[str], AbstractContextManager[Path]] | None = None
    files: Files = field(default_factory=dict)
    request_key: str = ""

    def alone(self) -> Self:
        """Return the same context with its own item store, because changed settings close the server's."""
        return replace(self, served=None)

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.directory.path

    @contextmanager
    def catalogue(self) -> Iterator[Catalogue]:
        """Yield the catalogue, for reading. Raises SetupError."""
        if self.served is not None:
            yield self.served.catalogue
            return
        with self.directory.catalogue() as catalogue:
            yield catalogue

    def item_store(self) -> AbstractContextManager[ItemStore]:
        """Open the item store in a staging session. Raises SetupError."""
        return self.directory.item_store() if self.served is None else _staging(self.served)

    def opened(self) -> AbstractContextManager[ItemStore]:
        """Open the item store; in a server, the request has a staging session already. Raises SetupError."""
        return self.directory.item_store() if self.served is None else nullcontext(self.served)

    def used(self, upload: str) -> AbstractContextManager[Path]:
        """Open a given file: a path, or a complete upload, which is deleted after the block; yield the path.

        Raises NotHeld, Refusal, and the errors of the block; then the upload stays.
        """
        return nullcontext(Path(upload)) if self.upload is None else self.upload(upload)


@dataclass(frozen=True, slots=True)
class ActingOnArchive:
    """Makes the contexts of librarians and programs at a served Archive; fields as in ArchiveContext."""

    directory: DataDirectory
    item_store: ItemStore
    upload: Callable[[str, str], AbstractContextManager[Path]]
    """(upload, owner): opens an upload of a token or a librarian."""
    jobs: Jobs
    indexer: Callable[[Catalogue], Indexer]

    def for_program(self, call: Call) -> ArchiveContext:
        """Return the context of a request with a token."""
        return self._context(call.token_name, call.request, call.may)

    def for_librarian(self, visit: PageRequest) -> ArchiveContext:
        """Return the context of a form."""
        return self._context(visit.signed.name, visit.request, visit.signed.role.may)

    def _context(self, who: str, request: Request, may: Callable[[Scope], bool]) -> ArchiveContext:
        return ArchiveContext(
            who=who, say=partial(say_to, request), directory=self.directory, jobs=self.jobs, indexer=self.indexer,
            is_administrator=may(Scope.ADMIN), may_read=may(Scope.READ), served=self.item_store,
            upload=lambda upload: self.upload(upload, who),
        )  # fmt: skip


@contextmanager
def _staging(item_store: ItemStore) -> Iterator[ItemStore]:
    with item_store.staging_session():
        yield item_store
