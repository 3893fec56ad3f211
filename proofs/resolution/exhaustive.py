"""Every scenario of a few Archives: each behaviour, each order of arrival, the deadline and the grace at each place.

Six behaviours and silence, whether an Archive hangs or comes after the deadline. A reader wants the last edition of an
item, demands the original or takes copies, under either policy, with and without a known holder. Where a next edition
is followed, a second round is played: with every behaviour for two Archives, for more with all of them in turn.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import permutations, product
from typing import TYPE_CHECKING

from ibi.resolver.resolve.resolution import Resolution
from proofs.common.report import Report, Scale
from proofs.resolution.cast import Archive, ScriptedReply, rep
from proofs.resolution.oracle import Question, Reader
from proofs.resolution.playing import Event, Scenario, perform
from proofs.resolution.watching import Broken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from proofs.resolution.playing import Ending

NAME = "exhaustive"
HOLDS = "what is decided is acceptable, at every moment"

BEHAVIOURS = ("empty", "original", "copy", "deleted", "next edition", "foreign", "never")
_ARCHIVES = tuple(Archive(number) for number in range(4))
_NEVER = len(BEHAVIOURS) - 1
_STEPS = ("!",)

Scene = tuple[Event, ...]


@lru_cache(maxsize=1024)
def reply(archive: Archive, hop: int, behaviour: str) -> ScriptedReply | None:
    """Return what an Archive that behaves so replies in a round."""
    about = {
        "ibi": f"rep {rep(hop)}", "ibi.archiveservice": f"rep {archive.name}", "urlkey": f"100000000{archive.number}",
    }  # fmt: skip
    shown = {"url.lastedition": archive.url(f"item{hop}"), "contenttype.lastedition": "Data"}
    own = {"ibi.lastedition": f"rep {rep(hop)}"}
    return {
        "empty": ScriptedReply({}),
        "original": ScriptedReply({**about, **own, **shown, "state.lastedition": "Original"}),
        "copy": ScriptedReply({**about, **own, **shown, "state.lastedition": "Copy"}),
        "deleted": ScriptedReply({**about, "state": "Deleted", "timestamp": "2021-01-01T00:00:00Z"}),
        "next edition": ScriptedReply({**about, "ibi.nextedition": f"rep {rep(hop + 1)}"}),
        "foreign": ScriptedReply(
            {**about, **shown, "ibi": f"rep {rep(50)}", "state.lastedition": "Original"}
        ),
    }.get(behaviour)


def scenes(count: int, hop: int, *, holder: bool) -> Iterator[Scene]:
    """All scenes of a round: who says what in which order. With a holder the silent have their places in it too."""
    archives = _ARCHIVES[:count]
    for behaviours in product(range(len(BEHAVIOURS)), repeat=count):
        events = [
            Event(archive, reply(archive, hop, BEHAVIOURS[number]))
            for archive, number in zip(archives, behaviours, strict=True)
        ]
        silent = [event for event in events if event.reply is None]
        if not holder:
            speaking = [event for event in events if event.reply is not None]
            yield from ((*order, *silent) for order in permutations(speaking))
        else:
            for order in permutations(events):
                yield order
                yield from ((*order[:at], Event(None), *order[at:]) for at in range(count))


def scenarios(count: int) -> Iterator[Scenario]:
    """All scenarios of so many Archives, up to the end of the first round."""
    question = Question(rep(0), _STEPS)
    for original, hardened, holder in product((False, True), (True, False), (False, True)):
        if not holder or hardened:
            holders = {rep(hop): _ARCHIVES[0].name for hop in range(3)} if holder else {}
            for scene in scenes(count, 0, holder=holder):
                if not (original and any(event.archive is None for event in scene)):
                    yield Scenario(
                        question, Reader((), original, hardened), _ARCHIVES[:count], [scene], holders
                    )


def second(scenario: Scenario, chance: random.Random) -> Iterator[Scenario]:
    """The same scenario with second rounds."""
    count = len(scenario.archives)
    if count <= 2:
        rounds: Sequence[Scene] = _second_scenes(count)
    else:
        order = chance.sample(scenario.archives, count)
        rounds = [
            tuple(
                Event(archive, reply(archive, 1, BEHAVIOURS[(first + 3 * place) % len(BEHAVIOURS)]))
                for place, archive in enumerate(order)
            )
            for first in range(len(BEHAVIOURS))
        ]
    for scene in rounds:
        yield Scenario(
            scenario.question, scenario.reader, scenario.archives, [*scenario.scenes, scene], scenario.holders
        )


@lru_cache(maxsize=4)
def _second_scenes(count: int) -> Sequence[Scene]:
    return tuple(scenes(count, 1, holder=False))


def prove(scale: Scale, seed: int) -> Report:
    """All scenarios of one to three Archives (short: of three a twelfth); of four in the full form."""
    report = Report(NAME, HOLDS)
    chance = random.Random(seed)
    for count in range(1, scale.pick(4, 4, 5)):
        share = scale.pick(12, 1, 1) if count == 3 else 1
        for scenario in scenarios(count):
            if share == 1 or chance.randrange(share) == 0:
                try_all(scenario, report, chance)
    return report


def try_all(
    scenario: Scenario, report: Report, chance: random.Random, machine: type[Resolution] = Resolution
) -> None:
    """Run a scenario, and if it goes on after the first round, all that may follow."""
    ending = attempt(scenario, report, machine)
    if ending is not None and ending.rounds > 1:
        for longer in second(scenario, chance):
            attempt(longer, report, machine)


def attempt(scenario: Scenario, report: Report, machine: type[Resolution] = Resolution) -> Ending | None:
    """Run a scenario once; a violation is reported with its text."""
    report.count("stories")
    try:
        return perform(scenario, machine)
    except Broken as fault:
        report.violate(f"{fault}\n{scenario.text()}")
    return None
