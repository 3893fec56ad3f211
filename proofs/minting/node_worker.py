"""A node that mints from the row of a database, and does not give up: `node_worker.py STORE GRANULARITY COUNT`.

It writes lines: a label in both forms, or why none was given, after a dash. It sleeps through `select`, because
libfaketime spoils the call through which Python sleeps.
"""

from __future__ import annotations

import os
import select
import sys
from dataclasses import replace

from ibi.errors import ClockError, SetupError
from ibi.identifier.dates import granularity_of
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.machine import this_machine
from ibi.minting.state_row import StateRow
from ibi.runtime.database import open_engine
from proofs.minting import worker

_PAUSE = 0.05  # seconds, after a refusal


def main(store: str, granularity: str, count: str) -> None:
    """Mint so many labels."""
    generator = LabelGenerator(worker.HOST, ip=worker.IP)
    machine = replace(this_machine(), sleep=_sleep)
    waiting = WaitingRoom(
        "/nonexistent", machine, prefixes=generator.prefixes, state=StateRow(open_engine(store))
    )
    subsystem = Subsystem(waiting, generator, granularity_of(granularity))
    left = int(count)
    while left > 0:
        try:
            with subsystem:
                for text in worker.lines(subsystem, left):
                    left -= text.count("\n")
                    _write(text)
        except (ClockError, SetupError) as error:
            _write(f"- {error}\n")
            _sleep(_PAUSE)


def _write(text: str) -> None:
    waiting = text.encode()
    while waiting:
        waiting = waiting[os.write(1, waiting) :]


def _sleep(seconds: float) -> None:
    select.select((), (), (), seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
