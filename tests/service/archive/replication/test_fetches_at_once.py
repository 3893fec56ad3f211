"""A receiver fetches few items at once; one that has ended gives its place to another, and its outcome is kept."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ibi.archive.replication import receiving
from ibi.archive.replication.receiving import MOST_FETCHES, PASSAGE_HEADER, Receiver
from support.archive.replication_fixture import LARGEST, NAME, Archive, Elsewhere, make_archive

PASSAGE = "a" * 30


class Hanging(Elsewhere):
    """An Archive that describes nothing, and at first says nothing at all."""

    hangs = True

    def answer(self, _target: str) -> tuple[int, dict[str, str], bytes]:
        while self.hangs:
            time.sleep(0.02)
        return 500, {}, b""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """The Archive that takes originals over; it answers soon, whatever a fetch does."""
    monkeypatch.setattr(receiving, "WAIT_SECONDS", 0.05)
    return make_archive(tmp_path, 2)


def played(
    here: Archive, play: Callable[[Hanging, Callable[[int], Awaitable[Any]]], Awaitable[None]]
) -> None:
    """Let a play propose hand-overs by their numbers."""

    async def run(far: Hanging, root: str) -> None:
        with here.item_store() as item_store:
            receiver = Receiver(item_store, here.data, LARGEST)

            async def propose(number: int) -> Any:
                message = {
                    "transfer": f"{number:032x}", "word": "propose", "address": root, "ibi": NAME,
                    "passage": PASSAGE, "seal": "0" * 64, "fingerprint": "0" * 64,
                }  # fmt: skip
                return await receiver.answer(message, "giver")

            try:
                async with asyncio.timeout(60):
                    await play(far, propose)
            finally:
                far.hangs = False
                await receiver.close()
            await asyncio.sleep(0.05)  # connections of fetches that were cancelled close in the next rounds

    far = Hanging()
    with far.served() as root:
        giver = Archive(here.data.parent, int(root.rpartition(":")[2]))
        here.knows(giver, "giver")
        asyncio.run(run(far, root))


def fetched(far: Hanging) -> list[int]:
    """The hand-overs whose items were fetched, in order."""
    return sorted(int(path.rpartition("/")[2], 16) for path, _ in far.requests)


def test_eight_items_are_fetched_at_once_and_what_has_ended_gives_way_to_the_next(here: Archive) -> None:
    async def play(far: Hanging, propose: Callable[[int], Awaitable[Any]]) -> None:
        replies = [await propose(number) for number in range(MOST_FETCHES + 1)]
        assert [(reply["reply"], reply["problem"]) for reply in replies] == [("fetching", "")] * 9
        while len(far.requests) < MOST_FETCHES:  # noqa: ASYNC110 - requests come in other threads
            await asyncio.sleep(0.02)
        assert fetched(far) == list(range(8))
        assert {sent[PASSAGE_HEADER] for _, sent in far.requests} == {PASSAGE}
        far.hangs = False
        while MOST_FETCHES not in fetched(far):
            await propose(MOST_FETCHES)

    assert MOST_FETCHES == 8
    played(here, play)


def test_the_outcome_of_a_fetch_waits_for_its_giver_who_may_try_again(here: Archive) -> None:
    async def play(far: Hanging, propose: Callable[[int], Awaitable[Any]]) -> None:
        assert (await propose(1))["reply"] == "fetching"
        far.hangs = False
        while (reply := await propose(1))["reply"] == "fetching":
            pass
        assert (reply["reply"], reply["problem"]) == (
            "failing", "the other Archive does not describe it; it answered 500",
        )  # fmt: skip
        assert fetched(far) == [1]
        await propose(1)
        while fetched(far) != [1, 1]:  # noqa: ASYNC110 - requests come in other threads
            await asyncio.sleep(0.02)

    played(here, play)
