"""A world with one true time and clocks that lie about it, each in its own way; nothing in it ever waits really.

True time is in ticks since this world began, and only the judge knows it. Every process reads a clock: the common one,
which is set, slewed and stopped by a schedule, plus an offset of one's own. A sleep moves true time on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ibi.minting.machine import Machine
from proofs.minting.reading import TICKS

if TYPE_CHECKING:
    from collections.abc import Sequence

START = 1_790_000_000 * TICKS  # what the common clock shows when the world begins
_MOST_SLEEPS = 5_000  # of one call
_LONGEST = 60 * TICKS  # that one call may sleep; nothing asks for so much
_READING = 1_000  # ticks that go by while a clock is read
_UPTIME = 5_000 * TICKS  # for how long the machine had been running

Kind = Literal["step", "rate", "offset", "restart"]


class Endless(Exception):
    """A call sleeps again and again, and would for as long as its clock is wrong."""


@dataclass(frozen=True)
class Event:
    """What happens to the clocks at the true time `at`.

    "step": all are set by `by` ticks. "rate": they run on at `by` ticks for each true million. "offset": that of the
    machine `who` moves by `by`. "restart": the machine was off for `by` ticks, and its running time restarts.
    """

    at: int
    kind: Kind
    by: int
    who: int = 0


@dataclass
class FalseClocks:
    """The world. `true` is true time; `slept` is for how long the present caller has slept, in ticks."""

    events: Sequence[Event]
    offsets: list[int]
    synchronised: bool | None = None
    true: int = 0
    slept: int = 0
    sleeps: int = 0
    happened: int = 0
    _common: int = START
    _boots: int = 0
    _booted: int = -_UPTIME
    _rate: int = 10**6
    _rest: int = field(default=0, repr=False)

    def machine(self, who: int) -> Machine:
        """The machine as process `who` sees it."""
        boot = f"boot-{self._boots}"
        return Machine(
            lambda: self._read(who),
            self._sleep,
            self._running,
            boot,
            "one-machine",
            lambda: self.synchronised,
        )

    def shown(self, who: int) -> int:
        """What the clock of `who` shows, without the time that reading takes."""
        return self._common + self.offsets[who]

    def new_call(self) -> None:
        """From here on another process sleeps."""
        self.slept = self.sleeps = 0

    @property
    def stands_still(self) -> bool:
        """Whether the clocks are stopped."""
        return self._rate == 0

    @property
    def boot(self) -> int:
        """How often the machine was started again."""
        return self._boots

    def pass_by(self, ticks: int) -> None:
        """True time goes on, and what is on the schedule happens."""
        end = self.true + ticks
        while self.happened < len(self.events) and self.events[self.happened].at <= end:
            event = self.events[self.happened]
            self._run_to(max(self.true, event.at))
            self.happened += 1
            self._happen(event)
            end = max(end, self.true)
        self._run_to(end)

    def _run_to(self, moment: int) -> None:
        ticks, self._rest = divmod((moment - self.true) * self._rate + self._rest, 10**6)
        self._common += ticks
        self.true = moment

    def _happen(self, event: Event) -> None:
        if event.kind == "step":
            self._common += event.by
        elif event.kind == "rate":
            self._rate = event.by
        elif event.kind == "offset":
            self.offsets[event.who] += event.by
        else:
            self._run_to(self.true + event.by)
            self._boots += 1
            self._booted = self.true

    def _read(self, who: int) -> int:
        self.pass_by(_READING)
        return self.shown(who)

    def _running(self) -> int:
        return self.true - self._booted

    def _sleep(self, seconds: float) -> None:
        ticks = max(1, round(seconds * TICKS))
        self.slept += ticks
        self.sleeps += 1
        if self.sleeps > _MOST_SLEEPS or self.slept > _LONGEST:
            raise Endless
        self.pass_by(ticks)
