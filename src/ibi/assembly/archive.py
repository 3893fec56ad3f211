"""The Archive, put together: its settings become a running service, its duties and its place in networks."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import ibi
from ibi.archive.care import audit_duty
from ibi.archive.care.audit_duty import AuditDuty
from ibi.archive.directory import ArchiveDirectory
from ibi.archive.networking import holdings, networks
from ibi.archive.networking.duties import Duties, Duty
from ibi.archive.networking.holdings import Holdings
from ibi.archive.networking.joining import Resolvers
from ibi.archive.networking.networks import Kept, Memberships
from ibi.archive.networking.notices import Notices
from ibi.archive.networking.renewal import Renewing, Watched
from ibi.archive.oai.provider import OAI
from ibi.archive.service import ArchiveService, identity_of
from ibi.archive.sharing import refreshing, transfer
from ibi.archive.sharing.copying import Copier
from ibi.archive.sharing.giving import Giver
from ibi.archive.website.pages import Renderer
from ibi.archive.website.statistics import Visits
from ibi.assembly.archive_admin import administration
from ibi.assembly.archive_api import archive_api, largest_body, upload_store
from ibi.assembly.archive_finding import finding, index_duties
from ibi.assembly.archive_oai import oai_door
from ibi.errors import SetupError
from ibi.minting.machine import this_machine
from ibi.nonce import Nonce
from ibi.serving import Service
from ibi.signing import public_key
from ibi.signing_in.visit import ROOT
from ibi.transport import AddressPolicy, Client
from ibi.web import archive_pages, qr
from ibi.web.assets import WithAssets
from ibi.web.formats.table import FORMATS, schema_kind
from ibi.web.rendering import page_headers, page_language, sayer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    from ibi.archive.catalogue import Catalogue
    from ibi.archive.ledgers.memberships import Member
    from ibi.settings import ArchiveSettings
    from ibi.transport.client import Names

EXPIRE_EVERY: Final = 3600.0
"""Seconds between two looks for uploads that nobody goes on with."""


def archive_directory(data: Path) -> ArchiveDirectory:
    """The data directory of an Archive, with the real clock for its labels."""
    return ArchiveDirectory(data, this_machine())


def archive_service(
    data: Path,
    *,
    names: Names | None = None,
    tls: tuple[str, str] | None = None,
    trusted: Sequence[str] = (),
) -> Service:
    """The Archive of a data directory, ready to be served; it takes part at its resolvers and does its duties.

    Its resolvers were chosen by its administrator, so they may be at any address. `names` stands in for this machine's
    own look-up of host names; `trusted` are networks of believed proxies besides those of the settings. What is
    changed in the settings counts within a second. Raises SetupError.
    """
    directory = archive_directory(data)
    watched = Watched(data)
    app = Renewing(watched, lambda settings: _Answering(directory, settings, trusted))
    ledger = directory.open_catalogue()
    client, telling_client = (Client(AddressPolicy(allow_private=True), names) for _ in range(2))
    part = Memberships(lambda: watched.look().wanted(ibi.__version__), client, Kept(ledger), time.time)
    telling = Notices(ledger, lambda: watched.look().wanted(ibi.__version__), Kept(ledger), telling_client)
    handing = lru_cache(maxsize=1)(lambda settings: _hand_overs(directory, ledger, settings, names))
    caring = lru_cache(maxsize=1)(lambda settings: _duties(directory, ledger, settings, names))
    hand_overs = Duties(lambda: handing(watched.look().settings))  # they wait for no long audit
    duties = Duties(lambda: caring(watched.look().settings))

    async def started() -> None:
        indexing = index_duties(directory, ledger)
        await asyncio.gather(part.run(), telling.run(), hand_overs.run(), duties.run(), indexing.run())

    async def close() -> None:
        await part.close()
        await app.close()
        ledger.close()

    most = largest_body(watched.look().settings)
    return Service(
        WithAssets(app),
        started,
        part.stop,
        close,
        tls,
        largest_body=most,
        renew=app.look,
        at_once=app.at_once,
    )


def check_archive(data: Path, trusted: Sequence[str] = ()) -> ArchiveSettings:
    """The settings of an Archive that could be served. Raises SetupError for one that could not."""
    directory = archive_directory(data)
    settings = replace(Resolvers.read(data).settings, trusted_proxies=tuple(trusted))
    identity_of(settings)
    _own_catalogue(directory, settings).close()
    return settings


class _Answering:
    """What answers as the settings are at one time; it is made anew when they have changed."""

    def __init__(
        self, directory: ArchiveDirectory, settings: ArchiveSettings, trusted: Sequence[str]
    ) -> None:
        settings = replace(settings, trusted_proxies=(*settings.trusted_proxies, *trusted))
        catalogue = _own_catalogue(directory, settings)
        self._for_api = directory.open_catalogue()  # its long looks hold up no answer
        renderer = Renderer(
            archive_pages.render, page_headers, page_language, sayer, FORMATS, schema_kind, qr.svg
        )
        self._finding = finding(directory, settings, self._for_api, renderer)
        api, self._receiver = archive_api(directory, settings, self._for_api, self._finding.routes())
        self._administration = administration(directory, settings, self._for_api)
        self._harvested = oai_door(directory, settings, self._for_api)
        self._service = ArchiveService(
            settings,
            catalogue,
            directory.storage(),
            time.time,
            renderer,
            Nonce(directory.path, time.time),
            api=api.answer,
            visits=Visits(catalogue, time.time, settings.geo_database),
            holdings=partial(holdings.page, directory.path) if settings.holdings_filter else None,
            attestation_key=partial(public_key, directory.path),
            doors={ROOT: self._administration.answer, OAI: self._harvested.answer, **self._finding.doors()},
        )

    def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> Coroutine[Any, Any, None]:
        return self._service(scope, receive, send)

    def at_once(
        self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str
    ) -> tuple[int, bytes, None] | None:
        return self._service.at_once(target, headers, peer)

    async def close(self) -> None:
        await self._receiver.close()
        await self._service.close()
        self._administration.close()
        self._harvested.close()
        await self._finding.close()
        self._for_api.close()


def _own_catalogue(directory: ArchiveDirectory, settings: ArchiveSettings) -> Catalogue:
    """The catalogue, if it holds the Archive's own service as an original that must stay (ARC-11)."""
    catalogue = directory.open_catalogue()
    service = catalogue.holding(settings.service.main)
    if service is None or service.transferable:
        catalogue.close()
        raise SetupError(
            "{ibi} is not the service item that this Archive began with", ibi=settings.service.main
        )
    return catalogue


