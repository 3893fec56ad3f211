"""Messages between Archives at their limits: what is one longer, or of another kind, is refused with its sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.model.file_names import media_type
from ibi.archive.model.handover import GiverMessage, ReceiverReply, fingerprint
from ibi.archive.model.item import Holding, StoredFile
from ibi.archive.model.item_json import write_item
from ibi.archive.replication.fetching import check_acceptable, etag_of, read_description
from ibi.archive.replication.messages import (
    TransferAnswer,
    TransferMessage,
    read_answer,
    read_fetched,
    read_message,
)
from ibi.archive.replication.restored_messages import UNSETTLED, Whereabouts, read_holders, read_received
from ibi.errors import BadItem, HoldingError, PeerGarbled
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.vocabulary import ItemState

NAME = "a.example/b/2010/01.01.00.00"
OWN = "archive.example/w/2020/01.01.00.00"
OTHER = "b.example/w/2020/01.01.00.00"
ROOT = "http://b.example:81"
ID, DIGEST, SECRET = "0f" * 16, "0f" * 32, "a-Z_9" * 4
PROPOSAL = {
    "transfer": ID, "word": "propose", "address": ROOT, "ibi": NAME, "passage": SECRET, "seal": DIGEST,
    "fingerprint": DIGEST,
}  # fmt: skip
FILE = StoredFile("a%20b.txt", 3, DIGEST, "text/plain")
ITEM = Holding(
    forms=IBIForms.of(parse_ibi(NAME)), timestamp="2010-01-01T00:00:00Z", key="theirs", files=(FILE,)
)
NO_MESSAGE = "this is no message of a hand-over"


def described(**more: Any) -> dict[str, Any]:
    """The description of the item by a giver."""
    value = {"item": write_item(ITEM), "service": OTHER, "history": [], "fingerprint": fingerprint(ITEM)}
    return {**value, **more}


def event(**more: Any) -> dict[str, Any]:
    return {"moment": "2010", "who": "maria", "what": "edited", "detail": {}, **more}


def fetched(value: dict[str, Any]) -> Any:
    proposed = TransferMessage(ID, GiverMessage.PROPOSE, name=parse_ibi(NAME))
    return read_fetched(json.dumps(value).encode(), proposed)


@pytest.mark.parametrize(
    ("field", "right", "wrong"),
    [
        ("transfer", ["0" * 32, "f" * 32], ["0" * 31, "0" * 33, "F" * 32, "g" * 32, None]),
        ("passage", ["a" * 20, "a" * 100], ["a" * 19, "a" * 101, "+" * 20, 7]),
        ("seal", ["0" * 64, "f" * 64], ["0" * 63, "0" * 65, "F" * 64, []]),
        ("fingerprint", ["0" * 64, "f" * 64], ["0" * 63, "0" * 65, "F" * 64, {}]),
        ("address", ["", ROOT], [None, 7]),
        ("ibi", [NAME, OTHER], [None, 7]),
        ("word", ["propose"], ["Propose", "", None]),
    ],
)
def test_each_field_of_a_proposal_has_its_form(field: str, right: list[str], wrong: list[Any]) -> None:
    whole = TransferMessage(
        ID, GiverMessage.PROPOSE, ROOT, parse_ibi(NAME), SECRET, DIGEST, fingerprint=DIGEST
    )
    assert read_message(PROPOSAL) == whole
    for text in right:
        found = read_message(PROPOSAL | {field: text})
        value: Any = parse_ibi(text) if field == "ibi" else text
        names = {"ibi": "name", "word": "kind"}
        assert found == whole._replace(**{names.get(field, field): value})
    for each in wrong:
        with pytest.raises(BadItem) as refused:
            read_message(PROPOSAL | {field: each})
        assert str(refused.value) == NO_MESSAGE
    with pytest.raises(BadItem):
        read_message({name: value for name, value in PROPOSAL.items() if name != field})


def test_a_completion_and_a_withdrawal_have_only_what_they_need() -> None:
    completion = {"transfer": ID, "word": "complete", "fingerprint": DIGEST, "proof": SECRET}
    whole = TransferMessage(ID, GiverMessage.COMPLETE, proof=SECRET, fingerprint=DIGEST)
    assert read_message(completion | {"address": 7}) == whole
    for field in completion:
        with pytest.raises(BadItem, match=NO_MESSAGE):
            read_message({name: value for name, value in completion.items() if name != field})
    withdrawal = {"transfer": ID, "word": "withdraw", "fingerprint": 7}
    assert read_message(withdrawal) == TransferMessage(ID, GiverMessage.WITHDRAW)
    others: list[Any] = [None, [], "withdraw"]
    for value in others:
        with pytest.raises(BadItem, match=NO_MESSAGE):
            read_message(value)


@pytest.mark.parametrize("length", [199, 200, 201])
@pytest.mark.parametrize("field", ["moment", "who", "what"])
def test_a_word_of_a_history_has_200_characters_at_most(field: str, length: int) -> None:
    value = described(history=[event(**{field: "x" * length})])
    if length > 200:
        with pytest.raises(PeerGarbled) as refused:
            fetched(value)
        assert str(refused.value) == f"the other Archive does not describe {NAME} as it should"
    else:
        assert fetched(value).history == [event(**{field: "x" * length}, detail={"archive": OTHER})]


@pytest.mark.parametrize("field", ["moment", "who", "what"])
@pytest.mark.parametrize("word", [None, 7, "a\nb"])
def test_a_word_of_a_history_is_a_printable_text(field: str, word: Any) -> None:
    with pytest.raises(PeerGarbled):
        fetched(described(history=[event(**{field: word})]))


def test_of_a_history_10000_events_are_read() -> None:
    history = [event(what=str(number)) for number in range(10_001)]
    assert [each["what"] for each in fetched(described(history=history)).history] == [
        str(number) for number in range(10_000)
    ]


def test_the_archive_of_an_earlier_event_stays_that_of_the_event() -> None:
    history = [event(detail={"archive": OWN}), event(detail={"file": "a"})]
    assert [each["detail"] for each in fetched(described(history=history)).history] == [
        {"archive": OWN},
        {"archive": OTHER, "file": "a"},
    ]


def test_an_item_that_must_stay_is_not_taken_although_it_is_proposed() -> None:
    item = replace(ITEM, transferable=False)
    with pytest.raises(HoldingError) as refused:
        fetched(described(item=write_item(item), fingerprint=fingerprint(item)))
    assert str(refused.value) == f"{NAME} is an original that must stay in its Archive"


@pytest.mark.parametrize("length", [299, 300, 301])
def test_of_another_archives_sentence_300_characters_are_shown(length: int) -> None:
    value = {"reply": "declined", "problem": "\n" + "x" * length}
    found = read_answer(value, ROOT)
    assert found._replace(problem=None) == TransferAnswer(ReceiverReply.DECLINED)
    assert str(found.problem) == f"{ROOT} says: {'x' * min(length, 300)}"


@pytest.mark.parametrize(
    "more",
    [{"reply": "else"}, {"problem": 7}, {"fingerprint": None}, {"service": "b.example"}, {"service": 7}],
)
def test_an_answer_of_another_kind_belongs_to_no_hand_over(more: dict[str, Any]) -> None:
    value = {"reply": "staged", "problem": "", "fingerprint": DIGEST, "service": OTHER}
    assert read_answer(value, ROOT) == TransferAnswer(ReceiverReply.STAGED, DIGEST, OTHER)
    with pytest.raises(PeerGarbled) as refused:
        read_answer(value | more, ROOT)
    assert str(refused.value) == f"{ROOT} gave no answer that belongs to a hand-over"


@pytest.mark.parametrize(
    ("tag", "kept"),
    [("", ""), ('"1"', '"1"'), ("x" * 200, "x" * 200), ("x" * 201, ""), ('"é"', ""), ('"\t"', "")],
)
def test_an_etag_that_can_be_sent_back_is_kept(tag: str, kept: str) -> None:
    assert etag_of({"etag": tag}) == kept
    assert etag_of({}) == ""


def test_a_description_is_that_of_the_item_but_for_its_key_there() -> None:
    assert read_description(write_item(ITEM), parse_ibi(NAME)) == replace(ITEM, key="")
    removed = replace(ITEM, files=(), state=ItemState.DELETED, reason="why", replacement=ITEM.forms)
    found = read_description(write_item(removed), parse_ibi(NAME))
    assert found == replace(removed, key="", reason="", replacement=None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"files": []}, "its files are no list of files"),
        ({"timestamp": None}, "it lacks a name or a timestamp"),
        ({"rep": None}, "it lacks a name or a timestamp"),
        *(
            ({"files": {"a.txt": file}}, "the file a.txt has no size and SHA-256")
            for file in (
                7, {}, {"size": 1}, {"sha256": DIGEST}, {"size": -1, "sha256": DIGEST},
                {"size": True, "sha256": DIGEST}, {"size": 1.0, "sha256": DIGEST}, {"size": 1, "sha256": 7},
                {"size": 1, "sha256": DIGEST[1:]}, {"size": 1, "sha256": DIGEST.upper()},
            )
        ),
        ({"rep": OTHER}, OTHER),
    ],
)  # fmt: skip
def test_what_is_no_description_of_the_item_is_refused_with_the_reason(
    more: dict[str, Any], reason: str
) -> None:
    value = {name: each for name, each in (write_item(ITEM) | more).items() if each is not None}
    with pytest.raises(PeerGarbled) as refused:
        read_description(value, parse_ibi(NAME))
    assert str(refused.value) == f"this is no description of {NAME}: {reason}"


def test_an_empty_file_and_100000_files_are_described() -> None:
    def of(number: int) -> dict[str, Any]:
        files = {f"{each:06}": {"size": 0, "sha256": DIGEST} for each in range(number)}
        return write_item(ITEM) | {"files": files}

    found = read_description(of(2), parse_ibi(NAME))
    assert found.files == tuple(
        StoredFile(name, 0, DIGEST, media_type(name)) for name in ("000000", "000001")
    )
    assert len(read_description(of(100_000), parse_ibi(NAME)).files) == 100_000
    with pytest.raises(PeerGarbled, match="its files are no list of files"):
        read_description(of(100_001), parse_ibi(NAME))


def test_a_file_may_be_as_large_as_this_archive_takes() -> None:
    check_acceptable(ITEM, 3)
    with pytest.raises(HoldingError) as refused:
        check_acceptable(ITEM, 2)
    assert str(refused.value) == "the file a%20b.txt has 3 bytes; this Archive takes at most 2"


COPY_OF_OURS = {"state": "Copy", "service": OWN, "archive": ROOT}
MOVED = Whereabouts(ROOT, OTHER, ROOT)


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ({"state": UNSETTLED}, {NAME: Whereabouts(ROOT)}),
        ({"state": "Original"}, {NAME: MOVED}),
        ({"state": "Deleted"}, {NAME: MOVED}),
        ({"state": "Copy"}, {NAME: MOVED}),
        ({"state": "Copy", "service": ""}, {NAME: MOVED}),
        (COPY_OF_OURS, {}),
        (
            {"state": "Copy", "service": "c.example/w/2020/01.01.00.00", "archive": "http://c.example/x"},
            {NAME: Whereabouts(ROOT, "c.example/w/2020/01.01.00.00", "http://c.example")},
        ),
        (  # the service stands only where an item is a copy
            {"state": "Original", "service": OWN}, {NAME: MOVED},
        ),
    ],
)  # fmt: skip
def test_where_a_received_item_is_now_is_read(
    reported: dict[str, str], found: dict[str, Whereabouts]
) -> None:
    value = {"service": OTHER, "received": [{**reported, "ibi": NAME}]}
    page = read_received(value, ROOT, {OWN})
    assert (page.found, page.following) == (found, "")


@pytest.mark.parametrize(
    "more",
    [
        {"service": "b.example"}, {"service": None}, {"received": 7}, {"received": [{"ibi": NAME}]},
        {"received": [{"state": "Original"}]}, {"received": [{"ibi": NAME, "state": "Lost"}]},
        {"received": [{"ibi": NAME, "state": "Copy", "service": OTHER}]},
        {"received": [{"ibi": NAME, "state": "Copy", "service": OTHER, "archive": "b.example"}]},
        {"next": "0" * 31}, {"next": "0" * 33}, {"next": 7},
    ],
)  # fmt: skip
def test_a_page_of_received_items_with_a_fault_is_garbled(more: dict[str, Any]) -> None:
    value = {"service": OTHER, "received": [{"ibi": NAME, "state": "Original"}], "next": ID}
    assert read_received(value, ROOT, {OWN}) == ({NAME: MOVED}, ID)
    with pytest.raises(PeerGarbled) as refused:
        read_received(value | more, ROOT, {OWN})
    assert str(refused.value) == f"{ROOT} does not tell which originals it has received"


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ({}, {}),
        ({"removed": True}, {NAME: Whereabouts(ROOT, removed=True)}),
        ({"removed": 1}, {}),
        ({"disputed": True, "removed": True, "original": OTHER}, {NAME: Whereabouts(ROOT)}),
        ({"disputed": 1}, {}),
        ({"original": OTHER}, {NAME: Whereabouts(ROOT, OTHER)}),
        ({"original": OTHER, "address": "b.example:81"}, {NAME: Whereabouts(ROOT, OTHER, ROOT)}),
        ({"original": OWN}, {}),
        ({"original": OWN, "removed": True}, {NAME: Whereabouts(ROOT, removed=True)}),
    ],
)
def test_what_a_resolver_knows_of_an_item_is_read(
    reported: dict[str, Any], found: dict[str, Whereabouts]
) -> None:
    usual = {"ibi": NAME, "original": None, "address": "", "removed": False, "disputed": False}
    assert read_holders({"items": [usual | reported]}, ROOT, {OWN}) == found
    for field in usual.keys() - {"address"} if not reported else ():
        with pytest.raises(PeerGarbled) as refused:
            read_holders(
                {"items": [{name: each for name, each in usual.items() if name != field}]}, ROOT, {OWN}
            )
        problem = "does not tell who holds an original; it may be a resolver of other software"
        assert str(refused.value) == f"{ROOT} {problem}"
