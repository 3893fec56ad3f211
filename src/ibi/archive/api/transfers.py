"""Hand-overs over HTTP and for pages (AMB-24, note 29). The running Archive advances them by itself.

Between the two Archives, the giver sends messages under a token that may transfer; the receiver gets the item and its
files, whatever access others have to it, with the passage that the giver sent it.
"""

from __future__ import annotations

import asyncio
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final

from ibi.accounts.tokens import Scope
from ibi.api.bodies import BodyFields
from ibi.api.routes import TEXT, Call, Route, answer, explained, list_of, record, ref
from ibi.archive.model.handover import GiverStage, fingerprint
from ibi.archive.model.item_json import write_item
from ibi.archive.preservation.status import of_giving, of_transfers
from ibi.archive.replication.receiving import PASSAGE
from ibi.archive.store.tables import history, transfers
from ibi.errors import HoldingError, NotHeld
from ibi.http.response import NO_STORE, Response
from ibi.identifier.forms import parse_name
from ibi.runtime.durable_files import setup_errors
from ibi.runtime.settings import Peer

if TYPE_CHECKING:
    from pathlib import Path

    from ibi.archive.model.item import Holding
    from ibi.archive.replication.giving import Giver
    from ibi.archive.replication.receiving import Receiver
    from ibi.archive.store.tables.transfers import OutgoingTransfer


_OFFER: Final = BodyFields({"ibi": str, "to": str}, {"remove": False})
_GIVING: Final = record(
    transfer=TEXT, item=TEXT, to=TEXT, stage={"enum": [stage.value for stage in GiverStage]}, since=TEXT, problem=TEXT
)  # fmt: skip
_PEER: Final = {"type": "object", "properties": {"name": TEXT, "address": TEXT}}
_ALL: Final = record(transfers=list_of(_GIVING), peers=list_of(_PEER))


class HandOvers:
    """Hand-overs of one Archive to the peers of its settings, `data` being its data directory."""

    def __init__(self, giver: Giver, data: Path) -> None:
        self.giver = giver
        self._data = data

    def peers(self) -> dict[str, str]:
        """The Archives that originals can go to: name -> root URL. Raises SetupError."""
        return {name: peer.address for name, peer in Peer.read_tables(self._data).items() if peer.token}

    def open(self) -> list[dict[str, Any]]:
        """Those that have not ended, for pages: with their problems as errors, not as sentences."""
        with self.giver.item_store.catalogue.reading() as run:
            return [
                {**of_giving(run, giving, str), "problem": giving.problem}
                for giving in transfers.open_outgoing(run)
            ]

    def cancel(self, transfer: str) -> OutgoingTransfer:
        """Take the item back. Raises NotHeld; HoldingError where it is too late, PeerError where no answer comes."""
        giving, holding = self.giver.find(transfer)
        if giving.stage.open:
            giving = asyncio.run(self.giver.withdraw(giving))
        if giving.stage is GiverStage.DONE:
            why = "{name} is held by {archive} now"
            raise HoldingError(why, name=holding.forms.main, archive=giving.address)
        return giving

    def routes(self) -> tuple[Route, ...]:
        """The routes of hand-overs."""
        return (
            Route(
                "GET", "/hand-overs", Scope.TRANSFER, explained(self._all),
                "hand-overs that are under way, and the peers", gives=_ALL,
            ),
            Route(
                "POST", "/hand-overs", Scope.TRANSFER, explained(self._begin), "begin the hand-over of an original",
                takes=_OFFER.schema, gives=_GIVING, status=202, refusals=(404, 409, 422, 507),
            ),
            Route(
                "GET", "/hand-overs/<word>", Scope.TRANSFER, explained(self._one), "how far a hand-over is",
                gives=_GIVING,
            ),
            Route(
                "DELETE", "/hand-overs/<word>", Scope.TRANSFER, explained(self._cancel), "take an original back",
                gives=_GIVING, refusals=(404, 409, 422, 502, 507),
            ),
        )  # fmt: skip

    def _all(self, call: Call, _value: Any) -> Response:
        peers = [{"name": name, "address": at} for name, at in self.peers().items()]
        with self.giver.item_store.catalogue.reading() as run:
            return answer({"transfers": of_transfers(run, call.say), "peers": peers})

    def _begin(self, call: Call, value: Any) -> Response:
        """Start a hand-over, or find the one that is under way, and answer with it."""
        fields = _OFFER.read(value)
        name = parse_name(fields["ibi"])
        giving = self.giver.offer(name, fields["to"], call.token_name, remove=fields["remove"])
        return self._answer(giving, call, 202)

    def _one(self, call: Call, _value: Any) -> Response:
        return self._answer(self.giver.find(call.word)[0], call)

    def _cancel(self, call: Call, _value: Any) -> Response:
        return self._answer(self.cancel(call.word), call)

    def _answer(self, giving: OutgoingTransfer, call: Call, status: int = 200) -> Response:
        with self.giver.item_store.catalogue.reading() as run:
            return answer(of_giving(run, giving, call.say), status)


EVERY_SECONDS: Final = 2.0
"""Seconds between two looks at open hand-overs."""

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
_PASSAGE_HEADER: Final = {PASSAGE: TEXT}


def peer_routes(giver: Giver, receiver: Receiver) -> tuple[Route, ...]:
    """The routes between the two Archives of a hand-over."""

    async def receive(call: Call) -> Response:
        return answer(await receiver.answer(await call.body.json(), call.token_name))

    return (
        Route(
            "POST", "/transfers", Scope.TRANSFER, receive, "go on with a hand-over that comes in",
            takes=_MESSAGE, gives=_ANSWER, refusals=(403, 422),
        ),
        Route(
            "GET", "/transfers/<word>", None, lambda call: asyncio.to_thread(_describe, giver, call),
            "the item of a hand-over, for its receiver", gives=_DESCRIPTION, refusals=(404,), headers=_PASSAGE_HEADER,
        ),
        Route(
            "GET", "/transfers/<word>/files/<file>", None, lambda call: asyncio.to_thread(_file, giver, call),
            "a file of a hand-over, for its receiver", refusals=(404,), headers=_PASSAGE_HEADER,
        ),
    )  # fmt: skip


def _open_to(giver: Giver, call: Call) -> Holding:
    """The item of an open hand-over. Raises NotHeld for a client without its passage."""
    giving, holding = giver.find(call.values["word"])
    passage = call.request.header(PASSAGE.encode())
    # The passage, and no token: the receiver may be any Archive that our administrator chose as a peer.
    if not giving.stage.open or not compare_digest(passage.encode(), giving.passage.encode()):
        raise NotHeld("there is no such hand-over")
    return holding


def _describe(giver: Giver, call: Call) -> Response:
    holding = _open_to(giver, call)
    with giver.item_store.catalogue.reading() as run:
        events = history.events_of(run, holding.number)
    facts = {
        "item": write_item(holding),
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
