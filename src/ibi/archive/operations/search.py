"""The operation that makes the search index anew."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.fields import NoFields
from ibi.api.operations import Operation
from ibi.api.routes import COUNT, record
from ibi.archive.store.tables import listings

if TYPE_CHECKING:
    from ibi.archive.operations.context import ArchiveContext


def make_index(context: ArchiveContext, _fields: NoFields) -> dict[str, Any]:
    """Make the index anew. Raises SetupError."""
    return {"items": bring_up_to_date(context, anew=True)}


def bring_up_to_date(context: ArchiveContext, *, anew: bool = False) -> int:
    """Bring the index up to date; return how many items are in it then. Raises SetupError."""
    with context.catalogue() as catalogue:
        with catalogue.reading() as run:
            items = listings.position(run).items
        with closing(context.indexer(catalogue)) as making:
            if anew:
                making.anew()
            while making.portion():
                context.progress(making.through, items)
        return max(items, making.through)


INDEX: Final = Operation(
    "index", "make the index for searching anew", Scope.ADMIN, NoFields, make_index, "POST /index",
    gives=record(items=COUNT), is_long=True,
)  # fmt: skip

OPERATIONS: Final = (INDEX,)
