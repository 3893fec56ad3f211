"""All originals of an Archive that retires are handed over, until its receiver is silent or refuses several."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ibi.archive.model.handover import GiverStage, ReceiverReply
from ibi.archive.model.item import Holding
from ibi.archive.replication import retiring
from ibi.archive.replication.giving import Giver
from ibi.archive.replication.retiring import Moved, move_all, originals_of
from ibi.archive.store.tables import listings
from ibi.archive.store.tables.transfers import OutgoingTransfer
from ibi.errors import HoldingError, IbiError, PeerGarbled, PeerSilent
from ibi.identifier.forms import Name, parse_name
from ibi.protocol.vocabulary import ItemState
from support.archive.archive_fixture import SERVICE, WHEN, NewArchive

OFFERED, DONE, ENDED = GiverStage.OFFERED, GiverStage.DONE, GiverStage.ENDED


def name(number: int) -> str:
    return f"a.example/b/2010/01.01.00.{number:02}"


class Giving(Giver):
    """Hand-overs that end as `outcomes` says of each name, DONE by default; one that raises cannot be offered."""

    outcomes: dict[str, tuple[GiverStage, IbiError | None] | Exception]
    before: dict[str, tuple[GiverStage, IbiError | None]]
    """Hand-overs that were begun before, by the name of the item, and how they end."""
    offers: list[tuple[str, str, str]]

    def offer(self, name: Name, to: str, who: str, **_: Any) -> OutgoingTransfer:
        self.offers.append((str(name), to, who))
        outcome = self.outcomes.get(str(name))
        if isinstance(outcome, Exception):
            raise outcome
        return self._transfer(str(name))

    async def advance(self, transfer: OutgoingTransfer) -> tuple[OutgoingTransfer, ReceiverReply | None]:
        outcome = (self.outcomes | self.before).get(transfer.id, (DONE, None))
        assert isinstance(outcome, tuple)
        stage, problem = outcome
        return replace(transfer, stage=stage, problem=problem), None

    def open(self) -> list[OutgoingTransfer]:
        return [
            replace(self._transfer(each), problem=problem)
            for each, (stage, problem) in self.before.items()
            if stage.open
        ]

    def find(self, transfer_id: str) -> tuple[OutgoingTransfer, Holding]:
        held = self.item_store.catalogue.holding(parse_name(transfer_id))
        assert held is not None
        return self._transfer(transfer_id), held

    def _transfer(self, name: str) -> OutgoingTransfer:
        return OutgoingTransfer(
            id=name, item=1, peer="peer", address="http://b.example", passage="", proof="", remove=False, who="maria",
            stage=OFFERED, moment=WHEN,
        )  # fmt: skip


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(asyncio, "sleep", sleep)


@pytest.fixture
def moved(archive: NewArchive) -> Callable[..., tuple[list[Any], list[tuple[str, str]], Giving]]:
    """Hands all over: what was told of the progress, the problems, and the giver."""

    def move(count: int, outcomes: Any = None, before: Any = None) -> Any:
        archive.load(*({"rep": name(number), "url": "http://x.example/"} for number in range(count)))
        giver = Giving(archive.item_store, archive.data, "http://a.example")
        giver.outcomes, giver.before, giver.offers = outcomes or {}, before or {}, []
        progress = list[tuple[int, int | None]]()
        found = move_all(giver, "there", "maria", lambda *each: progress.append(each))
        assert isinstance(found, Moved)
        assert progress == [(number, None) for number in range(1, found.moved + 1)]
        return found.moved, [(each, str(problem)) for each, problem in found.problems], giver

    return move


def test_all_originals_that_may_go_are_handed_over(moved: Any, archive: NewArchive) -> None:
    archive.load({"rep": name(50), "url": "http://x.example/", "transferable": False})
    found, problems, giver = moved(3)
    assert (found, problems) == (3, [])
    assert giver.offers == [(name(number), "there", "maria") for number in range(3)]
    stay = sorted(originals_of(archive.catalogue, transferable=False))
    assert stay == sorted([name(50), SERVICE.main.canonical])


def test_originals_are_listed_page_by_page(archive: NewArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.load(*({"rep": name(number), "url": "http://x.example/"} for number in range(5)))
    monkeypatch.setattr(retiring, "originals", lambda *which, **more: listings.originals(*which, **more)[:2])
    assert list(originals_of(archive.catalogue, transferable=True)) == [name(number) for number in range(5)]


def test_one_that_is_silent_is_asked_nothing_more(moved: Any) -> None:
    silent = {name(1): (OFFERED, PeerSilent("it is silent"))}
    found, problems, giver = moved(4, silent)
    assert (found, problems, len(giver.offers)) == (1, [(name(1), "it is silent")], 2)


@pytest.mark.parametrize(("refused", "offers"), [(4, 8), (5, 6)])
def test_after_five_refusals_nothing_more_is_offered(moved: Any, refused: int, offers: int) -> None:
    problem = PeerGarbled("it is too large")
    outcomes = {name(number): (ENDED, problem) for number in range(1, refused + 1)}
    found, problems, giver = moved(8, outcomes)
    assert problems == [(name(number), "it is too large") for number in range(1, refused + 1)]
    assert (found, len(giver.offers)) == (offers - refused, offers)


@pytest.mark.parametrize(
    ("outcome", "sentence"),
    [((ENDED, None), "the hand-over is not finished"), ((OFFERED, None), "the hand-over is not finished"),
     (HoldingError("it must stay"), "it must stay")],
)  # fmt: skip
def test_one_that_does_not_go_is_told_with_the_reason(moved: Any, outcome: Any, sentence: str) -> None:
    assert moved(2, {name(0): outcome})[:2] == (1, [(name(0), sentence)])


@pytest.mark.parametrize("state", [ItemState.COPY, None], ids=["a copy", "removed"])
def test_what_the_running_archive_has_handed_over_meanwhile_has_moved(
    moved: Any, archive: NewArchive, monkeypatch: pytest.MonkeyPatch, state: ItemState | None
) -> None:
    offer = Giving.offer

    def change(giver: Giving, wanted: Name, *more: Any) -> OutgoingTransfer:
        if str(wanted) == name(0):
            with archive.catalogue.writing() as writer:
                held = archive.catalogue.holding(wanted)
                assert held is not None
                writer.change(
                    held,
                    replace(held, state=state or ItemState.DELETED, url="" if state is None else held.url),
                )
        return offer(giver, wanted, *more)

    monkeypatch.setattr(Giving, "offer", change)
    assert moved(2, {name(0): HoldingError("it is a copy")})[:2] == (2, [])


def test_what_was_begun_before_is_finished_or_told(moved: Any, archive: NewArchive) -> None:
    archive.load(*({"rep": name(number), "state": "Copy", "url": "http://x.example/"} for number in (20, 21)))
    before = {
        name(20): (OFFERED, IbiError("it has no space")),
        name(21): (GiverStage.HANDED, None),
        name(22): (DONE, None),
    }
    found, problems, _ = moved(1, None, before)
    assert found == 1
    assert problems == [(name(20), "it has no space"), (name(21), "the hand-over is not finished")]
