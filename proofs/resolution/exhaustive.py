"""Every story of a few Archives: each behaviour, each order of arrival, the deadline and the grace at each place.

Six behaviours and silence, whether an Archive hangs or comes after the deadline. A reader wants the last edition of an
item, demands the original or takes copies, under either policy, with and without a known holder. Where a next edition
is followed, a second round is played: with every behaviour for two Archives, for more with all of them in turn.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import permutations, product
from typing import TYPE_CHECKING

from ibi.resolver.resolution import Resolution
from proofs.minting.report import Report, Scale
from proofs.resolution.cast import Archive, Said, rep
from proofs.resolution.oracle import Question, Reader
from proofs.resolution.playing import Event, Story, perform
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
def said(archive: Archive, hop: int, behaviour: str) -> Said | None:
    """What an Archive that behaves so says in a round."""
    about = {
        "ibi": f"rep {rep(hop)}", "ibi.archiveservice": f"rep {archive.name}", "urlkey": f"100000000{archive.number}",
    }  # fmt: skip
    shown = {"url.lastedition": archive.url(f"item{hop}"), "contenttype.lastedition": "Data"}
    own = {"ibi.lastedition": f"rep {rep(hop)}"}
    return {
        "empty": Said({}),
        "original": Said({**about, **own, **shown, "state.lastedition": "Original"}),
        "copy": Said({**about, **own, **shown, "state.lastedition": "Copy"}),
        "deleted": Said({**about, "state": "Deleted", "timestamp": "2021-01-01T00:00:00Z"}),
        "next edition": Said({**about, "ibi.nextedition": f"rep {rep(hop + 1)}"}),
        "foreign": Said({**about, **shown, "ibi": f"rep {rep(50)}", "state.lastedition": "Original"}),
    }.get(behaviour)


def scenes(count: int, hop: int, *, holder: bool) -> Iterator[Scene]:
    """All scenes of a round: who says what in which order. With a holder the silent have their places in it too."""
    archives = _ARCHIVES[:count]
    for behaviours in product(range(len(BEHAVIOURS)), repeat=count):
        events = [
            Event(archive, said(archive, hop, BEHAVIOURS[number]))
            for archive, number in zip(archives, behaviours, strict=True)
        ]
        silent = [event for event in events if event.said is None]
        if not holder:
            speaking = [event for event in events if event.said is not None]
            yield from ((*order, *silent) for order in permutations(speaking))
        else:
            for order in permutations(events):
                yield order
                yield from ((*order[:at], Event(None), *order[at:]) for at in range(count))


def stories(count: int) -> Iterator[Story]:
    """All stories of so many Archives, up to the end of the first round."""
    question = Question(rep(0), _STEPS)
    for original, hardened, holder in product((False, True), (True, False), (False, True)):
        if not holder or hardened:
            holders = {rep(hop): _ARCHIVES[0].name for hop in range(3)} if holder else {}
            for scene in scenes(count, 0, holder=holder):
                if not (original and any(event.archive is None for event in scene)):
                    yield Story(question, Reader((), original, hardened), _ARCHIVES[:count], [scene], holders)


def second(story: Story, chance: random.Random) -> Iterator[Story]:
    """The same story with second rounds."""
    count = len(story.archives)
    if count <= 2:
        rounds: Sequence[Scene] = _second_scenes(count)
    else:
        order = chance.sample(story.archives, count)
        rounds = [
            tuple(
                Event(archive, said(archive, 1, BEHAVIOURS[(first + 3 * place) % len(BEHAVIOURS)]))
                for place, archive in enumerate(order)
            )
            for first in range(len(BEHAVIOURS))
        ]
    for scene in rounds:
        yield Story(story.question, story.reader, story.archives, [*story.scenes, scene], story.holders)


@lru_cache(maxsize=4)
def _second_scenes(count: int) -> Sequence[Scene]:
    return tuple(scenes(count, 1, holder=False))


def prove(scale: Scale, seed: int) -> Report:
    """All stories of one to three Archives (short: of three a sixth); of four in the full form."""
    report = Report(NAME, HOLDS)
    chance = random.Random(seed)
    for count in range(1, scale.pick(4, 4, 5)):
        share = scale.pick(6, 1, 1) if count == 3 else 1
        for story in stories(count):
            if share == 1 or chance.randrange(share) == 0:
                try_all(story, report, chance)
    return report


def try_all(
    story: Story, report: Report, chance: random.Random, machine: type[Resolution] = Resolution
) -> None:
    """Play a story, and if it goes on after the first round, all that may follow."""
    ending = attempt(story, report, machine)
    if ending is not None and ending.rounds > 1:
        for longer in second(story, chance):
            attempt(longer, report, machine)


def attempt(story: Story, report: Report, machine: type[Resolution] = Resolution) -> Ending | None:
    """Play a story once; what is broken is reported with the play."""
    report.count("stories")
    try:
        return perform(story, machine)
    except Broken as fault:
        report.violate(f"{fault}\n{story.text()}")
    return None
