"""A process that draws labels and prints each date in ticks: `draw_labels.py DIRECTORY GRANULARITY COUNT`."""

from __future__ import annotations

import sys
import time

from ibi.minting import WaitingRoom
from ibi.minting.machine import this_machine


def main() -> None:
    directory, granularity, count = sys.argv[1:]
    with WaitingRoom(directory, this_machine()) as waiting_room:
        for _ in range(int(count)):
            date = waiting_room.draw(int(granularity))
            sys.stdout.write(f"{date} {time.time_ns()}\n")
            sys.stdout.flush()


main()
