"""The clock, and the state of minting that depends on it (notes 9 and 10, threats T31 and T32)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ibi.checkup.finding import Finding, Verdict
from ibi.errors import ClockError, IbiError, LostState
from ibi.identifier.dates import date_text
from ibi.minting.clock import ClockLimits, believe
from ibi.minting.record import Record
from ibi.minting.state import FOLDER, StateFiles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ibi.minting.machine import Machine

_LIMITS: Final = ClockLimits()
_CLOCK: Final = "clock"
_MINTING: Final = "minting"


def check_clock(machine: Machine) -> Iterator[Finding]:
    """Whether the clock has been set at all, and whether somebody keeps it right."""
    now = machine.now()
    nothing_known = Record(now, now, machine.running(), 0, machine.boot, machine.identity)
    yield from _disbelief(nothing_known, machine)
    kept = machine.synchronised()
    advice = IbiError("run a time service, such as chrony or systemd-timesyncd, and see that it has a source")
    if kept:
        yield Finding(_CLOCK, Verdict.OK, IbiError("the clock is synchronised"))
    elif kept is None:
        sentence = IbiError("this machine does not tell whether its clock is synchronised")
        yield Finding(_CLOCK, Verdict.NOT_PROVEN, sentence, advice)
    else:
        sentence = IbiError("the clock is not synchronised: labels may carry wrong dates, or wait")
        yield Finding(_CLOCK, Verdict.WARNING, sentence, advice)


def check_minting(data: Path, machine: Machine, *, expected: bool) -> Iterator[Finding]:
    """Whether the last date is known and to be trusted, and what the clock says beside it.

    `expected`: whether there must be a state here. Nothing is changed; who draws labels meanwhile is waited for.
    """
    folder = data / FOLDER
    advice = IbiError("labels wait until it is repaired: ibi mint recover --data {data}", data=data)
    if not (folder / "lock").exists() and not (folder / "state").exists():
        if expected:
            problem = "the minting state in {directory} is missing, so the next label might be a second one"
            yield Finding(_MINTING, Verdict.FAULT, LostState(problem, directory=folder), advice)
        return
    try:
        with closing(StateFiles(data, machine.identity, machine.running)) as files, files.locked() as state:
            record = None if state.new else state.trusted()
    except LostState as lost:
        yield Finding(_MINTING, Verdict.FAULT, lost, advice)
        return
    except OSError as error:
        sentence = IbiError(
            "labels cannot be made in {path}: {reason}", path=data, reason=error.strerror or error
        )
        advice = IbiError("run this as the user who mints; if it is that user, give it the directory")
        yield Finding(_MINTING, Verdict.FAULT, sentence, advice)
        return
    if record is None or not record.drawn:
        yield Finding(_MINTING, Verdict.OK, IbiError("no label has been given here yet"))
    else:
        given = {"count": record.drawn, "date": date_text(record.last)}
        yield Finding(
            _MINTING, Verdict.OK, IbiError("labels given: {count}; the last carries {date}", **given)
        )
    if record is not None:
        yield from _disbelief(record, machine)


def _disbelief(record: Record, machine: Machine) -> Iterator[Finding]:
    """The clock's fault, if minting would not believe it after this record."""
    try:
        believe(record, machine.now(), machine, _LIMITS)
    except ClockError as error:
        yield Finding(
            _CLOCK, Verdict.FAULT, error, IbiError("set the clock right; until then no label is given")
        )
