"""All operations of an Archive."""

from __future__ import annotations

from typing import Any, Final

from ibi.api.operations import Operation, OperationGroup
from ibi.archive.operations import (
    exchange,
    ingest,
    items,
    jobs,
    membership,
    packages,
    peers,
    preservation,
    search,
    settings,
)
from ibi.archive.operations.context import ArchiveContext
from ibi.archive.operations.item_facts import check_item

GROUPS: Final = (
    OperationGroup("Networks", membership.OPERATIONS),
    OperationGroup("Settings", settings.OPERATIONS),
    OperationGroup("Other Archives", (*peers.OPERATIONS, *exchange.OPERATIONS, *ingest.OPERATIONS)),
    OperationGroup("Preservation", (*preservation.OPERATIONS, *search.OPERATIONS)),
    OperationGroup("Items for others to keep", packages.OPERATIONS),
    OperationGroup("What takes long", jobs.OPERATIONS),
)
"""In the order in which pages list them."""

OPERATIONS: Final[tuple[Operation[ArchiveContext, Any], ...]] = (
    *items.OPERATIONS,  # led to from the page of an item
    *(each for group in GROUPS for each in group.operations),
)

CHECKS: Final = {"/items/<ibi>": check_item}
"""What compares If-Match where no operation shows what is changed: every act on an item depends on the item's ETag."""
