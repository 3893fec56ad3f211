"""The rounds of one resolution, driven over the network: the machine decides, this only asks and listens (RES-04).

All rounds share one deadline, the same in both modes, so that no Archive can tell them apart (note 8).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from operator import is_
from typing import TYPE_CHECKING, Final

from ibi.resolver.alerts import Alert, Kind, Round
from ibi.resolver.fanout import FanOut, Times
from ibi.resolver.inquiry import NOTHING, Heard
from ibi.resolver.knowledge import Places
from ibi.resolver.learning import Told, learn
from ibi.resolver.resolution import AskAgain, Redirect, Resolution

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ibi.protocol.language import LanguagePreference
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.explanation import Explanation
    from ibi.resolver.inquiry import Silent
    from ibi.resolver.knowledge import Knowledge
    from ibi.resolver.location_index import Place
    from ibi.resolver.memory_rows import Mark
    from ibi.resolver.plan import Filters, Members
    from ibi.resolver.policy import Policy
    from ibi.resolver.questions import Questions
    from ibi.resolver.registry import IncludedArchive

MOST_QUESTIONS: Final = 1_000
"""Questions of one resolution, where that is enough for a few rounds of everybody (docs/threats.md)."""

_ROUNDS_AT_LEAST: Final = 4


@dataclass(frozen=True, slots=True)
class Reader:
    """What a resolution must know of the one who asks."""

    addresses: tuple[str, ...]
    preference: LanguagePreference
    origin: str = ""
    """What limits count against."""


class Rounds:
    """How rounds are held: whom to ask, how long, and how answers are judged.

    `archives` gives the included Archives, the same tuple while nothing changes; `filters` what they publish about
    what they hold.
    """

    def __init__(
        self,
        questions: Questions,
        archives: Callable[[], Sequence[IncludedArchive]],
        policy: Policy,
        times: Times,
        knowledge: Knowledge,
        filters: Filters | None = None,
    ) -> None:
        self._questions = questions
        self._archives = archives
        self._policy = policy
        self._times = times
        self._knowledge = knowledge
        self._filters = filters
        self._looked = False
        self._seen: Sequence[IncludedArchive] | None = None
        self._members: Members[IncludedArchive] = policy.members(())

    async def resolve(
        self, url: PersistentURL, persistent: str, reader: Reader, story: Explanation
    ) -> Redirect | Alert:
        """Resolve a persistent URL, whose whole text is `persistent`, and write down in `story` how it went."""
        clock = asyncio.get_running_loop().time
        begun, asked = clock(), 0
        members, policy = self._who(), self._policy
        places = Places(self._knowledge.index if policy.remembers else None)
        machine = Resolution(
            url,
            persistent,
            reader.addresses,
            reader.preference,
            policy,
            lambda name: policy.holder(self._included(places.of(name).original)),
        )
        remembers = policy.remembers and not url.original_required
        if remembers and self._knowledge.nobody_has(machine.request, members.mark):
            story.ask(machine.request, "memory").recalled = members.regular
            asked_then = Round(len(members.regular))
            story.alert = Alert(Kind.NOT_FOUND, persistent, str(url.ibi), asked_then)
            return story.alert
        since = self._knowledge.memory.mark() if remembers else None
        decision: Redirect | Alert | AskAgain = AskAgain(machine.request)
        while isinstance(decision, AskAgain):
            left = begun + self._times.overall - clock()
            size = len(self._who().regular)  # this round, and another one
            may_go_on = asked + 2 * size <= max(MOST_QUESTIONS, _ROUNDS_AT_LEAST * size)
            place = places.of(machine.request.ibi.canonical)
            decision = await self._round(
                machine, story, place, since, left, reader.origin, may_go_on=may_go_on
            )
            asked += len(story.rounds[-1].asked)
            places.forget()  # something may have been learned
        story.milliseconds = _since(begun)
        if isinstance(decision, Alert):
            if since is not None and machine.rounds == 1 and members is self._who():
                self._knowledge.absent(decision, machine.request, members.mark, self._times.negative, since)
            return self._alert(decision, url, story)
        story.redirected(decision)
        return decision

    def _alert(self, alert: Alert, url: PersistentURL, story: Explanation) -> Alert:
        """The alert that a resolution comes to; of two originals it names the one that was seen first."""
        self._knowledge.told(alert, url.ibi)
        if alert.kind is Kind.SUSPECT_ORIGINALS:
            hints = self._knowledge.index if self._policy.remembers else None
            original = hints.of(url.ibi.canonical).original if hints is not None else None
            alert = replace(alert, first=self._included(original) or "")
        story.alert = alert
        return alert

    async def _round(
        self,
        machine: Resolution,
        story: Explanation,
        place: Place,
        since: Mark | None,
        left: float,
        origin: str,
        *,
        may_go_on: bool,
    ) -> Redirect | AskAgain | Alert:
        """One round, and what it comes to.

        `since`: what `memory.mark` said before anybody was asked; None where nothing is used again.
        """
        request, policy = machine.request, self._policy
        hinted = [service for service in dict.fromkeys((place.original, place.hint)) if service]
        required = machine.original_required
        plan = policy.plan(self._who(), request, hinted, self._filters, original_required=required)
        told = Told(request, story.ask(request, plan.why), place)
        fan_out = FanOut(
            self._questions,
            plan,
            self._who,
            request,
            self._times,
            left=left,
            origin=origin,
            since=since,
        )
        fan_out.patient = required and not story.in_full  # an explanation tells when each has spoken
        decision: Redirect | AskAgain | Alert | None = await self._listen(machine, fan_out, told, story)
        fan_out.leave()
        told.round.asked = _spelled(fan_out.asked, self._who())
        if decision is None and fan_out.refused:
            decision = self._older(machine, self._who().regular, story) or Alert(Kind.BUSY, story.url)
        if decision is None:
            decision = machine.close_round(may_go_on=may_go_on)
        if isinstance(decision, Alert) and decision.kind is Kind.INCOMPLETE:
            decision = self._older(machine, told.silent, story) or decision
        if policy.remembers:
            learn(self._knowledge, policy, self._members.by_service, told, decision)
        return decision

    async def _listen(
        self, machine: Resolution, fan_out: FanOut[IncludedArchive], told: Told, story: Explanation
    ) -> Redirect | None:
        """Hear the answers of a round until one decides."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        never = float("inf")
        older_at = begun + self._times.stale_after if self._policy.remembers else never
        take_at = never
        while not fan_out.over:
            wake = min(older_at, take_at)
            outcomes = await fan_out.next(None if wake == never else wake)
            if outcomes:
                decision = self._hear(machine, outcomes, told, story, _since(begun))
            elif clock() >= take_at:
                decision = machine.take()
            elif clock() >= older_at:
                older_at = never
                decision = self._older(machine, [*told.silent, *fan_out.unheard], story)
            else:
                continue
            if decision is not None:
                return decision
            if machine.candidate is None:
                fan_out.widen()
            elif take_at == never:
                take_at = clock() + self._times.grace
        # nobody is told that it is nowhere before these were heard
        async for outcome in fan_out.aside(clock() if told.knows else begun + self._times.stale_after):
            decision = self._hear(machine, [outcome], told, story, _since(begun))
            if decision is not None:
                return decision
        return None

    def _hear(
        self,
        machine: Resolution,
        outcomes: Sequence[Heard[IncludedArchive] | Silent[IncludedArchive]],
        told: Told,
        story: Explanation,
        milliseconds: int,
    ) -> Redirect | None:
        """Hear what has come, one after the other, until something decides."""
        heard, said, hear = told.heard.append, told.round.said.append, machine.hear
        for outcome in outcomes:
            archive = outcome.archive
            if outcome.__class__ is Heard and outcome.url_list is NOTHING and not outcome.again:
                heard(outcome)
                said((archive, milliseconds))
                decision = hear(archive, NOTHING)
            elif not isinstance(outcome, Heard):
                told.silent.append(archive)
                story.silent(str(archive.service_ibi), archive.address, outcome.why, milliseconds)
                decision = machine.silent(archive, outcome.why)
            else:
                heard(outcome)
                answer, again = outcome.url_list, outcome.again
                if answer.pairs or again:
                    told.knows = told.knows or bool(answer)
                    story.hear(str(archive.service_ibi), archive.address, answer, milliseconds, again=again)
                else:
                    said((archive, milliseconds))
                decision = hear(archive, answer, again=again)
                if answer.pairs and machine.doubt is not None:
                    story.disbelieve(machine.doubt)
            if decision is not None:
                return decision
        return None

    def _older(
        self, machine: Resolution, silent: Sequence[IncludedArchive], story: Explanation
    ) -> Redirect | None:
        """What a silent Archive said before, if it allowed to use that and nothing better is known (RFC 8767)."""
        if not self._policy.remembers or machine.original_required:
            return None
        for archive, answer in self._questions.older(silent, machine.request):
            decision = machine.hear_again(archive, answer)
            if decision is not None:
                story.hear(str(archive.service_ibi), archive.address, decision.answer, 0, again=True)
                return decision
        return None

    # What is known beforehand, and afterwards

    def _who(self) -> Members[IncludedArchive]:
        """Who is included now; it is looked up once in a turn of the loop, however many readers have theirs in it."""
        if self._looked:
            return self._members
        self._looked = True
        asyncio.get_running_loop().call_soon(self._look_again)
        archives = self._archives()
        if archives is not self._seen:
            self._seen, self._members = archives, self._policy.members(archives)
            self._questions.keep_to(self._members.by_service)
        return self._members

    def _look_again(self) -> None:
        self._looked = False

    def _included(self, service: str | None) -> str | None:
        """An Archive that is known to hold the original of an item, if it is included."""
        return service if service in self._members.by_service else None


def _spelled(asked: Sequence[IncludedArchive], members: Members[IncludedArchive]) -> tuple[str, ...]:
    if len(asked) == len(members.regular) and all(map(is_, asked, members.regular)):  # as where all are asked
        return members.spelled
    return tuple([str(archive.service_ibi) for archive in asked])


def _since(begun: float) -> int:
    """Whole milliseconds since a time of the loop."""
    return round((asyncio.get_running_loop().time() - begun) * 1000)
