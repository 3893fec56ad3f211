"""The administration of a resolver, put together, and set before what answers readers and Archives."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ibi.archive.access import within
from ibi.exchange import Asked, hosts_of
from ibi.identifier.dates import TICKS, date_text
from ibi.resolver import administration
from ibi.resolver.evidence import FILE
from ibi.resolver.mail import Mail
from ibi.resolver.visitor import client_addresses
from ibi.signing_in.account_pages import AccountForm, AccountsForm
from ibi.signing_in.door import Door, caller_of
from ibi.signing_in.frames import FrameRenderer
from ibi.signing_in.office import Manners, Office
from ibi.signing_in.roles import Role
from ibi.signing_in.visit import ROOT
from ibi.web import resolver_administration_pages
from ibi.web.rendering import page_language

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.resolver.stores import Stores
    from ibi.settings import ResolverSettings
    from ibi.signing_in.door import Caller
    from ibi.signing_in.visit import Screen

    Application = Callable[[dict[str, Any], Any, Any], Awaitable[None]]


class WithOffice:
    """A resolver, and before it its administration. Whatever else is asked goes to the resolver.

    `settings` gives those of now; `trusted`: networks of believed proxies. To be closed before the stores are.
    """

    def __init__(
        self,
        app: Application,
        data: Path,
        stores: Stores,
        settings: Callable[[], ResolverSettings],
        trusted: Sequence[IPv4Network | IPv6Network],
    ) -> None:
        self._app = app
        self._settings = settings
        self._trusted = tuple(map(str, trusted))
        self._networks = trusted
        now = settings()
        self._mail = Mail(now.smtp, now.mail_from, now.address)
        door = Door(data, str(now.service.main), time.time)
        registry, witness = stores.registry, stores.knowledge.evidence
        screens: dict[str, Screen] = {
            "": administration.Overview(registry, data / FILE),
            "applications": administration.ApplicationsForm(registry, witness, self._mail),
            "archives": administration.ArchivesForm(registry),
            "log": administration.LogScreen(data / FILE),
            "policies": administration.PoliciesScreen(data),
            "accounts": AccountsForm(door, _moment, (Role.ADMINISTRATOR,)),
            "account": AccountForm(door),
        }
        manners = Manners(self._caller, lambda _: None, now.address)
        renderer = FrameRenderer(resolver_administration_pages.render, page_language)
        self._office = Office(door, screens, renderer, manners)

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Answer one request."""
        asked = Asked.of(scope) if scope["type"] == "http" and _is_ours(scope["raw_path"]) else None
        if asked is None or not asked.names(self._hosts()):
            await self._app(scope, receive, send)
            return
        response = await self._office.answer(asked, receive)
        await response.send(send, head_only=asked.method == "HEAD")

    def close(self) -> None:
        """Give up what is held."""
        self._office.close()
        self._mail.close()

    def _hosts(self) -> frozenset[str]:
        settings = self._settings()
        return hosts_of((settings.address, *settings.aliases))

    def _caller(self, asked: Asked) -> Caller:
        proxied = within(asked.peer, self._trusted)
        addresses = client_addresses(asked.peer, asked.header(b"x-forwarded-for"), self._networks)
        return caller_of(asked, addresses[-1], proxied=proxied)


def _is_ours(raw_path: bytes) -> bool:
    path = raw_path.partition(b"?")[0].decode("latin-1")
    return path == ROOT or path.startswith(f"{ROOT}/")


def _moment() -> str:
    return date_text(time.time_ns() // TICKS * TICKS)
