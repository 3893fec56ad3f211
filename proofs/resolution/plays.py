"""Random plays for the resolver around the machine: readers come and go, Archives join, leave, hang and lie.

In one play a resolver is asked several times about one world. Meanwhile its registry changes, it is started again with
or without its caches, and the wall clock is set. Every scene is checked by the laws (`invariants`), and where all are
honest and nothing is removed, against what is true (`truth`).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from ibi.resolver.model.alert import Alert
from ibi.resolver.resolve.resolution import Redirect as Sent
from ibi.resolver.resolve.resolution import Resolution
from proofs.resolution import invariants, truth
from proofs.resolution.cast import Archive, ScriptedReply, rep
from proofs.resolution.chance import RandomScenario, honest, lying
from proofs.resolution.oracle import Question, Reader
from proofs.resolution.stage import Scene, Stage
from proofs.resolution.watching import verdict_of
from proofs.resolution.wire import Conduct, VirtualLoop, Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

_GAPS = (0.0, 0.0, 0.02, 0.3, 2.0, 6.0, 40.0, 4_000.0, 90_000.0)


class Behaviour(NamedTuple):
    """How an Archive answers: delay in seconds, likelihood of no answer and of a spoilt one, seconds of reuse."""

    delay: float
    hangs: float
    spoils: float
    reuse: int


@dataclass
class Play:
    """A scenario, how each Archive behaves, and what has happened when."""

    seed: int
    scenario: RandomScenario
    behaviours: dict[str, Behaviour]
    calm: bool  # no Archive is late, none comes or goes
    loop: VirtualLoop
    scenes: list[Scene] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)

    @property
    def random(self) -> random.Random:
        """All chance of this play."""
        return self.scenario.random

    def conduct(self, address: str, question: Question) -> Conduct:
        """How an Archive answers a question that is asked now."""
        behaviour, chance = self.behaviours[address], self.random
        archive = next(each for each in self.scenario.archives if each.address == address)
        after = chance.choice((0.0, behaviour.delay, behaviour.delay * chance.random() * 2))
        if chance.random() < behaviour.hangs:
            return Conduct(chance.choice((inf, inf, 2.9, 1.9)), ScriptedReply({}))
        if chance.random() < behaviour.spoils:
            return Conduct(after, ScriptedReply({}), status=chance.choice((0, 404, 500)))
        reply = self.scenario.answer(archive, question) or ScriptedReply({})
        reuse = behaviour.reuse if reply.pairs else 0
        if reuse and not reply.spoilt:
            reply = ScriptedReply({**reply.pairs, "acknowledgment.batch": "yes"})
        return Conduct(after, reply, reuse)

    def text(self) -> str:
        """The play for people."""
        lines = [f"Play of seed {self.seed}."]
        lines += [f"  {address}: {behaviour}" for address, behaviour in self.behaviours.items()]
        lines += [f"  {what}" for what in self.happened]
        for scene in self.scenes:
            url = f"{scene.url.text} for {scene.reader}"
            lines.append(
                f"Reader {scene.number} at {scene.begun:.3f}: {url}; at {scene.ended:.3f}: {_short(scene)}"
            )
            for exchange in scene.exchanges:
                reply = exchange.conduct.reply.body.decode("latin-1").replace("\r\n", " | ")
                question = f"{exchange.question.name}{''.join(exchange.question.steps)}"
                lines.append(
                    f"  {exchange.sent_at:.3f}-{exchange.answered:.3f} {exchange.address} on {question}: {reply!r}"
                )
        return "\n".join(lines)


def _short(scene: Scene) -> str:
    if isinstance(scene.outcome, Sent):
        return f"sent to {scene.outcome.url}"
    return str(scene.outcome.kind) if isinstance(scene.outcome, Alert) else repr(scene.failed)


def prepared(seed: int, loop: VirtualLoop) -> Play:
    """A play that is ready to begin."""
    chance = random.Random(seed)
    true, calm = chance.random() < 0.6, chance.random() < 0.4
    scenario = honest(seed, removals=chance.random() < 0.2) if true else lying(seed)
    scenario.silent = 0.0
    if seed % 16 == 7:
        scenario.question = Question(rep(950), ((), (":",))[seed // 16 % 2])
    if chance.random() < 0.2:
        scenario.archives = [Archive(each.number, chance.random() < 0.7) for each in scenario.archives]
        scenario.world.archives = scenario.archives
    behaviours = {}
    for archive in scenario.archives:
        often = 0.0 if calm else chance.choice((0.0, 0.0, 0.1, 0.5, 1.0))
        behaviours[archive.address] = Behaviour(
            chance.choice((0.0, 0.02, 0.05, 0.12, 0.3 if calm else 0.9)),
            often,
            0.0 if calm else chance.choice((0.0, 0.0, 0.0, 0.2)),
            chance.choice((0, 0, 5, 60, 3_600)),
        )
    return Play(seed, scenario, behaviours, calm, loop)


async def _direct(play: Play, stage: Stage, *, gone_at: int) -> None:
    """Let it all happen."""
    tasks: list[asyncio.Task[None]] = []
    chance = play.random
    count = chance.choice((1, 1, 2, 3, 5))
    for number in range(count):
        if number:
            await asyncio.sleep(chance.choice(_GAPS))
            if not play.calm and chance.random() < 0.5:
                await _change(play, stage)
        scene = _scene(play, stage, number)
        play.scenes.append(scene)
        tasks.append(asyncio.create_task(stage.resolve(scene)))
        if not play.calm and chance.random() < 0.3:
            await asyncio.sleep(chance.choice((0.0, 0.01, 0.05, 0.11, 0.5)))
            await _change(play, stage)
    if gone_at:
        play.loop.interrupted_at = play.loop.steps + gone_at
        play.loop.interruption = tasks[-1].cancel
    await asyncio.gather(*tasks, return_exceptions=True)
    play.loop.interruption = None
    for queue in stage.acknowledgment_queues:
        await queue.close(60.0)


def _scene(play: Play, stage: Stage, number: int) -> Scene:
    scenario, chance = play.scenario, play.random
    question, reader = scenario.question, scenario.reader
    if number and chance.random() < 0.5:
        question = Question(
            chance.choice(sorted(truth.all_names(scenario.world, question)) or [question.name]),
            question.steps,
        )
    if number and chance.random() < 0.3:
        reader = Reader(reader.languages, not reader.original, reader.hardened)
    scenario = RandomScenario(question, reader, scenario.archives, [])
    return Scene(number, question, reader, play.loop.now, stage.included, scenario.archives, scenario.url)


async def _change(play: Play, stage: Stage) -> None:
    """Something about the resolver changes."""
    chance = play.random
    what = chance.choice(("excluded", "excluded", "included", "started again", "started afresh", "clock"))
    play.happened.append(f"{play.loop.now:.3f}: {what}")
    if what == "excluded" and len(stage.included) > 1:
        gone = chance.choice(stage.included)
        play.happened[-1] += f" {gone.name}"
        stage.include([archive for archive in stage.included if archive is not gone])
    elif what == "included":
        stage.include(play.scenario.archives)
    elif what == "clock":
        stage.clock.put(chance.choice((-7_200.0, -30.0, 30.0, 7_200.0)))
    elif what.startswith("started"):
        stage.start(keeps=what == "started again")


class Played(NamedTuple):
    """A play that has ended, and what was wrong in it."""

    play: Play
    faults: list[str]


def perform(seed: int, loop: VirtualLoop, machine: type[Resolution] = Resolution, gone_at: int = 0) -> Played:
    """Play it, and find all that was wrong."""
    loop.begin()
    play = prepared(seed, loop)
    wire = Wire(loop, play.conduct)
    stage = Stage(loop, wire, play.scenario.archives, machine)
    for name, archive in play.scenario.holders.items():
        stage.knows(_canonical(name), archive)
    try:
        with stage.watching():
            loop.run_until_complete(_direct(play, stage, gone_at=gone_at))
            loop.run_until_complete(asyncio.sleep(10))  # Archives queried before may still answer
    except RuntimeError as fault:
        fault.add_note(f"in the play of seed {seed}, gone at step {gone_at}")
        raise
    found = [*_judged(play, stage), *_acknowledgments(play, wire), *_left(loop)]
    if found:
        loop.run_until_complete(wire.close())
    return Played(play, found)


def _canonical(name: str) -> str:
    return name if "." in name.partition("/")[0] else name.upper()


def _judged(play: Play, stage: Stage) -> Iterator[str]:
    for scene in play.scenes:
        if scene.ended == inf and scene.failed is None:
            continue  # the reader went away
        for law in invariants.LAWS:
            yield from (f"{law.__name__}: reader {scene.number}: {fault}" for fault in law(scene))
        law13 = invariants.i13_excluded_archives_are_not_queried
        yield from (
            f"{law13.__name__}: reader {scene.number}: {fault}" for fault in law13(scene, stage.history)
        )
        if not play.scenario.liars and scene.outcome is not None:
            spoke = play.calm and all(archive.confirmed for archive in play.scenario.archives)
            items = play.scenario.world.items
            spoke = spoke and not any("Deleted" in item.holders.values() for item in items)
            spoke = spoke and scene.watch is not None and not scene.watch.oracle.silent
            verdict = verdict_of(scene.outcome)
            for fault in truth.faults(
                play.scenario.world, scene.question, scene.reader, verdict, all_spoke=spoke
            ):
                yield f"the truth: reader {scene.number}: {fault}"


def _acknowledgments(play: Play, wire: Wire) -> Iterator[str]:
    """I3: the chosen Archive gets one acknowledgment for each redirect, with its own key; none is sent for an alert."""
    due: Counter[tuple[str, str, str]] = Counter()
    for scene in play.scenes:
        sent = scene.outcome
        if isinstance(sent, Sent) and not sent.stale and sent.acknowledgment is not None:
            address = str(sent.archive.service_ibi).partition("/")[0]
            due[address, sent.acknowledgment.url_key, sent.acknowledgment.url] += 1
    received: Counter[tuple[str, str, str]] = Counter()
    single: Counter[tuple[str, str]] = Counter()
    for acknowledged in wire.acknowledged:
        received[acknowledged.address, acknowledged.key, acknowledged.url] += acknowledged.count
        single[acknowledged.address, acknowledged.key] += not acknowledged.event
    if due != received:
        yield f"i3_thanks: due were {dict(due)}, sent were {dict(received)}"
    for (address, key), times in single.items():
        if times > 1 and key not in {"1" * 10, "2" * 10}:  # liars have but one key
            yield f"i3_thanks: {address} gets {times} acknowledgments with the key {key}, and cannot tell them apart"


def _left(loop: VirtualLoop) -> Iterator[str]:
    """I12: no task and no timer is left."""
    tasks = asyncio.all_tasks(loop)
    if tasks:
        yield f"i12_nothing_is_left: {tasks}"
    if loop.timers():
        yield f"i12_nothing_is_left: {loop.timers()} timers"
