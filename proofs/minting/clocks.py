"""P-M3: whatever the clocks do: no label twice, no long silence, and no lasting damage.

Schedules by chance: clocks are set forward and back by a millisecond to ten hours, slewed, stopped, repeat a second;
once they lose six hours, once they leap ten years ahead and come back; the machine is restarted; and eight processes
with offsets of their own share one directory. They draw by turns, one label or a window, at changing granularities,
and some hand out what others have overtaken. The clocks are false (`false_clock.py`), everything else is real.

- No date comes twice; each is later than all given out when it was asked for.
- Every call gives labels or says ClockError, and sleeps at most 2 s longer than the granularity asks for.
- The judge has an opinion of its own about each clock: one that is near what it should be gives labels, one that is
  more than two seconds behind the last, or more than a day ahead of what has passed since, says ClockError.
- After the leap of ten years, labels are given again as soon as the clock has come back.

Then a small run of real processes under libfaketime, whose clocks are set while they mint.

What it cannot show: a clock that was wrong at the very first start, and one that is wrong by less than a day at a
time, again and again: those cannot be told from a clock that is right.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ibi.errors import ClockError
from ibi.identifier.distributor import coarsest_for
from ibi.minting.waiting_room import AHEAD, WaitingRoom
from proofs.common.report import Report, Scale
from proofs.minting import faketime
from proofs.minting.false_clock import Endless, Event, FalseClocks
from proofs.minting.reading import TICKS

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = "P-M3"
HOLDS = "no date twice; labels or ClockError within 2 s + r; ten years ahead and back leave no trace"

PROCESSES = 8
BACK, FORWARD = 2 * TICKS, 86400 * TICKS  # note 9
HOUR, YEAR = 3600 * TICKS, 365 * 86400 * TICKS
SLACK = TICKS // 4  # what reading clocks and sleeping in pieces may cost
GRAINS = (TICKS, TICKS // 10, TICKS // 100, TICKS // 1000, TICKS // 10**6, None)


def prove(scale: Scale, seed: int) -> Report:
    """Every kind of schedule in turn, as often as the scale says; then the real processes."""
    report = Report(NAME, HOLDS)
    for number in range(scale.pick(60, 200, 500)):
        name, make = list(SCHEDULES.items())[number % len(SCHEDULES)]
        chance = random.Random(f"{seed} {number}")
        with tempfile.TemporaryDirectory(prefix="proof-clocks-") as folder:
            _Play(report, f"{name} {number}", Path(folder), make(chance), chance).run(scale.pick(40, 60, 100))
        report.count("schedules")
    faketime.prove(report, scale)
    return report


# ---- the schedules


def _steps(chance: random.Random) -> FalseClocks:
    """Set again and again, a little or a lot."""
    events, at = [], 0
    for _ in range(chance.randint(3, 8)):
        at += chance.randint(TICKS // 2, 20 * TICKS)
        size = int(10 ** chance.uniform(6, 13.556))  # 1 ms to 10 h
        events.append(Event(at, "step", chance.choice((-1, 1)) * size))
    return FalseClocks(events, [0] * PROCESSES)


def _small_steps(chance: random.Random) -> FalseClocks:
    """Set by less than two seconds, to and fro: it should not even be noticed."""
    events, at, off = [], 0, 0
    for _ in range(chance.randint(5, 15)):
        at += chance.randint(3 * TICKS, 10 * TICKS)
        to = chance.randint(-TICKS // 2, TICKS // 2)
        events.append(Event(at, "step", to - off))
        off = to
    return FalseClocks(events, [0] * PROCESSES)


def _offsets(chance: random.Random) -> FalseClocks:
    """Processes whose clocks differ, and drift further apart."""
    spread = int(10 ** chance.uniform(6, 11))
    events = [
        Event(at * TICKS, "offset", chance.randint(-spread, spread), chance.randrange(PROCESSES))
        for at in range(5, 60, 7)
    ]
    return FalseClocks(events, [chance.randint(-spread, spread) for _ in range(PROCESSES)])


def _six_hours_back(chance: random.Random) -> FalseClocks:
    return FalseClocks([Event(chance.randint(TICKS, 20 * TICKS), "step", -6 * HOUR)], [0] * PROCESSES)


def _ten_years(chance: random.Random) -> FalseClocks:
    at = chance.randint(TICKS, 20 * TICKS)
    back = at + chance.randint(TICKS, 20 * TICKS)
    return FalseClocks([Event(at, "step", 10 * YEAR), Event(back, "step", -10 * YEAR)], [0] * PROCESSES)


def _leap_second(chance: random.Random) -> FalseClocks:
    """A second is repeated; or smeared over a while."""
    at = chance.randint(2 * TICKS, 10 * TICKS)
    if chance.random() < 1 / 2:
        return FalseClocks([Event(at, "step", -TICKS)], [0] * PROCESSES)
    return FalseClocks([Event(at, "rate", 950_000), Event(at + 20 * TICKS, "rate", 10**6)], [0] * PROCESSES)


def _slew(chance: random.Random) -> FalseClocks:
    events = [Event(at * TICKS, "rate", 10**6 + chance.randint(-500, 500)) for at in range(2, 60, 5)]
    return FalseClocks(events, [0] * PROCESSES)


def _stopped(chance: random.Random) -> FalseClocks:
    """The clock stands still for a minute and a half, as under a debugger of machines or a broken time source."""
    at = chance.randint(2 * TICKS, 10 * TICKS)
    return FalseClocks([Event(at, "rate", 0), Event(at + 90 * TICKS, "rate", 10**6)], [0] * PROCESSES)


def _restart(chance: random.Random) -> FalseClocks:
    """Off for up to a month; the clock goes on, or is years off afterwards while it is not synchronised."""
    at = chance.randint(2 * TICKS, 10 * TICKS)
    events = [Event(at, "restart", chance.randint(TICKS, 30 * 24 * HOUR))]
    kept = chance.random() < 1 / 2
    if not kept:
        events.append(Event(at, "step", chance.choice((-1, 1)) * chance.randint(2 * 24 * HOUR, 10 * YEAR)))
    return FalseClocks(events, [0] * PROCESSES, synchronised=kept)


SCHEDULES: dict[str, Callable[[random.Random], FalseClocks]] = {
    "steps": _steps,
    "ten years ahead and back": _ten_years,
    "small steps": _small_steps,
    "offsets": _offsets,
    "six hours back": _six_hours_back,
    "leap second": _leap_second,
    "slew": _slew,
    "stopped": _stopped,
    "restart": _restart,
}


# ---- the play


@dataclass
class _Seen:
    """What the judge remembers of the last labels: the latest clock, the true time then, and which start it was."""

    clock: int
    true: int
    boot: int


@dataclass
class _Play:
    """Eight processes by turns in a world of false clocks."""

    report: Report
    name: str
    directory: Path
    world: FalseClocks
    chance: random.Random
    given: set[int] = field(default_factory=set)
    latest: int = 0
    seen: _Seen | None = None
    held_back: list[tuple[WaitingRoom, list[int]]] = field(default_factory=list)

    def run(self, calls: int) -> None:
        """So many calls, spread over the schedule and a little beyond; then one after the end."""
        end = max((event.at for event in self.world.events), default=0) + 10 * TICKS
        for _ in range(calls):
            self.call()
            self.world.pass_by(self.chance.randint(0, 2 * min(end, 120 * TICKS) // calls))
        self.world.pass_by(max(0, end - self.world.true))
        self.call()
        for waiting_room, dates in self.held_back:
            self._hand_out(waiting_room, dates)

    def call(self) -> None:
        """One process asks for labels; most wait for them at once, some only later."""
        who, grain, count = (
            self.chance.randrange(PROCESSES),
            self.chance.choice(GRAINS),
            self.chance.choice((1, 1, 7, 50)),
        )
        world, opinion, happened, before = self.world, self._opinion(who), self.world.happened, self.latest
        world.new_call()
        self.report.count("calls")
        waiting_room = WaitingRoom(self.directory, world.machine(who))
        try:
            with waiting_room:
                if self.seen is None:  # a new directory notes the clock as it is entered
                    self._remember(who)
                dates = list(waiting_room.reserve(grain or coarsest_for(count), count))
                self._remember(who)
                self._take(dates, before)
                if self.chance.random() < 1 / 5:
                    self.held_back.append((waiting_room, dates))
                else:
                    waiting_room.wait_until(dates[-1])
                    self.latest = max(self.latest, dates[-1])
        except ClockError as error:
            self.report.count("ClockErrors")
            if opinion is True and world.happened == happened:
                self.report.violate(f"{self.name}: a good clock was refused: {error}")
        except Endless:
            self.report.violate(f"{self.name}: slept {world.sleeps} times for a label, and would not end")
        else:
            if opinion is False and world.happened == happened:
                self.report.violate(
                    f"{self.name}: a bad clock was believed: {world.shown(who)} after {self.seen}"
                )
        self._judge_sleep(grain, world.happened - happened)

    def _opinion(self, who: int) -> bool | None:
        """Whether this clock should give labels now: True, False, or None where both would be right."""
        if self.seen is None:
            return True
        clock, seen = self.world.shown(who), self.seen
        known = seen.boot == self.world.boot
        passed = self.world.true - seen.true if known else 0
        ahead = clock - seen.clock - passed
        if clock < seen.clock - BACK - SLACK or (
            (known or self.world.synchronised is False) and ahead > FORWARD + SLACK
        ):
            return False
        sound = clock > seen.clock - BACK + SLACK and ahead < FORWARD - SLACK
        return True if sound and not self.world.stands_still else None

    def _remember(self, who: int) -> None:
        clock = self.world.shown(who)
        if self.seen is None or clock > self.seen.clock:
            self.seen = _Seen(clock, self.world.true, self.world.boot)

    def _take(self, dates: list[int], before: int) -> None:
        self.report.count("dates", len(dates))
        twice = self.given.intersection(dates)
        self.report.count("duplicates", len(twice))
        self.report.demand(
            not twice and len(set(dates)) == len(dates), f"{self.name}: given twice: {sorted(twice)[:3]}"
        )
        self.report.demand(
            min(dates) > before, f"{self.name}: {min(dates)} was asked for after {before} was out"
        )
        self.given.update(dates)

    def _hand_out(self, waiting_room: WaitingRoom, dates: list[int]) -> None:
        """Labels that were reserved long ago may leave late, or never; no other call got them meanwhile."""
        self.world.new_call()
        happened = self.world.happened
        try:
            waiting_room.wait_until(dates[-1])
        except ClockError:
            self.report.count("windows burnt")
        except Endless:
            self.report.violate(f"{self.name}: a reserved window waits without end")
        self._judge_sleep(1, self.world.happened - happened)

    def _judge_sleep(self, grain: int | None, changes: int) -> None:
        """All sleep beyond what a good clock asks for: two seconds at most, for each time that the clocks were set."""
        beyond = self.world.slept - (grain or TICKS) - AHEAD
        self.report.top("longest sleep beyond r, ms", max(0, beyond // 10**6))
        if beyond > BACK * max(1, changes) + SLACK:
            self.report.violate(f"{self.name}: slept {self.world.slept / TICKS} s for a label, r {grain}")
