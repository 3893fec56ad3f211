"""A node with a duty: `duty_worker.py STORE NODE IDLE [PAUSE]`, killed, stopped or cut off by a test.

A step of the duty is one transaction, which writes the node into the table `steps`; PAUSE seconds pass within it. It
writes `step`, or why a step was refused.
"""

from __future__ import annotations

import asyncio
import sys
import time

from sqlalchemy import text

from ibi.errors import SetupError
from ibi.runtime.database import open_engine, transaction
from ibi.runtime.duty_lock import DutyLock


async def main(store: str, node: str, idle: str, pause: str = "0") -> None:
    engine = open_engine(store)

    def step() -> None:
        with transaction(engine) as connection:
            connection.execute(text("INSERT INTO steps (node) VALUES (:node)"), {"node": node})
            time.sleep(float(pause))

    async def work() -> None:
        while True:
            try:
                await asyncio.to_thread(step)
                sys.stdout.write("step\n")
            except SetupError as error:
                sys.stdout.write(f"{error}\n")
            sys.stdout.flush()
            await asyncio.sleep(0.1)

    await DutyLock(store, "trial", int(idle)).while_held(work)


asyncio.run(main(*sys.argv[1:]))
