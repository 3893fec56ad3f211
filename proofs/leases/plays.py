"""Random plays: a large world, in which everything may happen, is played from its beginning for some steps.

Each ends with all faults ceasing: then one request must bring each lease and its true answers back.
"""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Final

from proofs.common.report import Report, Scale
from proofs.leases.messages import MessageModel
from proofs.leases.world import BUDGETS, KINDS, Action, Conduct, MessageWorld

if TYPE_CHECKING:
    from proofs.leases.world import MessageState

NAME: Final = "plays"
HOLDS: Final = "no reader is led by an outdated answer; one request brings a lease back"

STEPS: Final = 70
"""Steps of a play."""

WORLD: Final = MessageWorld(
    "everything",
    dict.fromkeys(BUDGETS, 2) | {"changes": 10, "doubles": 5, "forged": 3},
    questions=((0,), (1, 0), (2, 3), (3,)),
    items=4,
    archives=2,
    nodes=2,
    log=4,
    page=2,
    answers=3,
    requests=2,
    clock=True,
    hints=True,
)
"""The world of most plays; in each fourth one nothing is lost, so that no answer may be older than a tick.

Of the plays of either kind, most have only one Archive or one node.
"""

_SAFE_EVENTS: Final = {"changes": 10, "settings": 2, "kills": 2, "leaves": 2, "doubles": 5, "forged": 3}
SAFE_WORLD: Final = WORLD._replace(
    name="nothing is lost", events=_SAFE_EVENTS, loss=False, clock=False, hints=False
)
"""Without loss: of the faults, only those that lose no message."""

_SIZES: Final = ((1, 1), (1, 2), (2, 1), (2, 2))  # Archives, nodes
_WEIGHTS: Final = {"come": 12, "apply": 12, "answer": 6, "ask": 4, "tick": 2}
_FACTORS: Final = (0.1, 0.5, 1.0, 2.0)  # by one of these, each kind of action is more frequent in one play
_SHOWN_EVERY: Final = 10_000


def play(model: MessageModel, seed: int, report: Report, steps: int = STEPS) -> str | None:
    """Play once; return what was wrong, with all that was played."""
    chance = random.Random(seed)
    weights = {kind: _WEIGHTS.get(kind, 1) * chance.choice(_FACTORS) for kind in KINDS}
    state, played = _first(model, chance), list[Action]()
    for _ in range(steps):
        by_kind = dict[str, list[Action]]()
        for action in model.actions(state):
            by_kind.setdefault(str(action[0]), []).append(action)
        kinds = list(by_kind)
        if not kinds:
            break
        kind = chance.choices(kinds, [weights[each] for each in kinds])[0]
        action = chance.choice(by_kind[kind])
        played.append(action)
        state = model.step(state, action)
        report.count("steps")
        report.count("states with an answer that may be used", _may_use(state))
        found = model.fault(state)
        if found is not None:
            return f"{found}, after {played}"
    found = model.calm_fault(state)
    return None if found is None else f"{found}, after {played}"


def _first(model: MessageModel, chance: random.Random) -> MessageState:
    """Return the first state of a play: in most, each node has requested the changes of each Archive once."""
    state = model.start()
    if chance.random() < 0.2:
        return state
    for number in range(len(state.links)):
        state = model.step(state, ("ask", number))
        for _ in range(2):  # the request, the reply
            state = model.step(state, ("come", state.flight[0]))
        while state.links[number].steps:
            state = model.step(state, ("apply", number))
    return state


def _may_use(state: MessageState) -> bool:
    return any(link.since is not None and link.member and any(link.kept) for link in state.links)


def prove(scale: Scale, seed: int, conduct: Conduct = Conduct()) -> Report:  # noqa: B008 - immutable
    """Play 300 times, 10,000 times, or 100,000 times."""
    report = Report(NAME, HOLDS)
    models = [
        [MessageModel(world._replace(archives=archives, nodes=nodes), conduct) for archives, nodes in _SIZES]
        for world in (WORLD, WORLD, WORLD, SAFE_WORLD)
    ]
    for number in range(scale.pick(300, 10_000, 100_000)):
        model = models[number % 4][number // 4 % 4]
        found = play(model, seed * 1_000_003 + number, report)
        report.count("plays")
        report.demand(found is None, f"seed {seed}, play {number}: {found}")
        if number % _SHOWN_EVERY == _SHOWN_EVERY - 1:
            print(f"{number + 1:,} plays, seed {seed}", file=sys.stderr, flush=True)
    return report
