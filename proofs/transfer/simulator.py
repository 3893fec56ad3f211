"""Ten thousand hand-overs in a world of values, each with faults at every step that chance wants (P-D4, first part).

After every step the world is looked at: never two Originals, always something that can be resolved. When the faults
have ceased, the hand-over must come to its end: the receiver has the Original and the giver a copy of the same bytes,
or the giver has it and the receiver can never take it. Where the receiver's copy was removed, or it refuses,
an administrator takes the hand-over back.
"""

from __future__ import annotations

import random
from collections import Counter

from ibi.archive.model.handover import GiverStage
from ibi.protocol.vocabulary import ItemState
from proofs.common.report import Report, Scale
from proofs.transfer.world import DecisionRules, World

NAME = "P-D4 simulated"
HOLDS = "never two Originals; always one resolvable; an end after the last fault; bytes equal"

_FAULTY_STEPS = 120
_MOST_STEPS = 2_000
_WITHDRAW_AFTER, _AGAIN = 1_000, 40  # steps without faults after which the administrator takes it back

_ALWAYS = {"words": 6, "arrivals": 8, "answers": 8, "answers heard": 8, "fetches": 8, "time-outs": 2}
_FAULTS = {
    "messages lost": 2, "messages doubled": 2, "givers killed": 1, "receivers killed": 1, "waits given up": 2,
    "edits": 1, "taken back": 0.3, "copies removed": 0.1,
}  # fmt: skip
"""What may happen in one step, and how likely each is."""


def prove(scale: Scale, seed: int) -> Report:
    """Play all seeds, one after the other."""
    report = Report(NAME, HOLDS)
    chance = random.Random(seed)
    for _ in range(scale.pick(400, 3_000, 10_000)):
        play(chance.randrange(1 << 60), report)
    return report


def play(seed: int, report: Report, rules: DecisionRules | None = None) -> None:
    """One hand-over; what is broken is reported with its seed."""
    chance = random.Random(seed)
    world = World(chance, rules or DecisionRules(), remove=chance.random() < 0.3)
    report.count("hand-overs")
    done: Counter[str] = Counter()
    for number in range(_MOST_STEPS):
        faulty = number < _FAULTY_STEPS
        if number >= _WITHDRAW_AFTER and number % _AGAIN == 0:
            world.withdraw()
        done[_step(world, faulty=faulty)] += 1
        if broken := world.broken():
            report.violate(f"{broken} after {number} steps of seed {seed}")
            return
        if not faulty and not world.given.open and not world.requests:
            break
    for what, count in sorted(done.items()):
        report.count(what, count)
    _judge_end(world, seed, report)


def _step(world: World, *, faulty: bool) -> str:
    """One step of chance; what it was."""
    chance = world.chance
    ways = _ALWAYS | _FAULTS if faulty else _ALWAYS
    what = chance.choices(list(ways), list(ways.values()))[0]
    _DO[what](world)
    return what


def _say(world: World) -> None:
    idle = [runner for runner in world.runners if runner.connection is None]
    if idle and world.given.open:
        world.speak(world.chance.choice(idle))


def _lose(world: World) -> None:
    if world.requests and world.chance.random() < 0.5:
        world.requests.pop(world.chance.randrange(len(world.requests)))
    elif world.answers:
        world.answers.pop(world.chance.randrange(len(world.answers)))


def _double(world: World) -> None:
    if world.requests:
        world.requests.append(world.chance.choice(world.requests))


def _arrive(world: World) -> None:
    if world.requests:
        world.judge(world.requests.pop(world.chance.randrange(len(world.requests))))


def _answer(world: World) -> None:
    if world.replying:
        world.answers.append(world.replying.pop(0))


def _hear(world: World) -> None:
    if world.answers:
        world.hear(world.answers.pop(world.chance.randrange(len(world.answers))))


def _fetch(world: World) -> None:
    if world.fetching:
        world.fetch(world.chance.randrange(len(world.fetching)))


def _time_out(world: World) -> None:
    """End the waits for answers that will never come."""
    coming = {request.connection for request in world.requests}
    coming |= {answer.connection for answer in (*world.replying, *world.answers)}
    for runner in world.runners:
        if runner.connection not in coming:
            runner.connection = None


def _give_up(world: World) -> None:
    world.chance.choice(world.runners).connection = None


_DO = {
    "words": _say,
    "arrivals": _arrive,
    "answers": _answer,
    "answers heard": _hear,
    "fetches": _fetch,
    "messages lost": _lose,
    "messages doubled": _double,
    "time-outs": _time_out,
    "waits given up": _give_up,
    "givers killed": World.kill_giver,
    "receivers killed": World.kill_receiver,
    "edits": World.edit,
    "taken back": World.withdraw,
    "copies removed": World.forget,
}


def _judge_end(world: World, seed: int, report: Report) -> None:
    states = (world.given, world.giver, world.receiver)
    if states == (GiverStage.DONE, ItemState.COPY, ItemState.ORIGINAL):
        report.count("handed over")
        report.demand(world.version == world.receiver_version, f"other bytes after seed {seed}")
    elif world.given is GiverStage.ENDED and world.giver is ItemState.ORIGINAL:
        report.count("stayed")
    else:
        report.violate(f"no end: {[str(state) for state in states]} after seed {seed}")
