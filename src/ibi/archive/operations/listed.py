"""All operations of an Archive."""

from __future__ import annotations

from typing import Any, Final

from ibi.api.operations import Operation
from ibi.archive.operations import jobs, membership, packages, peers, preservation, settings
from ibi.archive.operations.context import ArchiveContext

OPERATIONS: Final[tuple[Operation[ArchiveContext, Any], ...]] = (
    *membership.OPERATIONS,
    *settings.OPERATIONS,
    *peers.OPERATIONS,
    *preservation.OPERATIONS,
    *packages.OPERATIONS,
    *jobs.OPERATIONS,
)
"""In the order in which pages list them."""
