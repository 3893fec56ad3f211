"""Acts on several items at once, as values: what a page names, who may act, what is refused, what became of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from ibi.accounts.layout import Form
from ibi.accounts.people import Role
from ibi.archive.admin.bulk import BulkAct, BulkPage
from ibi.archive.model.item import Access, Holding
from ibi.archive.model.item_json import write_item
from ibi.archive.store.tables import transfers
from ibi.errors import IbiError
from ibi.http.response import Refusal, Response
from ibi.protocol.vocabulary import ItemState
from ibi.runtime.settings import Peer
from support.acts.page_values import Pages, confirmed, pages_of
from support.archive.archive_fixture import WHEN, NewArchive

PEER = "https://other.example"


@pytest.fixture
def bulk(archive: NewArchive) -> Iterator[Pages]:
    Peer.write_tables(
        archive.data, {"other": Peer(address=PEER, token="t"), "third": Peer(address=PEER, token="")}
    )
    with pages_of(archive) as made:
        yield made


def line(number: int, **more: Any) -> dict[str, Any]:
    metadata = {"title": [f"Title {number}"], "subject": ["rivers", {"value": "rios", "lang": "pt"}]}
    return {"key": str(number), "rep": f"a.example/b/2013/01.01.00.{number:02}", "metadata": metadata, **more}


def chosen(*items: Holding) -> list[tuple[str, str]]:
    return [("item", str(each.number)) for each in items]


def act(pages: Pages, what: BulkAct, items: list[Holding], *typed: tuple[str, str]) -> Any:
    """The outcomes of an act that is confirmed for the items as they were seen."""
    seen = [(f"since.{each.number}", each.timestamp) for each in items]
    named = confirmed(BulkPage(what, items).confirmation)
    return pages.do("bulk", ("what", what.value), *chosen(*items), *typed, *seen, *named)


def now(pages: Pages, item: Holding) -> dict[str, Any]:
    return write_item(pages.archive.catalogue.settled(item.forms.main))


def test_a_page_names_the_act_its_items_and_what_was_typed(bulk: Pages) -> None:
    first, second = bulk.held(line(1), line(2))
    typed = [("access", "embargoed"), ("embargo", "2030"), ("subject", " s "), ("language", "pt"),
             ("reason", "r"), ("to", "other")]  # fmt: skip
    texts = ("embargoed", "2031-01-01", "s", "pt", "r", "other")
    again = chosen(second, first, second)
    for what in (BulkAct.ACCESS, BulkAct.OFFER):
        peers = {"other": PEER} if what is BulkAct.OFFER else {}
        page = BulkPage(what, [second, first], peers, *texts)
        assert bulk.do("bulk", ("what", what.value), *again, *typed) == page
        assert bulk.show("bulk", Form([("what", what.value), *again, *typed])) == page
    there = (("location", "/-/admin/items"), ("cache-control", "no-store"))
    assert bulk.show("bulk") == Response(303, headers=there)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ([("item", "1")], "this is not the form of this page; open the page again"),
        ([("what", "burn"), ("item", "1")], "this is not the form of this page; open the page again"),
        ([("what", "access")], "no item was chosen: tick the items first"),
        ([("what", "access"), ("item", "x"), ("item", "99")], "no item was chosen: tick the items first"),
        ([("what", "access"), *(("item", str(number)) for number in range(101))],
         "at most 100 items can be chosen at once"),
    ],
)  # fmt: skip
def test_what_names_no_act_or_no_items_or_too_many_is_refused(
    bulk: Pages, fields: list[tuple[str, str]], sentence: str
) -> None:
    with pytest.raises(IbiError) as refused:
        bulk.do("bulk", *fields)
    assert str(refused.value) == sentence


def test_a_hundred_items_can_be_chosen(bulk: Pages) -> None:
    [item] = bulk.held(line(1))
    numbers = [("item", str(number)) for number in range(item.number, item.number + 100)]
    assert bulk.do("bulk", ("what", "access"), *numbers, *numbers, ("item", "x")).items == [item]


@pytest.mark.parametrize("what", BulkAct)
def test_an_account_does_to_several_items_what_it_may_do_to_one(bulk: Pages, what: BulkAct) -> None:
    """A depositor may read and deposit; a librarian may do all of it."""
    sent = [("what", what.value), *chosen(*bulk.held(line(1)))]
    bulk.do("bulk", *sent, role=Role.KEEPER)
    if what is BulkAct.EXPORT:
        assert bulk.do("bulk", *sent, role=Role.DEPOSITOR).status == 200
        return
    with pytest.raises(Refusal) as refused:
        bulk.do("bulk", *sent, role=Role.DEPOSITOR)
    assert (refused.value.status, refused.value.headers) == (403, ())
    assert str(refused.value.why) == "your account does not permit this; ask an administrator"


def test_what_would_fail_for_every_item_is_refused_before_the_confirmation_counts(bulk: Pages) -> None:
    [item] = bulk.held(line(1))
    for what, typed, name, sentence in (
        (BulkAct.ACCESS, [("access", "opened")], "access", "access is open, embargoed, restricted or closed"),
        (BulkAct.ACCESS, [("access", "embargoed")], "embargo",
         "embargo is the day on which an embargoed item opens; no other item has one"),
        (BulkAct.SUBJECT, [("subject", " ")], "subject", "give the subject that is added"),
        (BulkAct.REMOVE, [], "reason", "give the reason, which readers will see"),
        (BulkAct.OFFER, [("to", "third")], "to", "choose the Archive that the originals go to"),
    ):  # fmt: skip
        with pytest.raises(IbiError) as refused:
            act(bulk, what, [item], *typed)
        assert (str(refused.value), refused.value.details.get("name")) == (sentence, name)
    assert now(bulk, item) == write_item(item)


def test_access_is_changed_where_it_differs_and_what_fails_stands_beside_its_item(bulk: Pages) -> None:
    lines = line(1), line(2, access="closed"), line(3, state="Copy"), line(4)
    items = bulk.held(*lines)
    page = act(bulk, BulkAct.ACCESS, items, ("access", "closed"))
    problems = [each.problem and str(each.problem) for each in page.outcomes]
    name = items[2].forms.main
    assert problems == [None, None, f"{name} is a copy; it is edited where its original is", None]
    assert page == BulkPage(BulkAct.ACCESS, items, outcomes=page.outcomes)
    assert ([each.holding for each in page.outcomes], page.done) == (items, 3)
    for item, fields in zip(items, lines, strict=True):
        changed = "access" not in fields and "state" not in fields
        expected = write_item(item) | ({"access": "closed"} if changed else {})
        assert {**now(bulk, item), "timestamp": ""} == {**expected, "timestamp": ""}
        assert (now(bulk, item)["timestamp"] != item.timestamp) is changed


def test_access_is_opened_again_and_its_embargo_ends(bulk: Pages) -> None:
    opened, embargoed = bulk.held(line(1), line(2, access="embargoed", embargo="2031-01-01"))
    assert act(bulk, BulkAct.ACCESS, [opened, embargoed], ("access", "open")).done == 2
    held = [bulk.archive.catalogue.settled(each.forms.main) for each in (opened, embargoed)]
    assert [(each.access, each.embargo) for each in held] == [(Access.OPEN, "")] * 2
    assert [each.timestamp != was.timestamp for each, was in zip(held, (opened, embargoed), strict=True)] == [
        False, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "added"),
    [
        ([("subject", "floods")], ["floods"]),
        ([("subject", "cheias"), ("language", "pt")], [{"value": "cheias", "lang": "pt"}]),
        ([("subject", "rivers")], []),
        ([("subject", "rios"), ("language", "es")], []),
    ],
)
def test_a_subject_is_added_to_the_others_unless_it_is_there(
    bulk: Pages, typed: list[tuple[str, str]], added: list[Any]
) -> None:
    items = bulk.held(line(1), line(2, metadata={"title": ["Without"]}))
    assert act(bulk, BulkAct.SUBJECT, items, *typed).done == 2
    subjects = line(1)["metadata"]["subject"]
    assert now(bulk, items[0])["metadata"] == {"title": ["Title 1"], "subject": [*subjects, *added]}
    first = {"value": typed[0][1], "lang": typed[1][1]} if typed[1:] else typed[0][1]
    assert now(bulk, items[1])["metadata"] == {"title": ["Without"], "subject": [first]}


def test_items_are_removed_with_their_reason_if_they_are_as_they_were_seen(bulk: Pages) -> None:
    items = bulk.held(line(1), line(2))
    seen = [items[0], replace(items[1], timestamp="2001-01-01T00:00:00Z")]
    page = act(bulk, BulkAct.REMOVE, seen, ("reason", "By mistake"))
    assert [each.problem and str(each.problem) for each in page.outcomes] == [
        None, f"{items[1].forms.main} has been changed meanwhile, on {WHEN}, so nothing was done",
    ]  # fmt: skip
    held = [bulk.archive.catalogue.settled(each.forms.main) for each in items]
    assert [(each.state, each.reason) for each in held] == [
        (ItemState.DELETED, "By mistake"), (ItemState.ORIGINAL, ""),
    ]  # fmt: skip


def test_originals_are_offered_to_a_peer_if_they_are_as_they_were_seen(bulk: Pages) -> None:
    items = bulk.held(line(1), line(2))
    changed = replace(bulk.held(line(3))[0], timestamp="2001-01-01T00:00:00Z")
    page = act(bulk, BulkAct.OFFER, [*items, changed], ("to", "other"))
    assert [each.problem and str(each.problem) for each in page.outcomes] == [
        None, None, f"{changed.forms.main} has been changed meanwhile, on {WHEN}, so nothing was done",
    ]  # fmt: skip
    with bulk.archive.catalogue.reading() as run:
        given = transfers.open_outgoing(run)
    assert sorted((each.item, each.peer, each.address, each.remove, each.who) for each in given) == [
        (each.number, "other", PEER, False, "keeper") for each in items
    ]


def test_a_fault_or_a_refusal_of_one_item_does_not_hide_what_became_of_the_others(
    bulk: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = bulk.held(line(1), line(2))
    errors: list[Exception] = [Refusal(409, IbiError("not now")), ZeroDivisionError()]

    def broken(*_: object) -> None:
        raise errors.pop()

    monkeypatch.setattr("ibi.archive.operations.items.remove", broken)
    page = act(bulk, BulkAct.REMOVE, items, ("reason", "x"))
    problems = [(each.holding, str(each.problem)) for each in page.outcomes]
    assert problems == [(items[0], "this server cannot answer now; try again later"), (items[1], "not now")]
