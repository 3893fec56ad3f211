"""What giver and receiver of a hand-over say to each other, as JSON: every word of it hostile until read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ibi.archive.sharing.fetching import read_description
from ibi.archive.sharing.handover import Reply, Word, fingerprint
from ibi.errors import BadItem, HoldingError, IbiError, PeerGarbled
from ibi.identifier.forms import parse_ibi

if TYPE_CHECKING:
    from ibi.archive.holding import Holding
    from ibi.identifier.forms import Name

_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9_-]{20,100}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_MOST_EVENTS: Final = 10_000
_LONGEST_WORD: Final = 200
_SHOWN: Final = 300  # characters of another Archive's sentence


class Message(NamedTuple):
    """What the giver says; what does not belong to its word is ""."""

    transfer: str
    word: Word
    address: str = ""
    name: Name | None = None
    passage: str = ""
    seal: str = ""
    proof: str = ""
    fingerprint: str = ""


class Fetched(NamedTuple):
    """An item as the giver describes it, with what had happened to it before."""

    item: Holding
    service: str
    history: list[dict[str, Any]]


class Answer(NamedTuple):
    """What the receiver answers."""

    reply: Reply
    fingerprint: str = ""
    """Of what it holds as a Copy."""
    service: str = ""
    """The IBI of its Archive service."""
    problem: IbiError | None = None


def read_message(value: Any) -> Message:
    """Read what a giver says. Raises BadItem or ParseError."""
    said = value if isinstance(value, dict) else {}
    try:
        word = Word(str(said.get("word")))
    except ValueError:
        raise BadItem("this is no message of a hand-over") from None
    message = Message(_matching(said, "transfer", _ID), word)
    if word is Word.WITHDRAW:
        return message
    message = message._replace(fingerprint=_matching(said, "fingerprint", _SHA256))
    if word is Word.COMPLETE:
        return message._replace(proof=_matching(said, "proof", _SECRET))
    ibi, address = said.get("ibi"), said.get("address")
    if not isinstance(ibi, str) or not isinstance(address, str):
        raise BadItem("this is no message of a hand-over")
    return message._replace(
        name=parse_ibi(ibi),
        address=address,
        passage=_matching(said, "passage", _SECRET),
        seal=_matching(said, "seal", _SHA256),
    )


def _matching(said: dict[str, Any], name: str, pattern: re.Pattern[str]) -> str:
    text = said.get(name)
    if not isinstance(text, str) or not pattern.fullmatch(text):
        raise BadItem("this is no message of a hand-over")
    return text


def read_fetched(body: bytes, message: Message) -> Fetched:
    """Read what the giver tells of the item. Raises PeerGarbled."""
    garbled = PeerGarbled("the giver does not describe {name} as it should", name=message.name)
    try:
        told = json.loads(body)
        if message.name is None or not isinstance(told, dict):
            raise garbled
        item = read_description(told.get("item"), message.name)
        service = str(parse_ibi(told["service"]))
        events = [_event(event, service) for event in told["history"][:_MOST_EVENTS]]
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        raise garbled from None
    if fingerprint(item) != told.get("fingerprint"):
        raise garbled
    if not item.transferable:
        raise HoldingError("{name} is an original that must stay in its Archive", name=item.forms.main)
    return Fetched(item, service, events)


def _event(event: Any, service: str) -> dict[str, Any]:
    """An event of the former Archive, under its name. Raises ValueError, or what reading an odd one comes to."""
    moment, who, what = event["moment"], event["who"], event["what"]
    plain = all(
        isinstance(word, str) and len(word) <= _LONGEST_WORD and word.isprintable()
        for word in (moment, who, what)
    )
    if not plain or not isinstance(event["detail"], dict):
        raise ValueError
    return {"moment": moment, "who": who, "what": what, "detail": {"archive": service} | event["detail"]}


def read_answer(value: Any, archive: str) -> Answer:
    """Read what the receiver at this root URL answers. Raises PeerGarbled."""
    try:
        reply = Reply(value["reply"])
        problem, stamp, service = (value.get(name, "") for name in ("problem", "fingerprint", "service"))
        if isinstance(problem, str) and isinstance(stamp, str):
            reason = "".join(char for char in problem if char.isprintable())[:_SHOWN]
            why = HoldingError("{archive} says: {reason}", archive=archive, reason=reason) if reason else None
            return Answer(reply, stamp, str(parse_ibi(service)) if service else "", why)
    except (LookupError, TypeError, ValueError, AttributeError):
        pass
    raise PeerGarbled("{archive} gave no answer that belongs to a hand-over", archive=archive)
