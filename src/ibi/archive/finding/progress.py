"""How far the index of an Archive has come along with its catalogue, for whoever looks after it: GET /-/api/index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ibi.archive.finding.tables import BeingMade
from ibi.archive.ledgers import numbered
from ibi.interface.routes import Route, answer, in_thread
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.catalogue import Catalogue
    from ibi.archive.finding.index import Index
    from ibi.exchange import Response
    from ibi.interface.routes import Call

_THROUGH: Final = "SELECT through FROM state"
_COUNT: Final = {"type": "integer", "minimum": 0}
_PROGRESS: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["ready", "through", "items"],
    "properties": {"ready": {"type": "boolean"}, "through": _COUNT, "items": _COUNT},
}


def progress(index: Index, catalogue: Catalogue) -> dict[str, Any]:
    """`ready`: whether lists and searches are answered; `through` of how many `items` are in. Raises SetupError."""
    with catalogue.reading() as run:
        items = numbered.standing(run).items
    try:
        rows = index.rows(_THROUGH)
    except BeingMade:
        return {"ready": False, "through": 0, "items": items}
    return {"ready": True, "through": rows[0][0] if rows else 0, "items": items}


def route(index: Index, catalogue: Catalogue) -> Route:
    """The line of the JSON interface that tells it."""

    def tell(_call: Call, _value: Any) -> Response:
        return answer(progress(index, catalogue))

    return Route(
        "GET", "/index", Scope.READ, in_thread(tell), "how far the index for searching is", gives=_PROGRESS
    )
