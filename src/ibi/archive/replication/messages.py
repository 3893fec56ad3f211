"""Read the JSON messages between giver and receiver of a hand-over; each field is checked before use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.model.handover import GiverMessage, ReceiverReply, fingerprint
from ibi.archive.replication.fetching import read_description
from ibi.errors import BadItem, HoldingError, IbiError, PeerGarbled
from ibi.identifier.forms import parse_ibi
from ibi.runtime.strict_json import read_strict_json

if TYPE_CHECKING:
    from ibi.archive.model.item import Holding
    from ibi.identifier.forms import Name

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,100}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_EVENTS: Final = 10_000  # events of a history that is handed over
_LONGEST_WORD: Final = 200  # characters of a word in a history or a message
_SHOWN: Final = 300  # characters of another Archive's sentence


class TransferMessage(NamedTuple):
    """A message of the giver; the fields that a message of this `kind` does not have are "" or None."""

    transfer: str
    kind: GiverMessage  # "word" in the JSON
    address: str = ""
    name: Name | None = None
    passage: str = ""
    seal: str = ""
    proof: str = ""
    fingerprint: str = ""


class FetchedItem(NamedTuple):
    """An item as the giver describes it, with the giver's service IBI and the events before the hand-over."""

    item: Holding
    service: str
    history: list[dict[str, Any]]


class TransferAnswer(NamedTuple):
    """The receiver's answer."""

    reply: ReceiverReply
    fingerprint: str = ""
    """The fingerprint of its Copy."""
    service: str = ""
    """The IBI of its Archive service."""
    problem: IbiError | None = None


def read_message(value: Any) -> TransferMessage:
    """Read a message of a giver. Raises BadItem or ParseError."""
    fields = value if isinstance(value, dict) else {}
    try:
        kind = GiverMessage(str(fields.get("word")))
    except (ValueError, RecursionError):  # a value nested deep cannot be shown
        raise BadItem("this is no message of a hand-over") from None
    message = TransferMessage(_matching(fields, "transfer", _ID), kind)
    if kind is GiverMessage.WITHDRAW:
        return message
    message = message._replace(fingerprint=_matching(fields, "fingerprint", _SHA256))
    if kind is GiverMessage.COMPLETE:
        return message._replace(proof=_matching(fields, "proof", _SECRET))
    ibi, address = fields.get("ibi"), fields.get("address")
    if not isinstance(ibi, str) or not isinstance(address, str):
        raise BadItem("this is no message of a hand-over")
    return message._replace(
        name=parse_ibi(ibi),
        address=address,
        passage=_matching(fields, "passage", _SECRET),
        seal=_matching(fields, "seal", _SHA256),
    )


def _matching(fields: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    text = fields.get(name)
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise BadItem("this is no message of a hand-over")
    return text


def read_fetched(body: bytes, message: TransferMessage) -> FetchedItem:
    """Read the giver's description of the item. Raises PeerGarbled."""
    garbled = PeerGarbled("the other Archive does not describe {name} as it should", name=message.name)
    try:
        value = read_strict_json(body)
        if message.name is None or not isinstance(value, dict):
            raise garbled
        item = read_description(value.get("item"), message.name)
        service = str(parse_ibi(value["service"]))
        # More events than any item has would fill the catalogue of the receiver (T10: huge answers).
        events = [_event(event, service) for event in value["history"][:_MOST_EVENTS]]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise garbled from None
    # Giver and receiver must compute the same fingerprint, or they could not compare the item at the end.
    if fingerprint(item) != value.get("fingerprint"):
        raise garbled
    if not item.transferable:
        raise HoldingError("{name} is an original that must stay in its Archive", name=item.forms.main)
    return FetchedItem(item, service, events)


def _event(event: Any, service: str) -> dict[str, Any]:
    """Read an event of the former Archive, and add that Archive's IBI. Raises ValueError or LookupError."""
    moment, who, what = event["moment"], event["who"], event["what"]
    plain = all(
        isinstance(word, str) and len(word) <= _LONGEST_WORD and word.isprintable()
        for word in (moment, who, what)
    )
    if not plain or not isinstance(event["detail"], dict):
        raise ValueError
    return {"moment": moment, "who": who, "what": what, "detail": {"archive": service} | event["detail"]}


def read_answer(value: Any, archive: str) -> TransferAnswer:
    """Read the answer of the receiver at this root URL. Raises PeerGarbled."""
    try:
        reply = ReceiverReply(value["reply"])
        problem, theirs, service = (value.get(name, "") for name in ("problem", "fingerprint", "service"))
        if isinstance(problem, str) and isinstance(theirs, str):
            # A sentence of another program appears in our log and pages: it is cut, and control characters are
            # removed (T12: smuggled line ends).
            reason = "".join(char for char in problem if char.isprintable())[:_SHOWN]
            why = HoldingError("{archive} says: {reason}", archive=archive, reason=reason) if reason else None
            return TransferAnswer(reply, theirs, str(parse_ibi(service)) if service else "", why)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        pass
    raise PeerGarbled("{archive} gave no answer that belongs to a hand-over", archive=archive)
