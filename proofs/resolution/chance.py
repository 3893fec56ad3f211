"""Random scenarios: worlds of honest Archives, some of which are silent or deny all, and worlds with liars in them."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proofs.resolution.answers import Steps, names, qualifier
from proofs.resolution.cast import Archive, ScriptedReply, ibip, rep
from proofs.resolution.oracle import Question, Reader
from proofs.resolution.playing import Event, Scenario
from proofs.resolution.world import LANGUAGES, SHAPES, World, made

if TYPE_CHECKING:
    from collections.abc import Sequence

_LIKED = ((), (), ("pt",), ("pt-BR", "fr", "en"), ("en",), ("es", "en"), ("fr",))
_BAD_URLS = ("javascript:alert(1)", "http://user@a1.example/x", "http://127.0.0.1/x", "http://a1.example/\\x")


@dataclass
class RandomScenario(Scenario):
    """A scenario that is generated while it runs; what was answered is kept in `scenes`.

    `silent`: how likely an Archive is to say nothing in a round; `liars`: the numbers of those who say anything.
    """

    random: random.Random = field(default_factory=random.Random)
    world: World = field(default_factory=lambda: World([], []))
    silent: float = 0.0
    liars: frozenset[int] = frozenset()
    filtered: frozenset[int] = frozenset()

    def scene(self, number: int, question: Question) -> Sequence[Event]:
        """All answer in an order of chance."""
        while len(self.scenes) <= number:
            events = [Event(archive, self.answer(archive, question)) for archive in self.archives]
            self.random.shuffle(events)
            if self.holders and self.random.random() < 0.5:
                events.insert(self.random.randrange(len(events) + 1), Event(None))
            self.scenes.append(events)
        return self.scenes[number]

    def answer(self, archive: Archive, question: Question) -> ScriptedReply | None:
        """What one Archive says to a question."""
        if self.random.random() < self.silent:
            return None
        if archive.number in self.liars:
            return lie(self.random, self.world, archive, question)
        key = f"{1_000_000_000 + self.random.randrange(10**9)}"
        return self.world.reply(archive, question, filtered=archive.number in self.filtered, key=key)


def honest(seed: int, *, silent: float = 0.0, removals: bool = False) -> RandomScenario:
    """Return a scenario in which every Archive that answers tells the truth."""
    chance = random.Random(seed)
    archives = [Archive(number) for number in range(chance.choice((1, 2, 3, 4, 6, 12)))]
    world = made(chance, archives, removals=removals)
    item = chance.choice((world.items[0], world.items[0], chance.choice(world.items)))
    question = Question(chance.choice(sorted(names(item.text))), _steps(chance))
    reader = Reader(chance.choice(_LIKED), chance.random() < 0.3, chance.random() < 0.6)
    originals = [number for number, state in item.holders.items() if state == "Original"]
    holders = {}
    if chance.random() < 0.5:  # known, and perhaps wrongly
        known = chance.choice([*originals, *originals, chance.choice(archives).number])
        holders = dict.fromkeys(names(item.text), archives[known].name)
    filtered = frozenset(archive.number for archive in archives if chance.random() < 0.5)
    return RandomScenario(
        question, reader, archives, [], holders, random=chance, world=world, silent=silent, filtered=filtered
    )


def lying(seed: int) -> RandomScenario:
    """Return a scenario in which some Archives answer anything: about other items, in other names, in circles."""
    scenario = honest(seed, silent=random.Random(seed).choice((0.0, 0.0, 0.1, 0.4)), removals=True)
    numbers = [archive.number for archive in scenario.archives]
    scenario.liars = frozenset(scenario.random.sample(numbers, scenario.random.randint(1, len(numbers))))
    return scenario


def _steps(chance: random.Random) -> Steps:
    shape = chance.choice((*SHAPES, ("!",), ("!",), ()))
    spelled = []
    for sign in shape:
        spoken = sign == "+" and chance.random() < 0.5
        spelled.append(f"+({chance.choice(LANGUAGES)})" if spoken else sign)
    return tuple(spelled)


def lie(chance: random.Random, world: World, archive: Archive, question: Question) -> ScriptedReply:
    """Anything: what another item would get, what makes no sense, or no pair list at all."""
    way = chance.random()
    if way < 0.05:
        return ScriptedReply({}, spoilt=chance.choice((b"no", b"a b a c", b"{", b"a \xff", b"<html>")))
    if way < 0.15:
        return ScriptedReply({})
    item = chance.choice(world.items)
    if way < 0.35:  # the truth about another item, or in another's name
        other = chance.choice(world.archives)
        reply = world.reply(
            other, Question(min(names(item.text)), question.steps), filtered=False, key="1" * 10
        )
        own = {"ibi": _forms(chance, question.name)} if chance.random() < 0.5 and reply.pairs else {}
        return ScriptedReply({**reply.pairs, **own})
    return ScriptedReply(_wild(chance, world, archive, question))


def _wild(chance: random.Random, world: World, archive: Archive, question: Question) -> dict[str, str]:
    some = [
        _forms(chance, min(names(item.text))) for item in chance.sample(world.items, min(4, len(world.items)))
    ]
    some += [_forms(chance, question.name), f"rep {rep(900 + chance.randrange(40))}"]
    pairs = {
        "ibi": _forms(chance, question.name),
        "ibi.archiveservice": f"rep {archive.name}",
        "urlkey": "2" * 10,
    }
    if chance.random() < 0.2:
        pairs["state"] = chance.choice(("Deleted", "Original", "Copy", "Else"))
    for _ in range(chance.randrange(6)):
        shape = (
            question.steps[: chance.randrange(len(question.steps) + 1)]
            if chance.random() < 0.5
            else question.steps
        )
        rest = qualifier(tuple(_spoken(chance, step) for step in shape))
        url = archive.url(f"w{chance.randrange(9)}") if chance.random() < 0.8 else chance.choice(_BAD_URLS)
        pairs |= chance.choice(
            (
                {
                    "url" + rest: url,
                    "state" + rest: chance.choice(("Original", "Original", "Copy", "Deleted")),
                },
                {"ibi" + rest: chance.choice(some)},
                {"ibi.nextedition": chance.choice(some)},
                {"url" + rest: url, "ibi" + rest: chance.choice(some), "state" + rest: "Original"},
            )
        )
    return pairs


def _forms(chance: random.Random, name: str) -> str:
    """A name, perhaps with another one that it may or may not have."""
    long = "." in name.partition("/")[0]
    if chance.random() < 0.6:
        return f"{'rep' if long else 'ibip'} {name}"
    number = chance.randrange(30)
    return f"rep {name} ibip {ibip(number)}" if long else f"rep {rep(number)} ibip {name}"


def _spoken(chance: random.Random, step: str) -> str:
    return f"+({chance.choice(LANGUAGES)})" if step == "+" and chance.random() < 0.8 else step
