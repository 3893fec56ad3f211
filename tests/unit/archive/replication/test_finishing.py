"""How often and after which pauses a hand-over is advanced until it ends, or its receiver is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ibi.archive.model.handover import GiverStage, ReceiverReply
from ibi.archive.replication.retiring import finish_transfer
from ibi.archive.store.tables.transfers import OutgoingTransfer
from support.archive.archive_fixture import WHEN

FETCHING, STAGED = ReceiverReply.FETCHING, ReceiverReply.STAGED
Step = tuple[GiverStage, ReceiverReply | None]


def transfer(stage: GiverStage) -> OutgoingTransfer:
    return OutgoingTransfer(
        id="0" * 32, item=1, peer="peer", address="http://b.example", passage="", proof="", remove=False, who="maria",
        stage=stage, moment=WHEN,
    )  # fmt: skip


class Giving:
    """Takes these steps, and the last one for ever."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.taken = 0

    async def advance(self, _before: OutgoingTransfer) -> tuple[OutgoingTransfer, ReceiverReply | None]:
        stage, reply = self.steps[min(self.taken, len(self.steps) - 1)]
        self.taken += 1
        return transfer(stage), reply


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses, which take no time."""
    pauses = list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


OPEN, HANDED, DONE, ENDED = GiverStage.OFFERED, GiverStage.HANDED, GiverStage.DONE, GiverStage.ENDED
USUAL = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0]


@pytest.mark.parametrize(
    ("steps", "stage", "pauses"),
    [
        ([(DONE, None)], DONE, []),
        ([(ENDED, STAGED)], ENDED, []),
        ([(OPEN, None), (HANDED, STAGED), (DONE, STAGED)], DONE, USUAL[:2]),
        ([(OPEN, None)], OPEN, USUAL),
        ([(OPEN, None)] * 6 + [(DONE, None)], DONE, USUAL),
        ([(OPEN, FETCHING)] * 9 + [(DONE, None)], DONE, [*USUAL, 2.0, 2.0, 2.0]),
        ([*[(OPEN, None)] * 6, (OPEN, FETCHING), (OPEN, None)], OPEN, [*USUAL, 0.1, *USUAL]),
        (
            [(OPEN, FETCHING)] * 3 + [(OPEN, STAGED), (OPEN, FETCHING), (DONE, None)],
            DONE,
            [*USUAL[:3], 0.1, 0.1],
        ),
    ],
)
def test_failures_in_a_row_are_few_and_what_takes_long_is_waited_for(
    slept: list[float], steps: list[Step], stage: GiverStage, pauses: list[float]
) -> None:
    giver: Any = Giving(*steps)
    assert finish_transfer(giver, transfer(OPEN)).stage is stage
    assert slept == pauses
    assert giver.taken == len(pauses) + 1
