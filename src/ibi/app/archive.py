"""Assembly of an Archive: make its service, its memberships at resolvers and its duties from its settings."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import ibi
from ibi.accounts.layout import ROOT
from ibi.accounts.people import AccountManager, Accounts, Role
from ibi.accounts.tokens import ARCHIVE_SCOPES, Tokens
from ibi.api import accounts, operations
from ibi.api.dispatch import Api
from ibi.api.idempotency import Replies
from ibi.api.jobs import Jobs
from ibi.app import archive_admin
from ibi.app.archive_admin import FORM_BYTES, present_moment
from ibi.app.archive_background import ArchiveBackground, BackgroundParts
from ibi.app.archive_tasks import upload_store
from ibi.archive.api import changes, imports, items, openapi, transfers, uploads
from ibi.archive.api.deposits import Deposits, ItemTransports
from ibi.archive.api.labels import DepositLabels
from ibi.archive.membership import holdings_filter
from ibi.archive.membership import membership as resolver_memberships
from ibi.archive.membership.joining import Resolvers, WatchedArchiveSettings
from ibi.archive.membership.membership import MembershipStore
from ibi.archive.membership.resolver_addresses import RequestTimes, ResolverAddresses
from ibi.archive.model.access import day_of
from ibi.archive.oai.provider import OAI, OaiHandler, OaiProvider
from ibi.archive.operations.context import ActingOnArchive
from ibi.archive.operations.listed import CHECKS, OPERATIONS
from ibi.archive.pages import statistics
from ibi.archive.pages.handle_records import HandleRecords
from ibi.archive.pages.models import SiteContext
from ibi.archive.pages.search_pages import SearchPages
from ibi.archive.pages.visits import VisitCounter
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.receiving import Receiver
from ibi.archive.search.index import SearchIndex
from ibi.archive.search.indexing import Indexer
from ibi.archive.service.metrics import ArchiveMetrics, kind_of_request
from ibi.archive.service.service import ArchiveService
from ibi.archive.store.data_directory import DataDirectory, identity_of
from ibi.archive.store.postgresql.nodes import DOCUMENTS, bring_in, check_tables
from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client
from ibi.http.client_address import networks_of
from ibi.http.metrics import numbers
from ibi.http.proxy_faults import UndeclaredProxies
from ibi.http.public_url import PublicURL
from ibi.http.request import Request
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
from ibi.minting.machine import this_machine
from ibi.protocol.vocabulary import SERVICE_SUBJECT
from ibi.runtime.nonce import Nonce
from ibi.runtime.reload import ReloadingApp
from ibi.runtime.shared.documents import follow_documents
from ibi.runtime.shared.store import close_store, node_name, store_of
from ibi.runtime.signing import public_key
from ibi.runtime.tasks import keep_running
from ibi.web.archive_pages import renderer
from ibi.web.assets import WithAssets
from ibi.web.branding import branding_of
from ibi.web.formats import RECORD_FORMATS
from ibi.web.formats.record import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
    from pathlib import Path

    from ibi.api.routes import Route
    from ibi.archive.pages.models import Renderer
    from ibi.archive.store.tables.catalogue import Catalogue
    from ibi.archive.store.tables.memberships import MembershipRecord
    from ibi.http.client.address_policy import HostLookup
    from ibi.http.public_url import TLSPorts
    from ibi.http.response import Handler, Response
    from ibi.http.server.config import AtOnce, Later
    from ibi.identifier.forms import IBI
    from ibi.runtime.settings import ArchiveSettings
    from ibi.web.branding import Branding


_log = logging.getLogger(__name__)


def archive_directory(data: Path) -> DataDirectory:
    """Return the data directory of an Archive, with the clock of this machine for its labels."""
    return DataDirectory(data, this_machine())


@traced("archive", kind_of_request, time.time_ns)
def archive_service(
    data: Path,
    *,
    host_lookup: HostLookup | None = None,
    tls: tuple[str, str] | None = None,
    tls_ports: TLSPorts | None = None,
    trusted: Sequence[str] = (),
    files_address: str = "",
    workers: int = 1,
) -> Service:
    """Make the service of an Archive, which answers requests, joins its resolvers, and does its periodic tasks.

    `host_lookup` replaces that of this machine; `trusted`: networks of trusted proxies besides
    those of the settings; `files_address` replaces that of the settings; `tls_ports`: where it listens, for
    the root of its URLs, if it does so with the certificate and key `tls`; `workers`: how many processes share
    the work. Most changed settings take effect at the next request. Raises SetupError.
    """
    follow_documents(data, DOCUMENTS)
    directory, watched, jobs = archive_directory(data), WatchedArchiveSettings(data), _jobs(data)
    catalogue = directory.open_catalogue()
    metrics = ArchiveMetrics(data, directory.open_catalogue(), jobs)  # a connection of its own
    as_served = partial(_as_served, trusted, files_address, tls_ports)
    joined = partial(ResolverAddresses, host_lookup=host_lookup, requests=RequestTimes(data / numbers.FOLDER))
    parts = BackgroundParts(watched, directory, catalogue, host_lookup, metrics, joined)
    background = ArchiveBackground(parts, indexer(directory, catalogue).task())
    app = _answering(watched, metrics, directory, as_served, workers, joined, jobs, background.wake)
    background.follow = app.current

    async def close() -> None:
        await background.close()
        await asyncio.gather(asyncio.to_thread(jobs.close), app.close())
        for each in (metrics, catalogue):
            each.close()
        await asyncio.to_thread(close_store, data)

    return Service(
        metrics.counted(WithAssets(app, lambda: app.current().branding.assets)),
        background.run,
        background.stop,
        close,
        tls,
        largest_body=watched.current().settings.largest_upload + FORM_BYTES,
        reload=app.reload,
        background=partial(keep_running, "metrics", metrics.watch),
        proxies=lambda: (*watched.current().settings.trusted_proxies, *trusted),
        **_fast_paths(app, with_database=bool(watched.current().settings.store)),
    )


def _fast_paths(app: ReloadingApp[Resolvers, _HandlingByRoot], *, with_database: bool) -> dict[str, Any]:
    """Return the hooks of the service by which messages are answered without a task, by name."""
    at_once: AtOnce = lambda method, target, head, peer: app.current().at_once(method, target, head, peer)  # noqa: E731 - it is one of two
    later: Later = lambda target, head, peer, done: app.current().later(target, head, peer, done)  # noqa: E731 - as above
    return {"at_once": at_once, "later": later if with_database else None}


def _answering(
    watched: WatchedArchiveSettings,
    metrics: ArchiveMetrics,
    directory: DataDirectory,
    as_served: Callable[[ArchiveSettings], ArchiveSettings],
    workers: int,
    joined: Callable[[Iterable[str]], ResolverAddresses],
    jobs: Jobs,
    noticed: Callable[[IBI], bool],
) -> ReloadingApp[Resolvers, _HandlingByRoot]:
    """Make the application that answers requests, and is made anew when the settings change."""
    make = partial(_by_root, directory, as_served, workers, joined, jobs, noticed)
    app = ReloadingApp(watched.current, partial(make, metrics))
    metrics.waiting = lambda: app.current().waiting_acknowledgments
    return app


def _jobs(data: Path) -> Jobs:
    return Jobs(data, time.time, time.monotonic)


def check_archive(data: Path, trusted: Sequence[str] = (), files_address: str = "") -> ArchiveSettings:
    """Return the settings of an Archive. Raises SetupError if it could not be served."""
    directory = archive_directory(data)
    _check_store(directory)
    settings = _as_served(trusted, files_address, None, Resolvers.read(data).settings)
    identity_of(settings)
    _own_catalogue(directory, settings).close()
    if settings.files:
        from ibi.archive.store.s3_check import check_place

        if silent := check_place(settings):
            _log.warning("%s", silent)
    return settings


def _check_store(directory: DataDirectory) -> None:
    """Bring the store that nodes share, if there is one, to this version. Raises SetupError."""
    data = directory.path
    if bring_in(data, directory.now()):
        _log.warning(
            "the settings and accounts of %s are in its store now; its files are in lost+found", data
        )
    store = store_of(data)
    if store is not None:
        check_tables(store.engine)


def _as_served(
    trusted: Sequence[str], files_address: str, tls_ports: TLSPorts | None, settings: ArchiveSettings
) -> ArchiveSettings:
    """Return the settings with the options of the command that serves the Archive. Raises SetupError."""
    return replace(
        settings,
        trusted_proxies=(*settings.trusted_proxies, *trusted),
        files_address=files_address or settings.files_address,
        public_url=settings.public_url or (tls_ports.root(settings.address) if tls_ports else ""),
    )


def _by_root(
    directory: DataDirectory,
    as_served: Callable[[ArchiveSettings], ArchiveSettings],
    workers: int,
    addresses: Callable[[Iterable[str]], ResolverAddresses],
    jobs: Jobs,
    noticed: Callable[[IBI], bool],
    metrics: ArchiveMetrics,
    resolvers: Resolvers,
) -> _HandlingByRoot:
    settings = as_served(resolvers.settings)
    # One object for both, so that programs and librarians wait in the same queue.
    deposits = Deposits(DepositLabels(directory, settings, workers))
    joined = addresses(resolvers.keys)
    branding = branding_of(resolvers.institution, settings.address, settings.admin, is_archive=True)
    make = partial(
        _RequestHandling,
        directory,
        deposits=deposits,
        joined=joined,
        jobs=jobs,
        branding=branding,
        noticed=noticed,
        metrics=metrics,
    )
    return _HandlingByRoot(make, settings, branding, deposits.close)


class _HandlingByRoot:
    """Answers each reader with URLs of the root by which she came; messages get URLs of the root of the settings.

    There is a `_RequestHandling` for each root that has come: at most one for each host name of the Archive, and one
    by the settings.
    """

    def __init__(
        self,
        make: Callable[[ArchiveSettings], _RequestHandling],
        settings: ArchiveSettings,
        branding: Branding,
        close_shared: Callable[[], None],
    ) -> None:
        self.branding = branding
        self._close_shared = close_shared
        self._public = PublicURL(settings, networks_of(settings.trusted_proxies))
        self._make = make
        self._settings = settings
        self._usual = make(settings)
        self._usual.log_rules()
        self._by_root = {settings.root: self._usual}
        self.at_once, self.later = self._usual.at_once, self._usual.later

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        handling = self._usual
        is_message = SERVICE_SUBJECT.encode() in scope.get("query_string", b"")
        if self._public.varies and scope["type"] == "http" and not is_message:
            root = self._public.of(Request.of(scope))
            if root not in self._by_root:
                self._by_root[root] = self._make(replace(self._settings, public_url=root))
            handling = self._by_root[root]
        await handling(scope, receive, send)

    @property
    def waiting_acknowledgments(self) -> int:
        """How many acknowledgments are not in the catalogue yet."""
        return sum(each.waiting_acknowledgments for each in self._by_root.values())

    async def close(self) -> None:
        for each in self._by_root.values():
            await each.close()
        self._close_shared()


class _RequestHandling:
    """Answers requests by one version of the settings; it is replaced when they change."""

    def __init__(
        self,
        directory: DataDirectory,
        settings: ArchiveSettings,
        deposits: Deposits,
        joined: ResolverAddresses,
        jobs: Jobs,
        branding: Branding,
        noticed: Callable[[IBI], bool],
        metrics: ArchiveMetrics,
    ) -> None:
        catalogue, drawn = _own_catalogue(directory, settings), renderer(branding)
        # A second connection, so that long lists of the API do not delay answers to resolvers and readers.
        self._for_api, index = directory.open_catalogue(), SearchIndex(directory.path)
        self._search_pages = pages = _searching(settings, self._for_api, index, branding, drawn)
        api, self._receiver = archive_api(directory, settings, self._for_api, deposits, jobs, pages.routes())
        self._administration = archive_admin.administration(
            directory, settings, self._for_api, deposits, jobs, branding, index, indexer
        )
        self._oai = _harvesting(directory, settings, self._for_api, branding)
        self._service = ArchiveService(
            settings,
            catalogue,
            directory.file_store(),
            time.time,
            drawn,
            Nonce(directory.path, time.time),
            api=api.answer,
            visits=VisitCounter(catalogue, time.time, settings.geo_database),
            holdings=_published_filter(directory, settings),
            attestation_key=partial(public_key, directory.path),
            joined=joined,
            undeclared=UndeclaredProxies(directory.path, time.time),
            counts=metrics.counts,
            facts=pages.facts,
            noticed=noticed,
            shared=store_of(directory.path),
            handlers={**self._handlers(), numbers.PATH: partial(metrics.respond, settings)},
        )
        self.at_once, self.later = self._service.at_once, self._service.later

    def log_rules(self) -> None:
        self._service.log_rules()

    @property
    def waiting_acknowledgments(self) -> int:
        """How many acknowledgments are not in the catalogue yet."""
        return self._service.waiting_acknowledgments

    def _handlers(self) -> dict[str, Handler]:
        return {
            ROOT: self._administration.answer,
            OAI: self._oai.answer,
            **self._search_pages.handlers(),
        }

    def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        return self._service(scope, receive, send)

    async def close(self) -> None:
        await self._receiver.close()
        await self._service.close()
        self._administration.close()
        self._oai.close()
        await self._search_pages.close()
        self._for_api.close()


def _searching(
    settings: ArchiveSettings, catalogue: Catalogue, index: SearchIndex, branding: Branding, drawn: Renderer
) -> SearchPages:
    """Make the pages by which readers find items; the caller closes them."""
    site = SiteContext(settings.root, settings.resolver, settings.admin, search=True)
    name, service = branding.texts("en").name, str(settings.service.main)
    return SearchPages(site, name, catalogue, index, drawn, time.time, service)


def _published_filter(
    directory: DataDirectory, settings: ArchiveSettings
) -> Callable[[Request], Response] | None:
    """Return what answers with the filter of all names that the Archive holds, None if it is not published."""
    return partial(holdings_filter.filter_response, directory.path) if settings.holdings_filter else None


def _harvesting(
    directory: DataDirectory, settings: ArchiveSettings, catalogue: Catalogue, branding: Branding
) -> OaiHandler:
    """Make the OAI-PMH repository, with an index of its own; the caller closes it."""
    index = SearchIndex(directory.path)
    node = node_name(directory.path) if settings.store else ""
    provider = OaiProvider(settings, catalogue, index, RECORD_FORMATS, time.time, branding.institution, node)
    return OaiHandler(provider, index.close, settings.trusted_proxies)


def archive_api(
    directory: DataDirectory,
    settings: ArchiveSettings,
    catalogue: Catalogue,
    deposits: Deposits,
    jobs: Jobs,
    more: Iterable[Route] = (),
) -> tuple[Api, Receiver]:
    """Make the JSON interface, and the receiver of originals (to be closed); `more`: further routes."""
    item_store = directory.item_store_over(catalogue, settings)
    # A staging session cleans up after a killed process, before requests depend on it.
    with suppress(SetupError), item_store.staging_session():
        pass
    uploading, data = upload_store(directory, settings), directory.path
    giver = Giver(item_store, data, settings.root)
    receiver = Receiver(item_store, data, settings.largest_upload)
    acting = ActingOnArchive(directory, item_store, uploading.used, jobs, partial(indexer, directory))
    runner, tokens = operations.OperationRunner(data, OPERATIONS, jobs, CHECKS), Tokens(data)
    runner_of_accounts = operations.OperationRunner(data, accounts.OPERATIONS, jobs)
    people = AccountManager(Accounts(data), tuple(Role), present_moment)
    on_accounts = accounts.ActingOnAccounts(people, tokens, present_moment, ARCHIVE_SCOPES)
    view = items.ItemView(catalogue, lambda: day_of(time.time()), item_store.institution)
    transports_of_items = ItemTransports(item_store, view, deposits, acting.for_program)
    table = (
        *view.routes(),
        *changes.routes(catalogue, settings.service),
        *uploading.routes(),
        *statistics.routes(catalogue),
        *HandleRecords(settings, catalogue, time.time).routes(),
        *transfers.peer_routes(giver, receiver),
        imports.Imports(item_store, uploading).route(),
        *operations.routes(OPERATIONS, acting.for_program, runner, transports_of_items.acts()),
        *operations.routes(accounts.OPERATIONS, on_accounts.for_program, runner_of_accounts),
        *more,
    )
    described, largest = openapi.routes(table, ibi.__version__), settings.largest_upload + FORM_BYTES
    api = Api(described, tokens, largest, uploads.TUNNEL, Replies(data, time.time))
    return api, receiver


def indexer(directory: DataDirectory, catalogue: Catalogue) -> Indexer:
    """Make the indexer, which keeps the search index up to date; the caller closes it."""
    service = str(directory.settings().service.main)
    return Indexer(catalogue, directory.path, time.time, lambda types: kind_of(types).datacite, service)


def _own_catalogue(directory: DataDirectory, settings: ArchiveSettings) -> Catalogue:
    """Open the catalogue. Raises SetupError unless the Archive's service is in it and must stay (ARC-11)."""
    catalogue = directory.open_catalogue()
    service = catalogue.holding(settings.service.main)
    if service is None or service.transferable:
        catalogue.close()
        raise SetupError(
            "{ibi} is not the service item that this Archive began with", ibi=settings.service.main
        )
    return catalogue


def request_exclusions(
    catalogue: Catalogue, resolvers: Resolvers, urls: Sequence[str], *, for_good: bool
) -> list[MembershipRecord]:
    """Ask resolvers to exclude this Archive, which is not served now; return its memberships afterwards.

    `for_good`: the Archive will not come back.
    """

    async def request() -> list[MembershipRecord]:
        client = Client(AddressPolicy(allow_private=True))
        try:
            return await resolver_memberships.request_exclusions(
                resolvers.wanted(ibi.__version__),
                urls,
                client,
                MembershipStore(catalogue),
                time.time,
                for_good=for_good,
            )
        finally:
            await client.close()

    return asyncio.run(request())
