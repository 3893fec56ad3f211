"""Routes for hand-overs between two Archives; the running Archive advances them by itself.

The giver sends messages with a token that has the scope `transfer`. The receiver fetches the item and its files, even
if they are not open to readers, with the token that the giver has sent it (`passage`). See AMB-24: moving an
original; note 29: copies and hand-overs.
"""

from __future__ import annotations

import asyncio
from functools import partial
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.routes import TEXT, Call, Route, answer, in_thread, list_of, record, ref
from ibi.archive.model.handover import fingerprint
from ibi.archive.model.item import leaving
from ibi.archive.model.item_json import write_item
from ibi.archive.replication.receiving import PASSAGE_HEADER
from ibi.archive.replication.restored_messages import UNSETTLED
from ibi.archive.store.tables import history, transfers
from ibi.errors import NotHeld
from ibi.http.response import NO_STORE, Response
from ibi.runtime.durable_files import setup_errors

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from ibi.archive.replication.giving import Giver
    from ibi.archive.replication.receiving import Receiver


EVERY_SECONDS: Final = 2.0
"""Seconds between two attempts to advance open hand-overs."""

_OF_THE_GIVER: Final = ("address", "ibi", "passage", "seal", "fingerprint", "proof")
_MESSAGE: Final = record(
    *_OF_THE_GIVER,
    transfer=TEXT,
    word={"enum": ["propose", "complete", "withdraw"]},
    **dict.fromkeys(_OF_THE_GIVER, TEXT),
)
_ANSWER: Final = record(
    "fingerprint",
    "problem",
    "service",
    transfer=TEXT,
    reply={"enum": ["fetching", "staged", "owned", "declined", "unknown", "refused", "failing"]},
    **dict.fromkeys(("fingerprint", "problem", "service"), TEXT),
)
_DESCRIPTION: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "item": ref("item"),
        "history": list_of({"type": "object"}),
        "fingerprint": TEXT,
        "service": TEXT,
    },
}
_HEADERS: Final = {PASSAGE_HEADER: TEXT}

MOST_RECEIVED: Final = 500
"""Originals on one page of the list that `GET /transfers` gives a giver."""

_LONGEST_ID: Final = 64  # characters of the id of a hand-over, after which the next page of the list begins
_RECEIVED: Final = record(
    "next",
    service=TEXT,
    received=list_of(record("archive", "service", ibi=TEXT, state=TEXT, archive=TEXT, service=TEXT)),
    next=TEXT,
)


def peer_routes(giver: Giver, receiver: Receiver) -> tuple[Route, ...]:
    """Return the routes between the two Archives of a hand-over."""

    async def receive(call: Call) -> Response:
        return answer(await receiver.answer(await call.body.json(), call.token_name))

    return (
        Route(
            "GET", "/transfers", Scope.TRANSFER, in_thread(partial(_received, receiver)),
            "the originals that came under this token, page by page", gives=_RECEIVED, query={"after": TEXT},
        ),
        Route(
            "POST", "/transfers", Scope.TRANSFER, receive, "go on with a hand-over that comes in",
            takes=_MESSAGE, gives=_ANSWER, refusals=(403, 422),
        ),
        Route(
            "GET", "/transfers/<word>", None, lambda call: asyncio.to_thread(_describe, giver, call),
            "the item of a hand-over, for its receiver", gives=_DESCRIPTION, refusals=(404,), headers=_HEADERS,
        ),
        Route(
            "GET", "/transfers/<word>/files/<file>", None, lambda call: asyncio.to_thread(_file, giver, call),
            "a file of a hand-over, for its receiver", refusals=(404,), headers=_HEADERS,
        ),
    )  # fmt: skip


def _received(receiver: Receiver, call: Call, _value: Any) -> Response:
    """List the originals that a giver has handed over, with their states here (for a restored giver)."""
    after = call.query.get("after", "")[:_LONGEST_ID]
    with receiver.item_store.catalogue.reading() as run:
        page = transfers.received_from(run, call.token_name, after, MOST_RECEIVED)
    value: dict[str, Any] = {
        "service": str(receiver.item_store.service.main),
        "received": [
            {
                "ibi": each.name,
                "state": UNSETTLED if each.unsettled else each.state,
                **({"archive": each.archive, "service": each.service or ""} if each.archive else {}),
            }
            for each in page
        ],
    }
    return answer(value | {"next": page[-1].transfer} if len(page) == MOST_RECEIVED else value)


def _open_to(giver: Giver, call: Call) -> Holding:
    """Return the item of an open hand-over. Raises NotHeld for a client without its passage."""
    transfer, holding = giver.find(call.values["word"])
    passage = call.request.header(PASSAGE_HEADER.encode())
    # A token of this hand-over alone: the receiver need not have one of this Archive.
    if not transfer.stage.open or not compare_digest(passage.encode(), transfer.passage.encode()):
        raise NotHeld("there is no such hand-over")
    return holding


def _describe(giver: Giver, call: Call) -> Response:
    holding = _open_to(giver, call)
    with giver.item_store.catalogue.reading() as run:
        events = history.events_of(run, holding.number)
    facts = {
        "item": write_item(leaving(holding, giver.item_store.institution)),
        "fingerprint": fingerprint(holding),
        "service": str(giver.item_store.service.main),
        "history": [event._asdict() for event in events],
    }
    return answer(facts)


def _file(giver: Giver, call: Call) -> Response:
    holding = _open_to(giver, call)
    file = holding.file(call.values["file"])
    if file is None:
        raise NotHeld("{name} has no such file", name=holding.forms.main)
    with setup_errors("the file {name} cannot be read: {reason}", name=file.name):
        opened = giver.item_store.file_store.open(holding.forms, file)
    return Response(
        200, content_type="application/octet-stream", headers=NO_STORE, file=opened, size=file.size
    )
