"""A hand-over at its receiver: what is fetched, what each message is answered, and what becomes of the item."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any, Self

import pytest

from ibi.archive.model.handover import fingerprint, proof_digest
from ibi.archive.model.item import Holding
from ibi.archive.model.item_json import write_item
from ibi.archive.replication import receiving
from ibi.archive.replication.fetching import read_description
from ibi.archive.replication.receiving import Receiver
from ibi.archive.store.tables import copies, history
from ibi.archive.store.tables.copies import CopySource
from ibi.errors import ForbiddenAddress, HoldingError, SetupError
from ibi.identifier.forms import parse_name
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.archive.archive_fixture import SERVICE, WHEN, NewArchive
from support.clock import run_with_false_clock
from support.network.scripted_downloads import DownloadRequest, Page, ScriptedDownloads, ScriptedReply

NAME = parse_name("a.example/b/2010/01.01.00.00")
THERE = "http://a.example"
THEIRS = "a.example/w/2020/01.01.00.00"
THEN = "2014-01-02T17:23:57Z"
CONTENT = b"aaa"
PROOF, PASSAGE = "p" * 43, "q" * 43
FILES = {"a.txt": {"size": 3, "sha256": sha256(CONTENT).hexdigest()}}
ITEM = read_description({"rep": str(NAME), "timestamp": THEN, "files": FILES, "target": "a.txt"}, NAME)
HISTORY = [{"moment": THEN, "who": "maria", "what": "deposited", "detail": {}}]
NUMBERS = [f"{number:032x}" for number in range(20)]


def message(word: str, transfer: str = NUMBERS[0], item: Holding = ITEM, **more: Any) -> dict[str, Any]:
    fields = {
        "transfer": transfer, "word": word, "address": THERE, "ibi": str(item.forms.main), "passage": PASSAGE,
        "seal": proof_digest(PROOF), "fingerprint": fingerprint(item), "proof": PROOF,
    }  # fmt: skip
    return fields | more


def description(item: Holding = ITEM, **more: Any) -> Page:
    value = {
        "item": write_item(item),
        "service": THEIRS,
        "history": HISTORY,
        "fingerprint": fingerprint(item),
    }
    return 200, {}, json.dumps(value | more).encode()


def pages(transfer: str = NUMBERS[0], page: Page | None = None, root: str = THERE) -> dict[str, Page]:
    base = f"{root}/-/api/transfers/{transfer}"
    return {base: page or description(), f"{base}/files/a.txt": (200, {}, CONTENT)}


class Giver(ScriptedDownloads):
    """Takes the place of the downloads; each reply takes so many seconds."""

    def __init__(self, patch: pytest.MonkeyPatch, known: Mapping[str, Page]) -> None:
        super().__init__(known)
        self.seconds = 0.0
        self.forbidden = False
        self.private: list[bool] = []
        patch.setattr(receiving, "Downloads", self.downloads)

    def downloads(self, policy: Any, host_lookup: object) -> Giver:
        assert host_lookup == "a look-up"
        self.private.append(policy.allow_private)
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    @asynccontextmanager
    async def get(self, url: str, **limits: Any) -> AsyncIterator[ScriptedReply]:
        await asyncio.sleep(self.seconds)
        if self.forbidden:
            raise ForbiddenAddress("{address} is forbidden", address=url)
        # A header may come as a positional argument of `fetch_files`.
        async with super().get(url, **limits) as reply:
            yield reply


@pytest.fixture
def receiver(archive: NewArchive) -> Receiver:
    Peer.write_tables(archive.data, {"giver": Peer(address=THERE, token="t" * 43)})
    lookup: Any = "a look-up"
    return Receiver(archive.item_store, archive.data, 10, lookup)


def answers(receiver: Receiver, *messages: dict[str, Any], who: str = "giver") -> list[dict[str, Any]]:
    async def run() -> list[dict[str, Any]]:
        found = [await receiver.answer(each, who) for each in messages]
        await receiver.close()
        return found

    return run_with_false_clock(run(), sockets=False)


def answered(
    reply: str, *, known: bool = True, problem: str = "", transfer: str = NUMBERS[0]
) -> dict[str, Any]:
    return {
        "transfer": transfer, "reply": reply, "fingerprint": fingerprint(ITEM) if known else "", "problem": problem,
        "service": str(SERVICE.main),
    }  # fmt: skip


def held(receiver: Receiver) -> Holding | None:
    return receiver.item_store.catalogue.holding(NAME)


def known(receiver: Receiver) -> tuple[list[tuple[str, str, str]], CopySource | None]:
    """The events of the item, and where the copy is from."""
    found = held(receiver)
    assert found is not None
    with receiver.item_store.catalogue.reading() as run:
        events = [
            (each.moment, each.what, json.dumps(each.detail)) for each in history.events_of(run, found.number)
        ]
        return events, copies.source_of(run, found.number)


def staged_files(receiver: Receiver) -> list[str]:
    return [path.name for path in (receiver.data / "staging").iterdir()]


COPIED = (WHEN, "copied", json.dumps({"source": THERE}))


def test_what_is_proposed_is_fetched_and_stored_as_a_copy(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = Giver(monkeypatch, pages())
    assert answers(receiver, message("propose")) == [answered("staged")]
    base, headers = f"{THERE}/-/api/transfers/{NUMBERS[0]}", {"ibi-passage": PASSAGE}
    assert giver.requests == [
        DownloadRequest(base, 16 << 20, 30.0, headers),
        DownloadRequest(f"{base}/files/a.txt", 3, 60 + 3 / 65_536, headers, follow=True),
    ]
    copy = held(receiver)
    assert copy == replace(ITEM, number=copy.number if copy else 0, state=ItemState.COPY)
    source = CopySource(archive=THERE, service=THEIRS, original=THEN, checked=WHEN, private=True)
    assert known(receiver) == ([COPIED], source)
    assert staged_files(receiver) == []
    # A proposal that is repeated fetches nothing.
    assert answers(receiver, message("propose")) == [answered("staged")]
    assert len(giver.requests) == 2


def test_the_proof_makes_the_copy_the_original(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    Giver(monkeypatch, pages())
    found = answers(
        receiver, message("propose"), message("complete"), message("complete"), message("withdraw")
    )
    owned = answered("owned", known=False)
    assert found == [answered("staged"), answered("owned"), owned, owned]
    original = held(receiver)
    assert original is not None
    assert original.state is ItemState.ORIGINAL
    events, source = known(receiver)
    assert events == [
        (THEN, "deposited", json.dumps({"archive": THEIRS})),
        COPIED,
        (WHEN, "received", json.dumps({"giver": THERE})),
    ] or events == [
        COPIED,
        (THEN, "deposited", json.dumps({"archive": THEIRS})),
        (WHEN, "received", json.dumps({"giver": THERE})),
    ]
    assert source is None


@pytest.mark.parametrize(
    ("change", "reply"), [({"proof": "x" * 43}, "refused"), ({"fingerprint": "0" * 64}, "unknown")]
)
def test_without_the_proof_of_this_item_the_copy_stays_one(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], reply: str
) -> None:
    Giver(monkeypatch, pages())
    found = answers(receiver, message("propose"), message("complete", **change))
    assert found == [answered("staged"), answered(reply)]
    copy = held(receiver)
    assert copy is not None
    assert copy.state is ItemState.COPY


def test_what_was_declined_is_never_taken(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    giver = Giver(monkeypatch, pages())
    found = answers(receiver, message("withdraw"), message("propose"), message("complete"))
    assert found == [answered("declined", known=False)] * 3
    assert (giver.requests, held(receiver)) == ([], None)


def test_a_copy_that_was_declined_stays_a_copy(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    Giver(monkeypatch, pages())
    found = answers(receiver, message("propose"), message("withdraw"), message("complete"))
    assert found == [answered("staged"), answered("declined"), answered("declined")]


def test_a_hand_over_belongs_to_the_token_with_which_it_began(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    Giver(monkeypatch, pages())
    answers(receiver, message("propose"))
    with pytest.raises(HoldingError, match="this hand-over was begun with another token"):
        answers(receiver, message("complete"), who="other")


@pytest.mark.parametrize(("who", "private"), [("giver", True), ("other", False)])
def test_only_a_giver_that_the_settings_name_may_be_at_a_private_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, who: str, private: bool
) -> None:
    """Its address is that of the settings then, whatever its message says."""
    giver = Giver(monkeypatch, pages() | pages(root="http://z.example"))
    sent = message("propose", address="http://z.example/path")
    assert answers(receiver, sent, who=who) == [answered("staged")]
    assert giver.private == [private]
    root = THERE if private else "http://z.example"
    assert {each.url.partition("/-/")[0] for each in giver.requests} == {root}


LARGE = replace(ITEM, files=(replace(ITEM.files[0], size=11),))


@pytest.mark.parametrize(
    ("page", "item", "reply", "problem"),
    [
        ((404, {}, b""), ITEM, "failing", "the other Archive does not describe it; it answered 404"),
        ((200, {}, b"<html>"), ITEM, "failing", f"the other Archive does not describe {NAME} as it should"),
        (description(fingerprint="0" * 64), ITEM, "failing",
         f"the other Archive does not describe {NAME} as it should"),
        (description(LARGE), LARGE, "refused", "the file a.txt has 11 bytes; this Archive takes at most 10"),
        (description(replace(ITEM, transferable=False)), ITEM, "refused",
         f"{NAME} is an original that must stay in its Archive"),
    ],
    ids=["status", "no description", "another fingerprint", "too large", "must stay"],
)  # fmt: skip
def test_an_item_that_cannot_be_fetched_says_why(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, page: Page, item: Holding, reply: str, problem: str
) -> None:
    giver = Giver(monkeypatch, pages(page=page))
    assert answers(receiver, message("propose", item=item)) == [answered(reply, known=False, problem=problem)]
    assert (held(receiver), staged_files(receiver), len(giver.requests)) == (None, [], 1)


def test_a_forbidden_address_is_refused_and_an_original_of_this_archive_stays(
    receiver: Receiver, archive: NewArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = Giver(monkeypatch, pages())
    giver.forbidden = True
    problem = f"{THERE}/-/api/transfers/{NUMBERS[0]} is forbidden"
    assert answers(receiver, message("propose")) == [answered("refused", known=False, problem=problem)]
    giver.forbidden = False
    archive.load({"rep": str(NAME), "url": "http://x.example/"})
    problem = f"{NAME} is held here as the Original, and no copy can be kept beside it"
    assert answers(receiver, message("propose")) == [answered("refused", known=False, problem=problem)]


def test_a_fault_of_this_machine_may_pass(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    Giver(monkeypatch, pages())

    def fail(*_: object) -> None:
        raise SetupError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(copies, "save_source", fail)
        failing = answered("failing", known=False, problem="the disk is full")
        assert answers(receiver, message("propose")) == [failing]
    assert held(receiver) is None
    assert answers(receiver, message("propose")) == [answered("staged")]


def test_a_long_fetch_is_waited_for_five_seconds_each_time(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = Giver(monkeypatch, pages())
    giver.seconds = 6.0

    async def run() -> list[tuple[float, str]]:
        clock, found = asyncio.get_running_loop().time, list[tuple[float, str]]()
        for _ in range(3):
            reply = (await receiver.answer(message("propose"), "giver"))["reply"]
            found.append((clock() - 1000, reply))
        return found

    replies = run_with_false_clock(run(), sockets=False)
    assert replies == [(5.0, "fetching"), (10.0, "fetching"), (12.0, "staged")]
    assert len(giver.requests) == 2


def test_eight_items_are_fetched_at_once_and_the_next_waits_for_its_turn(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    giver = Giver(
        monkeypatch, {name: page for each in NUMBERS for name, page in pages(each, (404, {}, b"")).items()}
    )
    giver.seconds = 7.0

    async def run() -> list[tuple[float, str]]:
        found = list[tuple[float, str]]()

        async def propose(number: int) -> None:
            reply = (await receiver.answer(message("propose", NUMBERS[number]), "giver"))["reply"]
            found.append((asyncio.get_running_loop().time() - 1000, reply))

        await asyncio.gather(*map(propose, range(8)))
        await propose(8)
        await asyncio.sleep(3)
        # Those that have ended make way; their givers have not asked for the outcome, and it is forgotten.
        await propose(8)
        await propose(0)
        await receiver.close()
        return found

    replies = run_with_false_clock(run(), sockets=False)
    assert replies == [(at, "fetching") for at in (*[5.0] * 9, 13.0, 18.0)]
    assert len(giver.requests) == 9
