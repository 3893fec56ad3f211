"""A machine whose clock moves only while someone sleeps, and may sleep short, be set, or be another one."""

from __future__ import annotations

from pathlib import Path

from ibi.identifier.dates import TICKS
from ibi.minting import WaitingRoom
from ibi.minting.machine import Machine

START = 1288585092 * TICKS + 345678901  # 2010-11-01T04:18:12.345678901Z


class FalseMachine:
    """The clock `at` is in ticks; `up` is how long the machine has been running, and grows with sleep alone."""

    def __init__(self, at: int = START, wakes_early: float = 1.0) -> None:
        self.at = at
        self.up = 1000 * TICKS
        self.slept = 0.0
        self.boot = "first-boot"
        self.identity = "this-machine"
        self.synchronised: bool | None = None
        self._share = wakes_early

    def now(self) -> int:
        return self.at

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept += seconds
        self.pass_by(max(1, int(seconds * self._share * TICKS)))

    def pass_by(self, ticks: int) -> None:
        """Let time go by, as clock and machine see it."""
        self.at += ticks
        self.up += ticks

    def restart(self, name: str) -> None:
        """Start the machine anew; how long it was off, only the clock can tell."""
        self.boot, self.up = name, TICKS

    @property
    def machine(self) -> Machine:
        """The machine as it is now; its clock goes on to be this one."""
        return Machine(
            self.now, self.sleep, lambda: self.up, self.boot, self.identity, lambda: self.synchronised
        )


def waiting_room_at(directory: Path, clock: FalseMachine) -> WaitingRoom:
    """The waiting room of a directory on such a machine."""
    return WaitingRoom(directory, clock.machine)
