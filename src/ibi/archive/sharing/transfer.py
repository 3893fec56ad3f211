"""Hand-overs over HTTP (AMB-24, note 29): what a receiver is told, and what it may fetch.

POST /-/api/transfers                         what the giver says; with a token that may transfer
GET  /-/api/transfers/<id>                    the item that is handed over, whatever access others have to it
GET  /-/api/transfers/<id>/files/<file>       a file of it; both with the passage that the giver told the receiver
"""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from ibi.archive.item_lines import write_item
from ibi.archive.ledgers import history
from ibi.archive.networking.duties import Duty
from ibi.archive.sharing.handover import fingerprint
from ibi.archive.sharing.receiving import PASSAGE
from ibi.errors import NotHeld, SetupError
from ibi.exchange import NO_STORE, Response
from ibi.interface.routes import Call, Route, answer
from ibi.tokens import Scope

if TYPE_CHECKING:
    from ibi.archive.holding import Holding
    from ibi.archive.sharing.giving import Giver
    from ibi.archive.sharing.receiving import Receiver

EVERY_SECONDS: Final = 2.0
"""How often a running Archive goes on with open hand-overs."""

_TEXT: Final = {"type": "string"}
_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["transfer", "word"],
    "properties": {
        "word": {"enum": ["propose", "complete", "withdraw"]},
        **dict.fromkeys(("transfer", "address", "ibi", "passage", "seal", "fingerprint", "proof"), _TEXT),
    },
}
_ANSWER: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["transfer", "reply"],
    "properties": {
        "reply": {"enum": ["fetching", "staged", "owned", "declined", "unknown", "refused", "failing"]},
        **dict.fromkeys(("transfer", "fingerprint", "problem", "service"), _TEXT),
    },
}
_TOLD: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "item": {"$ref": "#/components/schemas/item"},
        "history": {"type": "array", "items": {"type": "object"}},
        "fingerprint": _TEXT,
        "service": _TEXT,
    },
}
_PASSAGE_HEADER: Final = {PASSAGE: _TEXT}


def routes(giver: Giver, receiver: Receiver) -> tuple[Route, ...]:
    """What the JSON interface of an Archive offers for hand-overs."""

    async def hear(call: Call) -> Response:
        return answer(await receiver.hear(await call.body.json(), call.who))

    async def tell(call: Call) -> Response:
        return answer(await asyncio.to_thread(_told, giver, call))

    async def give(call: Call) -> Response:
        return await asyncio.to_thread(_file, giver, call)

    return (
        Route(
            "POST", "/transfers", Scope.TRANSFER, hear, "go on with a hand-over that comes in",
            takes=_MESSAGE, gives=_ANSWER, refusals=(403, 422),
        ),
        Route(
            "GET", "/transfers/<word>", None, tell, "the item of a hand-over, for its receiver",
            gives=_TOLD, refusals=(404,), headers=_PASSAGE_HEADER,
        ),
        Route(
            "GET", "/transfers/<word>/files/<file>", None, give, "a file of a hand-over, for its receiver",
            refusals=(404,), headers=_PASSAGE_HEADER,
        ),
    )  # fmt: skip


def duty(giver: Giver) -> Duty:
    """What takes up hand-overs that were interrupted."""
    return Duty("hand-overs", EVERY_SECONDS, giver.advance_all)


def _open_to(giver: Giver, call: Call) -> Holding:
    """The item of an open hand-over. Raises NotHeld for whoever has not its passage."""
    giving, holding = giver.find(call.values["word"])
    passage = call.asked.header(PASSAGE.encode())
    if not giving.stage.open or not compare_digest(passage.encode(), giving.passage.encode()):
        raise NotHeld("there is no such hand-over")
    return holding


def _told(giver: Giver, call: Call) -> dict[str, Any]:
    holding = _open_to(giver, call)
    with giver.keeper.catalogue.reading() as run:
        events = history.events_of(run, holding.number)
    return {
        "item": write_item(holding),
        "fingerprint": fingerprint(holding),
        "service": str(giver.keeper.service.main),
        "history": [event._asdict() for event in events],
    }


def _file(giver: Giver, call: Call) -> Response:
    holding = _open_to(giver, call)
    file = holding.file(call.values["file"])
    if file is None:
        raise NotHeld("{name} has no such file", name=holding.forms.main)
    try:
        opened = giver.keeper.storage.open(holding.forms, file)
    except OSError as error:
        reason = error.strerror or error
        raise SetupError("the file {name} cannot be read: {reason}", name=file.name, reason=reason) from None
    return Response(
        200, content_type="application/octet-stream", headers=NO_STORE, file=opened, size=file.size
    )
