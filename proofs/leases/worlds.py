"""Small worlds, explored to the end: every state that can be reached in them was looked at."""

from __future__ import annotations

import sys
import time
from typing import Any, Final, NamedTuple

from proofs.common.report import Report, Scale
from proofs.leases.exploring import Model, explore
from proofs.leases.messages import MessageModel
from proofs.leases.processes import ProcessModel, ProcessWorld
from proofs.leases.world import MessageWorld

NAME: Final = "worlds"
HOLDS: Final = "no reader is led by an outdated answer; one request brings a lease back"

_DEPENDENT: Final = ((0, 1),)
_TWO: Final = ((0,), (1,))


class _Listed(NamedTuple):
    """A world, and the smallest form in which it is explored."""

    form: Scale
    world: MessageWorld | ProcessWorld


_S, _M, _F = Scale.SHORT, Scale.MEDIUM, Scale.FULL


def _m(form: Scale, name: str, **fields: Any) -> _Listed:
    """List a world of messages; its name says what is not seen in its events."""
    return _Listed(form, MessageWorld(name, **fields))


def _p(form: Scale, processes: int, **fields: Any) -> _Listed:
    return _Listed(form, ProcessWorld(f"processes: {processes}", processes=processes, **fields))


# Nothing is lost: no answer may be used that was not true in this tick, (a).
_SAFE: Final = (
    _m(_S, "no loss", events={"changes": 2}, loss=False),
    _m(_S, "no loss, dependent, notices forget",
       events={"changes": 1, "forged": 1, "kills": 1}, items=2, questions=_DEPENDENT, loss=False, hints=True),
    _m(_M, "no loss, dependent, notices forget",
       events={"changes": 2, "forged": 1, "kills": 1}, items=2, questions=_DEPENDENT, loss=False, hints=True),
    _m(_M, "no loss, a lease of three ticks", events={"changes": 2, "kills": 1}, loss=False, lease=3),
    _m(_M, "no loss, pages", events={"changes": 3}, items=2, questions=_TWO, loss=False, page=1),
    _m(_M, "no loss", events={"changes": 1, "settings": 1, "leaves": 1, "doubles": 1}, loss=False),
    _m(_F, "no loss, two nodes", events={"changes": 1}, loss=False, nodes=2),
    _m(_F, "no loss, two Archives", events={"changes": 1}, loss=False, archives=2),
)  # fmt: skip

# Messages are lost, late, and come in any order: no answer may be used that was not true within the lease, (b).
_LOSSY: Final = (
    _m(_S, "loss", events={"changes": 1}),
    _m(_S, "loss", events={"changes": 1, "kills": 1}),
    _m(_M, "loss", events={"changes": 2}),
    _m(_M, "loss, dependent", events={"changes": 2}, items=2, questions=_DEPENDENT),
    _m(_M, "loss", events={"changes": 2, "kills": 1, "deaths": 1}),
    _m(_M, "loss", events={"changes": 1, "restores": 1, "kills": 1}),
    _m(_M, "loss", events={"changes": 2, "files": 1}),
    _m(_M, "loss", events={"changes": 2, "rollbacks": 1}),
    _m(_M, "loss, two answers", events={"changes": 1, "rollbacks": 1}, items=2, questions=_TWO, answers=2),
    _m(_M, "loss", events={"changes": 2, "leaves": 1}),
    _m(_M, "loss, notices forget", events={"changes": 1, "forged": 1, "settings": 1}, hints=True),
    _m(_M, "loss, a log of one change", events={"changes": 2}, items=2, log=1),
    _m(_M, "loss, pages", events={"changes": 2}, items=2, page=1),
    _m(_M, "loss, a clock may stand still", events={"changes": 2, "kills": 1}, clock=True),
    _m(_M, "loss, a lease of three ticks", events={"changes": 2}, lease=3),
    _m(_M, "loss, two requests", events={"changes": 1, "doubles": 1}, requests=2),
    _m(_F, "loss", events={"changes": 3}),
    _m(_F, "loss", events={"changes": 1, "restores": 1, "rollbacks": 1}),
    _m(_F, "loss", events={"changes": 1, "settings": 1, "stops": 1, "kills": 1}),
    _m(_F, "loss", events={"changes": 2, "rollbacks": 2}),
    _m(_F, "loss", events={"changes": 2, "rollbacks": 1, "kills": 1, "deaths": 1}),
    _m(_F, "loss, pages", events={"changes": 3}, items=2, page=1),
)  # fmt: skip

# The processes of one resolver, step by step.
_STEPWISE: Final = (
    _p(_S, 1, events={"changes": 1, "kills": 1}),
    _p(_M, 2, events={"changes": 1}),
    _p(_M, 2, events={"changes": 1, "kills": 1}),
    _p(_F, 1, events={"changes": 2}, items=2, page=1),
    _p(_F, 2, events={"changes": 1}, items=2, questions=_DEPENDENT),
    _p(_F, 2, events={"changes": 1, "restarts": 1, "kills": 1}),
    _p(_F, 2, events={"changes": 1, "kills": 1, "files": 1}),
    _p(_F, 2, events={"changes": 2}),
    _p(_F, 2, events={"changes": 1, "kills": 2, "rollbacks": 2}),
    _p(_F, 3, events={"changes": 1}),
)


def prove(scale: Scale, _: int) -> Report:
    """Explore the worlds of this form, the shorter ones included."""
    report = Report(NAME, HOLDS)
    for form, world in (*_SAFE, *_LOSSY, *_STEPWISE):
        if form.value <= scale.value:
            _explore(world, report, shown=scale is not Scale.SHORT)
    return report


def _explore(world: MessageWorld | ProcessWorld, report: Report, *, shown: bool) -> None:
    started = time.monotonic()
    model: Model[Any] = MessageModel(world) if isinstance(world, MessageWorld) else ProcessModel(world)
    explored = explore(model)
    report.count("worlds")
    report.count("states", explored.states)
    report.count("steps", explored.steps)
    report.demand(explored.complete, f"{world}: {explored.fault}, after {explored.history}")
    if shown:
        events = ", ".join(f"{what} {count}" for what, count in world.events.items())
        took = f"{time.monotonic() - started:.0f} s"
        print(f"  {world.name}; {events}: {explored.states:,} states, {took}", file=sys.stderr, flush=True)
