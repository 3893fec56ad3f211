"""All operations of an Archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.api import institution
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

if TYPE_CHECKING:
    from collections.abc import Iterable

GROUPS: Final = (
    OperationGroup("Resolvers", membership.OPERATIONS),
    OperationGroup("Institution", institution.OPERATIONS),
    OperationGroup("Settings", settings.OPERATIONS),
    OperationGroup("Other Archives", (*peers.OPERATIONS, *exchange.OPERATIONS, *ingest.OPERATIONS)),
    OperationGroup("Preservation", (*preservation.OPERATIONS, *search.OPERATIONS)),
    OperationGroup("Items for others to keep", packages.OPERATIONS),
    OperationGroup("Long tasks", jobs.OPERATIONS),
)
"""The groups of operations, in the order of pages."""

OPERATIONS: Final[tuple[Operation[ArchiveContext, Any], ...]] = (
    *items.OPERATIONS,  # not in a group: the page of an item links to them
    *(each for group in GROUPS for each in group.operations),
)

ITEM: Final = "/items/<ibi>"
"""The pattern of an item; the patterns of acts on an item are below it."""

CHECKS: Final = {ITEM: check_item}
"""Functions that compare If-Match where no operation shows the present value: with the ETag of an item."""


def acts_on_items(groups: Iterable[OperationGroup]) -> tuple[Operation[ArchiveContext, Any], ...]:
    """Return the operations on one item that have no page of their own; the page of an item links to them."""
    every = (each for group in groups for each in group.operations)
    return tuple(each for each in every if each.pattern.startswith(f"{ITEM}/") and not each.page)
