"""Assembly of a resolver's administration: its pages and its JSON interface, in front of the resolver."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from ibi.accounts.administration import Administration
from ibi.accounts.layout import ROOT, no_such_page
from ibi.accounts.people import AccountManager, Role
from ibi.accounts.sign_in import Authentication, client_of
from ibi.accounts.tokens import Scope, Tokens
from ibi.api import accounts, operations
from ibi.api.account_pages import AccountPages
from ibi.api.dispatch import Api
from ibi.api.idempotency import Replies
from ibi.api.institution_pages import IdentityPages
from ibi.api.jobs import Jobs
from ibi.api.openapi import PATH
from ibi.api.operation_pages import OperationPages
from ibi.api.operations import OperationGroup
from ibi.api.routes import ROOT as API
from ibi.api.routes import Route, answer
from ibi.http import cors
from ibi.http.client_address import in_networks, list_addresses
from ibi.http.request import Request, hosts_of
from ibi.identifier.dates import TICKS, date_text
from ibi.resolver.api import holders, openapi
from ibi.resolver.evidence.log import EVIDENCE_FILE
from ibi.resolver.evidence.reading import OriginalsAlerts
from ibi.resolver.members.registrar import Registrar
from ibi.resolver.operations.context import ActingOnResolver
from ibi.resolver.operations.listed import GROUPS, OPERATIONS
from ibi.resolver.pages import administration
from ibi.resolver.pages.admin_archives import ArchivePages
from ibi.resolver.pages.registration import LARGEST_BODY
from ibi.web import resolver_pages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.accounts.layout import Layout, PageHandler, PageRequest
    from ibi.accounts.sign_in import Client
    from ibi.api.routes import Call
    from ibi.http.response import Response
    from ibi.identifier.forms import IBI
    from ibi.resolver.members.status import MemberStatus, NetworkStatus
    from ibi.resolver.model.archive import Archive
    from ibi.resolver.service import ResolverService, Stores
    from ibi.runtime.settings import ResolverSettings
    from ibi.web.branding import Branding

SCOPES: Final = (Scope.READ, Scope.ADMIN, Scope.RESOLVE)
"""The scopes that a token of a resolver can have."""

# How long a page waits for the event loop to report the status of the network.
_STATUS_SECONDS: Final = 5.0
# How long a page waits for an Archive that an administrator has asked.
_CONFIRM_SECONDS: Final = 10.0


# In an Archive, tokens have a page of their own; in a resolver, their pages are made from the operations.
_TOKENS: Final = OperationGroup("Tokens of programs", [replace(each, page="") for each in accounts.TOKENS])


EVERY: Final[tuple[operations.Operation[Any, Any], ...]] = (*OPERATIONS, *accounts.OPERATIONS)
"""All operations of a resolver, those on accounts and tokens among them."""


class WithAdministration:
    """Answers requests for a resolver's administration (pages and JSON interface); passes on all others.

    `current` returns the present service, `settings` its settings; `trusted`: networks of trusted proxies. Close it
    before the stores.
    """

    _loop: asyncio.AbstractEventLoop | None = None  # the event loop of the last request

    def __init__(
        self,
        current: Callable[[], ResolverService],
        data: Path,
        stores: Stores,
        settings: Callable[[], ResolverSettings],
        trusted: Sequence[IPv4Network | IPv6Network],
        branding: Callable[[], Branding],
    ) -> None:
        self._current = current
        self._settings = settings
        self._trusted = trusted
        self._registry = stores.registry
        now, evidence = settings(), stores.knowledge.evidence
        authentication = Authentication(data, str(now.service.main), time.time)
        ended = authentication.sessions.end_all
        people = AccountManager(authentication.accounts, (Role.ADMINISTRATOR,), _moment, ended)
        registrar = Registrar(stores.registry, evidence, lambda: current().mail, now.service)
        log = data / EVIDENCE_FILE
        runner = operations.OperationRunner(data, EVERY, Jobs(data, time.time, time.monotonic))
        acting = ActingOnResolver(data, registrar, evidence, OriginalsAlerts(log), self._network_status)
        archives = ArchivePages(acting, self._members, self._confirms, self._check_address, time.time)
        on_accounts = accounts.ActingOnAccounts(people, tokens := Tokens(data), _moment, SCOPES)
        handlers = {
            **administration.AdministrationPages(acting, self._members, log).handlers(),
            **archives.handlers(),
            **AccountPages(authentication, people, on_accounts.for_administrator).handlers(),
            **_made_pages(acting, on_accounts, runner),
        }
        self._pages = Administration(
            authentication,
            handlers,
            partial(_rendered, branding),
            self._caller,
            now.address,
            waiting=archives.waiting,
        )
        self._table = self._routes(acting, on_accounts, runner, stores)
        self._api = Api(self._table, tokens, LARGEST_BODY, replies=Replies(data, time.time))

    def _routes(
        self,
        acting: ActingOnResolver,
        on_accounts: accounts.ActingOnAccounts,
        runner: operations.OperationRunner,
        stores: Stores,
    ) -> tuple[Route, ...]:
        """Make the routes of the JSON interface."""
        return (
            *operations.routes(OPERATIONS, acting.for_program, runner),
            holders.route(stores.knowledge.hints, self._known_archives),
            *operations.routes(accounts.OPERATIONS, on_accounts.for_program, runner),
            Route("GET", PATH, None, self._describe, "this description", gives={"type": "object"}),
        )

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1") if scope["type"] == "http" else ""
        pages = self._pages if path == ROOT or path.startswith(f"{ROOT}/") else None
        handler = pages or (self._api if path.startswith(API) and self._api.knows(path) else None)
        request = Request.of(scope) if handler else None
        if handler is None or request is None or not request.names(self._hosts()):
            await self._current().respond(scope, receive, send)
            return
        self._loop = asyncio.get_running_loop()
        response = cors.shared(request, await handler.answer(request, receive), cors.RESOLVER)
        await response.send(send, head_only=request.method == "HEAD")

    def close(self) -> None:
        """Close the sessions and accounts."""
        self._pages.close()

    async def _status(self) -> NetworkStatus:
        """Return the status of the network as this process knows it."""
        return await self._current().network.status()

    def _known_archives(self) -> list[Archive]:
        """Return the included Archives, and those that are away and may come back."""
        included = self._registry.archives()  # first, because `away` returns what this call has read
        away = self._registry.away(self._settings().original_days * 86_400)
        return [*included, *(each.archive for each in away.values())]

    def _members(self) -> Sequence[MemberStatus]:
        """Return the status of the included Archives; called from another thread than the event loop's."""
        return () if self._loop is None else self._network_status().members

    def _network_status(self) -> NetworkStatus:
        """Return the status of the network; called from another thread than the event loop's."""
        # Only the event loop may compute the status, so this thread waits for it.
        assert self._loop is not None  # noqa: S101 - a request came before
        return asyncio.run_coroutine_threadsafe(self._status(), self._loop).result(_STATUS_SECONDS)

    def _confirms(self, service_ibi: IBI, address: str) -> bool:
        """Ask an Archive for confirmation; called from another thread. Raises ForbiddenAddress, TimeoutError."""
        assert self._loop is not None  # noqa: S101 - a request came before
        asking = self._current().inclusion.confirmation.confirms(service_ibi, address)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(_CONFIRM_SECONDS)

    def _check_address(self, service_ibi: IBI, address: str) -> None:
        """Raise ForbiddenAddress for an address at which no Archive can be."""
        self._current().inclusion.confirmation.check(service_ibi, address)

    async def _describe(self, _call: Call) -> Response:
        registers = self._settings().registration == "form"
        return answer(openapi.document(registers=registers, publishes=True, table=self._table))

    def _hosts(self) -> frozenset[str]:
        settings = self._settings()
        return hosts_of(settings.addresses)

    def _caller(self, request: Request) -> Client:
        proxied = in_networks(request.peer, tuple(map(str, self._trusted)))
        addresses = list_addresses(request.peer, request.header(b"x-forwarded-for"), self._trusted)
        return client_of(request, addresses[-1], proxied=proxied)


def _made_pages(
    acting: ActingOnResolver, on_accounts: accounts.ActingOnAccounts, runner: operations.OperationRunner
) -> dict[str, PageHandler]:
    """Return the handlers of the pages of operations, and of the identity, which is one of them."""
    groups = [
        *((group, acting.for_administrator) for group in GROUPS),
        (_TOKENS, on_accounts.for_administrator),
    ]
    pages = OperationPages(groups, runner, _keep_nothing)
    return {**IdentityPages(acting.for_administrator).handlers(), **pages.handlers()}


def _keep_nothing(_visit: PageRequest, _file: object) -> NoReturn:
    raise no_such_page()  # no operation of a resolver takes a file


def _moment() -> str:
    return date_text(time.time_ns() // TICKS * TICKS)


def _rendered(branding: Callable[[], Branding], page: Layout, language: str) -> bytes:
    return resolver_pages.render(page, language, branding())
