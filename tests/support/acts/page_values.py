"""The pages of an Archive's administration as values: what a librarian is shown, and what a form does, without HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from ibi.accounts.layout import CONFIRMED, SURE, Form, PageHandler, PageRequest
from ibi.accounts.people import AccountManager, Accounts, Role
from ibi.accounts.sign_in import Client, SignedInUser
from ibi.accounts.tokens import ARCHIVE_SCOPES, Tokens
from ibi.api.accounts import ActingOnAccounts
from ibi.api.jobs import Jobs
from ibi.app.archive import archive_directory, indexer
from ibi.archive.admin.bulk import BulkPages
from ibi.archive.admin.item_lists import ItemList
from ibi.archive.admin.item_pages import ItemPages
from ibi.archive.admin.kept_files import KeptFiles
from ibi.archive.admin.other_pages import OtherPages
from ibi.archive.api.deposits import Deposits
from ibi.archive.api.imports import Imports
from ibi.archive.api.uploads import Uploads
from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.operations.context import ActingOnArchive
from ibi.http.request import Request
from support.archive.api_fixture import WaitingLabels
from support.archive.archive_fixture import WHEN, NewArchive
from support.archive.search_fixture import indexed

LARGEST = 1 << 20
AUDIT_DAYS = 30


@dataclass
class Pages:
    """The pages of one Archive."""

    archive: NewArchive
    handlers: Mapping[str, PageHandler]
    uploads: Uploads
    others: OtherPages

    def show(self, path: str, typed: Form | None = None, role: Role = Role.KEEPER, query: str = "") -> Any:
        """What a page is: `path` is its word, perhaps with a slash and more."""
        word, _, rest = path.partition("/")
        return self.handlers[word].show(_visit(word, rest, role, query), typed)

    def do(
        self,
        path: str,
        *fields: tuple[str, str],
        files: Mapping[str, StoredFile] | None = None,
        role: Role = Role.KEEPER,
    ) -> Any:
        """What comes of a form."""
        word, _, rest = path.partition("/")
        return self.handlers[word].do(_visit(word, rest, role, ""), Form(fields, files or {}))

    def held(self, *items: Mapping[str, Any]) -> list[Holding]:
        """Load these lines of an import; returns their items."""
        assert (self.archive.load(*items).added, self.archive.refused) == (len(items), [])
        found = [self.archive.catalogue.holding_by_key(each["key"]) for each in items]
        return [each for each in found if each is not None]

    def staged(self, name: str, content: bytes) -> StoredFile:
        """A file that has come with a form."""
        staging = self.archive.file_store.stage_stream(name)
        staging.write(content)
        return staging.finish()


def confirmed(named: str) -> tuple[tuple[str, str], ...]:
    """The fields by which an act is confirmed for what a page has named."""
    return (CONFIRMED, named), (SURE, "yes")


def _visit(word: str, rest: str, role: Role, query: str) -> PageRequest:
    request = Request("GET", f"/-/admin/{word}/{rest}".rstrip("/"), query, {})
    signed = SignedInUser(role.value, role, "token", "session")
    return PageRequest(request, signed, Client(None, secure=False, local=True), rest)


@contextmanager
def pages_of(archive: NewArchive, acts: Callable[[], Any] = tuple) -> Iterator[Pages]:
    """The pages of an Archive, whose index is as its items are now."""
    directory, item_store = archive_directory(archive.data), archive.item_store
    uploads = Uploads(archive.data / "uploads", archive.clock.seconds, LARGEST)
    jobs = Jobs(archive.data, archive.clock.seconds, archive.clock.seconds)
    acting = ActingOnArchive(directory, item_store, uploads.used, jobs, partial(indexer, directory))
    people = AccountManager(Accounts(archive.data), tuple(Role), lambda: WHEN, lambda _: None)
    by = ActingOnAccounts(people, Tokens(archive.data), lambda: WHEN, ARCHIVE_SCOPES)
    index = indexed(archive)
    items = ItemList(archive.catalogue, index)
    others = OtherPages(
        directory, archive.catalogue, acting.for_librarian, by.for_administrator,
        Imports(item_store, uploads), AUDIT_DAYS,
    )  # fmt: skip
    pages = ItemPages(
        archive.catalogue, acting.for_librarian, archive.settings, Deposits(WaitingLabels(archive)),
        KeptFiles(item_store, uploads), items, acts(),
    )  # fmt: skip
    bulk = BulkPages(items, acting.for_librarian, others.peers)
    try:
        yield Pages(archive, {**others.handlers(), **pages.handlers(), **bulk.handlers()}, uploads, others)
    finally:
        index.close()
