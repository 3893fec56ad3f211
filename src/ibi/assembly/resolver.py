"""The resolver, put together: its settings become a running service."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Final

from ibi.assembly.resolver_admin import WithOffice
from ibi.database import check_version, migrate, open_engine, upgrade
from ibi.errors import SetupError
from ibi.nonce import Nonce
from ibi.renewing import Renewing, Watched
from ibi.resolver.evidence import FILE, Evidence
from ibi.resolver.express import Express
from ibi.resolver.filters import LIMITS, HoldingsFilters
from ibi.resolver.gathering import Gathering
from ibi.resolver.holders import refill
from ibi.resolver.knowledge import Knowledge
from ibi.resolver.location_index import LocationIndex
from ibi.resolver.mail import Mail
from ibi.resolver.memory import Memory
from ibi.resolver.metrics import Metrics
from ibi.resolver.mirror import Mirror, Publisher, fetch_list
from ibi.resolver.probation import ASK_EVERY
from ibi.resolver.readiness import Readiness
from ibi.resolver.registration import LARGEST_BODY
from ibi.resolver.registry import MIGRATIONS, Registry
from ibi.resolver.service import ResolverService, host_ports
from ibi.resolver.site import Pages
from ibi.resolver.stores import Doors, Stores
from ibi.resolver.thanks import Thanks
from ibi.resolver.throttle import Throttle
from ibi.serving import Service
from ibi.settings import ResolverSettings
from ibi.signing import signer
from ibi.transport import AddressPolicy, Client, Limits
from ibi.transport.download import Downloads
from ibi.transport.names import system_names
from ibi.web import resolver_pages
from ibi.web.assets import WithAssets
from ibi.web.rendering import page_headers, page_language, sayer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.transport.client import Names

_LONGEST_DRAIN: Final = 6  # seconds: a resolver stops within ten (docs/contract.md)


def registry(data: Path, *, new: bool = False) -> Registry:
    """The registry of the resolver in a data directory; with `new` it is made, or brought to this version.

    Raises SetupError where it cannot be used.
    """
    engine = open_engine(data / "registry.sqlite")
    if new:
        migrate(engine, MIGRATIONS)
    else:
        upgrade(engine, MIGRATIONS)
        check_version(engine, MIGRATIONS)
    return Registry(engine, time.time)


def check_resolver(data: Path) -> None:
    """Raise SetupError for a resolver that could not be served. To be called before any process of it is started.

    Where the hints were lost, who showed each original first is learned again from the evidence.
    """
    ResolverSettings.read(data)
    registry(data).close()
    index, evidence = LocationIndex(data / "hints"), Evidence(data / FILE, time.time)
    try:
        if index.is_empty():
            refill(index, evidence.entries())
    finally:
        index.close()
        evidence.close()


def stores(
    data: Path,
    settings: ResolverSettings,
    names: Names = system_names,
    now: Callable[[], float] = time.time,
) -> Stores:
    """What the resolver of a data directory keeps there; every process that serves it shares the same files."""
    known = registry(data)
    addresses = AddressPolicy(allow_private=settings.allow_private_archives)
    door = partial(Client, addresses, names, LIMITS)
    return Stores(
        known,
        Readiness(known),
        Knowledge(
            LocationIndex(data / "hints"),
            Memory(data / "memory", now, stale_seconds=settings.stale_seconds),
            Evidence(data / FILE, now),
            now,
        ),
        Metrics(data),
        Throttle(data / "attempts", now),
        HoldingsFilters(data / "filters", known.archives, door, now),
        names,
    )


def doors(settings: ResolverSettings, names: Names = system_names) -> Doors:
    """What leads from the resolver to the world."""
    addresses = AddressPolicy(allow_private=settings.allow_private_archives)
    limits = Limits(connect=settings.connect_seconds)
    client = Client(addresses, names, limits)
    return Doors(
        addresses,
        client,
        Client(AddressPolicy(allow_private=True), names, limits),
        Thanks(client, deadline=settings.archive_seconds),
        Mail(settings.smtp, settings.mail_from, settings.address, settings.smtp_password_file),
    )


def resolver_service(
    data: Path,
    *,
    trusted: Sequence[IPv4Network | IPv6Network] = (),
    listening: Sequence[str] = (),
    names: Names | None = None,
    tls: tuple[str, str] | None = None,
) -> Service:
    """The resolver of a data directory, ready to be served; what is changed in its settings counts within a second.

    `trusted` are the networks of believed proxies, `listening` further addresses at which it is reached; `names`
    stands in for this machine's own look-up of host names. Raises SetupError.
    """
    watched = Watched([data / ResolverSettings.FILE], lambda: ResolverSettings.read(data), _refuse)
    settings = watched.look()
    making = _Making(data, stores(data, settings, names or system_names), trusted, listening)
    app = Renewing(watched.look, making.make)
    making.express.look = app.current
    office = WithOffice(app, data, making.stores, watched.look, trusted)

    async def close() -> None:
        making.gathering.close()
        await app.close()
        making.stores.metrics.leave(making.gathering)
        await asyncio.to_thread(office.close)
        await asyncio.to_thread(making.stores.close)

    return Service(
        WithAssets(office),
        partial(making.watch, settings),
        draining=making.stores.readiness.drain,
        close=close,
        tls=tls,
        largest_body=LARGEST_BODY,
        drain_seconds=min(_LONGEST_DRAIN, ceil(settings.overall_seconds) + 1),
        renew=app.look,
        at_once=making.express.get,
        at_once_head=making.express.head,
    )


class _Making:
    """Makes the resolver of a data directory anew when its settings have changed; what it keeps stays open."""

    def __init__(
        self,
        data: Path,
        kept: Stores,
        trusted: Sequence[IPv4Network | IPv6Network],
        listening: Sequence[str],
    ) -> None:
        self.stores = kept
        self._data = data
        self._trusted = trusted
        self._listening = listening
        self._pages = _pages()
        self._current: ResolverService | None = None
        self.gathering = Gathering(kept.metrics)
        kept.metrics.follow(self.gathering, lambda: len(kept.registry.archives()), lambda: 0)
        kept.knowledge.memory.ready.warm()
        self.express = Express(kept.knowledge.memory.ready, self.gathering, kept.knowledge.now)

    def make(self, settings: ResolverSettings) -> ResolverService:
        """The service with these settings."""
        registry, signs = self.stores.registry, partial(signer, self._data)
        self._current = ResolverService(
            settings,
            self.stores,
            doors(settings, self.stores.names),
            trusted=self._trusted,
            listening=self._listening,
            pages=self._pages,
            nonce=Nonce(self._data, time.time),
            publisher=Publisher(registry, settings.service, settings.address, signs, time.time),
        )
        self._current.gather(self.gathering)
        self.express.follow(self._current.rules)
        return self._current

    async def watch(self, settings: ResolverSettings) -> None:
        """What the first process does by itself."""
        await asyncio.gather(self._ask_again(), self._mirror(settings), self.stores.filters.run())

    async def _ask_again(self) -> None:
        """Ask Archives again that have not confirmed, as the settings are at each time."""
        while self._current is not None:
            await self._current.admission.membership.probation.ask_again()
            await asyncio.sleep(ASK_EVERY)

    async def _mirror(self, settings: ResolverSettings) -> None:
        """Take over the Archives of another resolver, if there is one to be mirrored."""
        if not settings.mirror:
            return
        own = host_ports([settings.address, *settings.aliases])
        async with Downloads(AddressPolicy(allow_private=True), self.stores.names) as downloads:
            fetch = partial(fetch_list, downloads, settings.mirror)
            await Mirror(self.stores.registry, settings.mirror_key, fetch, own, time.time).run()


def _refuse(before: ResolverSettings, found: ResolverSettings) -> None:
    if before.service != found.service:
        raise SetupError("the IBI of a resolver's service never changes")


def _pages() -> Pages:
    return Pages(
        home=resolver_pages.home,
        status=resolver_pages.status,
        alert=resolver_pages.alert,
        explanation=resolver_pages.explanation,
        find=resolver_pages.find,
        registration=resolver_pages.registration,
        headers=_raw_headers,
        language=lambda headers: page_language(headers.get(b"accept-language", b"").decode("latin-1")),
        say=sayer,
    )


def _raw_headers(_content_type: str, language: str) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in page_headers(language)]
