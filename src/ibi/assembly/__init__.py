"""Putting together (floor 6): settings become running services, and nothing else does.

Services are told what time it is: this room, and the command line, hand them the real clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.assembly.archive import archive_directory, archive_service, check_archive, farewell
from ibi.database import check_version, migrate, open_engine
from ibi.exchange import NO_STORE, PLAIN, Response
from ibi.minting.desk import Desk
from ibi.minting.service import MintingService
from ibi.minting.spatial import Place, SpatialDistributor
from ibi.minting.state import FOLDER
from ibi.nonce import Nonce
from ibi.resolver.fanout import Thanks
from ibi.resolver.registry import MIGRATIONS, Registry
from ibi.resolver.service import ResolverService
from ibi.resolver.site import Pages
from ibi.serving import Service
from ibi.settings import ResolverSettings
from ibi.tokens import Tokens
from ibi.transport import AddressPolicy, Client, Limits
from ibi.web import resolver_pages
from ibi.web.rendering import page_headers, page_language, sayer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from ipaddress import IPv4Network, IPv6Network
    from pathlib import Path

    from ibi.minting import Subsystem
    from ibi.transport.client import Names

__all__ = [
    "archive_directory",
    "archive_service",
    "check_archive",
    "farewell",
    "mint_service",
    "registry",
    "resolver_service",
]


def registry(data: Path, *, new: bool = False) -> Registry:
    """The registry of the resolver in a data directory; with `new` it is made, or brought to this version.

    Raises SetupError where it cannot be used.
    """
    engine = open_engine(data / "registry.sqlite")
    if new:
        migrate(engine, MIGRATIONS)
    else:
        check_version(engine, MIGRATIONS)
    return Registry(engine, time.time)


def resolver_service(
    data: Path,
    *,
    trusted: Sequence[IPv4Network | IPv6Network] = (),
    listening: Sequence[str] = (),
    names: Names | None = None,
    tls: tuple[str, str] | None = None,
) -> Service:
    """The resolver of a data directory, ready to be served.

    `trusted` are the networks of believed proxies, `listening` further addresses at which it is reached; `names`
    stands in for this machine's own look-up of host names. Raises SetupError.
    """
    settings = ResolverSettings.read(data)
    policy = AddressPolicy(allow_private=settings.allow_private_archives)
    client = Client(policy, names, Limits(connect=settings.connect_seconds))
    thanks = Thanks(client, deadline=settings.archive_seconds)
    app = ResolverService(
        settings,
        registry(data),
        client,
        thanks,
        policy,
        trusted=trusted,
        listening=listening,
        pages=_pages(),
        nonce=Nonce(data, time.time),
    )
    return Service(app, close=app.close, tls=tls)


def mint_service(
    data: Path, places: Sequence[Place[Subsystem]], *, workers: int = 1, tls: tuple[str, str] | None = None
) -> Service:
    """The minting service of a data directory, ready to be served: one of `workers` that draw from its subsystems."""
    desks = [
        Place(Desk(place.who.room, place.who.generator, place.who.granularity, workers), place.collections)
        for place in places
    ]
    spatial = SpatialDistributor(desks)
    nonce = Nonce(data, time.time)
    app = MintingService(
        [place.who for place in desks],
        Tokens(data / FOLDER),
        lambda order: spatial.choose(order.collection, lambda desk: desk.delay(order.count), order.able),
        {"/-/nonce": lambda: Response(*nonce.answer(), PLAIN, NO_STORE)},
    )
    return Service(app, draining=app.stop, tls=tls)


def _pages() -> Pages:
    return Pages(
        home=resolver_pages.home,
        alert=resolver_pages.alert,
        explanation=resolver_pages.explanation,
        find=resolver_pages.find,
        headers=_raw_headers,
        language=lambda headers: page_language(headers.get(b"accept-language", b"").decode("latin-1")),
        say=sayer,
    )


def _raw_headers(_content_type: str, language: str) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in page_headers(language)]
