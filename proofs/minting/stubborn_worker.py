"""A process that mints without end and does not give up when its clock is refused: `stubborn_worker.py DIR`.

It writes lines: a label in both forms, or what the library says against the clock, after a dash. It sleeps through
`select`, because libfaketime spoils the call through which Python sleeps.
"""

from __future__ import annotations

import os
import select
import sys
from dataclasses import replace

from ibi.errors import ClockError
from ibi.identifier.dates import TICKS
from ibi.identifier.generator import LabelGenerator
from ibi.minting import Subsystem, WaitingRoom
from ibi.minting.machine import this_machine
from proofs.minting import worker

_AT_ONCE = 20
_GRANULARITY = TICKS // 1000
_PAUSE = 0.02  # seconds, after a refusal


def main(directory: str) -> None:
    """Mint until killed."""
    machine = replace(this_machine(), sleep=_sleep)
    subsystem = Subsystem(
        WaitingRoom(directory, machine), LabelGenerator(worker.HOST, ip=worker.IP), _GRANULARITY
    )
    while True:
        try:
            with subsystem:
                for text in worker.lines(subsystem, _AT_ONCE):
                    os.write(1, text.encode())
        except ClockError as error:
            os.write(1, f"- {error}\n".encode())
            _sleep(_PAUSE)


def _sleep(seconds: float) -> None:
    select.select((), (), (), seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
