"""Putting together (floor 6): settings become running services, and nothing else does.

Services are told what time it is: this room, and the command line, hand them the real clock. What is
assembled in other rooms of this one is imported when it is asked for: a resolver need not load an Archive.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ibi.exchange import NO_STORE, PLAIN, Response
from ibi.minting.desk import Desk
from ibi.minting.service import MintingService
from ibi.minting.spatial import Place, SpatialDistributor
from ibi.minting.state import FOLDER
from ibi.nonce import Nonce
from ibi.serving import Service
from ibi.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.assembly.archive import archive_directory, archive_service, check_archive, farewell
    from ibi.assembly.resolver import check_resolver, registry, resolver_service
    from ibi.minting import Subsystem

__all__ = [
    "archive_directory",
    "archive_service",
    "check_archive",
    "check_resolver",
    "farewell",
    "mint_service",
    "registry",
    "resolver_service",
]

_ROOMS: Final = dict.fromkeys(
    ("archive_directory", "archive_service", "check_archive", "farewell"), "archive"
) | (dict.fromkeys(("check_resolver", "registry", "resolver_service"), "resolver"))


def __getattr__(name: str) -> Any:
    """What another room of this one assembles, which is imported when it is asked for."""
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_ROOMS[name]}"), name)


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
