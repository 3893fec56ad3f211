"""Changes of each kind, one after the other, while a reader at each worker clicks without a pause.

Demanded: readers are led right within the seconds of the kind, and stay right; in any case within a minute and two
seconds, whatever is lost. Those seconds are for a machine that is not too busy: the short form, which is among the
tests, allows for ten times as many.
"""

from __future__ import annotations

import statistics
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proofs.common.report import Report, Scale
from proofs.freshness.changes import BEFORE_MIDNIGHT, KINDS
from proofs.freshness.field import Field

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proofs.freshness.changes import Kind, Trial

LONGEST: Final = 62.0
"""Seconds after which no reader is led by an answer of before, whatever was lost."""

_HOLDS: Final = "readers are led right within %g s, and stay right"
_SLACK: Final = 10
_MIDNIGHTS: Final = 4
_WHO: Final = ("item", "last edition", "translation")


@dataclass(frozen=True)
class Proof:
    """The proof of one kind of change; all of them share a field."""

    name: str
    kind: Kind
    field: Callable[[], Field]

    def prove(self, scale: Scale, _seed: int) -> Report:
        """Make so many changes, and report how long readers were led wrong: there is no chance in it."""
        within = self.kind.within * (_SLACK if scale is Scale.SHORT else 1)
        report = Report(self.name, _HOLDS % within)
        seconds: dict[str, list[float]] = {who: [] for who in _WHO}
        for number in range(scale.pick(2, 10, 50)):
            self._try(number, scale, within, report, seconds)
        for who, each in seconds.items():
            if each:
                report.count(f"{who}: median ms", round(1000 * statistics.median(each)))
                report.count(f"{who}: worst ms", round(1000 * max(each)))
        return report

    def _try(
        self, number: int, scale: Scale, within: float, report: Report, seconds: dict[str, list[float]]
    ) -> None:
        field, trial = self.field(), self._warmed(number, scale)
        change = trial.make()
        hold = scale.pick(250, 1_000, 1_500) / 1_000
        found = field.readers.right_after(change, trial.after, hold, LONGEST)
        report.count("changes")
        for who, (target, took) in zip(_WHO, found.items(), strict=True):
            if took is None or took > within:
                wrong = field.readers.wrong(change, target, trial.after[target])
                until = f"{took:.2f} s" if took is not None else f"{LONGEST:g} s and more"
                report.violate(f"change {number}: {target} led to {', '.join(wrong)} for {until}")
            seconds[who].append(LONGEST if took is None else took)
        field.readers.click_on(())

    def _warmed(self, number: int, scale: Scale) -> Trial:
        """A change that can be made: its redirects are cached in both workers. Raises TimeoutError."""
        field = self.field()
        if not self.kind.false_clock:
            trial = self.kind.prepare(field, number, scale)
            field.warm(trial.before)
            return trial
        for attempt in range(_MIDNIGHTS):  # midnight may come before all is cached
            trial = self.kind.prepare(field, _MIDNIGHTS * number + attempt, scale)
            with suppress(TimeoutError):
                field.warm(trial.before, BEFORE_MIDNIGHT)
                return trial
        raise TimeoutError(f"nothing is cached within {BEFORE_MIDNIGHT:g} s")


@contextmanager
def proofs_of_all() -> Iterator[dict[str, Proof]]:
    """All proofs by name; the field is made when the first one wants it, and ends with the block."""
    made: list[Field] = []

    def field() -> Field:
        if not made:
            made.append(Field())
        return made[0]

    try:
        yield {name: Proof(name, kind, field) for name, kind in KINDS.items()}
    finally:
        for each in made:
            each.close()
