"""P-F1: every parser takes whatever comes: a value, or one of our errors with its sentence; never anything else.

What it has read and can be written is read again to the same value. In the longer forms the time is looked at too:
eight times as many characters may cost some eight times the time, and not sixty-four times.
"""

from __future__ import annotations

import logging
import random
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from os import sched_getaffinity
from typing import TYPE_CHECKING, Final

from proofs.common.report import Report, Scale
from proofs.fuzz.listed import TARGETS
from proofs.fuzz.making import TOKENS, as_bytes, dumped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proofs.fuzz.target import Target

NAME: Final = "P-F1"
HOLDS: Final = (
    "a value or an error of ours in one sentence, the same when read again, time in proportion to length"
)

_SHORT, _LONG = 1 << 15, 1 << 18  # characters
_SOON: Final = 0.05  # seconds; what has ended by then is quick enough, whatever it was in proportion
_MOST: Final = 24  # times longer for eight times as many characters: 8 is linear, 64 is quadratic
_SHOWN: Final = 160


def prove(scale: Scale, seed: int) -> Report:
    """Give each parser so many inputs."""
    inputs = scale.pick(120, 20_000, 1_000_000)
    report = Report(NAME, HOLDS)
    part = partial(try_out, inputs=inputs, seed=seed, timed=scale is not Scale.SHORT)
    if scale is Scale.SHORT:
        for name in TARGETS:
            report.add(part(name))
        return report
    with ProcessPoolExecutor(len(sched_getaffinity(0)), get_context("spawn")) as workers:
        for each in workers.map(part, TARGETS):
            report.add(each)
    return report


def try_out(name: str, inputs: int, seed: int, *, timed: bool) -> Report:
    """Give one of them so many inputs."""
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    return fuzz(TARGETS[name], inputs, seed, timed=timed)


def fuzz(target: Target, inputs: int, seed: int, *, timed: bool = False) -> Report:
    """The figures of one parser."""
    report = Report(NAME, HOLDS)
    report.count("parsers")
    make = target.inputs(random.Random(f"{seed} {target.name}"))
    shrunk: set[str] = set()
    for _ in range(inputs):
        given = make()
        fault = target.fault(given)
        report.count("inputs")
        if fault is not None:
            small = given if fault in shrunk else target.smaller(given, fault)
            shrunk.add(fault)
            report.violate(f"{target.name}: {fault}: {small!r:.{_SHOWN}}")
    if timed and target.swift:
        for text in _long_texts(target):
            report.count("very long inputs")
            _demand_linear(report, target, text)
    return report


def _long_texts(target: Target) -> Iterator[str]:
    """Texts that are the same over and over."""
    yield from (token for token in TOKENS if 0 < len(token) < 40)
    values = [dumped(value) for value in target.values]
    chance = random.Random(target.name)
    for seed in chance.sample([*target.seeds, *values], min(40, len(target.seeds) + len(values))):
        yield seed
        at = chance.randrange(len(seed) + 1)
        yield seed[at : at + chance.choice((1, 2, 5))] or "a"


def _demand_linear(report: Report, target: Target, text: str) -> None:
    for head in ("", *target.seeds[:1]):
        spent = _seconds(target, head, text, _LONG)
        if spent > _SOON:
            before = _seconds(target, head, text, _SHORT)
            again = min(spent, _seconds(target, head, text, _LONG))
            report.demand(
                again < _MOST * max(before, _SOON / _MOST),
                f"{target.name}: {_LONG} characters take {again:.2f} s, {_SHORT} take {before:.3f} s: "
                f"{head!r:.30} {text!r:.60}",
            )


def _seconds(target: Target, head: str, text: str, size: int) -> float:
    """How long it works on so many characters."""
    # No more than asked for: one character beyond a limit is refused unread, and would show nothing.
    long = head + text * ((size - len(head)) // len(text))
    given = as_bytes(long) if target.kind in {"bytes", "value"} else long
    begun = time.process_time()
    target.fault(given)
    return time.process_time() - begun
