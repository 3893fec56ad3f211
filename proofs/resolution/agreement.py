"""On honest networks both policies come to the same kind of outcome and to the same item (note 7).

One question is asked four times of a world whose Archives all speak the truth in their own time: under the strict
policy; under the hardened one that knows nothing; again, with what has been learnt and remembered by then; and with
hints that are wrong.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from proofs.common.report import Report, Scale
from proofs.resolution import truth
from proofs.resolution.answers import names
from proofs.resolution.cast import ScriptedReply
from proofs.resolution.chance import RandomScenario, honest
from proofs.resolution.oracle import Reader, Redirect, Tell
from proofs.resolution.stage import Scene, Stage
from proofs.resolution.watching import verdict_of
from proofs.resolution.wire import Conduct, VirtualLoop, Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proofs.resolution.oracle import Question, Verdict

NAME = "agreement"
HOLDS = "strict, hardened, with memory, with wrong hints: the same kind of outcome, the same item"

OTHER_ORDERS = 50
"""Orders of answers that are tried before an alert of the hardened policy is said to be none of the strict one's."""


def prove(scale: Scale, seed: int) -> Report:
    """So many worlds, each with a seed of its own."""
    report = Report(NAME, HOLDS)
    seeds = random.Random(seed)
    loop = VirtualLoop()
    for _ in range(scale.pick(300, 5_000, 30_000)):
        world_seed = seeds.randrange(1 << 40)
        report.count("worlds")
        for fault in differences(world_seed, loop, report):
            report.violate(f"{fault} (world of seed {world_seed})")
    loop.close()
    return report


def differences(seed: int, loop: VirtualLoop, report: Report) -> Iterator[str]:
    """What the four outcomes do not have in common."""
    loop.begin()
    removals = seed % 3 == 0
    scenario = honest(seed, removals=removals)
    chance = random.Random(seed)
    reuse = chance.choice((0, 60))

    def conduct(address: str, question: Question) -> Conduct:
        archive = next(each for each in scenario.archives if each.address == address)
        reply = scenario.answer(archive, question) or ScriptedReply({})
        return Conduct(chance.choice((0.0, 0.01, 0.03, 0.12)), reply, reuse if reply.pairs else 0)

    verdicts: list[Verdict] = []
    stages = [Stage(loop, Wire(loop, conduct), scenario.archives) for _ in range(3)]
    for number, way in enumerate(("strict", "hardened", "remembering", "misled")):
        stage = stages[{"strict": 0, "misled": 2}.get(way, 1)]
        if way == "misled":
            for name in names(" ".join(item.text for item in scenario.world.items)):
                stage.knows(
                    name if "." in name.partition("/")[0] else name.upper(),
                    chance.choice(scenario.archives).name,
                )
        reader = _reader(scenario, hardened=way != "strict")
        verdicts.append(_play(stage, scenario, reader, number))
        report.count(type(verdicts[-1]).__name__)
    for way, verdict in zip(("hardened", "remembering", "misled"), verdicts[1:], strict=True):
        pair = (verdicts[0], verdict)
        if _excused(*pair, scenario.question) or truth.same_kind(*pair, removals=removals):
            continue
        if isinstance(verdict, Tell) and any(
            truth.same_kind(again, verdict, removals=removals)
            for again in _strictly(loop, conduct, scenario, _reader(scenario, hardened=False))
        ):
            report.count("by who answers first")
            continue
        yield f"strict: {verdicts[0]}, {way}: {verdict}"


def _reader(scenario: RandomScenario, *, hardened: bool) -> Reader:
    """Who asks, under one of the policies."""
    return Reader(scenario.reader.languages, scenario.reader.original, hardened=hardened)


def _strictly(
    loop: VirtualLoop, conduct: Callable[[str, Question], Conduct], scenario: RandomScenario, reader: Reader
) -> Iterator[Verdict]:
    """What the letter comes to where others answer first: which alert a search ends with may depend on it (RES-14)."""
    for _ in range(OTHER_ORDERS):
        yield _play(Stage(loop, Wire(loop, conduct), scenario.archives), scenario, reader, 0)


def _excused(strict: Verdict, hardened: Verdict, question: Question) -> bool:
    """The letter looks no further when it sees copies; and what is no item of its own cannot be asked about."""
    none = Tell("no-original")
    nameless = isinstance(strict, Redirect) and strict.url.rpartition("/")[2].startswith("m")
    return bool(question.steps) and (strict == none or (hardened == none and nameless))


def _play(stage: Stage, scenario: RandomScenario, reader: Reader, number: int) -> Verdict:
    scene = Scene(
        number, scenario.question, reader, stage.loop.now, stage.included, scenario.archives, scenario.url
    )
    with stage.watching():
        stage.loop.run_until_complete(stage.resolve(scene))
    stage.loop.run_until_complete(stage.acknowledgment_queues[-1].close())
    stage.loop.run_until_complete(asyncio.sleep(10))  # Archives queried before may still answer
    if scene.failed is not None:
        raise scene.failed
    return verdict_of(scene.outcome)
