"""The metrics of a mint at /-/metrics (docs/reference/operations.md): no label of a metric is one that was minted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from ibi.errors import IbiError
from ibi.http.metrics.numbers import FOLDER as METRICS
from ibi.http.metrics.numbers import PATH, Families, Family
from ibi.http.metrics.requests import RequestMetrics, families_of_requests
from ibi.http.response import Refusal, Response
from ibi.minting.state import FOLDER

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ibi.http.request import Request

MINT: Final = "/-/api/mint"
REASONS: Final = ("clock", "state", "disk", "busy", "too much", "token", "order")
"""Why no label was given: the clock of the machine, a minting state that must be repaired, the disk; too many waited,
or one client waited for too many; an unknown token; an order that cannot be carried out."""

FAMILIES: Final = Families(
    "ibi_mint",
    (
        *families_of_requests(("mint", "health", "other")),
        Family("labels_total", "Labels that were given."),
        Family("refused_total", "Orders of labels that were refused, by reason.", {"reason": REASONS}),
    ),
    (Family("disk_free_bytes", "Bytes that the disk of the data directory can still take."),),
)
"""What is counted; a file of another version, which counts other things, is replaced."""

_LABELS: Final = FAMILIES.begin("labels_total")
_REFUSED: Final = FAMILIES.indexes("refused_total")


def kind_of_request(_method: str, target: bytes) -> str:
    """Return the kind of a request."""
    path = target.partition(b"?")[0]
    if path == MINT.encode():
        return "mint"
    return "health" if path in {b"/-/healthz", PATH.encode()} else "other"


class MintMetrics(RequestMetrics):
    """The numbers of one process of a mint. `networks`: those that may read them, () for this machine."""

    def __init__(self, data: Path, networks: Sequence[str] = ()) -> None:
        super().__init__(data / FOLDER / METRICS, FAMILIES, kind_of_request)
        self._data = data
        self._networks = networks

    def given(self, count: int) -> None:
        """Count labels."""
        self.values[_LABELS] += count

    def refused(self, reason: str) -> None:
        """Count an order that was refused; `reason`: one of REASONS."""
        self.values[_REFUSED[reason]] += 1

    def respond(self, request: Request) -> Response:
        """Answer GET /-/metrics. Raises Refusal for clients outside."""
        response = self.answer(request, self._networks)
        if response is None:
            raise Refusal(404, IbiError("there is no such page here"))
        return response

    def present(self) -> dict[str, dict[str, float]]:
        """Return how much the disk can still take."""
        try:
            disk = os.statvfs(self._data)
        except OSError:
            return {}
        return {"disk_free_bytes": {"": disk.f_bavail * disk.f_frsize}}
