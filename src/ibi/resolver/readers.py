"""What readers get at a resolver: redirects, alerts and explanations (R15 chapter 8).

A reader who makes Archives work too often is asked to wait; so is everybody when too much is under way. What nobody
here holds is asked of the upstream resolver, if there is one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING, Final, cast

from ibi.errors import ParseError
from ibi.exchange import Response, link, redirect
from ibi.limits import Budget
from ibi.protocol.language import LanguagePreference
from ibi.protocol.persistent_url import PersistentURL
from ibi.protocol.relation import Kind as StepKind
from ibi.protocol.relation import Step
from ibi.resolver.alerts import Alert, Kind, Round
from ibi.resolver.explanation import Explanation
from ibi.resolver.metrics import REDIRECT
from ibi.resolver.rounds import Reader
from ibi.resolver.testifying import witnessed
from ibi.resolver.upstream import Nothing, Redirected, Said, Unheard
from ibi.resolver.warming import hint_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ibi.exchange import Form
    from ibi.protocol.messages import Acknowledgment
    from ibi.resolver.gathering import Gathering
    from ibi.resolver.metrics import Metrics
    from ibi.resolver.policy import Policy
    from ibi.resolver.registry import IncludedArchive
    from ibi.resolver.resolution import Redirect
    from ibi.resolver.rounds import Rounds
    from ibi.resolver.site import Site
    from ibi.resolver.thanks import Thanks
    from ibi.resolver.upstream import Answer, Upstream
    from ibi.resolver.visitor import Visitor
    from ibi.resolver.warming import Rules
    from ibi.settings import ResolverSettings

MOST_AT_ONCE: Final = 2_000
"""Resolutions of one process that are under way; further readers are asked to come back (threat T37)."""

EXPLAIN: Final = "/-/explain/"
"""What the paths of explanations begin with."""

_LONGEST_OFTEN: Final = 256  # characters of path and query
_BARE_TRANSLATION: Final = Step(StepKind.TRANSLATION)
_ELSEWHERE: Final[dict[int, Kind]] = {404: Kind.NOT_FOUND, 409: Kind.SUSPECT_ORIGINALS, 410: Kind.DELETED}
"""What it means here when the upstream resolver gives an alert of this status; any other proves nothing."""


class Readers:
    """Resolves persistent URLs for those who ask. Belongs to one event loop."""

    def __init__(
        self,
        settings: ResolverSettings,
        rounds: Rounds,
        policy: Policy,
        thanks: Thanks,
        site: Site,
        metrics: Metrics,
        upstream: Upstream | None = None,
    ) -> None:
        self._settings = settings
        self._rounds = rounds
        self._policy = policy
        self._thanks = thanks
        self._site = site
        self._metrics = metrics
        self._upstream = upstream
        self._budget = Budget(settings.request_rate, settings.request_burst)
        self._under_way = 0
        self._differences = tuple(difference.name for difference in policy.differences)
        self.rules: Rules | None = None
        """Makes redirects ready for the express lane, where there is one."""
        self.gathering: Gathering | None = None
        """Where thanks wait that find no room among those that are sent."""

    async def redirect(self, visitor: Visitor) -> Response:
        """The answer to a request for a persistent URL."""
        try:
            url = _parsed(visitor.path, visitor.query)
        except ParseError as error:
            return self._site.bad_url(visitor, error, visitor.path)
        if url.inflection is not None:
            return await self._tell(visitor, url, "json" if url.inflection == "json" else visitor.form)
        story = self._story(url)
        looks = visitor.method != "GET" or visitor.only_prefetched
        rules = None if url.original_required else self.rules  # where all are asked anew, nothing lies ready
        since = rules.moment() if rules is not None else None
        outcome = await self._resolve(visitor, url, story, looks=looks)
        if isinstance(outcome, Alert):
            return self._site.alert(visitor, witnessed(outcome, story))
        by_language = _BARE_TRANSLATION in url.relation.steps or isinstance(outcome, Redirected)
        response = redirect(
            outcome.url,
            link(story.url, "cite-as"),
            *([("vary", "Accept-Language")] if by_language else []),
            afterwards=self._gratitude(visitor, outcome),
        )
        if rules is not None and since is not None and not isinstance(outcome, Redirected):
            rules.keep(visitor, outcome, story, response, since, by_language=by_language)
        return response

    def refuses(self, origin: str) -> bool:
        """Whether whoever counts so would be told to come later, whatever he asks for."""
        if not self._budget.knows(origin):
            return self._under_way >= MOST_AT_ONCE
        now = asyncio.get_running_loop().time()
        return self._under_way >= MOST_AT_ONCE or self._budget.wait(origin, now) > 0

    async def explain(self, visitor: Visitor) -> Response:
        """The answer to a request for the explanation of a persistent URL."""
        path = visitor.path[len(EXPLAIN) - 1 :]
        try:
            url = PersistentURL.parse(path, visitor.query)
        except ParseError as error:
            return self._site.bad_url(visitor, error, path)
        return await self._tell(visitor, url, visitor.form)

    async def _tell(self, visitor: Visitor, url: PersistentURL, form: Form) -> Response:
        """Resolve without redirecting and without thanking, and tell all."""
        story = self._story(url, in_full=True)
        outcome = await self._resolve(visitor, url, story, looks=True)
        if isinstance(outcome, Alert) and not story.rounds:
            return self._site.alert(visitor, outcome)
        return self._site.explanation(visitor, story, form)

    def _gratitude(self, visitor: Visitor, outcome: Redirect | Redirected) -> Callable[[], None] | None:
        """The thanks for an answer, to be sent when the reader is on the way (RES-11, RES-12).

        Every GET that is redirected is counted, also where nobody can or should be thanked (note 2).
        """
        if visitor.method != "GET":
            return None
        if visitor.only_prefetched:
            return lambda: self._thanks.skip("only prefetched")
        if isinstance(outcome, Redirected):
            return lambda: self._thanks.skip("found by another resolver")
        if outcome.stale:
            return lambda: self._thanks.skip("an older answer")
        message = outcome.acknowledgment
        if message is None:
            return lambda: self._thanks.skip("no key to thank with")
        archive = cast("IncludedArchive", outcome.archive)  # what the machine was given, it gives back
        thank = self._again if outcome.again else self._thanks.acknowledge
        return lambda: thank(archive, message)

    def _again(self, archive: IncludedArchive, message: Acknowledgment) -> None:
        """Thank for an answer that was given before: it can wait where there is no room."""
        gathering = None if self._thanks.has_room(archive) else self.gathering
        if gathering is None or not gathering.again(archive, message):
            self._thanks.again(archive, message)

    def _story(self, url: PersistentURL, *, in_full: bool = False) -> Explanation:
        """Nothing told yet; its URL is the configured authority, then path and query as received (note 16)."""
        return Explanation(
            f"http://{self._settings.address}{url.text}",
            self._policy.name,
            url.original_required,
            self._differences,
            in_full,
        )

    async def _resolve(
        self, visitor: Visitor, url: PersistentURL, story: Explanation, *, looks: bool
    ) -> Redirect | Redirected | Alert:
        """`looks`: nobody is going to follow the redirect."""
        now, origin = asyncio.get_running_loop().time, visitor.origin
        wait = self._budget.wait(origin, now())
        if wait:
            return self._refused(Alert(Kind.TOO_MANY, url=story.url, wait=ceil(wait)))
        if self._under_way >= MOST_AT_ONCE:
            return self._refused(Alert(Kind.BUSY, url=story.url))
        preference = LanguagePreference.parse(visitor.header(b"accept-language"))
        begun = now()
        self._under_way += 1
        self._metrics.begun()
        try:
            outcome: Redirect | Redirected | Alert = await self._rounds.resolve(
                url, story.url, Reader(visitor.addresses, preference, origin), story
            )
            if isinstance(outcome, Alert):
                left = begun + self._settings.overall_seconds - now()
                outcome = await self._elsewhere(visitor, url, story, outcome, left, looks=looks)
            if story.made_work:
                self._budget.spend(origin, now())
        finally:
            self._under_way -= 1
            self._count(story, begun, now())
        return outcome

    async def _elsewhere(
        self,
        visitor: Visitor,
        url: PersistentURL,
        story: Explanation,
        alert: Alert,
        seconds: float,
        *,
        looks: bool,
    ) -> Redirected | Alert:
        """What another resolver says of an item that is not known here; the alert itself where none is asked."""
        alert = replace(alert, contact=self._settings.admin)
        story.alert = alert
        if self._upstream is None or alert.known or alert.kind not in {Kind.NOT_FOUND, Kind.INCOMPLETE}:
            return alert
        answer: Answer = await self._upstream.ask(
            url,
            visitor.header(b"accept-language"),
            visitor.header(b"cdn-loop"),
            only_looking=looks,
            seconds=seconds,
        )
        if isinstance(answer, Redirected):
            story.passed_on(answer.url)
            return answer
        story.alert = self._passed(alert, answer)
        return story.alert

    def _passed(self, alert: Alert, answer: Said | Unheard | Nothing) -> Alert:
        """An alert, together with what the upstream resolver said instead of a redirect."""
        if isinstance(answer, Nothing):
            return alert
        if isinstance(answer, Unheard):
            asked = alert.round or Round(0)
            silent = (*asked.silent, (self._settings.upstream, answer.why))
            return replace(alert, kind=Kind.INCOMPLETE, round=Round(asked.asked + 1, silent))
        kind = _ELSEWHERE.get(answer.status, Kind.INCOMPLETE)
        unsure = kind is Kind.NOT_FOUND and alert.kind is Kind.INCOMPLETE
        return replace(alert, kind=Kind.INCOMPLETE if unsure else kind, elsewhere=answer.title)

    def _refused(self, alert: Alert) -> Alert:
        self._metrics.begun()
        self._metrics.resolved(str(alert.kind), 0.0, asyncio.get_running_loop().time())
        return alert

    def _count(self, story: Explanation, begun: float, now: float) -> None:
        """Count a resolution that is over, and what became of it."""
        outcome = REDIRECT if story.alert is None else str(story.alert.kind)
        self._metrics.resolved(outcome, now - begun, now)
        if story.rounds:
            self._metrics.round(len(story.rounds))
        first = story.rounds[0] if story.rounds else None
        if first is None or first.why == "memory":
            self._metrics.remembered("negative")
            return
        if story.remembered:
            self._metrics.remembered(story.remembered)
        self._metrics.hint(hint_of(story))


def _parsed(path: str, query: str) -> PersistentURL:
    """The same few links are followed again and again; long ones, of which a stranger can send many, are not kept."""
    short = len(path) + len(query) <= _LONGEST_OFTEN
    return _often_parsed(path, query) if short else PersistentURL.parse(path, query)


_often_parsed = lru_cache(maxsize=1024)(PersistentURL.parse)
