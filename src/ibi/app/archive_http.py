"""Assembly of what an Archive offers over HTTP besides items: JSON interface, administration, search, OAI-PMH."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import ibi
from ibi.accounts.administration import AccountPages, Administration
from ibi.accounts.people import AccountManager, Accounts, Role
from ibi.accounts.sign_in import Authentication
from ibi.accounts.tokens import Scope, Tokens
from ibi.api.accounts import AccountRoutes
from ibi.api.dispatch import Api
from ibi.archive.admin.exchange import ExchangePages
from ibi.archive.admin.forms import FormHandling, page_error
from ibi.archive.admin.item_pages import ItemPages
from ibi.archive.admin.overview import OverviewPages
from ibi.archive.api import deposits, imports, items, membership, openapi, transfers, uploads
from ibi.archive.model.item_json import timestamp_text
from ibi.archive.oai.provider import OaiHandler, OaiProvider
from ibi.archive.pages import statistics
from ibi.archive.pages.handle_records import HandleRecords
from ibi.archive.pages.models import SiteContext
from ibi.archive.pages.search_pages import SearchPages
from ibi.archive.replication.copying import Copier
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.receiving import Receiver
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.indexing import Indexer
from ibi.errors import SetupError
from ibi.runtime.tasks import PeriodicTasks
from ibi.web import administration_pages
from ibi.web.formats.oai_dc import RECORD_FORMATS
from ibi.web.formats.record import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ibi.api.routes import Route
    from ibi.archive.pages.models import Renderer
    from ibi.archive.store.data_directory import DataDirectory
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.runtime.settings import ArchiveSettings


# Bytes of a form besides its files: the fields of a deposit, and their multipart heads.
_FORM: Final = 2 << 20


def largest_body(settings: ArchiveSettings) -> int:
    """Return the bytes of the largest request that an Archive reads."""
    return settings.largest_upload + _FORM


def upload_store(directory: DataDirectory, settings: ArchiveSettings) -> uploads.Uploads:
    """Return the store of the uploads that are under way."""
    return uploads.Uploads(directory.path / "uploads", time.time, settings.largest_upload)


def moment() -> str:
    """Return the time, as accounts and tokens record when they were made."""
    return timestamp_text(time.time())


def archive_api(
    directory: DataDirectory,
    settings: ArchiveSettings,
    catalogue: Catalogue,
    more: Iterable[Route] = (),
) -> tuple[Api, Receiver]:
    """Make the JSON interface, and the receiver of originals, which is to be closed; `more`: further routes."""
    item_store = directory.item_store_over(catalogue, settings)
    # The first session settles what a killed process left behind, before requests depend on it.
    with suppress(SetupError), item_store.staging_session():
        pass
    uploading, data = upload_store(directory, settings), directory.path
    giver = Giver(item_store, data, f"http://{settings.address}")
    receiver = Receiver(item_store, data, settings.largest_upload)
    copier = Copier(item_store, settings.resolver, settings.largest_upload)
    people, tokens = AccountManager(Accounts(data), tuple(Role), moment), Tokens(data)
    table = (
        *items.routes(catalogue, time.time),
        *deposits.Deposits(item_store, uploading).routes(),
        *uploads.UploadHandlers(uploading).routes(),
        *statistics.routes(catalogue),
        *HandleRecords(settings, catalogue, f"http://{settings.address}", time.time).routes(),
        *transfers.peer_routes(giver, receiver),
        imports.Imports(item_store, uploading).route(),
        *items.CopyService(copier).routes(time.time),
        *transfers.HandOvers(giver, data).routes(),
        *membership.Membership(data, catalogue).routes(),
        *AccountRoutes(people, tokens, moment, tuple(Scope)).routes(),
        *more,
    )
    api = Api(openapi.routes(table, ibi.__version__), tokens, largest_body(settings), uploads.TUNNEL)
    return api, receiver


def administration(
    directory: DataDirectory, settings: ArchiveSettings, catalogue: Catalogue
) -> Administration:
    """Make the administration at /-/admin, which is to be closed."""
    authentication = Authentication(directory.path, str(settings.service.main), time.time)
    item_store = directory.item_store_over(catalogue, settings)
    forms = FormHandling(settings, item_store, largest_body(settings))
    data, uploading = directory.path, upload_store(directory, settings)
    copier = Copier(item_store, settings.resolver, settings.largest_upload)
    giver = Giver(item_store, data, f"http://{settings.address}")
    end_sessions = authentication.sessions.end_all
    people = AccountManager(authentication.accounts, tuple(Role), moment, end_sessions)
    exchange = ExchangePages(
        items.CopyService(copier), transfers.HandOvers(giver, data), imports.Imports(item_store, uploading)
    )
    handlers = {
        **OverviewPages(data, catalogue, settings.audit_days, moment).handlers(),
        **ItemPages(item_store, uploading, settings).handlers(),
        **exchange.handlers(),
        **AccountPages(authentication, people).handlers(),
    }
    render, address = administration_pages.render, settings.address
    return Administration(authentication, handlers, render, forms.caller, page_error, address, forms.take)


def indexer(directory: DataDirectory, catalogue: Catalogue) -> Indexer:
    """Make the indexer, which keeps the search index up to date; it is to be closed."""
    service = str(directory.settings().service.main)
    return Indexer(catalogue, directory.path, time.time, lambda types: kind_of(types).datacite, service)


def index_duties(directory: DataDirectory, catalogue: Catalogue) -> PeriodicTasks:
    """Make the duty of indexing."""
    # Apart from the other duties: what was deposited must be found within seconds, not after an audit.
    listed = [indexer(directory, catalogue).duty()]
    return PeriodicTasks(lambda: listed)


def search_pages(
    directory: DataDirectory, settings: ArchiveSettings, catalogue: Catalogue, renderer: Renderer
) -> SearchPages:
    """Make the handlers of search and browsing, which are to be closed."""
    site = SiteContext(f"http://{settings.address}", settings.resolver, settings.admin, search=True)
    return SearchPages(site, settings.address, catalogue, SearchIndex(directory.path), renderer)


def oai_handler(directory: DataDirectory, settings: ArchiveSettings, catalogue: Catalogue) -> OaiHandler:
    """Make the handler of OAI-PMH requests, which is to be closed."""
    index = SearchIndex(directory.path)
    return OaiHandler(OaiProvider(settings, catalogue, index, RECORD_FORMATS, time.time), index.close)
