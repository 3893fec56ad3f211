"""Assembly of an Archive's administration: its pages, and the parts that they act with."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from ibi.accounts.administration import Administration
from ibi.accounts.people import AccountManager, Role
from ibi.accounts.sign_in import Authentication
from ibi.accounts.tokens import ARCHIVE_SCOPES, Tokens
from ibi.api import accounts, operations
from ibi.api.account_pages import AccountPages
from ibi.api.institution_pages import IdentityPages
from ibi.api.operation_pages import OperationPages
from ibi.app.archive_tasks import upload_store
from ibi.archive.admin.bulk import BulkPages
from ibi.archive.admin.forms import FormHandling, page_error
from ibi.archive.admin.item_lists import ItemList
from ibi.archive.admin.item_pages import ItemPages
from ibi.archive.admin.kept_files import KeptFiles
from ibi.archive.admin.other_pages import OtherPages
from ibi.archive.api import imports
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.operations.context import ActingOnArchive
from ibi.archive.operations.listed import CHECKS, GROUPS, OPERATIONS, acts_on_items
from ibi.web import administration_pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ibi.accounts.layout import PageHandler, PageRequest
    from ibi.api.jobs import Jobs
    from ibi.archive.api.deposits import Deposits
    from ibi.archive.model.item import StoredFile
    from ibi.archive.search.index import SearchIndex
    from ibi.archive.search.indexing import Indexer
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.runtime.settings import ArchiveSettings
    from ibi.web.branding import Branding

FORM_BYTES: Final = 2 << 20
"""Bytes of a form besides its files: the fields of a deposit, and the heads of the multipart parts."""


def administration(
    directory: DataDirectory,
    settings: ArchiveSettings,
    catalogue: Catalogue,
    deposits: Deposits,
    jobs: Jobs,
    branding: Branding,
    index: SearchIndex,
    indexer: Callable[[DataDirectory, Catalogue], Indexer],
) -> Administration:
    """Make the administration at /-/admin; the caller closes it."""
    authentication = Authentication(directory.path, str(settings.service.main), time.time)
    item_store = directory.item_store_over(catalogue, settings)
    forms = FormHandling(settings, item_store, settings.largest_upload + FORM_BYTES)
    uploading = upload_store(directory, settings)
    acting = ActingOnArchive(directory, item_store, uploading.used, jobs, partial(indexer, directory))
    importing = imports.Imports(item_store, uploading)
    people = AccountManager(
        authentication.accounts, tuple(Role), present_moment, authentication.sessions.end_all
    )
    by = accounts.ActingOnAccounts(people, Tokens(directory.path), present_moment, ARCHIVE_SCOPES)
    others = OtherPages(
        directory, catalogue, acting.for_librarian, by.for_administrator, importing, settings.audit_days
    )
    item_list = ItemList(catalogue, index)
    kept, acts = KeptFiles(item_store, uploading), acts_on_items(GROUPS)
    items = ItemPages(catalogue, acting.for_librarian, settings, deposits, kept, item_list, acts)
    handlers = {
        **others.handlers(),
        **items.handlers(),
        **BulkPages(item_list, acting.for_librarian, others.peers).handlers(),
        **IdentityPages(acting.for_librarian).handlers(),
        **AccountPages(authentication, people, by.for_administrator).handlers(),
        **_operation_pages(directory, acting, jobs, importing),
    }
    render = partial(administration_pages.render, branding=branding)
    return Administration(
        authentication, handlers, render, forms.caller, settings.address, page_error, forms.take, others.waiting
    )  # fmt: skip


def present_moment() -> str:
    """Return the time in the form in which accounts and tokens record their creation."""
    return timestamp_text(time.time())


def _operation_pages(
    directory: DataDirectory, acting: ActingOnArchive, jobs: Jobs, importing: imports.Imports
) -> dict[str, PageHandler]:
    """Return the handler of the pages that are made from operations."""
    runner = operations.OperationRunner(directory.path, OPERATIONS, jobs, CHECKS)

    def keep(visit: PageRequest, file: StoredFile) -> AbstractContextManager[str]:
        """Store a file of a form as an upload during a block; yield its id."""
        return importing.kept(visit.signed.name, file, "")

    groups = [(group, acting.for_librarian) for group in GROUPS]
    return OperationPages(groups, runner, keep).handlers()
