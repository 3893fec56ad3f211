"""Resolves persistent URLs: asks Archives in rounds until a `Resolution` decides.

    resolve     begins a `Resolution`, runs one `_round` after the other until it has decided, returns an `Outcome`
    _round      runs one `Round`: the next three, in this order
    _plan       chooses the Archives that are asked first (`Policy.plan`)
    _hear       passes each response of the round to the `Resolution`, until one decides
    _close      has the `Resolution` decide at the end of the round, if no response has decided
    _complete   if the outcome is an alert: records it, and adds what earlier resolutions have shown

Each round is recorded in the `Trace`, and what it has shown is learned (`Knowledge.learn`).

    Outcome    what was decided, and what limits, metrics and caches need to know of it
    Trace      what happened: each round with its responses. Only pages read it (alerts, explanations).

All rounds of a resolution share one deadline. It is the same in both policies, strict and hardened (`policy`), so no
Archive can recognise the policy by it (note 8: what Archives must not notice).

See R15 chapter 8; RES-04: all are asked at once.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct, field

from ibi.errors import QueryNotSent
from ibi.identifier.forms import parse_ibi
from ibi.identifier.typos import near_names
from ibi.protocol import vocabulary
from ibi.protocol.language import LanguagePreference
from ibi.protocol.messages import URL_LENGTH_SURE_TO_FIT, UrlRequest, fit_into_message
from ibi.protocol.url_list import UrlList
from ibi.protocol.vocabulary import ItemState
from ibi.resolver.cache.recent import put_newest
from ibi.resolver.cache.rows import question
from ibi.resolver.model.alert import Alert, AlertKind, Coverage
from ibi.resolver.model.archive import NOT_KNOWN, ArchiveResponse, Members, moment_text
from ibi.resolver.resolve.holder_search import HolderSearch
from ibi.resolver.resolve.learning import NO_HINT
from ibi.resolver.resolve.resolution import Redirect, Resolution
from ibi.resolver.resolve.round import Round, Terms, Times
from ibi.runtime.tracing import TRACEPARENT, child_headers, current_span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ibi.http.request import Request
    from ibi.identifier.forms import Name
    from ibi.protocol.persistent_url import PersistentURL
    from ibi.resolver.cache.filters import HoldingsFilters
    from ibi.resolver.cache.hints import HolderHint
    from ibi.resolver.model.archive import Archive, AwayArchive
    from ibi.resolver.resolve.learning import Knowledge
    from ibi.resolver.resolve.policy import Plan, Policy, Why
    from ibi.resolver.resolve.queries import Queries
    from ibi.resolver.resolve.resolution import Decision, UpstreamRedirect

MOST_QUERIES: Final = 1_000
"""Archives that one resolution queries at most, each in each round; or four rounds of all Archives, where that is more
(docs/reference/threats.md). Those count, too, for which a cached answer or an open circuit responds."""

_ROUNDS_AT_LEAST: Final = 4  # rounds of all Archives that one resolution may always have

MOST_WAIT: Final = 3_600
"""Seconds of `Retry-After` at most, where an Archive has said when it expects to be back."""

NO_PREFERENCE: Final = LanguagePreference()
"""The preference of a reader who prefers no language; used, too, where no language matters."""

MOST_NEAR: Final = 4
"""Items that an alert proposes because their names differ by one typing error from the requested one."""
MOST_NEAR_KEPT: Final = 1_000
"""Requested names for which these proposals are cached."""

LOOK_EVERY: Final = 0.5
"""Seconds after which the included Archives are read again although their generation has not changed."""

Guess = Literal["none", "right", "wrong"]
"""Whether the first response of a likely holder knew the item; "none": there was no likely holder."""


_SUMMARIES: Final[dict[ItemState | None, UrlList]] = {
    None: UrlList({vocabulary.TIMESTAMP: ""}),  # of an answer with pairs, but without a state
    **{state: UrlList({vocabulary.STATE: state}) for state in ItemState},
}


class RoundTrace(Struct, eq=False):
    """The trace of one round: its query, the Archives that were asked, and the responses in the order they came.

    `why`: why some Archives were asked first. `began`: a time of the event loop. `queried`: the Archives that the round
    has turned to, also those that no query was sent to, as a cached answer, a query in flight or an open circuit
    responded at once. `negatives`: the Archives whose earlier answers the negative cache has repeated, else empty.
    """

    query: UrlRequest
    why: Why
    began: float
    negatives: Sequence[Archive] = ()
    queried: Sequence[Archive] = ()
    responses: list[ArchiveResponse] = field(default_factory=list)

    def forget_answers(self) -> None:
        """Reduce each answer to its state: answers are large, and few are shown in full (T10: huge answers)."""
        for response in self.responses:
            answer = response.answer
            if answer is not None and answer is not NOT_KNOWN:
                response.answer = _SUMMARIES[answer.state]


class Trace(Struct, eq=False):
    """The record of how one resolution went.

    `url`: the persistent URL as a whole (note 16: the whole persistent URL). `in_full`: whether a page will show the
    whole answers of Archives. `milliseconds`: how long the resolution took, without an upstream resolver.
    """

    url: str
    policy: Policy
    original_required: bool
    in_full: bool = False
    rounds: list[RoundTrace] = field(default_factory=list)
    milliseconds: int = 0


class Outcome(Struct, eq=False):
    """The result of a resolution.

    `decision`: a redirect or an alert. `trace`: what happened, for pages. `rounds`: all of its rounds. `cost`: how
    many queries were sent, or joined in flight; 0 if only cached answers and open circuits responded. `guess`: whether
    the Archives that were asked first knew the item. `began`: when it began, in POSIX seconds; `archives`: the Archives
    that were included then.
    """

    decision: Redirect | UpstreamRedirect | Alert
    trace: Trace
    rounds: Sequence[Round] = ()
    cost: int = 0
    guess: Guess = "none"
    began: float = 0.0
    archives: Sequence[Archive] | None = None

    @property
    def cached(self) -> Literal["", "fresh", "stale", "negative"]:
        """The kind of cached answer on which the decision rests, "" if on none."""
        if isinstance(self.decision, Redirect):
            return "stale" if self.decision.stale else "fresh" if self.decision.reused else ""
        return "" if self.rounds else "negative"


class Resolver:
    """Resolves persistent URLs in one process; belongs to one event loop.

    `archives` returns the included Archives, as the same tuple while nothing changes. `away` returns the
    excluded Archives that may come back, and stay the holders of their originals until then. `filters`: the
    holdings filters that Archives publish. `generation`: numbers in shared memory, of which the first changes
    whenever the Archives do; without it, the Archives are looked up in each turn of the loop.
    """

    def __init__(
        self,
        queries: Queries,
        archives: Callable[[], Sequence[Archive]],
        policy: Policy,
        times: Times,
        knowledge: Knowledge,
        filters: HoldingsFilters | None = None,
        *,
        generation: Sequence[int] | None = None,
        away: Callable[[], Mapping[str, AwayArchive]] = dict,
    ) -> None:
        self._queries = queries
        self._archives = archives
        self._policy = policy
        self._times = times
        self._knowledge = knowledge
        self._filters = filters
        self._included: Sequence[Archive] | None = None
        self._known_members = Members.of((), probation=not policy.strict)
        self._away = away
        self._generation = generation
        self._generation_read = -1
        self._is_current = False
        self._near: dict[str, tuple[str, ...]] = {}
        self._holder_search = HolderSearch(queries, times, policy, knowledge, self._members)

    async def resolve(
        self, url: PersistentURL, persistent: str, request: Request, client: str, *, in_full: bool = False
    ) -> Outcome:
        """Resolve a persistent URL, whose whole text is `persistent`, for the reader of a request.

        `client`: what limits count against. `in_full`: keep the whole answer of every Archive in the trace. See note
        16: the whole persistent URL.
        """
        clock, policy, knowledge = asyncio.get_running_loop().time, self._policy, self._knowledge
        members = self._members()
        archives, began, now = self._included, clock(), knowledge.now()
        # Taken before any Archive is asked: what is forgotten later than this is neither cached nor joined.
        snapshot = knowledge.cache.snapshot()
        reuse = policy.reuses and not url.original_required
        trace = Trace(persistent, policy, original_required=url.original_required, in_full=in_full)
        # Languages are parsed only where the URL leaves a choice: in a relation.
        languages = request.header(b"accept-language") if url.relation.steps else ""
        preference = LanguagePreference.parse(languages) if languages else NO_PREFERENCE
        resolution = Resolution(url, persistent, request.addresses, preference, policy)
        if reuse and knowledge.is_not_known(resolution.query, members.version):
            return self._repeat_not_known(url, trace, resolution.query, members)
        parent = request.headers.get(TRACEPARENT)  # the queries belong to the trace of the request
        terms = Terms(
            deadline=began + self._times.overall,
            snapshot=snapshot,
            reuse=reuse,
            # A required original is decided by all answers, so they are read together.
            wait_for_all=url.original_required,
            client=client,
            headers=child_headers(parent.decode("latin-1")) if parent else (),
            span=current_span.get(),
        )
        decision: Decision = resolution.query
        rounds: list[Round] = []
        while isinstance(decision, UrlRequest):
            decision = await self._round(resolution, trace, terms, rounds)
        trace.milliseconds = round((clock() - began) * 1000)
        if isinstance(decision, Alert):
            decision = await self._complete(decision, resolution, trace, terms, members)
        first, cost = rounds[0], sum([each.sent for each in rounds])
        guess: Guess = "none" if first.why == "everybody" else "right" if first.hit else "wrong"
        return Outcome(decision, trace, rounds, cost, guess, now, archives)

    def _repeat_not_known(
        self, url: PersistentURL, trace: Trace, query: UrlRequest, members: Members
    ) -> Outcome:
        """Return the outcome that no Archive has the item: all said so a moment ago, so none is asked."""
        began = asyncio.get_running_loop().time()
        trace.rounds.append(RoundTrace(query, "memory", began, members.regular))
        near = self._near.get(url.ibi.canonical, ())
        coverage = Coverage(len(members.regular))
        return Outcome(Alert(AlertKind.NOT_FOUND, trace.url, str(url.ibi), coverage, near=near), trace)

    async def _round(
        self, resolution: Resolution, trace: Trace, terms: Terms, rounds: list[Round]
    ) -> Decision:
        """Run one more round and add it to `rounds`. Return a redirect, an alert, or the query of the next round."""
        if trace.rounds and not trace.in_full:
            trace.rounds[-1].forget_answers()
        query, members, policy, knowledge = resolution.query, self._members(), self._policy, self._knowledge
        hint = knowledge.hints.of(query.ibi.canonical) if policy.reuses else NO_HINT
        plan = self._plan(resolution, hint)
        round_ = Round(self._queries, self._times, self._members, plan, query, terms)
        round_trace = RoundTrace(query, plan.why, round_.began)
        rounds.append(round_)
        trace.rounds.append(round_trace)
        if members.away and policy.reuses:
            self._count_absent(resolution, round_trace, hint)
        decision: Decision | None = await self._hear(resolution, round_, round_trace)
        round_trace.queried = tuple(round_.queried)
        for archive in resolution.disbelieved:
            self._queries.disbelieve(archive, question(query))
        if decision is None:
            decision = self._close(resolution, rounds, round_trace, terms)
        knowledge.learn(query, hint, round_trace.responses, decision, policy, members)
        if isinstance(decision, Redirect):
            if policy.reuses and decision.found.entry.state is not ItemState.ORIGINAL:
                self._search_original(decision, hint, rounds, round_trace, terms)
            if len(decision.url) + len(trace.url) > URL_LENGTH_SURE_TO_FIT:
                decision = _if_acknowledged(decision, trace.url)
        return decision

    def _search_original(
        self, copy: Redirect, hint: HolderHint, rounds: list[Round], trace: RoundTrace, terms: Terms
    ) -> None:
        """Search in the background for the original of a copy to which the reader is sent, if it may be elsewhere.

        It may be if its holder is not known; and if the known holder says "Copy" itself: then it may have handed the
        original over.
        """
        says_copy = copy.archive.service == hint.original and copy.answer.state is ItemState.COPY
        if hint.original is None or says_copy:
            self._holder_search.begin(copy, rounds, trace.responses, terms)

    def _plan(self, resolution: Resolution, hint: HolderHint) -> Plan:
        """Choose the Archives that the next round asks first, and tell the resolution which one to await."""
        query, members = resolution.query, self._members()
        # The Archives that have the prefix of the item; they matter only while no holder of its original is sure.
        homes: Sequence[Archive] = ()
        if hint == NO_HINT or hint.early or hint.is_disputed:
            homes = members.by_prefix.get(query.ibi.prefix.lower(), ())
        holder = hint.original if hint.original in members.by_service else None
        resolution.expect(holder, homes[0].service if len(homes) == 1 else None)
        filters = self._filters
        may_hold = filters.may_hold if filters is not None and filters.published else None
        hinted = (hint.original, hint.likely)
        required = resolution.original_required
        return self._policy.plan(members, query, hinted, may_hold, homes, original_required=required)

    def _close(
        self, resolution: Resolution, rounds: list[Round], trace: RoundTrace, terms: Terms
    ) -> Decision:
        """Decide at the end of the last of these rounds, in which no response has decided."""
        round_, regular = rounds[-1], self._members().regular
        decision: Decision = Alert(AlertKind.BUSY, resolution.persistent)
        silent: Sequence[Archive] = regular
        if not round_.refused:
            queried, next_round = sum([len(each.queried) for each in rounds]), len(regular)
            may_go_on = queried + next_round <= max(MOST_QUERIES, _ROUNDS_AT_LEAST * len(regular))
            in_time = asyncio.get_running_loop().time() < terms.deadline
            decision, silent = resolution.close_round(may_go_on=may_go_on, in_time=in_time), round_.silent
        unsure = isinstance(decision, Alert) and decision.kind in {AlertKind.BUSY, AlertKind.INCOMPLETE}
        if unsure and terms.reuse:  # then an expired answer of a silent Archive is better than the alert
            decision = self._stale(resolution, silent, trace) or decision
        return decision

    def _count_absent(self, resolution: Resolution, trace: RoundTrace, hint: HolderHint) -> None:
        """Count as silent the Archives that may well hold the item, and are excluded for now.

        These are the Archives that hold it by a hint or a filter, and those whose service has its prefix, because an
        item may be younger than any filter. See T04: a rogue first answer.
        """
        now, canonical = self._knowledge.now(), trace.query.ibi.canonical
        away, filters = self._known_members.away, self._filters
        published: Sequence[str] = ()
        if filters is not None and any(service in away for service, _ in filters.published):
            published = filters.may_hold(canonical)
        prefix = trace.query.ibi.prefix.lower()
        homes = [each for each in away if away[each].archive.service_ibi.prefix.lower() == prefix]
        for service in dict.fromkeys((hint.original, hint.likely, *published, *homes)):
            each = away.get(service or "")
            if each is None:
                continue
            why, back_in = QueryNotSent("it is switched off for now"), None
            if each.back_at is not None and each.back_at > now:
                moment, back_in = moment_text(each.back_at), min(ceil(each.back_at - now), MOST_WAIT)
                why = QueryNotSent("it is switched off, and expects to be back at {moment}", moment=moment)
            response = ArchiveResponse(each.archive, None, why, trace.began)
            trace.responses.append(response)
            resolution.count_absent(response, back_in)

    async def _hear(self, resolution: Resolution, round_: Round, trace: RoundTrace) -> Redirect | None:
        """Pass the responses of a round to the resolution until one decides; return None if none does."""
        decision = None
        # Closed explicitly, because the event loop would make a task (2 us) to close an abandoned generator.
        try:
            async with aclosing(round_.responses()) as responses:
                async for response in responses:
                    decision = resolution.hear(response)
                    if decision is not None or response.source != "stale":
                        trace.responses.append(response)
                    if decision is not None:
                        break
                    if resolution.candidate is not None:
                        round_.hurry()
        finally:
            if round_.span is not None:
                round_.span.end(round_.outcome)
        if decision is None and resolution.candidate is not None:
            decision = resolution.take_candidate()  # the Archive that was awaited has had its time
        return decision

    def _stale(self, resolution: Resolution, silent: Sequence[Archive], trace: RoundTrace) -> Redirect | None:
        """Decide by an expired answer of a silent Archive, if one satisfies (RFC 8767)."""
        for response in self._queries.stale(silent, question(resolution.query)):
            decision = resolution.hear(response)
            if decision is not None:
                trace.responses.append(response)
                return decision
        return None

    async def _complete(
        self, alert: Alert, resolution: Resolution, trace: Trace, terms: Terms, members: Members
    ) -> Alert:
        """Complete an alert, the outcome of a resolution that began with these `members`.

        Put into the negative cache that no Archive has the item, if the alert says so and all have answered. Write the
        alert into the evidence. Return it with what earlier resolutions have shown (`_with_hints`).
        """
        last, url = trace.rounds[-1], resolution.url
        # An Archive whose circuit is open because it is not believed counts as one that does not know the item, but it
        # may be believed again at any moment. So its response is an error here, and nothing is cached.
        all_answered = len(last.queried) == len(members.by_service) and not any(
            each.error for each in last.responses
        )
        # The negative cache speaks of the Archives that are included now: they must be those that were asked.
        same_members = members is self._members()
        if terms.reuse and all_answered and same_members and resolution.rounds_closed == 1:
            seconds = self._times.negative
            self._knowledge.put_not_known(alert, last.query, members.version, seconds, terms.snapshot)
        return await self._with_hints(self._record(alert, url, last), url.ibi)

    def _record(self, alert: Alert, url: PersistentURL, trace: RoundTrace) -> Alert:
        """Write an alert into the evidence; if two Archives claim the original, add which of them showed it first."""
        self._knowledge.record(alert, url.ibi, trace.query, trace.responses, self._policy)
        if alert.kind is AlertKind.SUSPECT_ORIGINALS and self._policy.reuses:
            original = self._knowledge.hints.first_holder(url.ibi.canonical)
            return replace(alert, first_holder=original if original in self._members().by_service else "")
        return alert

    async def _with_hints(self, alert: Alert, name: Name) -> Alert:
        """Add to an alert what earlier resolutions have shown.

        If no Archive has the item: held items whose names differ from this one by a typing error. If two Archives claim
        the original: since when each of them does.
        """
        if alert.kind is AlertKind.NOT_FOUND and not alert.known and self._policy.reuses:
            return replace(alert, near=self._names_near(name))
        claims = self._knowledge.claims
        if alert.kind is not AlertKind.SUSPECT_ORIGINALS or claims is None:
            return alert
        found = await asyncio.to_thread(claims.of, name.canonical)
        if found is None:
            return alert
        since = [(each, found.get(parse_ibi(each).canonical, "")) for each in alert.archives]
        return replace(alert, claimed_since=tuple(since))

    def _names_near(self, name: Name) -> tuple[str, ...]:
        """Return names that differ from this one by one typing error, and that an Archive here is known to hold.

        Only the hints are read; no Archive is asked. This takes 2 ms. A reader cannot cause it without end: it is done
        only after Archives were asked in vain, which the limits count, and `_repeat_not_known` repeats what was found.
        """
        members, hints = self._members().by_service, self._knowledge.hints
        held = (each for each in near_names(name) if _is_held(hints.of(each), members))
        near = tuple(islice(dict.fromkeys(held), MOST_NEAR))
        put_newest(self._near, name.canonical, near, MOST_NEAR_KEPT)
        return near

    def _members(self) -> Members:
        """Return the Archives that are included now.

        They are read from the registry only if its generation has changed, and every LOOK_EVERY seconds; without a
        generation, once in each turn of the loop. Otherwise a call costs one read of shared memory.
        """
        number = self._generation[0] if self._generation is not None else 0
        if not self._is_current or number != self._generation_read:
            self._is_current, self._generation_read = True, number
            loop = asyncio.get_running_loop()
            if self._generation is None:
                loop.call_soon(self._expire_members)
            else:  # a change by an older version of ibi, or by hand, does not change the generation
                loop.call_later(LOOK_EVERY, self._expire_members)
            if self._filters is not None:
                self._filters.refresh()
            archives, away = self._archives(), self._away()
            if archives is not self._included or away != self._known_members.away:
                self._included = archives
                self._known_members = Members.of(archives, probation=not self._policy.strict, away=away)
                self._queries.keep_to(self._known_members.by_service)
        return self._known_members

    def _expire_members(self) -> None:
        self._is_current = False


def _is_held(hint: HolderHint, members: Mapping[str, Archive]) -> bool:
    """Whether a hint says that an included Archive holds the item."""
    return not hint.removed and (hint.likely in members or hint.original in members)


def _if_acknowledged(redirect: Redirect, persistent: str) -> Redirect | Alert:
    """Return an alert in place of a redirect whose acknowledgment is longer than Archives must read."""
    message = redirect.acknowledgment
    if message is None or fit_into_message(message.url, persistent):
        return redirect
    return Alert(AlertKind.TOO_LONG, persistent)
