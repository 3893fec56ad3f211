"""The description of the JSON interface of an Archive for programs: GET /-/api/openapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ibi.archive.api import doors
from ibi.archive.api.schemas import SCHEMAS
from ibi.interface.openapi import PATH, document, paths
from ibi.interface.routes import Route, answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ibi.exchange import Response
    from ibi.interface.routes import Call


def routes(others: Sequence[Route], version: str) -> tuple[Route, ...]:
    """All other routes, and the one that describes them, which describes itself too."""

    async def act(_call: Call) -> Response:
        return answer(described)

    own = Route("GET", PATH, None, act, "this description", gives={"type": "object", "required": ["openapi"]})
    described = document(
        "An Archive of identified items",
        "Items, and the administration of the Archive: what librarians do on pages, for programs.",
        version,
        paths((*others, own)) | doors.described(),
        SCHEMAS,
    )
    return (*others, own)
