"""Originals that this Archive hands over, over HTTP, and what pages do with them; the rest it does by itself.

GET    /-/api/hand-overs           those that are under way, and the peers that items may go to
POST   /-/api/hand-overs           {"ibi", "to", "remove"}: begin one
GET    /-/api/hand-overs/<id>      how far one is
DELETE /-/api/hand-overs/<id>      take the item back, unless the other Archive is the owner by now
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.care.standing import of_giving, of_transfers
from ibi.archive.ledgers import transfers
from ibi.archive.sharing.handover import Given
from ibi.errors import HoldingError
from ibi.identifier.forms import parse_name
from ibi.interface.members import Members
from ibi.interface.routes import Route, answer, deciding
from ibi.settings import Peer
from ibi.tokens import Scope

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.care.standing import Tell
    from ibi.archive.ledgers.transfers import Giving
    from ibi.archive.sharing.giving import Giver
    from ibi.exchange import Response
    from ibi.identifier.forms import Name
    from ibi.interface.routes import Call

_OFFER: Final = Members({"ibi": str, "to": str}, {"remove": False})
_TEXT: Final = {"type": "string"}
_GIVING: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["transfer", "item", "to", "stage", "since", "problem"],
    "properties": {
        **dict.fromkeys(("transfer", "item", "to", "since", "problem"), _TEXT),
        "stage": {"enum": [stage.value for stage in Given]},
    },
}
_PEER: Final = {"type": "object", "properties": {"name": _TEXT, "address": _TEXT}}
_ALL: Final = {
    "type": "object",
    "required": ["transfers", "peers"],
    "properties": {
        "transfers": {"type": "array", "items": _GIVING},
        "peers": {"type": "array", "items": _PEER},
    },
}


class HandOvers:
    """Hand-overs of one Archive to the peers of its settings, `data` being its data directory."""

    def __init__(self, giver: Giver, data: Path) -> None:
        self.giver = giver
        self._data = data

    def peers(self) -> dict[str, str]:
        """The Archives that originals can go to: name -> root URL. Raises SetupError."""
        return {name: peer.address for name, peer in Peer.read_tables(self._data).items() if peer.token}

    def open(self) -> list[dict[str, Any]]:
        """Those that are not at their end, for pages, whose problems are not said yet."""
        with self.giver.keeper.catalogue.reading() as run:
            return [
                {**of_giving(run, giving, str), "problem": giving.problem}
                for giving in transfers.open_givings(run)
            ]

    def under_way(self, tell: Tell) -> list[dict[str, str]]:
        """Those that are not at their end."""
        with self.giver.keeper.catalogue.reading() as run:
            return of_transfers(run, tell)

    def one(self, transfer: str, tell: Tell) -> dict[str, str]:
        """How far one is. Raises NotHeld."""
        return self.told(self.giver.find(transfer)[0], tell)

    def told(self, giving: Giving, tell: Tell) -> dict[str, str]:
        """How far this one is."""
        with self.giver.keeper.catalogue.reading() as run:
            return of_giving(run, giving, tell)

    def begin(self, name: Name, to: str, who: str, *, remove: bool) -> Giving:
        """Begin one. Raises SetupError for no peer, NotHeld, and HoldingError where the item must stay."""
        return self.giver.offer(name, to, who, remove=remove)

    def cancel(self, transfer: str) -> Giving:
        """Take the item back. Raises NotHeld; HoldingError where it is too late, PeerError where nobody answers."""
        giving, holding = self.giver.find(transfer)
        if giving.stage.open:
            giving = asyncio.run(self.giver.withdraw(giving))
        if giving.stage is Given.DONE:
            why = "{name} is held by {archive} now"
            raise HoldingError(why, name=holding.forms.main, archive=giving.address)
        return giving


def routes(hand_overs: HandOvers) -> tuple[Route, ...]:
    """The table of hand-overs."""
    door = _Door(hand_overs)
    return (
        Route(
            "GET", "/hand-overs", Scope.TRANSFER, deciding(door.all), "hand-overs that are under way, and the peers",
            gives=_ALL,
        ),
        Route(
            "POST", "/hand-overs", Scope.TRANSFER, deciding(door.begin), "begin the hand-over of an original",
            takes=_OFFER.schema, gives=_GIVING, status=202, refusals=(404, 409, 422, 507),
        ),
        Route(
            "GET", "/hand-overs/<word>", Scope.TRANSFER, deciding(door.one), "how far a hand-over is", gives=_GIVING,
        ),
        Route(
            "DELETE", "/hand-overs/<word>", Scope.TRANSFER, deciding(door.cancel), "take an original back",
            gives=_GIVING, refusals=(404, 409, 422, 502, 507),
        ),
    )  # fmt: skip


class _Door:
    """The functions of the table."""

    def __init__(self, hand_overs: HandOvers) -> None:
        self._hand_overs = hand_overs

    def all(self, call: Call, _value: Any) -> Response:
        """What is under way, and to whom items may go."""
        peers = [{"name": name, "address": at} for name, at in self._hand_overs.peers().items()]
        return answer({"transfers": self._hand_overs.under_way(call.say), "peers": peers})

    def begin(self, call: Call, value: Any) -> Response:
        """The one that has begun, or was under way."""
        said = _OFFER.read(value)
        name = parse_name(said["ibi"])
        giving = self._hand_overs.begin(name, said["to"], call.who, remove=said["remove"])
        return answer(self._hand_overs.told(giving, call.say), 202)

    def one(self, call: Call, _value: Any) -> Response:
        """One of them."""
        return answer(self._hand_overs.one(call.word, call.say))

    def cancel(self, call: Call, _value: Any) -> Response:
        """How it stands after that."""
        return answer(self._hand_overs.told(self._hand_overs.cancel(call.word), call.say))
