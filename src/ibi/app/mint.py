"""Assembly of a mint: make the service that gives labels of the subsystems of a data directory over HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ibi.accounts.tokens import Tokens
from ibi.http.response import NO_STORE, PLAIN, Response
from ibi.http.server.service import Service
from ibi.http.server.tracing import traced
from ibi.minting.batcher import LabelBatcher
from ibi.minting.metrics import MintMetrics, kind_of_request
from ibi.minting.service import MintingService
from ibi.minting.state import FOLDER
from ibi.minting.subsystem import Candidate, SpatialDistributor
from ibi.runtime.nonce import Nonce

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.minting import Subsystem


@traced("mint", kind_of_request, time.time_ns)
def mint_service(
    data: Path,
    subsystems: Sequence[Candidate[Subsystem]],
    *,
    workers: int = 1,
    tls: tuple[str, str] | None = None,
    metrics_networks: Sequence[str] = (),
) -> Service:
    """Make the minting service of a data directory, for one of `workers` processes that share subsystems.

    `metrics_networks`: the networks from which its metrics may be read, () for this machine.
    """
    batchers = [
        Candidate(
            LabelBatcher(each.namer.waiting_room, each.namer.generator, each.namer.granularity, workers),
            each.collections,
        )
        for each in subsystems
    ]
    spatial = SpatialDistributor(batchers)
    metrics = MintMetrics(data, metrics_networks)
    nonce = Nonce(data, time.time)
    app = MintingService(
        [each.namer for each in batchers],
        Tokens(data / FOLDER),
        lambda order: spatial.choose(
            order.collection, lambda batcher: batcher.delay(order.count), order.able
        ),
        {"/-/nonce": lambda _: Response(*nonce.answer(), PLAIN, NO_STORE)},
        metrics,
    )

    async def close() -> None:
        metrics.close()

    return Service(metrics.counted(app), draining=app.stop, close=close, tls=tls)
