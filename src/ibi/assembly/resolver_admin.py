"""The administration of a resolver, its pages and what programs ask, set before what answers readers and Archives."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import within
from ibi.exchange import Asked, Response, hosts_of
from ibi.identifier.dates import TICKS, date_text
from ibi.interface.dispatch import Api
from ibi.interface.openapi import PATH
from ibi.interface.refusal import Refusal
from ibi.interface.routes import ROOT as API
from ibi.interface.routes import Route, answer
from ibi.resolver import administration, openapi
from ibi.resolver.api import policies, records, registrations
from ibi.resolver.evidence import FILE
from ibi.resolver.registrar import Registrar
from ibi.resolver.registration import LARGEST_BODY
from ibi.resolver.suspects import Suspicions
from ibi.resolver.visitor import client_addresses
from ibi.signing_in import people_doors
from ibi.signing_in.account_pages import AccountForm, AccountsForm
from ibi.signing_in.door import Door, caller_of
from ibi.signing_in.frames import FrameRenderer
from ibi.signing_in.office import Manners, Office
from ibi.signing_in.people import People
from ibi.signing_in.roles import Role
from ibi.signing_in.visit import ROOT
from ibi.tokens import Scope, Tokens
from ibi.web import resolver_administration_pages
from ibi.web.rendering import page_language

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.errors import IbiError
    from ibi.exchange import Headers
    from ibi.interface.routes import Call
    from ibi.renewing import Renewing
    from ibi.resolver.mail import Mail
    from ibi.resolver.service import ResolverService
    from ibi.resolver.status import Member, Status
    from ibi.resolver.stores import Stores
    from ibi.settings import ResolverSettings
    from ibi.signing_in.door import Caller
    from ibi.signing_in.visit import Screen

SCOPES: Final = (Scope.READ, Scope.ADMIN)
"""What a token of a resolver can be good for."""

_LOOKING: Final = 5.0  # seconds that a page waits to be told how Archives are


class WithOffice:
    """A resolver, and before it its administration. Whatever else is asked goes to the resolver.

    `settings` gives those of now; `trusted`: networks of believed proxies. To be closed before the stores are.
    """

    _service: ResolverService  # as it was when somebody asked last

    def __init__(
        self,
        app: Renewing[ResolverSettings, ResolverService],
        data: Path,
        stores: Stores,
        settings: Callable[[], ResolverSettings],
        trusted: Sequence[IPv4Network | IPv6Network],
    ) -> None:
        self._app = app
        self._settings = settings
        self._trusted = tuple(map(str, trusted))
        self._networks = trusted
        self._loop: asyncio.AbstractEventLoop | None = None
        now, evidence = settings(), stores.knowledge.evidence
        door = Door(data, str(now.service.main), time.time)
        people = People(door.accounts, (Role.ADMINISTRATOR,), _moment, door.sessions.end_all)
        registrar = Registrar(stores.registry, evidence, self._letters, now.service)
        suspicions = Suspicions(data / FILE)
        screens: dict[str, Screen] = {
            "": administration.Overview(registrar, suspicions, self._members),
            "applications": administration.ApplicationsForm(registrar),
            "archives": administration.ArchivesForm(registrar, self._members),
            "alerts": administration.AlertsScreen(suspicions),
            "log": administration.LogScreen(data / FILE),
            "policies": administration.PoliciesForm(data, evidence),
            "accounts": AccountsForm(people),
            "account": AccountForm(door),
        }
        manners = Manners(self._caller, _judge, now.address)
        renderer = FrameRenderer(resolver_administration_pages.render, page_language)
        self._office = Office(door, screens, renderer, manners)
        tokens = Tokens(data)
        self._table = (
            *registrations.routes(registrar, self._status),
            *records.routes(data / FILE, evidence, suspicions),
            *policies.routes(data, evidence),
            *people_doors.routes(people, tokens, _moment, SCOPES),
            Route("GET", PATH, None, self._describe, "this description", gives={"type": "object"}),
        )
        self._api = Api(self._table, tokens, LARGEST_BODY)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        path = scope["raw_path"].partition(b"?")[0].decode("latin-1") if scope["type"] == "http" else ""
        ours = self._office if path == ROOT or path.startswith(f"{ROOT}/") else None
        door = ours or (self._api if path.startswith(API) and self._api.knows(path) else None)
        asked = Asked.of(scope) if door else None
        if door is None or asked is None or not asked.names(self._hosts()):
            await self._app(scope, receive, send)
            return
        self._loop, self._service = asyncio.get_running_loop(), self._app.current()
        response = await door.answer(asked, receive)
        await response.send(send, head_only=asked.method == "HEAD")

    def close(self) -> None:
        """Give up what is held."""
        self._office.close()

    def _letters(self) -> Mail:
        """What sends letters as the settings are now; its service closes it."""
        return self._service.admission.mail

    async def _status(self) -> Status:
        """How the network stands, as far as this process knows."""
        return await self._app.current().board.look()

    def _members(self) -> Sequence[Member]:
        """The same of the included Archives, for a page that is made in another thread."""
        if self._loop is None:
            return ()
        return asyncio.run_coroutine_threadsafe(self._status(), self._loop).result(_LOOKING).members

    async def _describe(self, _call: Call) -> Response:
        registers = self._settings().registration == "form"
        return answer(openapi.document(registers=registers, publishes=True, table=self._table))

    def _hosts(self) -> frozenset[str]:
        settings = self._settings()
        return hosts_of((settings.address, *settings.aliases))

    def _caller(self, asked: Asked) -> Caller:
        proxied = within(asked.peer, self._trusted)
        addresses = client_addresses(asked.peer, asked.header(b"x-forwarded-for"), self._networks)
        return caller_of(asked, addresses[-1], proxied=proxied)


def _judge(error: Exception) -> tuple[int, IbiError, Headers] | None:
    """What an error of a resolver's rooms means to somebody at a page; None for others."""
    return (error.status, error.why, error.headers) if isinstance(error, Refusal) else None


def _moment() -> str:
    return date_text(time.time_ns() // TICKS * TICKS)