def farewell(ledger: Catalogue, resolvers: Resolvers, urls: Sequence[str]) -> list[Member]:
    """Say goodbye to resolvers that may think this Archive is there, while nobody serves it; how it stands then."""

    async def say() -> list[Member]:
        client = Client(AddressPolicy(allow_private=True))
        try:
            return await networks.farewell(
                resolvers.wanted(ibi.__version__), urls, client, Kept(ledger), time.time
            )
        finally:
            await client.close()

    return asyncio.run(say())


def _hand_overs(
    directory: ArchiveDirectory, catalogue: Catalogue, settings: ArchiveSettings, names: Names | None
) -> list[Duty]:
    """Going on with what is being handed over to other Archives."""
    keeper = directory.keeper_of(catalogue, settings)
    return [transfer.duty(Giver(keeper, directory.path, f"http://{settings.address}", names))]


def _duties(
    directory: ArchiveDirectory, catalogue: Catalogue, settings: ArchiveSettings, names: Names | None
) -> list[Duty]:
    """What the first process does by itself, besides taking part at resolvers."""
    storage = directory.storage()
    keeper = directory.keeper_of(catalogue, settings)
    copier = Copier(keeper, settings.resolver, settings.largest_upload, names)
    under_way = upload_store(directory, settings)
    found = [
        Duty("uploads", EXPIRE_EVERY, lambda: asyncio.to_thread(under_way.expire)),
    ]
    if settings.holdings_filter:
        found.append(Holdings(catalogue, directory.path).duty())
    if settings.refresh_hours:
        found.append(refreshing.duty(copier, settings.refresh_hours, time.time))
    if settings.audit_days:
        audit = AuditDuty(catalogue, storage, time.time, settings.audit_days)
        found.append(Duty("audit", audit_duty.EVERY, audit.portion, close=audit.close))
    return found
