"""The answer to an order is written piece by piece, so that others are served meanwhile."""

from __future__ import annotations

import asyncio
import json

from ibi.identifier.dates import TICKS
from ibi.identifier.distributor import Batch
from ibi.identifier.generator import LabelGenerator
from ibi.minting.order import LabelOrder, write_labels

GENERATOR = LabelGenerator("mint.example.org", ip="150.163.34.243")


def test_other_tasks_have_their_turns_while_many_labels_are_written() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> bytes:
        nonlocal turns
        other = asyncio.create_task(others())
        await asyncio.sleep(0)
        turns = 0
        batch = Batch((), range(1_700_000_000 * TICKS, 1_700_003_500 * TICKS, TICKS))
        body = await write_labels(GENERATOR, [batch], LabelOrder(len(batch)))
        other.cancel()
        return body

    labels = json.loads(asyncio.run(run()))["labels"]
    assert (len(labels), len({each["rep"] for each in labels})) == (3500, 3500)
    assert turns == 3  # one after each piece of a thousand labels that is not the last
