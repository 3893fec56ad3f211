"""A story played to the machine that decides, event by event, against the oracle; without time, without a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import IbiError, PeerSilent
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.policy import Policy
from ibi.resolver.resolution import AskAgain, Resolution
from proofs.resolution.cast import READER, RESOLVER, Said
from proofs.resolution.watching import Broken, verdict_of, watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.resolver.alerts import Alert
    from ibi.resolver.resolution import Redirect as Sent
    from proofs.resolution.cast import Archive
    from proofs.resolution.oracle import Question, Reader, Verdict

NOTHING = Said({})
_LATE = PeerSilent("no answer in time")


class Event(NamedTuple):
    """Somebody says something, or nothing; where nobody is named, the known holder is awaited no longer."""

    archive: Archive | None
    said: Said | None = None


@dataclass
class Story:
    """All that happens: `scenes` are the rounds, after the last of which everybody answers that they know nothing."""

    question: Question
    reader: Reader
    archives: Sequence[Archive]
    scenes: list[Sequence[Event]]
    holders: Mapping[str, str] = field(default_factory=dict)

    def scene(self, number: int, _asked: Question) -> Sequence[Event]:
        """What happens in a round, when all are asked this."""
        if number < len(self.scenes):
            return self.scenes[number]
        return [Event(archive, NOTHING) for archive in self.archives]

    @property
    def url(self) -> PersistentURL:
        """What the reader follows."""
        demand = "ibiurl.requireditemstatus=Original" if self.reader.original else ""
        return PersistentURL.parse(f"/{self.question.name}{''.join(self.question.steps)}", demand)

    def text(self) -> str:
        """The story as a small play."""
        policy = "hardened" if self.reader.hardened else "strict"
        lines = [f"A reader of {self.reader.languages} follows {self.url.text} ({policy})."]
        lines += [f"  {name} is known to have the original of {item}." for item, name in self.holders.items()]
        for number, scene in enumerate(self.scenes, 1):
            lines.append(f"Round {number}.")
            for archive, said in scene:
                who = archive.name if archive else "The known holder"
                what = "is awaited no longer" if archive is None else "says nothing"
                lines.append(f"  {who}: {what if said is None else said.body.decode('latin-1')!r}")
        return "\n".join(lines)


def perform(story: Story, machine: type[Resolution] = Resolution) -> Ending:
    """Play a story to its end. Raises Broken."""
    reader = story.reader
    playing = watched(machine)(
        story.url,
        f"{RESOLVER}{story.url.text}",
        READER,
        LanguagePreference(tuple(language.lower() for language in reader.languages)),
        Policy(strict=not reader.hardened),
        lambda name: story.holders.get(name.lower()) if reader.hardened else None,
    )
    for number in range(99):
        outcome = _round(story.scene(number, playing.watch.ledger.question), playing)
        if not isinstance(outcome, AskAgain):
            return Ending(verdict_of(outcome), outcome, number + 1)
    raise Broken("the rounds have no end")


def _round(events: Sequence[Event], playing: Resolution) -> Sent | AskAgain | Alert:
    decided: Sent | None = None
    for archive, said in events:
        if archive is None:
            if playing.candidate is not None:  # otherwise there is nothing for which anybody would be awaited
                decided = playing.take()
        elif said is None or isinstance(said.answer, IbiError):
            decided = playing.silent(archive, _LATE)
        else:
            decided = playing.hear(archive, said.answer)
        if decided is not None:
            return decided
    return playing.close_round()


class Ending(NamedTuple):
    """How a story ended, and after how many rounds."""

    verdict: Verdict
    outcome: Sent | Alert
    rounds: int
