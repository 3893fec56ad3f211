"""A hand-over at its giver: each message that is sent, and what becomes of the item and of the journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ibi.archive.model.handover import GiverStage, ReceiverReply, fingerprint, proof_digest
from ibi.archive.model.item import Holding
from ibi.archive.replication import giving
from ibi.archive.replication.giving import Giver
from ibi.archive.store.tables import copies, history
from ibi.archive.store.tables.copies import CopySource
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, IbiError, NotHeld, PeerSilent, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.archive.archive_fixture import SERVICE, WHEN, NewArchive

NAME = parse_name("a.example/b/2010/01.01.00.00")
HERE, THERE, OTHER = "http://a.example", "http://b.example", "http://c.example"
THEIRS = "b.example/w/2020/01.01.00.00"
SILENT = PeerSilent("it is silent")
Answer = tuple[int, Any] | Exception


class Peers:
    """Takes the place of the downloads: gives these answers, the last one for ever, and keeps what was sent."""

    def __init__(self, patch: pytest.MonkeyPatch, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sent: list[dict[str, Any]] = []
        patch.setattr(giving, "Downloads", self.downloads)

    def downloads(self, policy: Any, host_lookup: object) -> Peers:
        assert (policy.allow_private, host_lookup) == (True, "a look-up")
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, method: str, url: str, *, json: Any, token: str, seconds: float) -> Any:
        assert (method, seconds) == ("POST", 30.0)
        self.sent.append({"url": url, "token": token, **json})
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        status, value = answer
        return SimpleNamespace(status=status, json=lambda: value(json) if callable(value) else value)


def says(reply: str, service: str = THEIRS, problem: str = "") -> Answer:
    """An answer of the receiver, with the fingerprint of what was proposed."""
    return 200, lambda message: {
        "reply": reply, "service": service, "fingerprint": message.get("fingerprint", ""), "problem": problem,
    }  # fmt: skip


@pytest.fixture
def giver(archive: NewArchive) -> Giver:
    (archive.data / "a.txt").write_bytes(b"aaa")
    archive.load({"rep": str(NAME), "files": {"a.txt": "a.txt"}, "target": "a.txt"})
    peers = {
        "receiver": Peer(address=THERE, token="t" * 43),
        "another": Peer(address=OTHER, token="u" * 43),
        "mute": Peer(address="http://d.example", token=""),
    }
    Peer.write_tables(archive.data, peers)
    lookup: Any = "a look-up"
    return Giver(archive.item_store, archive.data, HERE, lookup)


def held(giver: Giver) -> Holding:
    found = giver.item_store.catalogue.holding(NAME)
    assert found is not None
    return found


def events(giver: Giver) -> list[tuple[str, str, dict[str, Any]]]:
    with giver.item_store.catalogue.reading() as run:
        return [(each.what, each.who, each.detail) for each in history.events_of(run, held(giver).number)][1:]


def source(giver: Giver) -> CopySource | None:
    with giver.item_store.catalogue.reading() as run:
        return copies.source_of(run, held(giver).number)


def offered(giver: Giver, **more: Any) -> OutgoingTransfer:
    return giver.offer(NAME, "receiver", "maria", **more)


def advanced(giver: Giver, transfer: OutgoingTransfer) -> tuple[GiverStage, ReceiverReply | None, str]:
    after, reply = asyncio.run(giver.advance(transfer))
    assert giver.find(transfer.id)[0].stage is after.stage
    return after.stage, reply, str(after.problem or "")


def proposal(transfer: OutgoingTransfer, of: Holding) -> dict[str, Any]:
    return {
        "url": f"{THERE}/-/api/transfers", "token": "t" * 43, "transfer": transfer.id, "word": "propose",
        "address": HERE, "ibi": str(NAME), "passage": transfer.passage, "seal": proof_digest(transfer.proof),
        "fingerprint": fingerprint(of),
    }  # fmt: skip


def completion(transfer: OutgoingTransfer, of: Holding) -> dict[str, Any]:
    return {
        "url": f"{THERE}/-/api/transfers", "token": "t" * 43, "transfer": transfer.id, "word": "complete",
        "proof": transfer.proof, "fingerprint": fingerprint(of),
    }  # fmt: skip


GIVEN = ("given", "maria", {"to": THERE, "service": THEIRS})


def test_an_original_is_handed_over_in_two_steps(giver: Giver, monkeypatch: pytest.MonkeyPatch) -> None:
    before, transfer = held(giver), offered(giver)
    assert transfer == OutgoingTransfer(
        id=transfer.id, item=before.number, peer="receiver", address=THERE, passage=transfer.passage,
        proof=transfer.proof, remove=False, who="maria", stage=GiverStage.OFFERED, moment=WHEN,
    )  # fmt: skip
    assert (len(transfer.id), len(transfer.passage), len(transfer.proof)) == (32, 43, 43)
    peers = Peers(monkeypatch, says("staged"), says("owned"))
    assert advanced(giver, transfer) == (GiverStage.DONE, ReceiverReply.OWNED, "")
    assert peers.sent == [proposal(transfer, before), completion(transfer, before)]
    assert held(giver) == replace(before, state=ItemState.COPY)
    assert events(giver) == [GIVEN]
    assert source(giver) == CopySource(
        archive=THERE, service=THEIRS, original=before.timestamp, checked=WHEN, private=True
    )
    assert giver.open() == []
    assert advanced(giver, giver.find(transfer.id)[0])[:2] == (GiverStage.DONE, None)
    assert len(peers.sent) == 2


def test_the_files_of_what_was_handed_over_may_be_dropped(
    giver: Giver, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, transfer = held(giver), offered(giver, remove=True)
    Peers(monkeypatch, says("staged"), says("owned"))
    assert advanced(giver, transfer)[0] is GiverStage.DONE
    pointer = f"{THERE}/{NAME}"
    assert held(giver) == replace(before, state=ItemState.COPY, files=(), target="", url=pointer)
    assert events(giver) == [GIVEN, ("dropped", "maria", {"to": THERE})]


@pytest.mark.parametrize(
    ("answers", "stage", "reply", "problem", "sent"),
    [
        ([says("fetching")], GiverStage.OFFERED, "fetching", "", 1),
        ([says("failing", problem="no\nspace")], GiverStage.OFFERED, "failing", f"{THERE} says: nospace", 1),
        ([says("refused", problem="too large")], GiverStage.ENDED, "refused", f"{THERE} says: too large", 1),
        ([says("declined")], GiverStage.ENDED, "declined", "", 1),
        ([says("unknown"), says("fetching")], GiverStage.OFFERED, "fetching", "", 2),
        ([says("unknown")], GiverStage.OFFERED, "unknown", "", 12),
        ([(404, {})], GiverStage.OFFERED, None,
         f"{THERE} does not take part in hand-overs with us: it answered 404", 1),
        ([(200, [])], GiverStage.OFFERED, None, f"{THERE} gave no answer that belongs to a hand-over", 1),
        ([SILENT], GiverStage.OFFERED, None, "it is silent", 1),
        ([says("staged"), SILENT], GiverStage.HANDED, None, "it is silent", 2),
        ([says("staged"), says("owned", "c.example/w/2020/01.01.00.00")], GiverStage.HANDED, None,
         f"the Archive at {THERE} is not the one that received the copy", 2),
        ([says("staged"), says("declined")], GiverStage.ENDED, "declined", "", 2),
        ([says("owned")], GiverStage.DONE, "owned", "", 1),
    ],
)  # fmt: skip
def test_each_answer_leads_on_or_is_waited_for(
    giver: Giver,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Answer],
    stage: GiverStage,
    reply: str | None,
    problem: str,
    sent: int,
) -> None:
    transfer, peers = offered(giver), Peers(monkeypatch, *answers)
    assert advanced(giver, transfer) == (stage, reply, problem)
    assert len(peers.sent) == sent
    assert (held(giver).state is ItemState.ORIGINAL) is (stage in {GiverStage.OFFERED, GiverStage.ENDED})


def test_an_item_that_was_changed_meanwhile_is_proposed_anew(
    giver: Giver, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer = offered(giver)
    peers = Peers(
        monkeypatch, (200, {"reply": "staged", "service": THEIRS, "fingerprint": "0" * 64}), says("fetching")
    )
    assert advanced(giver, transfer)[:2] == (GiverStage.OFFERED, ReceiverReply.FETCHING)
    assert [each["word"] for each in peers.sent] == ["propose", "propose"]
    assert held(giver).state is ItemState.ORIGINAL


def test_an_item_that_must_stay_by_now_ends_its_hand_over(
    giver: Giver, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer = offered(giver)
    with giver.item_store.unit_of_work("maria") as work:
        work.change(held(giver), replace(held(giver), transferable=False))
    Peers(monkeypatch, says("staged"))
    problem = f"{NAME} is no longer an original that can be handed over"
    assert advanced(giver, transfer) == (GiverStage.ENDED, ReceiverReply.STAGED, problem)
    assert held(giver).state is ItemState.ORIGINAL


@pytest.mark.parametrize(
    ("answers", "stage", "state", "happened"),
    [
        ([says("declined")], GiverStage.ENDED, ItemState.ORIGINAL, []),
        ([SILENT], GiverStage.ENDED, ItemState.ORIGINAL, []),
        ([says("owned")], GiverStage.DONE, ItemState.COPY, [GIVEN]),
        ([says("staged"), SILENT, says("declined")], GiverStage.ENDED, ItemState.ORIGINAL,
         [GIVEN, ("returned", "maria", {"by": THERE})]),
        ([says("staged"), SILENT, says("owned")], GiverStage.DONE, ItemState.COPY, [GIVEN]),
    ],
    ids=["declined", "silent", "owned", "handed and declined", "handed and owned"],
)  # fmt: skip
def test_a_hand_over_is_withdrawn_unless_the_receiver_is_the_owner(
    giver: Giver,
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Answer],
    stage: GiverStage,
    state: ItemState,
    happened: list[Any],
) -> None:
    transfer, peers = offered(giver), Peers(monkeypatch, *answers)
    if len(answers) > 1:
        transfer, _ = asyncio.run(giver.advance(transfer))
    assert asyncio.run(giver.withdraw(transfer)).stage is stage
    last = {"url": f"{THERE}/-/api/transfers", "token": "t" * 43, "transfer": transfer.id, "word": "withdraw"}
    assert peers.sent[-1] == last
    assert (held(giver).state, events(giver)) == (state, happened)
    assert (source(giver) is None) is (state is ItemState.ORIGINAL)


def test_what_was_handed_cannot_be_withdrawn_from_one_that_is_silent(
    giver: Giver, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer = offered(giver)
    Peers(monkeypatch, says("staged"), SILENT)
    handed, _ = asyncio.run(giver.advance(transfer))
    with pytest.raises(PeerSilent):
        asyncio.run(giver.withdraw(handed))
    assert (giver.find(transfer.id)[0].stage, held(giver).state) == (GiverStage.HANDED, ItemState.COPY)


def test_another_offer_takes_the_place_of_the_first_until_that_is_handed(
    giver: Giver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = offered(giver)
    again = giver.offer(NAME, f"{THERE}/", "otto", remove=True)
    assert again == replace(first, remove=True)
    peers = Peer.read_tables(giver.data)
    Peer.write_tables(giver.data, {"renamed": peers.pop("receiver"), **peers})
    assert giver.offer(NAME, "renamed", "otto") == replace(first, peer="renamed")
    other = giver.offer(NAME, "another", "maria")
    assert (giver.find(first.id)[0].stage, giver.open()) == (GiverStage.ENDED, [other])
    Peers(monkeypatch, says("staged"), SILENT)
    asyncio.run(giver.advance(other))
    with pytest.raises(HoldingError) as refused:
        giver.offer(NAME, "renamed", "maria")
    assert str(refused.value) == f"{NAME} is being handed over to {OTHER}; that must be finished first"


def _change(**facts: Any) -> Callable[[Giver], None]:
    def change(giver: Giver) -> None:
        with giver.item_store.unit_of_work("maria") as work:
            work.writer.change(held(giver), replace(held(giver), **facts))

    return change


@pytest.mark.parametrize(
    ("change", "to", "error", "sentence"),
    [
        (_change(transferable=False), "receiver", HoldingError,
         f"{NAME} is an original that must stay in this Archive"),
        (_change(state=ItemState.COPY), "receiver", HoldingError,
         f"{NAME} is a copy: only the Archive of the original can hand it over"),
        (_change(state=ItemState.DELETED, files=(), target=""), "receiver", HoldingError,
         f"{NAME} was removed on {WHEN}"),
        (bool, "nobody", SetupError,
         "there is no peer nobody with a token; name it first, with the token that it gave"),
        (bool, "mute", SetupError, "there is no peer mute with a token; name it first, with the token that it gave"),
        (bool, "http://d.example", SetupError,
         "there is no peer http://d.example with a token; name it first, with the token that it gave"),
    ],
)  # fmt: skip
def test_what_cannot_be_handed_over_is_refused(
    giver: Giver, change: Callable[[Giver], object], to: str, error: type[IbiError], sentence: str
) -> None:
    change(giver)
    with pytest.raises(error) as refused:
        giver.offer(NAME, to, "maria")
    assert str(refused.value) == sentence
    assert giver.open() == []


def test_the_archive_itself_and_what_is_unknown_are_not_handed_over(giver: Giver) -> None:
    with pytest.raises(HoldingError) as refused:
        giver.offer(SERVICE.main, "receiver", "maria")
    assert str(refused.value) == f"{SERVICE.main} is the Archive service and cannot be handed over"
    with pytest.raises(NotHeld) as unknown:
        giver.find("0" * 32)
    assert str(unknown.value) == "there is no such hand-over"


def test_an_offer_may_be_refused_by_what_is_open_already(giver: Giver) -> None:
    first, seen = offered(giver), list[str]()

    def check(open_ones: Any) -> None:
        seen.extend(each.id for each in open_ones)
        raise HoldingError("enough")

    with pytest.raises(HoldingError, match="enough"):
        giver.offer(NAME, "another", "maria", check=check)
    assert (seen, giver.open()) == ([first.id], [first])
