"""Assembly: services are put together from settings and packages that do not know each other; and the doctor.

It decides nothing that a reader or a peer sees: that stands in the packages below.

Entry points: `archive_service`, `resolver_service` and `mint_service` make what a server runs; `check_archive` and
`check_resolver` find faults before any process is started; `doctor.doctor.Checkup` looks at a data directory.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Tokens
from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.http.server.service import Service
from ibi.minting.batcher import LabelBatcher
from ibi.minting.service import MintingService
from ibi.minting.state import FOLDER
from ibi.minting.subsystem import Candidate, SpatialDistributor
from ibi.runtime.nonce import Nonce

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.app.archive import archive_directory, archive_service, check_archive, request_exclusions
    from ibi.app.resolver import check_resolver, registry, resolver_service
    from ibi.minting import Subsystem

__all__ = [
    "archive_directory",
    "archive_service",
    "check_archive",
    "check_resolver",
    "mint_service",
    "registry",
    "request_exclusions",
    "resolver_service",
]

# Imported when they are used, since a resolver need not load an Archive, nor a mint either of them.
_MODULES: Final = dict.fromkeys(
    ("archive_directory", "archive_service", "check_archive", "request_exclusions"), "archive"
) | (dict.fromkeys(("check_resolver", "registry", "resolver_service"), "resolver"))


def __getattr__(name: str) -> Any:
    """Import an entry point of another module of this package when it is used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def mint_service(
    data: Path,
    subsystems: Sequence[Candidate[Subsystem]],
    *,
    workers: int = 1,
    tls: tuple[str, str] | None = None,
) -> Service:
    """Make the minting service of a data directory: one of `workers` processes that draw from its subsystems."""
    batchers = [
        Candidate(
            LabelBatcher(each.namer.waiting_room, each.namer.generator, each.namer.granularity, workers),
            each.collections,
        )
        for each in subsystems
    ]
    spatial = SpatialDistributor(batchers)
    nonce = Nonce(data, time.time)
    app = MintingService(
        [each.namer for each in batchers],
        Tokens(data / FOLDER),
        lambda order: spatial.choose(
            order.collection, lambda batcher: batcher.delay(order.count), order.able
        ),
        {"/-/nonce": lambda: Response(*nonce.answer(), PLAIN, NO_STORE)},
    )
    return Service(app, draining=app.stop, tls=tls)
