"""Assembly of a resolver: make its service from its settings, and again when these change."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, Final

from ibi.accounts.tokens import Tokens
from ibi.app.resolver_admin import WithAdministration
from ibi.app.resolver_nodes import NodeTasks
from ibi.app.resolver_stores import check_resolver, follow_store, open_registry, open_stores
from ibi.errors import SetupError
from ibi.http.client import AddressPolicy, Client, ClientLimits
from ibi.http.client.address_policy import system_lookup
from ibi.http.client.download import Downloads
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
from ibi.protocol.vocabulary import SERVICE_SUBJECT
from ibi.resolver.acknowledgments.counter import ReaderCounter
from ibi.resolver.acknowledgments.queue import AcknowledgmentQueue
from ibi.resolver.cache.change_requests import LOOK_SECONDS
from ibi.resolver.cache.filters import LIMITS
from ibi.resolver.fast_path import FastPath
from ibi.resolver.members.confirmation import ASK_AGAIN_SECONDS
from ibi.resolver.members.mail import MailSender
from ibi.resolver.pages.registration import LARGEST_BODY
from ibi.resolver.pages.site import Pages
from ibi.resolver.registry.mirror import Mirror, fetch_list
from ibi.resolver.registry.published_list import Publisher
from ibi.resolver.service import Outgoing, ResolverService, Stores, host_ports
from ibi.runtime.duty_lock import DutyLock
from ibi.runtime.nonce import Nonce
from ibi.runtime.reload import ReloadingApp, WatchedSettings
from ibi.runtime.settings import ResolverSettings
from ibi.runtime.settings.institution import Institution
from ibi.runtime.shared.store import close_store, store_of, store_url
from ibi.runtime.signing import signer
from ibi.runtime.tasks import keep_running
from ibi.web import resolution_pages, resolver_pages
from ibi.web.assets import WithAssets
from ibi.web.branding import Branding, branding_of
from ibi.web.rendering import page_headers, sayer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.http.client.address_policy import HostLookup
    from ibi.http.public_url import TLSPorts

__all__ = ["check_resolver", "open_registry", "resolver_service", "site_pages"]

# Seconds that resolutions may continue after the signal to stop. With the closing of files, a resolver ends
# within twelve seconds (docs/reference/operations.md).
_LONGEST_DRAIN: Final = 6


def _outgoing(
    settings: ResolverSettings, host_lookup: HostLookup, institution: Callable[[], Institution]
) -> Outgoing:
    """Make the senders of the resolver: HTTP clients, acknowledgments, mail."""
    addresses = AddressPolicy(allow_private=settings.allow_private_archives)
    limits = ClientLimits(connect=settings.connect_seconds)
    client = Client(addresses, host_lookup, limits)
    return Outgoing(
        addresses,
        client,
        # The administrator chose the upstream resolver, so it may be at a private address; an Archive may not (T01).
        Client(AddressPolicy(allow_private=True), host_lookup, limits),
        AcknowledgmentQueue(client, deadline=settings.archive_seconds),
        MailSender(
            settings.smtp, settings.mail_from, settings.address, settings.smtp_password_file, institution
        ),
    )


def _kind_of_request(_method: str, target: bytes) -> str:
    """Return the kind of a request for its span: a message of the standard, a page of its own, or a click."""
    if SERVICE_SUBJECT.encode() in target:
        return "message"
    path = target.partition(b"?")[0]
    of_resolver = path.startswith((b"/-/", b"/.well-known/")) or path in {
        b"/",
        b"/robots.txt",
        b"/favicon.ico",
    }
    return "page" if of_resolver else "click"


@traced("resolver", _kind_of_request, time.time_ns)
def resolver_service(
    data: Path,
    *,
    trusted: Sequence[IPv4Network | IPv6Network] = (),
    listening: Sequence[str] = (),
    host_lookup: HostLookup | None = None,
    tls: tuple[str, str] | None = None,
    tls_ports: TLSPorts | None = None,
) -> Service:
    """Make the service of a resolver; most changed settings take effect at the next request, within half a second.

    `trusted`: the networks of trusted proxies; `listening`: further addresses of the resolver; `host_lookup`
    replaces that of this machine; `tls_ports`: where it listens, for the root of its URLs, if it
    does so with the certificate and key `tls`. Raises SetupError.
    """
    read = partial(_read_settings, data, tls_ports)
    follow_store(data)
    watched = WatchedSettings([data / ResolverSettings.FILE], read, _refuse)
    settings = watched.current()
    stores = open_stores(data, settings, host_lookup or system_lookup)
    assembly = _Assembly(data, stores, watched.current, trusted, listening)
    app = ReloadingApp(watched.current, assembly.make)
    assembly.fast_path.reload = app.current

    async def close() -> None:
        assembly.counter.close()
        await app.close()
        stores.metrics.leave(assembly.counter)
        await asyncio.to_thread(assembly.administration.close)
        await asyncio.to_thread(stores.close)
        await asyncio.to_thread(close_store, data)

    return Service(
        app,
        partial(assembly.watch, settings),
        draining=stores.readiness.drain,
        close=close,
        tls=tls,
        largest_body=LARGEST_BODY,
        drain_seconds=min(_LONGEST_DRAIN, ceil(settings.overall_seconds) + 1),
        reload=app.reload,
        at_once=assembly.fast_path.at_once,
        repeat=assembly.fast_path.repeat,
        background=partial(keep_running, "metrics", stores.metrics.watch),
        proxies=lambda: tuple(map(str, trusted)),
    )


def _read_settings(data: Path, tls_ports: TLSPorts | None) -> ResolverSettings:
    settings = ResolverSettings.read(data)
    root = settings.public_url or (tls_ports.root(settings.address) if tls_ports else "")
    return replace(settings, public_url=root)


class _Assembly:
    """Makes the service of a resolver for each version of its settings, over stores that stay open."""

    _current: ResolverService  # made before the first request

    def __init__(
        self,
        data: Path,
        stores: Stores,
        settings: Callable[[], ResolverSettings],
        trusted: Sequence[IPv4Network | IPv6Network],
        listening: Sequence[str],
    ) -> None:
        self._stores = stores
        self._data = data
        self._trusted = trusted
        self._listening = listening
        watched = WatchedSettings([data / Institution.FILE], lambda: Institution.of(data), _accept)
        self._institution = watched.current
        # The branding is made of both, whichever has changed, and the pages ask for it each time.
        branding = partial(_branding, settings, self._institution)
        self._pages = site_pages(branding)
        self._tokens = Tokens(data)
        self.administration = WithAdministration(
            lambda: self._current, data, stores, settings, trusted, branding
        )
        self._own_pages = WithAssets(self.administration, lambda: branding().assets)
        self.counter = ReaderCounter(stores.metrics)
        stores.metrics.follow(self.counter, lambda: len(stores.registry.archives()), lambda: 0)
        knowledge = stores.knowledge
        stores.metrics.follow_stores(
            lambda: knowledge.cache.dropped,
            lambda: knowledge.hints.dropped,
            lambda: knowledge.evidence.overflow,
            lambda: knowledge.disputes,
        )
        stores.knowledge.cache.prefetch()
        self.fast_path = FastPath(stores.redirects, self.counter, knowledge.cache.now, knowledge.cache.boot)
        self.fast_path.renew = self._renew

    def make(self, settings: ResolverSettings) -> ResolverService:
        """Make the service with these settings."""
        registry, signs = self._stores.registry, partial(signer, self._data)
        outgoing = _outgoing(settings, self._stores.host_lookup, self._institution)
        before = getattr(self, "_current", None)
        self._current = ResolverService(
            settings,
            self._stores,
            outgoing,
            trusted=self._trusted,
            listening=self._listening,
            pages=self._pages,
            nonce=Nonce(self._data, time.time),
            tokens=self._tokens,
            publisher=Publisher(registry.listed, settings.service, settings.address, signs, time.time),
            own_pages=self._own_pages,
        )
        # Only after the service was made: settings that it refuses must not take effect for the stores.
        self._stores.redirects.resize(settings.redirect_mebibytes << 20)
        self._stores.filters.use(partial(Client, outgoing.addresses, self._stores.host_lookup, LIMITS))
        self._current.take_over(before)
        self._current.use_counter(self.counter)
        self.fast_path.follow(self._current.cache_policy)
        return self._current

    def _renew(self, slots: Sequence[int]) -> None:
        self._current.changes.renew_slots(slots)

    async def watch(self, settings: ResolverSettings) -> None:
        """Run the work of the first process of each node; of several nodes, one does confirmations and mirroring."""
        await asyncio.gather(
            keep_running("confirmations", self._at_one_node("confirmations", self._confirm_again)),
            keep_running("mirroring", self._at_one_node("mirroring", partial(self._mirror, settings))),
            keep_running("holdings filters", self._stores.filters.run),
            keep_running("requests for changes", self._request_changes),
            *self._work_of_node(),
        )

    def _at_one_node(self, name: str, work: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Return endless work that only one of the nodes that share a store does at a time."""
        url = store_url(self._data)
        return partial(DutyLock(url, f"resolver {name}").while_held, work) if url else work

    def _work_of_node(self) -> Sequence[Awaitable[None]]:
        """Return what one process of each node does where several nodes share a store."""
        store = store_of(self._data)
        if store is None:
            return ()
        node = NodeTasks(self._data, store, self._stores, lambda: self._current.changes)
        return (
            keep_running("evidence of other nodes", node.follow_evidence),
            keep_running("notices of other nodes", node.hear_notices),
        )

    async def _confirm_again(self) -> None:
        """Ask unconfirmed Archives again and again, by the present settings (T18)."""
        while True:
            await self._current.inclusion.probation.ask_again()
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    async def _request_changes(self) -> None:
        """Ask Archives what has changed that were not asked for long, by the present settings."""
        while True:
            await self._current.changes.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def _mirror(self, settings: ResolverSettings) -> None:
        """Mirror the list of Archives of another resolver, if the settings name one."""
        if not settings.mirror:
            return
        own = host_ports(settings.addresses)
        async with Downloads(AddressPolicy(allow_private=True), self._stores.host_lookup) as downloads:
            fetch = partial(fetch_list, downloads, settings.mirror)
            registry, key = self._stores.registry, settings.mirror_key
            await Mirror(registry, key, fetch, own, settings.service, time.time).run()


