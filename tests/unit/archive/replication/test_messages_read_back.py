"""Messages of a hand-over are read as they were written; whatever else comes is refused, or can be kept."""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ibi.archive.model.handover import GiverMessage, GiverStage, ReceiverReply, fingerprint, proof_digest
from ibi.archive.model.item_json import write_item
from ibi.archive.replication.fetching import read_description
from ibi.archive.replication.giving import write_message
from ibi.archive.replication.messages import (
    TransferAnswer,
    TransferMessage,
    read_answer,
    read_fetched,
    read_message,
)
from ibi.archive.replication.restored_messages import (
    UNSETTLED,
    Whereabouts,
    add_answers,
    read_holders,
    read_received,
)
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, IbiError, PeerGarbled
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import WHEN
from support.archive.item_samples import ITEMS, LINKS, OTHER, TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.archive.model.item import Holding
    from ibi.identifier.forms import IBIForms

ROOT = "http://a.example"
FEWER = settings(max_examples=max(1, settings().max_examples // 3))  # a whole item each
PROPOSED = TransferMessage("ab" * 16, GiverMessage.PROPOSE)
DIGESTS = st.sampled_from(["", "ab" * 32])
ORIGINALS = ITEMS.map(
    lambda item: replace(
        item, state=ItemState.ORIGINAL, transferable=True, unsettled="", reason="", replacement=None
    )
)
words = TEXTS.filter(str.isprintable)
events = st.lists(
    st.fixed_dictionaries(
        {
            "moment": words,
            "who": words,
            "what": words,
            "detail": st.dictionaries(TEXTS, TEXTS | st.integers()),
        }
    ),
    max_size=3,
)
any_character = st.characters() | st.sampled_from("\ud800\udfff\x00\n")
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(any_character, max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


def sent(value: Any) -> Any:
    """A value as it comes out at the other end."""
    return json.loads(json.dumps(value))


def with_another_value(data: st.DataObject, value: Any) -> Any:
    """A value with any other one in some place, or without what was there."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.integers(0, 3)) == 0:
            return {key: each for key, each in value.items() if key != name}
        return {**value, name: with_another_value(data, value[name])}
    if isinstance(value, list) and value and data.draw(st.booleans()):
        return [with_another_value(data, value[0]), *value[1:]]
    return data.draw(any_json)


def deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def giving_of(item: Holding, stamp: str) -> OutgoingTransfer:
    return OutgoingTransfer(
        id=secrets.token_hex(16),
        item=1,
        peer="peer",
        address="http://b.example",
        passage=secrets.token_urlsafe(32),
        proof=secrets.token_urlsafe(32),
        remove=False,
        who="maria",
        stage=GiverStage.OFFERED,
        moment=WHEN,
        fingerprint=stamp or fingerprint(item),
    )


@FEWER
@given(item=ORIGINALS, stamp=DIGESTS)
def test_each_message_of_a_giver_is_read_as_it_was_written(item: Holding, stamp: str) -> None:
    giving = giving_of(item, stamp)

    def read(word: GiverMessage, holding: Holding | None = None) -> TransferMessage:
        return read_message(sent(write_message(giving, word, ROOT, holding)))

    assert read(GiverMessage.WITHDRAW) == TransferMessage(giving.id, GiverMessage.WITHDRAW)
    complete = TransferMessage(giving.id, GiverMessage.COMPLETE)
    assert read(GiverMessage.COMPLETE) == complete._replace(
        proof=giving.proof, fingerprint=giving.fingerprint
    )
    assert read(GiverMessage.PROPOSE, item) == TransferMessage(
        giving.id,
        GiverMessage.PROPOSE,
        ROOT,
        item.forms.main,
        giving.passage,
        proof_digest(giving.proof),
        fingerprint=giving.fingerprint,
    )


def described(item: Holding, history: list[dict[str, Any]]) -> dict[str, Any]:
    """What the giver tells of an item, as `archive.api.transfers` writes it."""
    return {
        "item": write_item(item),
        "fingerprint": fingerprint(item),
        "service": OTHER,
        "history": history,
    }


@FEWER
@given(item=ORIGINALS, history=events)
def test_a_description_is_read_as_the_giver_wrote_it(item: Holding, history: list[dict[str, Any]]) -> None:
    body = json.dumps(described(item, history)).encode()
    found = read_fetched(body, PROPOSED._replace(name=item.forms.main))
    assert found.item == replace(item, key="")
    assert (found.service, fingerprint(found.item)) == (OTHER, fingerprint(item))
    assert found.history == [{**each, "detail": {"archive": OTHER} | each["detail"]} for each in history]


@given(
    reply=st.sampled_from(ReceiverReply),
    problem=words.map(str.strip),
    stamp=DIGESTS,
    service=st.sampled_from(["", OTHER]),
)
def test_an_answer_is_read_as_the_receiver_wrote_it(
    reply: ReceiverReply, problem: str, stamp: str, service: str
) -> None:
    value = {"transfer": "ab" * 16, "reply": reply.value, "fingerprint": stamp, "problem": problem}
    found = read_answer(sent({**value, "service": service}), ROOT)
    assert found._replace(problem=None) == TransferAnswer(reply, stamp, service)
    assert str(found.problem or "") == (f"{ROOT} says: {problem}" if problem else "")


places = st.sampled_from(
    [
        ({"state": "Original"}, Whereabouts(ROOT, OTHER, ROOT)),
        ({"state": "Deleted"}, Whereabouts(ROOT, OTHER, ROOT)),
        ({"state": UNSETTLED}, Whereabouts(ROOT)),
        (
            {"state": "Copy", "archive": "http://c.example:81", "service": "c.example/b/2020/01.01.00.00"},
            Whereabouts(ROOT, "c.example/b/2020/01.01.00.00", "http://c.example:81"),
        ),
    ]
)
holders = st.sampled_from(
    [
        ({"original": OTHER, "address": "b.example"}, Whereabouts(ROOT, OTHER, "http://b.example")),
        ({"original": OTHER, "address": ""}, Whereabouts(ROOT, OTHER)),
        ({"original": None, "removed": True}, Whereabouts(ROOT, removed=True)),
        ({"original": None, "disputed": True}, Whereabouts(ROOT)),
        ({"original": None}, None),
    ]
)


@given(items=st.dictionaries(LINKS, places, max_size=3), following=st.sampled_from(["", "ab" * 16]))
def test_a_page_of_received_items_is_read_as_it_was_written(
    items: dict[IBIForms, tuple[dict[str, Any], Whereabouts]], following: str
) -> None:
    value = {
        "service": OTHER,
        "received": [{"ibi": str(key.main), **reported} for key, (reported, _) in items.items()],
    }
    page = read_received(sent({**value, "next": following} if following else value), ROOT, ())
    expected = {key.main.canonical: place for key, (_, place) in items.items()}
    assert (page.found, page.following) == (expected, following)


@given(items=st.dictionaries(LINKS, holders, max_size=3))
def test_holders_are_read_as_they_were_written(
    items: dict[IBIForms, tuple[dict[str, Any], Whereabouts | None]],
) -> None:
    usual = {"address": "", "removed": False, "disputed": False}
    value = {"items": [{**usual, "ibi": str(key.main), **reported} for key, (reported, _) in items.items()]}
    expected = {key.main.canonical: place for key, (_, place) in items.items() if place is not None}
    assert read_holders(sent(value), ROOT, ()) == expected


PROPOSAL = {
    "transfer": "ab" * 16,
    "word": "propose",
    "address": ROOT,
    "ibi": OTHER,
    "passage": "a" * 30,
    "seal": "ab" * 32,
    "fingerprint": "ab" * 32,
}
ANSWER = {"reply": "staged", "fingerprint": "ab" * 32, "problem": "a", "service": OTHER}
RECEIVED = {
    "service": OTHER,
    "received": [{"ibi": OTHER, "state": "Copy", "archive": ROOT, "service": OTHER}],
    "next": "ab" * 16,
}
HOLDERS = {
    "items": [{"ibi": OTHER, "original": OTHER, "address": "b.example", "removed": False, "disputed": False}]
}
READERS: list[tuple[Callable[[Any], object], dict[str, Any]]] = [
    (read_message, PROPOSAL),
    (lambda value: read_answer(value, ROOT), ANSWER),
    (lambda value: read_received(value, ROOT, ()), RECEIVED),
    (lambda value: read_holders(value, ROOT, ()), HOLDERS),
]


@pytest.mark.parametrize(("reader", "value"), READERS, ids=["message", "answer", "received", "holders"])
@given(data=st.data())
def test_what_is_no_message_is_one_of_our_errors(
    reader: Callable[[Any], object], value: dict[str, Any], data: st.DataObject
) -> None:
    with suppress(IbiError):
        reader(with_another_value(data, value))


@pytest.mark.parametrize(("reader", "value"), READERS, ids=["message", "answer", "received", "holders"])
def test_a_message_that_is_nested_deep_is_one_of_our_errors(
    reader: Callable[[Any], object], value: dict[str, Any]
) -> None:
    for path in paths(value):
        for depth in (500, 900, 940, 990, 5000):
            with suppress(IbiError):
                reader(put_at(value, path, deep(depth)))


def paths(value: Any) -> list[tuple[str | int, ...]]:
    """Every place in a value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *[(key, *rest) for key, each in inside for rest in paths(each)]]


def put_at(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A value with another one in this place."""
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = put_at(value[path[0]], path[1:], new)
    return changed


@FEWER
@given(item=ORIGINALS, history=events, data=st.data())
def test_a_changed_description_is_garbled_or_can_be_kept(
    item: Holding, history: list[dict[str, Any]], data: st.DataObject
) -> None:
    value = with_another_value(data, described(item, history))
    if isinstance(value, dict):  # the giver stands by what it changed
        with suppress(PeerGarbled):
            value["fingerprint"] = fingerprint(read_description(value.get("item"), item.forms.main))
    check_garbled_or_kept(json.dumps(value).encode(), item)


def check_garbled_or_kept(body: bytes, item: Holding) -> None:
    """A description is refused, or files and databases can keep what it tells, and programs read it."""
    with suppress(PeerGarbled, HoldingError):
        found = read_fetched(body, PROPOSED._replace(name=item.forms.main))
        kept = json.dumps([write_item(found.item), found.history], ensure_ascii=False, allow_nan=False)
        assert kept.encode()


@FEWER
@given(item=ORIGINALS, text=TEXTS, number=st.sampled_from([float("nan"), float("-inf")]))
def test_a_description_with_half_a_character_or_no_number_is_garbled(
    item: Holding, text: str, number: float
) -> None:
    half = replace(item, rights=f"{text}\ud800")
    detail = {"moment": "", "who": "", "what": "", "detail": {"x": text}}
    for value in (
        described(half, []),
        described(item, [{**detail, "detail": {text: "\udfff"}}]),
        described(item, [{**detail, "detail": {text: number}}]),
    ):
        with pytest.raises(PeerGarbled):
            read_fetched(json.dumps(value).encode(), PROPOSED._replace(name=item.forms.main))


@FEWER
@given(item=ORIGINALS, at=st.integers(0, 10_000), new=st.binary(max_size=2))
def test_a_description_with_another_byte_is_garbled_or_can_be_kept(
    item: Holding, at: int, new: bytes
) -> None:
    body = json.dumps(described(item, [])).encode()
    at %= len(body)
    for changed in (body[:at] + new + body[at + 1 :], body[:at]):
        check_garbled_or_kept(changed, item)


def test_an_answer_that_knows_where_an_item_is_replaces_doubts_only() -> None:
    doubt, other_doubt = Whereabouts("http://peer.example"), Whereabouts("http://other.example")
    moved = Whereabouts("http://resolver.example", service="b.example/w/2020/01.01.00.00")
    removed = Whereabouts("http://resolver.example", removed=True)
    known = {"doubted": doubt, "moved": moved}
    add_answers(known, {"doubted": removed, "moved": other_doubt, "new": other_doubt})
    assert known == {"doubted": removed, "moved": moved, "new": other_doubt}
    add_answers(known, {"moved": removed})
    assert known["moved"] == moved
