"""Originals handed over from one Archive to another, over real sockets."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.model.handover import GiverStage, ReceiverReply, fingerprint, proof_digest
from ibi.archive.model.item_json import read_item
from ibi.archive.replication import fetching, retiring
from ibi.archive.replication.receiving import Receiver
from ibi.archive.replication.retiring import Moved, move_all
from ibi.archive.store.item_changes import remove
from ibi.archive.store.tables import transfers
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.cli import main
from ibi.errors import BadItem, HoldingError, ParseError, PeerSilent, SetupError
from ibi.identifier.forms import IBIForms, parse_ibi
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.archive.fixtures import IN_A_FOLDER
from support.archive.replication_fixture import FILES, LARGEST, NAME, Archive, make_archive

pytestmark = pytest.mark.usefixtures("files_place")


@pytest.fixture
def giving(tmp_path: Path) -> Archive:
    """The Archive that has the original."""
    return make_archive(tmp_path, 1)


@pytest.fixture
def taking(tmp_path: Path, giving: Archive) -> Archive:
    """The Archive that gets it; both know each other."""
    made = make_archive(tmp_path, 2)
    made.knows(giving, "giver")
    giving.knows(made, "receiver", made.lets_in("giver"))
    return made


def offer(archive: Archive, to: str = "receiver", *, remove: bool = False) -> OutgoingTransfer:
    with archive.giver() as giver:
        return giver.offer(parse_ibi(NAME), to, "maria", remove=remove)


def advance(archive: Archive, giving: OutgoingTransfer) -> tuple[OutgoingTransfer, ReceiverReply | None]:
    with archive.giver() as giver:
        return asyncio.run(giver.advance(giving))


def hand_over(archive: Archive, to: str = "receiver", *, remove: bool = False) -> OutgoingTransfer:
    return advance(archive, offer(archive, to, remove=remove))[0]


def states(*archives: Archive) -> list[ItemState | None]:
    return [holding.state if (holding := archive.holding()) else None for archive in archives]


def shown_source(archive: Archive, capsys: pytest.CaptureFixture[str]) -> str | None:
    """The Archive of the original, as `show` names it; None if it says nothing of a copy."""
    capsys.readouterr()
    assert main(["archive", "show", "--data", str(archive.data), "--json", NAME]) == 0
    source: str | None = json.loads(capsys.readouterr().out).get("copy", {}).get("archive")
    return source


@pytest.mark.proves("ARC-08", "AMB-24")
def test_an_original_goes_to_another_archive_with_all_its_bytes_and_its_history(
    giving: Archive, taking: Archive
) -> None:
    before = giving.put(metadata={"title": ["Olá"]}, target="index.html", ibip="8JMKD3MGP8W/35MME4E")
    with giving.served(), taking.served():
        done = hand_over(giving)
    assert (done.stage, done.problem) == (GiverStage.DONE, None)
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]
    after = taking.held()
    assert (after.forms, after.timestamp, after.metadata, after.target) == (
        before.forms,
        before.timestamp,
        before.metadata,
        before.target,
    )
    assert taking.content() == giving.content() == FILES
    assert [(event.what, event.who) for event in giving.events()] == [
        ("deposited", "maria"),
        ("given", "maria"),
    ]
    events = taking.events()
    assert [event.what for event in events] == ["copied", "deposited", "received"]
    assert events[1].who == "maria"
    assert events[1].detail["archive"] == str(giving.settings.service.main)
    assert giving.source().archive == taking.root
    assert giving.source().service == str(taking.settings.service.main)


@pytest.mark.proves("ARC-13")
def test_the_new_archive_edits_it_and_the_old_one_names_the_new_one(giving: Archive, taking: Archive) -> None:
    giving.put()
    with giving.served(), taking.served():
        hand_over(giving)
    assert taking.edit(language="pt").language == "pt"
    with pytest.raises(HoldingError, match=f"edited where its original is: {taking.root}"):
        giving.edit(language="pt")


def test_a_peer_is_found_by_its_address_too(giving: Archive, taking: Archive) -> None:
    giving.put()
    with giving.served(), taking.served():
        assert hand_over(giving, f"{taking.root}/").stage is GiverStage.DONE


@pytest.mark.parametrize("access", ["closed", "restricted"])
def test_items_with_restricted_access_are_handed_over_as_well(
    giving: Archive, taking: Archive, access: str
) -> None:
    giving.put(access=access, file_list_public=False)
    with giving.served(), taking.served():
        assert hand_over(giving).stage is GiverStage.DONE
    assert (taking.held().access, taking.content()) == (access, FILES)


@pytest.mark.parametrize(
    ("unknown", "facts", "stage"),
    [
        ("rights", {}, GiverStage.DONE),
        ("rights", {"rights": "All may read it."}, GiverStage.OFFERED),
        ("institution", {"institution": {"": "University of the Sea"}}, GiverStage.DONE),
    ],
)
def test_an_older_archive_takes_over_what_has_no_field_that_it_does_not_know(
    giving: Archive,
    taking: Archive,
    monkeypatch: pytest.MonkeyPatch,
    unknown: str,
    facts: dict[str, Any],
    stage: GiverStage,
) -> None:
    """Otherwise the original stays where it is, but for a field that `handover.fingerprint` leaves out."""
    monkeypatch.setattr(fetching, "TAKEN", fetching.TAKEN - {unknown})  # only the receiver reads it
    giving.put(**facts)
    with giving.served(), taking.served():
        done = hand_over(giving)
    there = taking.holding()
    assert done.stage is stage
    if stage is GiverStage.DONE:
        assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]
        assert there is not None
        assert not getattr(there, unknown)
    else:
        assert "does not describe" in str(done.problem)
        assert states(giving, taking) == [ItemState.ORIGINAL, None]


def test_a_linked_item_is_handed_over(giving: Archive, taking: Archive) -> None:
    giving.put(url="http://far.example/x")
    with giving.served(), taking.served():
        assert hand_over(giving).stage is GiverStage.DONE
    assert taking.held().url == "http://far.example/x"


def test_with_remove_only_a_pointer_stays_and_a_refresh_leaves_it_alone(
    giving: Archive, taking: Archive
) -> None:
    giving.put(target="index.html")
    with giving.served(), taking.served() as served:
        assert hand_over(giving, remove=True).stage is GiverStage.DONE
        left = giving.held()
        assert (left.state, left.files, left.url) == (ItemState.COPY, (), f"{taking.root}/{NAME}")
        assert served.get(f"/{NAME}").status == 302
        assert giving.refresh().since == ""
    assert giving.held().files == ()
    assert list((giving.data / "col").rglob("*.html")) == []


def test_there_and_back_again_the_history_stands_once(
    giving: Archive, taking: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    giving.put()
    taking.knows(giving, "giver", giving.lets_in("receiver"))
    with giving.served(), taking.served():
        done = hand_over(giving)
        assert hand_over(taking, "giver").stage is GiverStage.DONE
        advance(giving, done)  # by a command that did not see its end
    assert states(giving, taking) == [ItemState.ORIGINAL, ItemState.COPY]
    assert shown_source(giving, capsys) is None
    assert shown_source(taking, capsys) == giving.root
    assert [event.what for event in giving.events()] == [
        "deposited",
        "given",
        "copied",
        "received",
        "received",
    ]


@pytest.mark.proves("ARC-08")
@pytest.mark.usefixtures("taking")
def test_what_must_stay_is_not_offered(giving: Archive) -> None:
    giving.put(transferable=False)
    with pytest.raises(HoldingError, match="must stay in this Archive"):
        offer(giving)


@pytest.mark.usefixtures("taking")
def test_a_copy_is_not_offered(giving: Archive) -> None:
    copied = read_item({"rep": NAME, "state": "Copy"}).holding(
        IBIForms.parse(f"rep {NAME}"), "2026-01-01T00:00:00Z"
    )
    with giving.item_store() as item_store, item_store.unit_of_work("maria") as work:
        work.add(copied, what="imported")
    with pytest.raises(HoldingError, match="is a copy"):
        offer(giving)


@pytest.mark.proves("ARC-11")
@pytest.mark.usefixtures("taking")
def test_neither_the_archive_service_nor_a_removed_item_is_offered(giving: Archive) -> None:
    giving.put()
    with giving.item_store() as item_store:
        remove(item_store, parse_ibi(NAME), "", "maria")
    with pytest.raises(HoldingError, match="was removed"):
        offer(giving)
    with giving.giver() as giver, pytest.raises(HoldingError, match="Archive service"):
        giver.offer(giving.settings.service.main, "receiver", "maria")


def test_only_peers_with_a_token_get_anything(giving: Archive, taking: Archive) -> None:
    giving.put()
    giving.knows(taking, "mute")
    for to in ("nobody", "mute", "http://127.0.0.1:8099"):
        with pytest.raises(SetupError, match="no peer"):
            offer(giving, to)
    giving.knows(taking, "receiver", "not the token that it gave")
    with giving.served(), taking.served():
        after = hand_over(giving)
    assert after.stage is GiverStage.OFFERED
    assert "it answered 401" in str(after.problem)
    assert states(giving, taking) == [ItemState.ORIGINAL, None]


def test_a_receiver_that_has_removed_the_item_or_holds_an_original_refuses(
    giving: Archive, taking: Archive
) -> None:
    giving.put()
    taking.put()
    with giving.served(), taking.served():
        ended = hand_over(giving)
        assert (ended.stage, "held here as the Original" in str(ended.problem)) == (GiverStage.ENDED, True)
        with taking.item_store() as item_store:
            remove(item_store, parse_ibi(NAME), "", "otto")
        ended = hand_over(giving)
        assert (ended.stage, "was removed" in str(ended.problem)) == (GiverStage.ENDED, True)
    assert states(giving, taking) == [ItemState.ORIGINAL, ItemState.DELETED]


def test_the_receiver_contacts_private_addresses_only_where_its_administrator_said_so(
    giving: Archive, taking: Archive
) -> None:
    giving.put()
    giving.knows(taking, "receiver", taking.lets_in("stranger"))
    with giving.served(), taking.served():
        ended = hand_over(giving)
    assert (ended.stage, "must not be contacted" in str(ended.problem)) == (GiverStage.ENDED, True)


def test_a_silent_receiver_leaves_the_original_where_it_is(giving: Archive, taking: Archive) -> None:
    giving.put()
    with giving.served():
        after, reply = advance(giving, offer(giving))
        assert (after.stage, reply) == (GiverStage.OFFERED, None)
        assert "cannot be reached" in str(after.problem)
        assert offer(giving).id == after.id  # said again, it is the same hand-over
        with taking.served(), giving.giver() as giver:
            asyncio.run(giver.advance_all())
            assert giver.open() == []
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]


@IN_A_FOLDER
def test_a_harmed_file_is_never_taken_over(giving: Archive, taking: Archive) -> None:
    giving.put()
    (giving.data / "col" / NAME / "doc/index.html").write_bytes(b"<p>hullo</p>")
    with giving.served(), taking.served():
        after, reply = advance(giving, offer(giving))
    assert (after.stage, reply) == (GiverStage.OFFERED, ReceiverReply.FAILING)
    assert "did not come as it was described" in str(after.problem)
    assert states(giving, taking) == [ItemState.ORIGINAL, None]


def hear(taking: Archive, message: Any, who: str = "giver") -> dict[str, Any]:
    """What the receiver answers to a message."""

    async def exchange() -> dict[str, Any]:
        with taking.item_store() as item_store:
            return await Receiver(item_store, taking.data, LARGEST).answer(message, who)

    return asyncio.run(exchange())


def completion(handed: OutgoingTransfer) -> dict[str, str]:
    """The message that makes the receiver the owner."""
    facts = {"transfer": handed.id, "proof": handed.proof, "fingerprint": handed.fingerprint}
    return {"word": "complete", **facts}


def stepped_back(giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch) -> OutgoingTransfer:
    """A hand-over in whose middle the receiver fell silent: the giver has stepped back, and no other Archive knows."""
    heard = Receiver.answer

    async def once(self: Receiver, value: Any, who: str) -> dict[str, Any]:
        if value["word"] == "complete":
            raise SetupError("out of order")
        return await heard(self, value, who)

    with monkeypatch.context() as patched, giving.served(), taking.served():
        patched.setattr(Receiver, "answer", once)
        after = hand_over(giving)
    assert after.stage is GiverStage.HANDED
    assert states(giving, taking) == [ItemState.COPY, ItemState.COPY]
    return after


def test_between_stepping_back_and_the_end_no_edit_is_accepted(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    stepped_back(giving, taking, monkeypatch)
    for archive in (giving, taking):
        with pytest.raises(HoldingError, match="is a copy"):
            archive.edit(language="pt")


def test_an_interrupted_hand_over_is_completed_by_the_same_command(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    stepped_back(giving, taking, monkeypatch)
    with giving.served(), taking.served():
        assert hand_over(giving).stage is GiverStage.DONE
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]


def test_a_hand_over_that_has_stepped_back_goes_to_no_other_archive(
    giving: Archive, taking: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    stepped_back(giving, taking, monkeypatch)
    third = make_archive(tmp_path, 3)
    giving.knows(third, "third", third.lets_in("giver"))
    with pytest.raises(HoldingError, match="that must be finished first"):
        offer(giving, "third")


def test_a_hand_over_that_has_stepped_back_is_completed_by_no_other_archive_at_that_address(
    giving: Archive, taking: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    handed = stepped_back(giving, taking, monkeypatch)
    third = make_archive(tmp_path, 3)
    third.knows(giving, "giver")
    giving.knows(third, "receiver", third.lets_in("giver"))
    with giving.served(), third.served():
        after, _ = advance(giving, handed)
    assert (after.stage, "not the one that received" in str(after.problem)) == (GiverStage.HANDED, True)
    assert states(giving, taking, third) == [ItemState.COPY, ItemState.COPY, None]


def test_a_hand_over_that_is_taken_back_can_never_be_completed(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    giving.put()
    handed = stepped_back(giving, taking, monkeypatch)
    assert shown_source(giving, capsys) == taking.root
    with giving.served(), taking.served(), giving.giver() as giver:
        assert asyncio.run(giver.withdraw(handed)).stage is GiverStage.ENDED
    assert shown_source(giving, capsys) is None
    assert states(giving, taking) == [ItemState.ORIGINAL, ItemState.COPY]
    assert hear(taking, completion(handed))["reply"] == "declined"
    assert states(giving, taking) == [ItemState.ORIGINAL, ItemState.COPY]
    assert giving.edit(language="pt").language == "pt"


@pytest.mark.proves("ARC-05", "ARC-08")
def test_an_original_that_came_back_is_not_given_away_by_a_hand_over_whose_last_answer_was_lost(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    taking.knows(giving, "giver", giving.lets_in("receiver"))
    unanswered = stepped_back(giving, taking, monkeypatch)
    assert hear(taking, completion(unanswered))["reply"] == "owned"
    with giving.served(), taking.served(), giving.giver() as giver:
        assert hand_over(taking, "giver").stage is GiverStage.DONE
        assert giver.open() == []
        asyncio.run(giver.advance(unanswered))  # by a command that began before it came back
    assert states(giving, taking) == [ItemState.ORIGINAL, ItemState.COPY]


def test_an_unanswered_offer_can_be_taken_back_but_no_hand_over_that_has_stepped_back(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    begun = offer(giving)
    with giving.giver() as giver:
        assert asyncio.run(giver.withdraw(begun)).stage is GiverStage.ENDED
    handed = stepped_back(giving, taking, monkeypatch)
    with giving.giver() as giver, pytest.raises(PeerSilent):
        asyncio.run(giver.withdraw(handed))
    assert states(giving, taking) == [ItemState.COPY, ItemState.COPY]


def test_a_peer_that_was_forgotten_holds_up_no_other(
    giving: Archive, taking: Archive, tmp_path: Path
) -> None:
    third = make_archive(tmp_path, 3)
    giving.put("a.example/b/2011/01.01.00.00")
    giving.knows(third, "third", third.lets_in("giver"))
    with giving.giver() as giver:
        giver.offer(parse_ibi("a.example/b/2011/01.01.00.00"), "third", "maria")
    Peer.write_tables(giving.data, {"receiver": Peer.read_tables(giving.data)["receiver"]})
    giving.put()
    offer(giving)
    with giving.served(), taking.served(), giving.giver() as giver:
        asyncio.run(giver.advance_all())
        assert ["no peer" in str(each.problem) for each in giver.open()] == [True]
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]


def test_a_hand_over_that_is_done_cannot_be_taken_back(giving: Archive, taking: Archive) -> None:
    giving.put()
    with giving.served(), taking.served(), giving.giver() as giver:
        done = hand_over(giving)
        withdrawn = {"transfer": done.id, "word": "withdraw"}
        assert hear(taking, withdrawn)["reply"] == "owned"
        assert giver.open() == []


def test_a_giver_set_back_to_an_older_disk_learns_that_it_is_done(giving: Archive, taking: Archive) -> None:
    giving.put()
    with giving.served(), taking.served():
        done = hand_over(giving)
        with giving.item_store() as item_store, item_store.unit_of_work("backup") as work:
            held = work.get(parse_ibi(NAME))
            work.change(held, replace(held, state=ItemState.ORIGINAL))
            transfers.save_outgoing(work.writer.run, replace(done, stage=GiverStage.OFFERED))
        assert hand_over(giving).stage is GiverStage.DONE
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]


def test_what_is_edited_after_it_was_staged_is_staged_anew(giving: Archive, taking: Archive) -> None:
    before = giving.put()
    begun = offer(giving)
    proposal = {
        "transfer": begun.id, "word": "propose", "address": giving.root, "ibi": NAME, "passage": begun.passage,
        "seal": proof_digest(begun.proof), "fingerprint": fingerprint(before),
    }  # fmt: skip
    with giving.served(), taking.served():
        assert hear(taking, proposal)["reply"] == "staged"
        giving.edit(files={"index.html": b"<p>edited</p>"})
        assert advance(giving, begun)[0].stage is GiverStage.DONE
    assert taking.content()["index.html"] == b"<p>edited</p>"


def test_two_who_fetch_the_same_leave_nothing_in_staging(giving: Archive, taking: Archive) -> None:
    """As with two processes that serve one Archive, each of which has heard a proposal."""
    giving.put()
    begun = offer(giving)
    proposal = {
        "transfer": begun.id, "word": "propose", "address": giving.root, "ibi": NAME, "passage": begun.passage,
        "seal": proof_digest(begun.proof), "fingerprint": fingerprint(giving.held()),
    }  # fmt: skip

    async def exchange() -> list[dict[str, Any]]:
        with taking.item_store() as item_store:
            both = [Receiver(item_store, taking.data, LARGEST) for _ in range(2)]
            answers = await asyncio.gather(*(receiver.answer(proposal, "giver") for receiver in both))
            assert list((taking.data / "staging").iterdir()) == []
            return list(answers)

    with giving.served():
        assert [answer["reply"] for answer in asyncio.run(exchange())] == ["staged", "staged"]
    assert taking.content() == FILES


def test_the_proof_alone_makes_an_owner(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    giving.put()
    handed = stepped_back(giving, taking, monkeypatch)
    message = {"transfer": handed.id, "word": "complete", "fingerprint": handed.fingerprint}
    assert hear(taking, message | {"proof": "x" * 43})["reply"] == "refused"
    assert hear(taking, message | {"proof": handed.proof, "fingerprint": "0" * 64})["reply"] == "unknown"
    with pytest.raises(HoldingError, match="another token"):
        hear(taking, message | {"proof": handed.proof}, "stranger")
    assert states(giving, taking) == [ItemState.COPY, ItemState.COPY]
    for _ in range(2):
        assert hear(taking, message | {"proof": handed.proof})["reply"] == "owned"
    assert states(giving, taking) == [ItemState.COPY, ItemState.ORIGINAL]
    assert [event.what for event in taking.events()] == ["copied", "deposited", "received"]


@pytest.mark.usefixtures("taking")
def test_a_client_without_the_passage_learns_nothing(giving: Archive) -> None:
    giving.put(access="closed")
    begun = offer(giving)
    with giving.served() as served:
        for passage in ({}, {"ibi_passage": "x" * 43}):
            for end in ("", "/files/index.html"):
                assert served.get(f"/-/api/transfers/{begun.id}{end}", **passage).status == 404
        assert served.get(f"/-/api/transfers/{'0' * 32}", ibi_passage=begun.passage).status == 404
        answer = served.get(f"/-/api/transfers/{begun.id}", ibi_passage=begun.passage)
        assert (answer.status, json.loads(answer.body)["item"]["rep"]) == (200, NAME)
        file = served.get(f"/-/api/transfers/{begun.id}/files/data/a%20b.bin", ibi_passage=begun.passage)
        assert file.body == FILES["data/a%20b.bin"]
        assert served.get(f"/-/api/transfers/{begun.id}/files/none", ibi_passage=begun.passage).status == 404


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        {"transfer": "x", "word": "propose"},
        {"transfer": "0" * 32, "word": "give"},
        {"transfer": "0" * 32, "word": "complete"},
        {"transfer": "0" * 32, "word": "complete", "proof": "x" * 43, "fingerprint": 1},
        {"transfer": "0" * 32, "word": "propose", "fingerprint": "0" * 64, "ibi": "no name", "address": "",
         "passage": "x" * 43, "seal": "0" * 64},
        {"transfer": "0" * 32, "word": "propose", "fingerprint": "0" * 64, "ibi": NAME, "address": 1,
         "passage": "x" * 43, "seal": "0" * 64},
    ],
)  # fmt: skip
def test_a_message_that_is_none_is_refused(taking: Archive, message: Any) -> None:
    with pytest.raises((BadItem, ParseError)):
        hear(taking, message)


def test_what_was_withdrawn_before_it_was_heard_of_stays_declined(giving: Archive, taking: Archive) -> None:
    assert hear(taking, {"transfer": "0" * 32, "word": "withdraw"})["reply"] == "declined"
    proposed = {"transfer": "0" * 32, "word": "propose", "fingerprint": "0" * 64, "ibi": NAME,
                "address": giving.root, "passage": "x" * 43, "seal": "0" * 64}  # fmt: skip
    assert hear(taking, proposed)["reply"] == "declined"


def _move_all(giving: Archive) -> tuple[Moved, list[int]]:
    """What `retire` moves, and how many were moved at each report of progress."""
    reported: list[int] = []
    with giving.giver() as giver:
        return move_all(giver, "receiver", "maria", lambda moved, _: reported.append(moved)), reported


def _numbered(number: int) -> str:
    return f"a.example/b/2010/01.01.00.{number:02}"


def test_of_all_originals_those_move_that_are_not_refused_and_the_others_are_named(
    giving: Archive, taking: Archive
) -> None:
    for number in range(4):
        giving.put(_numbered(number))
    taking.put(_numbered(1))
    with giving.served(), taking.served():
        moved, reported = _move_all(giving)
    assert (moved.moved, reported) == (3, [1, 2, 3])
    ((name, problem),) = moved.problems
    assert (name, "held here as the Original" in str(problem)) == (_numbered(1), True)
    kept = [number for number in range(4) if giving.held(_numbered(number)).state is ItemState.ORIGINAL]
    assert kept == [1]


def test_nothing_more_is_offered_to_an_archive_that_has_refused_five_or_is_silent(
    giving: Archive, taking: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retiring, "PAUSES", (0.01, 0.01))
    for number in range(7):
        giving.put(_numbered(number))
    with giving.served():
        moved, _ = _move_all(giving)
        ((name, problem),) = moved.problems
        assert (moved.moved, name, isinstance(problem, PeerSilent)) == (0, _numbered(0), True)
        for number in range(1, 6):
            taking.put(_numbered(number))
        with taking.served():
            moved, reported = _move_all(giving)
    assert (moved.moved, reported) == (1, [1])
    assert [name for name, _ in moved.problems] == [_numbered(number) for number in range(1, 6)]
    assert giving.held(_numbered(6)).state is ItemState.ORIGINAL