def _branding(settings: Callable[[], ResolverSettings], institution: Callable[[], Institution]) -> Branding:
    now = settings()
    registers = now.registration == "form"
    return branding_of(institution(), now.address, now.admin, is_archive=False, registers=registers)


def _accept(_before: Institution, _found: Institution) -> None:
    """Accept every change."""


def _refuse(before: ResolverSettings, found: ResolverSettings) -> None:
    if before.service != found.service:
        raise SetupError("the IBI of a resolver's service never changes")


def _unbranded() -> Branding:
    return Branding(is_archive=False)


def site_pages(branding: Callable[[], Branding] = _unbranded) -> Pages:
    """Bundle the functions that write the pages of a resolver; the resolver itself writes no HTML.

    `branding` returns the present branding of its institution.
    """

    def framed(write: Callable[..., bytes]) -> Callable[..., bytes]:
        return lambda *values: write(*values, branding())

    return Pages(
        home=framed(resolver_pages.home),
        programs=framed(resolver_pages.programs),
        about=framed(resolver_pages.about),
        status=framed(resolver_pages.status),
        alert=framed(resolution_pages.alert),
        explanation=framed(resolution_pages.explanation),
        find=framed(resolver_pages.find),
        registration=framed(resolver_pages.registration),
        headers=lambda _, language: [
            (name.encode(), value.encode()) for name, value in page_headers(language)
        ],
        say=sayer,
    )
