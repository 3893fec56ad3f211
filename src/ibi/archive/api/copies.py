"""Copies of items whose originals other Archives hold, over HTTP, and what pages do with them.

POST /-/api/copies                    {"ibi", "archive", "private"}: take one, or make it equal to its original
POST /-/api/items/<ibi>/refresh       make one equal to its original, or note how far it may lag behind
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.access import day_of
from ibi.archive.api.items import told
from ibi.archive.sharing.refreshing import refresh
from ibi.errors import HoldingError, IbiError
from ibi.identifier.peeling import peel
from ibi.interface.members import Members
from ibi.interface.refusal import Refusal
from ibi.interface.routes import Route, answer, deciding, ref
from ibi.tokens import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ibi.archive.holding import Holding
    from ibi.archive.ledgers.copies import Source
    from ibi.archive.sharing.copying import Copier
    from ibi.exchange import Response
    from ibi.identifier.forms import Name
    from ibi.interface.routes import Call

MOST_COPIES: Final = 4
"""Copies that one process takes over HTTP at the same time: each may last for hours."""

_AT_ONCE: Final = threading.Semaphore(MOST_COPIES)
_COPY: Final = Members({"ibi": str}, {"archive": "", "private": False})


class Copies:
    """Takes copies and makes them fresh, in the thread of whoever asks. Raises HoldingError, PeerError, SetupError."""

    def __init__(self, copier: Copier) -> None:
        self.copier = copier

    def take(self, text: str, archive: str, who: str, *, private: bool) -> Holding:
        """Take a copy of the item that a text names, or make equal the one that is here. Raises ParseError too."""
        name = peel(text).ibi
        with _a_place():
            return asyncio.run(self.copier.copy(name, who, archive, private=private))

    def refresh(self, name: Name, who: str) -> Source:
        """Make a copy equal to its original, or note why it may lag behind; what is known of it then."""
        with _a_place():
            return asyncio.run(refresh(self.copier, name, who))


def routes(copies: Copies, now: Callable[[], float]) -> tuple[Route, ...]:
    """The table of copies. `now` gives POSIX seconds."""
    door = _Door(copies, now)
    source = {"type": "object", "required": ["ibi"], "properties": {"ibi": {"type": "string"}}}
    return (
        Route(
            "POST", "/copies", Scope.TRANSFER, deciding(door.take), "take a copy of an item from another Archive",
            takes=_COPY.schema, gives=ref("item"), refusals=(404, 409, 410, 422, 502, 507),
        ),
        Route(
            "POST", "/items/<ibi>/refresh", Scope.TRANSFER, deciding(door.refresh),
            "make a copy equal to its original", gives=source, refusals=(404, 409, 422, 502, 507),
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, copies: Copies, now: Callable[[], float]) -> None:
        self._copies = copies
        self._now = now

    def take(self, call: Call, value: Any) -> Response:
        """The copy as it is held now."""
        said = _COPY.read(value)
        if said["private"] and not call.may(Scope.ADMIN):
            raise Refusal(403, IbiError("only a token with the scope admin may give {name}", name="private"))
        held = self._copies.take(said["ibi"], said["archive"], call.who, private=said["private"])
        return told(self._copies.copier.keeper.catalogue, held, call, day_of(self._now()))

    def refresh(self, call: Call, _value: Any) -> Response:
        """What is known of the copy then."""
        name = call.name
        return answer({"ibi": str(name), **self._copies.refresh(name, call.who).facts()})


@contextmanager
def _a_place() -> Iterator[None]:
    """One of the few places for what may last long. Raises HoldingError where all are taken."""
    if not _AT_ONCE.acquire(blocking=False):
        raise HoldingError("other copies are being taken just now; try again in a while")
    try:
        yield
    finally:
        _AT_ONCE.release()
