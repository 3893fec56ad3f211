"""A process that draws labels and prints each date in ticks: `draw_labels.py DIRECTORY GRANULARITY COUNT`."""

from __future__ import annotations

import sys
import time

from ibi.minting import WaitingRoom


def main() -> None:
    directory, granularity, count = sys.argv[1:]
    with WaitingRoom(directory, now=time.time_ns, sleep=time.sleep) as room:
        for _ in range(int(count)):
            slot = room.draw(int(granularity))
            sys.stdout.write(f"{slot.date} {slot.creation} {time.time_ns()}\n")
            sys.stdout.flush()


main()
