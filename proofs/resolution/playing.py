"""A scenario run by the machine, event by event, and compared with the oracle; without time, without a network."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ibi.errors import IbiError, PeerSilent
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import UrlRequest
from ibi.protocol.persistent_url import PersistentURL
from ibi.resolver.model.archive import ArchiveResponse
from ibi.resolver.resolve.policy import Policy
from ibi.resolver.resolve.resolution import Resolution
from proofs.resolution.cast import READER, RESOLVER, ScriptedReply
from proofs.resolution.watching import Broken, verdict_of, watched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ibi.resolver.model.alert import Alert
    from ibi.resolver.resolve.resolution import Redirect as Sent
    from proofs.resolution.cast import Archive
    from proofs.resolution.oracle import Question, Reader, Verdict

NOTHING = ScriptedReply({})
_LATE = PeerSilent("no answer in time")


class Event(NamedTuple):
    """An Archive replies, or is silent; without an Archive, the known holder is awaited no longer."""

    archive: Archive | None
    reply: ScriptedReply | None = None


@dataclass
class Scenario:
    """All that happens: `scenes` are the rounds, after the last of which no Archive knows anything."""

    question: Question
    reader: Reader
    archives: Sequence[Archive]
    scenes: list[Sequence[Event]]
    holders: Mapping[str, str] = field(default_factory=dict)

    def scene(self, number: int, _question: Question) -> Sequence[Event]:
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
        """Return the scenario as text."""
        policy = "hardened" if self.reader.hardened else "strict"
        lines = [f"A reader of {self.reader.languages} follows {self.url.text} ({policy})."]
        lines += [f"  {name} is known to have the original of {item}." for item, name in self.holders.items()]
        for number, scene in enumerate(self.scenes, 1):
            lines.append(f"Round {number}.")
            for archive, reply in scene:
                who = archive.name if archive else "The known holder"
                what = "is awaited no longer" if archive is None else "says nothing"
                lines.append(f"  {who}: {what if reply is None else reply.body.decode('latin-1')!r}")
        return "\n".join(lines)


def perform(scenario: Scenario, machine: type[Resolution] = Resolution) -> Ending:
    """Run a scenario to its end. Raises Broken."""
    reader = scenario.reader
    playing = watched(machine)(
        scenario.url,
        f"{RESOLVER}{scenario.url.text}",
        READER,
        LanguagePreference(tuple(language.lower() for language in reader.languages)),
        Policy(strict=not reader.hardened),
    )
    for number in range(99):
        playing.expect(scenario.holders.get(playing.query.ibi.canonical))
        outcome = _round(scenario.scene(number, playing.watch.oracle.question), playing)
        if not isinstance(outcome, UrlRequest):
            return Ending(verdict_of(outcome), outcome, number + 1)
    raise Broken("the rounds have no end")


def _round(events: Sequence[Event], playing: Resolution) -> Sent | UrlRequest | Alert:
    decided: Sent | None = None
    for archive, reply in events:
        if archive is None:
            if playing.candidate is not None:  # otherwise there is nothing that could be taken
                decided = playing.take_candidate()
        elif reply is None or isinstance(reply.answer, IbiError):
            decided = playing.hear(ArchiveResponse(archive.known, None, _LATE))
        else:
            decided = playing.hear(ArchiveResponse(archive.known, reply.answer))
        if decided is not None:
            return decided
    return playing.close_round()


class Ending(NamedTuple):
    """How a scenario ended, and after how many rounds."""

    verdict: Verdict
    outcome: Sent | Alert
    rounds: int
