"""All operations of a resolver."""

from __future__ import annotations

from typing import Any, Final

from ibi.api import institution
from ibi.api.operations import Operation, OperationGroup
from ibi.resolver.operations import evidence, registrations, settings
from ibi.resolver.operations.context import ResolverContext

GROUPS: Final = (
    OperationGroup("Archives", registrations.OPERATIONS),
    OperationGroup("Institution", institution.OPERATIONS),
    OperationGroup("Settings", settings.OPERATIONS),
    OperationGroup("Evidence", evidence.OPERATIONS),
)
"""In the order in which pages list them."""

OPERATIONS: Final[tuple[Operation[ResolverContext, Any], ...]] = tuple(
    each for group in GROUPS for each in group.operations
)
