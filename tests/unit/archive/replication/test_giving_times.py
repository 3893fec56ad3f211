"""How often a served Archive goes on with each hand-over that it has begun."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ibi.archive.model.handover import GiverStage, ReceiverReply
from ibi.archive.replication.giving import Giver
from ibi.archive.store.tables.transfers import OutgoingTransfer
from support.archive.archive_fixture import WHEN, NewArchive
from support.clock import run_with_false_clock

OFFERED, HANDED, DONE = GiverStage.OFFERED, GiverStage.HANDED, GiverStage.DONE
STAGED, FETCHING = ReceiverReply.STAGED, ReceiverReply.FETCHING
Outcome = tuple[GiverStage, ReceiverReply | None]


class Giving(Giver):
    """Hand-overs that go on as their scripts say, the last line for ever; notes the second of each attempt."""

    def __init__(self, archive: NewArchive, **scripts: list[Outcome]) -> None:
        super().__init__(archive.item_store, archive.data, "http://a.example")
        self.scripts = scripts
        self.attempts: dict[str, list[int]] = {each: [] for each in scripts}
        self.stages = dict.fromkeys(scripts, OFFERED)

    def open(self) -> list[OutgoingTransfer]:
        return [
            OutgoingTransfer(
                id=each, item=1, peer="peer", address="http://b.example", passage="", proof="", remove=False,
                who="maria", stage=stage, moment=WHEN,
            )
            for each, stage in self.stages.items()
            if stage.open
        ]  # fmt: skip

    async def advance(self, transfer: OutgoingTransfer) -> tuple[OutgoingTransfer, ReceiverReply | None]:
        script = self.scripts[transfer.id]
        self.attempts[transfer.id].append(round(asyncio.get_running_loop().time() - 1000))
        stage, reply = script.pop(0) if len(script) > 1 else script[0]
        self.stages[transfer.id] = stage
        return replace(transfer, stage=stage), reply


def attempts(giving: Giving, seconds: int) -> dict[str, list[int]]:
    """The seconds in which each hand-over goes on, if all are looked at each second."""

    async def live() -> None:
        for _ in range(seconds + 1):
            await giving.advance_all()
            await asyncio.sleep(1)

    run_with_false_clock(live(), sockets=False)
    return giving.attempts


def test_a_hand_over_without_progress_is_tried_less_and_less_often(archive: NewArchive) -> None:
    giving = Giving(
        archive,
        silent=[(OFFERED, None)],
        fetching=[(OFFERED, FETCHING)],
        slow=[
            (OFFERED, None),
            (OFFERED, STAGED),
            (HANDED, STAGED),
            (HANDED, None),
            (HANDED, None),
            (DONE, STAGED),
        ],
        quick=[(DONE, STAGED)],
    )
    assert attempts(giving, 60) == {
        "silent": [0, 1, 3, 7, 15, 30, 45, 60],
        "fetching": list(range(61)),
        "slow": [0, 1, 3, 4, 5, 7],
        "quick": [0],
    }
